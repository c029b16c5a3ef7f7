"""What ``anytime`` promises for judged, weighted and pooled samples; seeds are fixed."""

import numpy as np
import pytest

from monitor.rolling.anytime import advance_all
from support.judged_streams import (
    BAD,
    RULES,
    Fleet,
    adaptive,
    alarms,
    asked,
    predictions,
    weighted_looks_of,
    with_references,
    worth,
    worth_of_weights,
)


@pytest.mark.parametrize("useful", [True, False])
@pytest.mark.parametrize("mean", [0.86, 0.90])
def test_false_alarm_budget_holds_when_a_tenth_is_judged(mean, useful):
    """Ten a minute, four months."""
    rng, value = np.random.default_rng([21, int(100 * mean), useful]), worth(mean, useful=useful)
    streams = with_references(6, mean, value, 1)
    drawn = [
        asked(rng, *predictions(rng, (1, 10 * 20 * 1440), mean, useful=useful)) for _ in streams
    ]
    f, pi, is_asked, passed = (np.concatenate(column) for column in zip(*drawn, strict=True))
    count = sum(map(len, alarms(streams, (f, pi, is_asked, passed), value, 10, 60.0)))
    assert count <= 1


@pytest.mark.parametrize(
    ("useful", "follows", "most"), [(True, True, 120), (True, False, 200), (False, False, 230)]
)
def test_rising_evidence_raises_the_judge_share_and_finds_a_fall_soon(useful, follows, most):
    rng = np.random.default_rng([22, useful, follows])
    states, lead = with_references(20, 0.92, worth(0.92, useful=useful), 2), 60

    def rates(minute):
        return (0.92, 0.92) if minute < lead else ((0.65, 0.65) if follows else (0.92, 0.65))

    found = adaptive(rng, states, rates, minutes=lead + 300, per_minute=1, mean=0.92, useful=useful)
    delays = [
        next((m - lead for m, stream in found.alarms if stream == i and m >= lead), np.inf)
        for i in range(20)
    ]
    assert np.median(delays) <= most


@pytest.mark.parametrize("every_s", [60, 600])
def test_about_a_tenth_is_judged_while_the_app_is_healthy(every_s):
    rng = np.random.default_rng(24)
    states = with_references(20, 0.92, worth(0.92, useful=True), 5)
    found = adaptive(
        rng, states, lambda _: (0.92, 0.92), minutes=300, per_minute=1, mean=0.92, useful=True,
        minute_s=every_s,
    )  # fmt: skip
    assert found.judged <= 0.12


def test_unequal_weights_keep_the_budget_and_find_falls():
    """A twentieth of the traffic is sampled always and passes less often, the rest at 5 %."""
    rng, size = np.random.default_rng(23), worth_of_weights().size

    def turns(n, mean, rates, seed):
        looks = [weighted_looks_of(rng, rates, 60.0) for _ in range(n)]
        found = advance_all(with_references(n, mean, size, seed), looks, RULES)
        return [
            [change.time_s / 60.0 for change in changes if change.status in BAD]
            for _, changes in found
        ]

    assert sum(map(len, turns(60, 0.90, np.full(3000, 0.90), 3))) <= 1
    fallen = turns(40, 0.92, np.r_[np.full(300, 0.92), np.full(2700, 0.65)], 4)
    assert np.median([next(iter(times), np.inf) - 300 for times in fallen]) <= 100


def test_half_of_a_fleet_at_the_threshold_raises_no_alarm_and_a_common_fall_is_found():
    """Two days at the budget of one stream; then all fall."""
    levels = np.r_[np.full(10, 0.85), np.full(10, 0.92)]
    fleet = Fleet(levels, 1, budget=0.1, looks=1)
    fleet.go_on(2 * 1440, levels)
    assert fleet.alarms == 0
    assert fleet.go_on(60, levels * 0.65 / 0.92, until_found=True) <= 12
