"""What a stream remembers: across releases, other thresholds and quiet days."""

import numpy as np
import pytest

from monitor.models import Status
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.evidence_state import (
    Bets,
    Certainty,
    Count,
    EvidenceState,
    from_json,
    is_known,
    log_evidence,
    restarted,
)
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.stats.evidence import Onset

RULES = Rules()
#: As the release before wrote it.
OLD = {
    "form": 1, "status": "critical", "certainty": "confirmed", "times_s": [10.0, 900.0, 600.0],
    "counts": [0.5, 0, 42.0], "alarm": [80.0, 32.0, 300.0], "learned_s": 120.0,
    "incidents": [[20, 40]], "onset": [310.0, 290.0, 330.0], "baseline": [[0.9], 0.93, 900.0],
}  # fmt: skip


def run(outcomes, rules=RULES):
    passed = np.array(outcomes, dtype=float)
    one = np.ones(passed.size)
    looks = Looks(60.0 * np.arange(passed.size), one, one, passed)
    return advance(EvidenceState.fresh(0.0), looks, rules)[0]


def test_incident_of_the_release_before_goes_on():
    state = from_json(OLD)
    assert (state.status, state.certainty) == (Status.CRITICAL, Certainty.CONFIRMED)
    assert (state.began_s, state.at_s, state.status_s) == (10.0, 900.0, 600.0)
    assert state.count == Count(300.0, 80.0, 80.0, 32.0)
    assert (state.incident_from_s, state.onset) == (300.0, Onset(310.0, 290.0, 330.0))


def test_reference_of_the_release_before_goes_on():
    state = from_json(OLD)
    assert state.incidents == (ReferenceSpan(20, 40),)
    assert (state.baseline.fallen_below, state.baseline.rate, state.baseline.n) == (
        (0.9,), 0.93, 900.0,
    )  # fmt: skip
    assert (state.owed, state.n_day, state.learned_s) == (0.5, 42.0, 120.0)


def test_calm_of_the_release_before_has_no_incident():
    state = from_json(OLD | {"status": "healthy", "certainty": "none"})
    assert (state.status, state.onset, state.count.n) == (Status.HEALTHY, None, 0)


def test_other_thresholds_begin_the_evidence_of_a_calm_stream_again():
    calm = run([1, 1, 1, 0] * 20)
    again = restarted(calm, Rules(warning_rate=0.6, critical_rate=0.5))
    assert log_evidence(again) < log_evidence(calm)
    assert (again.status, again.count) == (calm.status, calm.count)
    assert restarted(calm, RULES) is calm


@pytest.mark.parametrize(
    ("warning", "critical", "status"),
    [(0.9, 0.7, Status.CRITICAL), (0.6, 0.3, Status.WARNING)],
)
def test_open_incident_is_read_again_under_other_thresholds(warning, critical, status):
    ill = run([1] * 40 + [0, 1] * 40)
    rules = Rules(warning_rate=warning, critical_rate=critical)
    again = restarted(ill, rules)
    assert (ill.status, again.status) == (Status.CRITICAL, status)
    assert (again.count, again.thresholds) == (ill.count, (warning, critical))
    assert again.high < warning


@pytest.mark.parametrize(
    ("n_day", "healthy", "known"),
    [(29.0, False, False), (29.1, False, True), (19.9, True, False), (20.0, True, True)],
)
def test_healthy_stream_stays_known_with_fewer_samples_than_it_took(n_day, healthy, known):
    assert is_known(np.array(n_day), RULES, healthy=np.array(healthy)) == known


def test_bet_that_has_lost_begins_again_where_it_is():
    start = Bets.none(2, 0.0)
    one = start.after(np.array([0.5, -0.5]), np.array([1.0, 1.0, 1.0]), 1.0, 60.0)
    two = one.after(np.array([0.5, 0.2]), np.array([1.0, 1.0, 0.0]), 1.0, 120.0)
    assert two.gain.tolist() == [1.0, 0.2]
    assert (two.since(0), two.since(1)) == (Count(0.0, 2, 2, 1), Count(60.0, 1, 1, 0))


def test_sum_of_bets_grows_by_one_new_bet_a_step():
    """The Shiryaev-Roberts recursion: R' = (R + stake) * payoff."""
    bets = Bets.none(1, 0.0)
    for gain, expected in ((np.log(2.0), 2.0), (np.log(2.0), 6.0), (np.log(0.5), 3.5)):
        bets = bets.after(np.array([gain]), np.ones(3), 1.0, 0.0)
        assert np.exp(bets.log_r) == pytest.approx([expected])
