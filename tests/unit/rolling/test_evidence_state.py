"""What a stream remembers: across releases, other thresholds and quiet days."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from monitor.models import Status
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import Baseline, History, ReferenceSpan
from monitor.rolling.evidence_state import (
    FALL,
    LINE,
    N_BETS,
    Bets,
    Certainty,
    Count,
    EvidenceState,
    from_json,
    held,
    is_doubtful,
    is_known,
    line_threshold,
    log_evidence,
    posterior_below,
    relearn,
    restarted,
    to_json,
)
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.stats.evidence import BELOW, Onset, rate_grid

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


def test_incident_state_of_the_previous_release_continues():
    state = from_json(OLD)
    assert (state.status, state.certainty) == (Status.CRITICAL, Certainty.CONFIRMED)
    assert (state.began_s, state.at_s, state.status_s) == (10.0, 900.0, 600.0)
    assert state.count == Count(300.0, 80.0, 80.0, 32.0)
    assert (state.incident_from_s, state.onset) == (300.0, Onset(310.0, 290.0, 330.0))


def test_reference_of_the_previous_release_is_kept():
    state = from_json(OLD)
    assert state.incidents == (ReferenceSpan(20, 40),)
    assert (state.baseline.fallen_below, state.baseline.rate, state.baseline.n) == (
        (0.9,), 0.93, 900.0,
    )  # fmt: skip
    assert (state.owed, state.n_day, state.learned_s) == (0.5, 42.0, 120.0)


def test_calm_state_of_the_previous_release_has_no_incident():
    state = from_json(OLD | {"status": "healthy", "certainty": "none"})
    assert (state.status, state.onset, state.count.n) == (Status.HEALTHY, None, 0)


def test_changed_thresholds_restart_the_evidence_of_a_calm_stream():
    calm = run([1, 1, 1, 0] * 20)
    again = restarted(calm, Rules(warning_rate=0.6, critical_rate=0.5))
    assert log_evidence(again) < log_evidence(calm)
    assert (again.status, again.count) == (calm.status, calm.count)
    assert restarted(calm, RULES) is calm


@pytest.mark.parametrize(
    ("warning", "critical", "status"),
    [(0.9, 0.7, Status.CRITICAL), (0.6, 0.3, Status.WARNING)],
)
def test_open_incident_is_reassessed_under_changed_thresholds(warning, critical, status):
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


def test_losing_bet_restarts_at_the_current_look():
    start = Bets.none(2, 0.0)
    one = start.after(np.array([0.5, -0.5]), np.array([1.0, 1.0, 1.0]), 1.0, 60.0)
    two = one.after(np.array([0.5, 0.2]), np.array([1.0, 1.0, 0.0]), 1.0, 120.0)
    assert two.gain.tolist() == [1.0, 0.2]
    assert (two.since(0), two.since(1)) == (Count(0.0, 2, 2, 1), Count(60.0, 1, 1, 0))


def test_bets_follow_the_shiryaev_roberts_recursion():
    """The Shiryaev-Roberts recursion: R' = (R + stake) * payoff."""
    bets = Bets.none(1, 0.0)
    for gain, expected in ((np.log(2.0), 2.0), (np.log(2.0), 6.0), (np.log(0.5), 3.5)):
        bets = bets.after(np.array([gain]), np.ones(3), 1.0, 0.0)
        assert np.exp(bets.log_r) == pytest.approx([expected])


DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("older", "counted"),
    [
        (Count(0.0, 5, 5, 4), Count(0.0, 8, 8, 6)),
        (Count(-1.0, 5, 5, 4), Count(10.0, 3, 3, 2)),  # more than a day ago
        (Count(5.0), Count(10.0, 3, 3, 2)),  # nothing came
    ],
)
def test_figures_of_a_calm_stream_are_of_the_two_blocks_of_the_last_day(older, counted):
    state = EvidenceState.fresh(0.0).but(at_s=DAY_S, recent=(older, Count(10.0, 3, 3, 2)))
    assert state.recently(60) == counted
    hourly = state.but(at_s=60 * DAY_S)
    assert hourly.recently(3600) == counted


@pytest.mark.parametrize(
    ("status", "rate", "bound", "kept"),
    [
        (Status.CRITICAL, 0.69, 0.9, 0.70), (Status.CRITICAL, 0.70, 0.9, 0.70),
        (Status.CRITICAL, 0.71, 0.9, 0.85), (Status.CRITICAL, 0.99, 0.9, 0.85),
        (Status.CRITICAL, 0.99, 0.8, 0.8), (Status.CRITICAL, 0.2, 0.6, 0.6),
        (Status.WARNING, 0.84, 0.9, 0.85), (Status.WARNING, 0.85, 0.9, 0.85),
        (Status.WARNING, 0.86, 0.9, 0.9), (Status.WARNING, 0.2, 0.6, 0.6),
    ],
)  # fmt: skip
def test_decided_status_lasts_until_the_rate_since_is_above_its_threshold(
    status, rate, bound, kept
):
    found = float(held(np.array(bound), np.array(rate), status, RULES))
    assert found == pytest.approx(kept, abs=1e-8)
    assert (found < kept) == (kept in {0.70, 0.85})


def test_posterior_of_samples_is_their_likelihood_below_the_warning_threshold():
    grid = rate_grid(0.85, 0.70)
    found = posterior_below(grid, 20.0, 9.0)
    expected = binom.logpmf(9, 20, grid.below)
    assert found[:BELOW] == pytest.approx(expected - expected.max())
    assert (found[BELOW:] == -600.0).all()


def test_evidence_of_a_stream_with_a_reference_measures_a_fall_from_it():
    bets = Bets.none(N_BETS, 0.0)
    bets.log_r[FALL], bets.log_r[LINE] = 3.0, 1.0
    bets.log_r[BELOW : FALL.stop] = 9.0  # above the threshold: no evidence of anything bad
    state = EvidenceState.fresh(0.0).but(bets=bets)
    assert log_evidence(state) == pytest.approx(1.0)
    known = state.but(baseline=Baseline((0.9,)))
    assert log_evidence(known) == pytest.approx(3.0)
    assert line_threshold(state, RULES) == pytest.approx(RULES.log_threshold())
    assert line_threshold(known, RULES) == pytest.approx(RULES.log_threshold() - np.log(0.15))
    strict = Rules(use_reference=False)
    assert line_threshold(known, strict) == pytest.approx(strict.log_threshold())


def test_state_survives_json_with_sizes_that_are_no_counts():
    rng = np.random.default_rng(3)
    rows = [np.round(rng.random(N_BETS), 6) for _ in range(6)]
    bets = Bets(*rows)._replace(at_s=rows[5] * 0 + 60.5)
    state = EvidenceState.fresh(5.0).but(
        bets=bets, rises=Bets.none(10, 7.25), quasi=rows[0][:20], log_p=rows[1][:20], owed=0.25,
        n_day=3.5, high=0.625, onset=Onset(1.0, 0.5, 2.0), incidents=(ReferenceSpan(1, 2),),
        count=Count(1.0, 2, 1.5, 1.25), recent=(Count(0.5), Count(1.0, 2, 1.5, 1.25)),
        baseline=Baseline((0.875,), 0.9, 800.0, 0.5, 1.25, True, 2.0, 3.0), learned_s=4.0,
        incident_from_s=1.5, thresholds=(0.85, 0.7), status=Status.WARNING,
        certainty=Certainty.CONFIRMED,
    )  # fmt: skip
    for each in (state, state.but(bets=bets._replace(size=bets.n))):
        found = from_json(json.loads(json.dumps(to_json(each))))
        for name in EvidenceState.__slots__:
            a, b = getattr(found, name), getattr(each, name)
            if isinstance(a, Bets):
                np.testing.assert_allclose(a, b, atol=1e-3)
                np.testing.assert_allclose(a[:5], b[:5], rtol=1e-6)
            elif isinstance(a, np.ndarray):
                np.testing.assert_allclose(a, b)
            else:
                assert a == b, name


def test_doubt_needs_the_default_number_of_samples():
    def doubted(size, rate, *, healthy):
        counts = np.array(size), np.array(size * rate)
        return bool(is_doubtful(*counts, RULES, healthy=np.array(healthy)))

    assert [doubted(n, 0.5, healthy=False) for n in (29.9, 30.0)] == [False, True]
    error = (0.85 * 0.15 / 100) ** 0.5
    for errors, healthy in ((1.28, False), (1.96, True)):
        edge = 0.85 - errors * error
        assert not doubted(100.0, edge + 1e-6, healthy=healthy)
        assert doubted(100.0, edge - 1e-6, healthy=healthy)


def test_relearning_caps_the_evidence_of_a_calm_stream():
    bets = Bets.none(N_BETS, 0.0)._replace(log_r=np.full(N_BETS, 99.0))
    calm = EvidenceState.fresh(0.0).but(bets=bets, quasi=np.full(20, 99.0))
    empty = History(np.arange(0), *np.zeros((6, 0)))
    found = relearn(calm, empty, 3600.0, RULES)
    most = np.full(N_BETS, RULES.log_threshold() + 3.0)
    most[BELOW:20] += 10.0
    assert found.bets.log_r == pytest.approx(most)
    assert found.quasi == pytest.approx(most[:20])
    alarmed = relearn(calm.but(status=Status.WARNING), empty, 3600.0, RULES)
    assert alarmed.quasi is calm.quasi
