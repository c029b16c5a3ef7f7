"""The sample rate that follows the evidence: what it decides and spends, what samples weigh."""

import numpy as np
import pytest

from monitor.rolling.anytime import advance
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.looks import StreamSample, looks_of
from monitor.rolling.policies import Rules
from monitor.rolling.tuning import (
    AppEvidence,
    RateSchedule,
    TuningState,
    decide_rate,
)
from monitor.stats.evidence import rate_grid

CALM = AppEvidence(suspicion=2.0, young=False, alarmed=False)
HOUR_S = 3600.0


def state(**changes):
    """An app of 600 requests an hour, of which 30 are planned to be sampled."""
    begun = TuningState.begin(
        "groundedness", per_hour=30, seen_per_hour=600, seen=0, sampled=0, now_s=0
    )
    return begun._replace(**changes)


def decided(evidence, *, of=None, now_s=0.0, **limits):
    return decide_rate(of or state(), evidence, now_s=now_s, **limits)


def test_calm_stream_is_sampled_below_the_plan():
    found = decided(CALM)
    assert (found.rate, found.reason) == (0.04, "all is calm")


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (CALM._replace(suspicion=4.0), "a fall is suspected"),
        (CALM._replace(release="v2", released_s=-60.0), "release v2 is new"),
        (CALM._replace(young=True), "evidence is young"),
    ],
)
def test_suspicion_raises_the_rate_and_names_the_reason(evidence, reason):
    found = decided(evidence)
    assert found.rate > 0.05
    assert found.reason == reason


def test_tuned_rate_stays_within_its_limits():
    suspected = CALM._replace(suspicion=9.0)
    assert decided(suspected, most=0.1).rate == 0.1
    assert decided(CALM, least=0.045).rate == 0.045


def test_open_incident_is_sampled_at_the_planned_rate():
    assert decided(CALM._replace(alarmed=True, suspicion=9.0)).rate == 0.05


def test_suspicion_lasts_until_it_is_dismissed():
    suspected = decided(CALM._replace(suspicion=4.0)).state
    assert decided(CALM._replace(suspicion=3.5), of=suspected).reason == "a fall is suspected"
    assert decided(CALM._replace(suspicion=2.5), of=suspected).reason == "all is calm"


def test_exhausted_plan_ends_the_higher_rate():
    found = decided(CALM._replace(suspicion=9.0), of=state(saved=0.0))
    assert (found.rate, found.reason) == (0.04, "the plan's samples are used up")


def test_thirty_days_of_suspicion_stay_within_the_plan():
    now, seen, sampled = state(), 0, 0.0
    for tick in range(1, 30 * 24 * 4 + 1):
        seen, at_s = seen + 150, tick * HOUR_S / 4
        now = now.counted(seen=seen, sampled=int(sampled), now_s=at_s)
        found = decided(CALM._replace(suspicion=9.0), of=now, now_s=at_s)
        now, sampled = found.state, sampled + 150 * found.rate
    assert 0.9 * 30 * 24 * 30 < sampled <= 30 * 24 * 30


def test_traffic_jump_overdraws_the_plan_by_at_most_a_day():
    now, sampled, seen = state(), 0.0, 0
    for tick in range(1, 24 * 60 + 1):  # a day at fifty times the traffic
        seen += 500
        now = now.counted(seen=seen, sampled=int(sampled), now_s=tick * 60.0)
        found = decided(CALM, of=now, now_s=tick * 60.0)
        now, sampled = found.state, sampled + 500 * found.rate
    assert sampled < 3 * 24 * 30


def test_rate_follows_the_traffic():
    quiet = state(seen_per_hour=300.0)
    assert decided(CALM, of=quiet).rate == pytest.approx(2 * decided(CALM).rate)


def test_nearly_equal_rate_is_not_changed():
    first = decided(CALM).state
    assert decided(CALM, of=first._replace(seen_per_hour=650.0)).rate == first.rate


# --- what samples weigh as evidence ---

#: The app's own rate is 0.05; 0.4 was asked for from 1000 until 2000, 0.02 from 3000 on.
SCHEDULE = RateSchedule.of([(1000.0, 2000.0, 0.4, 0.05), (3000.0, np.inf, 0.02, 0.05)])


@pytest.mark.parametrize(
    ("at_s", "probability"), [(500, 0.05), (1500, 0.4), (2500, 0.05), (5000, 0.02)]
)
def test_samples_at_the_current_rate_have_equal_weights(at_s, probability):
    assert SCHEDULE.weight(at_s, probability) == pytest.approx(20.0)


def test_late_hook_does_not_change_the_weights():
    assert SCHEDULE.weight(3030.0, 0.05) == pytest.approx(20.0)


def test_rule_sampled_calls_are_weighted_by_their_rate():
    assert SCHEDULE.weight(1500.0, 1.0) == pytest.approx(8.0)


def test_without_a_schedule_weights_are_inverse_probabilities():
    assert RateSchedule().weight(0.0, 0.25) == 4.0


def test_sums_of_a_bucket_weigh_as_its_samples_do():
    raw = [(1200.0, 2, 5.0, 12.5, 2.5, 6.25, 6.25)]  # two samples of 0.4, one of which passed
    (start_s, n, w, w2, wy, *_), = SCHEDULE.rows(raw, width_s=60)  # fmt: skip
    assert (start_s, n, w, w2, wy) == pytest.approx((1200.0, 2, 40.0, 800.0, 20.0))


def test_young_stream_at_a_tuned_rate_has_a_narrow_interval():
    rng, now = np.random.default_rng(0), EvidenceState.fresh(0.0)
    for look in range(60):
        passed = rng.random(40) < (0.94 if look < 40 else 0.5)
        news = [StreamSample(5.0 * look, 0.0, 1.0, 1.0, True, bool(y), 3.3) for y in passed]
        now, _ = advance(now, looks_of(news, [5.0 * look] * 40, now.baseline), Rules())
    grid = rate_grid(0.85, 0.70)
    assert grid.quantile(now.log_p, grid.top(np.array(np.nan)), 0.05) > 0.45
    assert 0.5 < now.high < 0.65
