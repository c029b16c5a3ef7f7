"""Apps that fall together are found together; one app alone is never the fleet."""

import json

import numpy as np
import pytest

from monitor.models import Status, StreamKey
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState
from monitor.rolling.fleet import (
    AppNews,
    Pool,
    advance_pool,
    finding_of,
    member_of,
    pool_from_json,
    pool_to_json,
)
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, budget_keys, pools_of
from monitor.stats.evidence import Samples, Worth

RULES = Rules(false_alarms_per_month=1 / 51)
WELL = Baseline((0.90,), 0.92, 9000.0, 1.0, 1.0, effect_known=True)
NOTHING = Looks(*np.zeros((4, 0)))


def app_of(baseline=WELL, **changes):
    return EvidenceState.fresh(0.0).but(baseline=baseline, n_day=1440.0, **changes)


def looks(time_s, passed, n=1.0):
    return Looks(np.array([time_s]), np.array([n]), np.array([n]), np.array([float(passed)]))


class Fleet:
    """Apps with a sample a minute each, looked at once a minute."""

    def __init__(self, n=50, seed=1, baseline=WELL):
        self.rng = np.random.default_rng(seed)
        self.states = {f"app-{i}": app_of(baseline) for i in range(n)}
        self.pool, self.now_s = Pool(at_s=0.0), 0.0

    def minutes(self, count, rate, *, until_found=False):
        """Go on; *rate* is of all apps, or one each. Return the minutes that it took."""
        rates = np.broadcast_to(rate, len(self.states))
        for minute in range(count):
            self.now_s += 60.0
            passed = self.rng.random(rates.size) < rates
            news = [
                AppNews(name, state, looks(self.now_s, y))
                for (name, state), y in zip(self.states.items(), passed, strict=True)
            ]
            self.pool = advance_pool(self.pool, news, self.now_s, RULES)
            if until_found and self.pool.incident:
                return minute + 1
        return count


def test_fifty_apps_that_fall_together_are_found_after_a_few_samples_each():
    delays = []
    for seed in range(5):
        fleet = Fleet(seed=seed)
        fleet.minutes(60, 0.92)
        assert finding_of(fleet.pool) is None
        delays.append(fleet.minutes(50, 0.80, until_found=True))
        found = finding_of(fleet.pool)
        assert found.low <= found.pass_rate <= found.high < 0.85
        assert len(found.fell) > 10
    assert np.median(delays) <= 10


def test_clock_set_back_does_not_corrupt_evidence():
    fleet = Fleet()
    fleet.minutes(60, 0.92)
    fleet.now_s -= 1800.0
    fleet.minutes(20, 0.92)
    assert np.isfinite(fleet.pool.bets.log_r).all()
    assert finding_of(fleet.pool) is None
    assert fleet.minutes(50, 0.80, until_found=True) < 50
    fleet.now_s -= 1800.0
    fleet.minutes(20, 0.80)
    assert finding_of(fleet.pool) is not None


def test_one_or_two_falling_apps_raise_no_fleet_alarm():
    fleet = Fleet(seed=2)
    rates = np.full(50, 0.92)
    rates[:2] = 0.2
    fleet.minutes(300, rates)
    assert finding_of(fleet.pool) is None


def test_deep_fall_is_critical_and_ends_with_the_recovery():
    fleet = Fleet(seed=3)
    fleet.minutes(30, 0.92)
    fleet.minutes(20, 0.4)
    assert finding_of(fleet.pool).status is Status.CRITICAL
    assert len(finding_of(fleet.pool).fell) >= 45
    fleet.minutes(40, 0.93)
    assert finding_of(fleet.pool) is None


def test_fleet_status_follows_from_the_bound_at_every_look():
    fleet = Fleet(n=8, seed=4)
    for rate in (0.92, 0.6, 0.8, 0.3, 0.75, 0.9):
        for _ in range(40):
            fleet.minutes(1, rate)
            found = finding_of(fleet.pool)
            if found:
                expected = Status.CRITICAL if found.high < 0.70 else Status.WARNING
                assert found.status is expected
                assert found.low <= found.pass_rate <= found.high < 0.85


def test_fewer_than_four_apps_form_no_fleet():
    fleet = Fleet(n=3)
    fleet.minutes(60, 0.1)
    assert finding_of(fleet.pool) is None


@pytest.mark.parametrize(
    "state",
    [
        app_of(Baseline()),  # nothing is known
        app_of(Baseline((), 0.80, 9000.0, 1.0, 1.0, effect_known=True)),  # below the threshold
    ],
)
def test_app_with_an_unknown_or_low_normal_rate_places_no_bet(state):
    assert member_of(state, 0.0, RULES) is None


def test_app_with_its_own_incident_leaves_the_pool():
    fleet = Fleet(n=6, seed=5)
    ill = {name: state.but(status=Status.WARNING) for name, state in fleet.states.items()}
    fleet.states = ill
    fleet.minutes(60, 0.2)
    assert finding_of(fleet.pool) is None


def test_fully_judged_cascade_pays_what_plain_samples_pay():
    """Where the judge is asked about every sample, it pays what plain samples pay."""
    state = app_of()
    y = np.array([True, False, True])
    one = np.ones(3)
    samples = Samples(np.zeros(3, dtype=np.int64), y * 1.0, one, y | True, y, one)
    sampled = Looks.of_samples(np.array([60.0]), samples, Worth())
    pools = [
        advance_pool(Pool(at_s=0.0), [AppNews(f"{i}", state, news) for i in range(6)], 60.0, RULES)
        for news in (sampled, looks(60.0, 2, 3.0))
    ]
    assert pools[0].bets.log_r == pytest.approx(pools[1].bets.log_r)


def test_pool_survives_json_and_continues_unchanged():
    fleet, other = Fleet(n=10, seed=6), Fleet(n=10, seed=6)
    for rate in (0.92, 0.5, 0.5):
        fleet.minutes(10, rate)
        other.minutes(10, rate)
        other.pool = pool_from_json(json.loads(json.dumps(pool_to_json(other.pool))))
    assert finding_of(fleet.pool) is not None
    assert finding_of(other.pool)[2:5] == pytest.approx(finding_of(fleet.pool)[2:5], rel=1e-4)
    assert finding_of(other.pool).fell == finding_of(fleet.pool).fell


def test_long_silent_fleet_is_deleted():
    fleet = Fleet(n=10, seed=7)
    fleet.minutes(30, 0.92)
    fleet.minutes(20, 0.3)
    news = [AppNews(name, state, NOTHING) for name, state in fleet.states.items()]
    assert finding_of(advance_pool(fleet.pool, news, fleet.now_s + 3600, RULES)) is not None
    assert finding_of(advance_pool(fleet.pool, news, fleet.now_s + 7 * 3600, RULES)) is None


def test_apps_that_share_a_model_or_a_release_have_a_pool_once_and_a_key_of_the_budget():
    apps = [f"app{i}" for i in range(10)]
    shared = {app: ["model=m2", "release=v9"] for app in apps[:5]}
    shared |= {app: ["release=v8"] for app in apps[5:8]}
    everywhere = {app: [*shared.get(app, ()), "model=all"] for app in apps}
    for known in (shared, everywhere):
        assert pools_of(apps, known) == {"": set(apps), "model=m2": set(apps[:5])}
    keys = [StreamKey(app, "groundedness", "*", "g@1") for app in apps]
    assert budget_keys(keys, shared) == 12
    assert budget_keys(keys[:3], shared) == 3
