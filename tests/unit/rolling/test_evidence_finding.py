"""What is said of a stream beside its status: why, and what it would take."""

import numpy as np
import pytest

from monitor.models import Status, Tally
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import evidence_finding

RULES = Rules()
HEALTHY = Status.HEALTHY


def evidence(outcomes, last=60):
    """Look once a minute; the window holds the last so many."""
    passed = np.array(outcomes, dtype=float)
    one = np.ones(passed.size)
    looks = Looks(60.0 * np.arange(passed.size), one, one, passed)
    state, _ = advance(EvidenceState.fresh(0.0), looks, RULES)
    n, good = min(last, passed.size), float(passed[-last:].sum())
    good = good if n else 0.0
    tally = Tally(n=n, passed=int(good), sum_w=n, sum_w2=n, sum_wy=good, sum_w2y=good)
    return evidence_finding(state, window_stats(tally), RULES)


def test_stream_low_from_the_start_says_how_many_samples_would_decide():
    found = evidence([1, 1, 0, 1, 1, 0, 1] * 6)
    assert found.status is Status.INSUFFICIENT_DATA
    assert found.phase == "undecided"
    decides = f"42 scored, about {found.more_n} more needed: 71.4 % passed, below 85 %"
    assert found.reason == f"{decides} but not beyond chance"
    assert found.headline.interval.high == 0.85
    decided = evidence([1, 1, 0, 1, 1, 0, 1] * round(6 + 1.1 * found.more_n / 7))
    assert decided.status is Status.WARNING
    assert decided.reason.startswith("pass rate is below the 85 % warning threshold (9")


def test_too_few_samples_say_how_many_are_missing():
    found = evidence([1] * 20)
    assert (found.status, found.more_n) == (Status.INSUFFICIENT_DATA, 11)
    assert (found.phase, found.reason) == ("collecting", "20 of 30 scores")


def test_scores_that_count_less_than_one_each_are_not_mistaken_for_missing_ones():
    one = np.ones(60)
    looks = Looks(60.0 * np.arange(60), one, one / 5, one / 5)  # as where a judge saw a tenth
    state, _ = advance(EvidenceState.fresh(0.0), looks, RULES)
    tally = Tally(n=60, passed=60, sum_w=60, sum_w2=60, sum_wy=60, sum_w2y=60)
    found = evidence_finding(state, window_stats(tally), RULES)
    assert found.reason == "60 scores count as 12 of the 30 needed"


def test_first_sample_already_has_figures():
    found = evidence([1]).headline
    assert (found.pass_rate, found.n) == (1.0, 1)


def test_stream_that_could_show_only_a_collapse_is_not_healthy():
    one = np.ones(40)
    state, _ = advance(EvidenceState.fresh(0.0), Looks(60.0 * np.arange(40), one, one, one), RULES)
    tally = Tally(n=40, passed=40, sum_w=40, sum_w2=40, sum_wy=40, sum_w2y=40)
    alike = state.but(baseline=Baseline(effect=4.0, effect_known=True))  # ten independent ones
    found = evidence_finding(alike, window_stats(tally), RULES)
    assert (state.status, found.status) == (HEALTHY, Status.INSUFFICIENT_DATA)
    assert found.reason.startswith("low power: only a pass rate below ")


def test_low_window_of_a_healthy_stream_is_explained_in_the_reason():
    found = evidence([1] * 600 + [1, 0, 1] * 15, last=45)
    assert found.status is Status.HEALTHY
    assert f"about {found.more_n} more samples as low as these" in found.reason
    assert "more samples" not in evidence([1] * 600).reason


def test_window_low_by_chance_asks_for_no_more_samples():
    found = evidence([1] * 600 + [1, 1, 0, 1, 1] * 4, last=20)
    assert found.more_n is not None
    assert "more samples" not in found.reason


@pytest.mark.parametrize(
    ("outcomes", "status"), [([1] * 600, Status.HEALTHY), ([1] * 600 + [0] * 60, Status.CRITICAL)]
)
def test_status_of_a_silent_stream_is_marked_as_held(outcomes, status):
    found = evidence(outcomes, last=0)
    assert found.status is status
    assert found.reason.startswith(
        "no scores in the status window, so the status is that of before: "
    )
    assert "that of before" not in evidence(outcomes).reason


def test_window_that_still_includes_a_past_incident_says_so():
    outcomes, held = (
        [1] * 600 + [0] * 60,
        "recovered, although the window still includes the incident",
    )
    after = next(n for n in range(200) if evidence(outcomes + [1] * n).status is HEALTHY)
    assert held in evidence(outcomes + [1] * after, last=after + 60).reason
    later = evidence(outcomes + [1] * (after + 20), last=after + 80)
    assert f"{held}: 100.0 % passed since" in later.reason
    assert held not in evidence(outcomes + [1] * (after + 20), last=20).reason
    assert held not in evidence([1] * 600 + [1, 0, 1] * 15, last=45).reason


def test_figures_of_an_incident_are_those_since_the_change():
    found = evidence([1] * 600 + [0] * 12)
    assert found.status is Status.CRITICAL
    assert found.reason.startswith("pass rate is below the 70 % critical threshold (")
    shown = found.headline
    assert (shown.n, shown.since_s) == (12, 599 * 60)
    assert shown.pass_rate <= shown.interval.high < 0.70


def test_figures_of_a_healthy_stream_are_those_of_half_to_a_whole_day():
    shown = evidence(np.arange(4000) % 20 > 0).headline
    assert 720 <= shown.n <= 1440
    assert shown.pass_rate == pytest.approx(0.95, abs=0.002)
    assert shown.interval.high > 0.95


def test_incident_rate_is_never_shown_too_high():
    shown = evidence([1] * 600 + [0] * 300).headline
    assert (shown.pass_rate, shown.interval.low) == (0.0, 0.0)
    assert shown.interval.high < 0.1
