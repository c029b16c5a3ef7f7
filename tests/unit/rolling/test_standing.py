"""What is said of a stream beside its status: why, and what it would take."""

import numpy as np
import pytest

from monitor.models import Status, Tally
from monitor.rolling.anytime import advance
from monitor.rolling.budget import Rules
from monitor.rolling.evidence_walk import Looks
from monitor.rolling.memory import Memory
from monitor.rolling.standing import standing_of
from monitor.rolling.windows import window_stats

RULES = Rules()
HEALTHY = Status.HEALTHY


def standing(outcomes, last=60):
    """Look once a minute; the window holds the last so many."""
    passed = np.array(outcomes, dtype=float)
    looks = Looks(60.0 * np.arange(passed.size), np.ones(passed.size), passed)
    memory, _ = advance(Memory.fresh(0.0), looks, RULES)
    n, good = min(last, passed.size), float(passed[-last:].sum())
    good = good if n else 0.0
    tally = Tally(n=n, passed=int(good), sum_w=n, sum_w2=n, sum_wy=good, sum_w2y=good)
    return standing_of(memory, window_stats(tally), RULES)


def test_stream_below_the_line_from_the_start_is_told_what_would_decide():
    found = standing([1, 1, 0, 1, 1, 0, 1] * 6)
    assert found.finding.status is Status.INSUFFICIENT_DATA
    assert "71.4% passed so far, below 0.85, but not beyond chance" in found.finding.reason
    assert f"about {found.more_n} more samples as low would decide" in found.finding.reason
    decided = standing([1, 1, 0, 1, 1, 0, 1] * round(6 + 1.1 * found.more_n / 7))
    assert decided.finding.status is Status.WARNING


def test_too_few_samples_are_told_how_many_are_missing():
    found = standing([1] * 20)
    assert (found.finding.status, found.more_n) == (Status.INSUFFICIENT_DATA, 11)


def test_low_window_of_a_healthy_stream_is_not_passed_over_in_silence():
    found = standing([1] * 600 + [1, 0, 1] * 15, last=45)
    assert found.finding.status is Status.HEALTHY
    assert f"about {found.more_n} more samples as low as these" in found.finding.reason
    assert "more samples" not in standing([1] * 600).finding.reason


@pytest.mark.parametrize(
    ("outcomes", "status"), [([1] * 600, Status.HEALTHY), ([1] * 600 + [0] * 60, Status.CRITICAL)]
)
def test_status_of_a_stream_that_fell_silent_says_that_it_is_held(outcomes, status):
    found = standing(outcomes, last=0).finding
    assert found.status is status
    assert found.reason.startswith("no scores in the status window, so it is held from before: ")
    assert "held from before" not in standing(outcomes).finding.reason


def test_window_that_still_holds_what_is_over_says_so():
    outcomes, held = [1] * 600 + [0] * 60, "recovered, though the window still holds the incident"
    after = next(n for n in range(200) if standing(outcomes + [1] * n).finding.status is HEALTHY)
    assert held in standing(outcomes + [1] * after, last=after + 60).finding.reason
    later = standing(outcomes + [1] * (after + 20), last=after + 80).finding
    assert f"{held}: 100.0% passed since" in later.reason
    assert held not in standing(outcomes + [1] * (after + 20), last=20).finding.reason
    assert held not in standing([1] * 600 + [1, 0, 1] * 15, last=45).finding.reason


def test_warning_with_a_critical_rate_says_that_this_is_known():
    outcomes = [1] * 600 + [0] * 60
    found = (standing(outcomes + [1] * n, last=60 + n).finding for n in range(200))
    reason = next(f.reason for f in found if f.status is Status.WARNING)
    assert reason.endswith("warning line 0.85, not yet or no longer below the critical line 0.7")
