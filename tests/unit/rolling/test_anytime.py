"""The machine behind the policy ``anytime``: fires on evidence, clears on evidence, remembers."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.models import Status
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import Baseline, History, ReferenceSpan, learn
from monitor.rolling.evidence_state import (
    Certainty,
    Count,
    EvidenceState,
    evidence_rises,
    from_json,
    idle,
    learn_due_s,
    relearn,
    to_json,
)
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, stream_budget
from monitor.stats.evidence import Samples, Worth, rate_grid
from monitor.stats.intervals import wilson_interval

RULES = Rules()


def looks(outcomes, every_s=60.0, start_s=0.0):
    passed = np.array(outcomes, dtype=float)
    one = np.ones(passed.size)
    return Looks(start_s + every_s * np.arange(passed.size), one, one, passed)


def run(outcomes, memory=None, rules=RULES, start_s=0.0):
    return advance(memory or EvidenceState.fresh(0.0), looks(outcomes, start_s=start_s), rules)


def long_well(base):
    n = base.n
    well = EvidenceState.fresh(0.0).but(baseline=base, status=Status.HEALTHY, n_day=90.0)
    return well.but(count=Count(0.0, n, n, n * base.rate), thresholds=(0.85, 0.70))


def statuses(changes):
    return [change.status for change in changes]


def test_collapse_from_a_fresh_start_takes_few_samples():
    _, changes = run([0] * 40)
    assert statuses(changes) == [Status.CRITICAL]
    assert changes[0].time_s <= 15 * 60


def test_good_stream_is_healthy_once_it_is_large_enough():
    _, changes = run([1] * 40)
    assert statuses(changes) == [Status.HEALTHY]
    assert changes[0].time_s == 29 * 60


def test_stream_never_above_the_threshold_is_not_healthy():
    memory, changes = run(np.arange(60) % 10 > 2)
    assert statuses(changes) == []
    assert (memory.status, memory.count.n) == (Status.INSUFFICIENT_DATA, 60)


def test_healthy_stream_is_doubted_once_its_interval_is_below_the_threshold():
    outcomes = np.arange(600) % 5 > 0  # eight of ten: a warning after more than a thousand
    _, (healthy, doubted) = run(outcomes)
    assert (healthy.status, doubted.status) == (Status.HEALTHY, Status.INSUFFICIENT_DATA)
    n = round(doubted.time_s / 60) + 1
    assert wilson_interval(outcomes[:n].sum(), n).high < 0.85
    assert wilson_interval(outcomes[: n - 5].sum(), n - 5).high >= 0.85


def test_falling_young_stream_is_undecided_before_it_alarms():
    _, changes = run([1] * 40 + [0, 0, 1] * 60)
    assert statuses(changes)[:2] == [Status.HEALTHY, Status.INSUFFICIENT_DATA]
    assert changes[2].status in {Status.WARNING, Status.CRITICAL}


def test_stream_at_the_threshold_is_not_doubted():
    _, changes = run(np.arange(2000) % 20 < 17)
    assert statuses(changes) == [Status.HEALTHY]


def test_recovery_clears_the_alarm_and_is_excluded_from_the_reference():
    memory, changes = run([0] * 40 + [1] * 200)
    assert statuses(changes)[-1] is Status.HEALTHY
    assert memory.incidents[0].from_s <= 60
    assert memory.certainty is Certainty.NONE


def test_recovery_to_between_the_thresholds_is_a_warning():
    rng = np.random.default_rng(1)
    memory, changes = run([0] * 40 + list(rng.random(3000) < 0.78))
    assert memory.status is Status.WARNING
    assert Status.CRITICAL in statuses(changes)


def test_fall_of_a_young_stream_is_only_probable():
    memory, _ = run([0] * 12)
    assert (memory.status, memory.certainty) == (Status.CRITICAL, Certainty.PROBABLE)


@pytest.mark.parametrize(
    ("measured", "certainty"), [(True, Certainty.CONFIRMED), (False, Certainty.PROBABLE)]
)
def test_fall_is_confirmed_only_once_sample_dependence_is_measured(measured, certainty):
    base = Baseline((0.95,), 0.97, 9000.0, 1.0, 1.0, effect_known=measured)
    fallen = np.random.default_rng(4).random(400) < 0.5
    by_reference, changes = run(fallen, long_well(base))
    assert (changes[0].certainty, by_reference.certainty) == (Certainty.PROBABLE, certainty)
    by_threshold, changes = run(fallen, long_well(base), Rules(use_reference=False))
    assert (changes[0].certainty, by_threshold.certainty) == (certainty, certainty)


@pytest.mark.parametrize("prediction", [0.97, 0.05], ids=["blind to the fall", "before the fall"])
def test_cascade_upper_bound_is_the_higher_of_two_estimates(prediction):
    """By bets on each answer, and by sums of unbiased estimates: neither may be overruled."""
    n, rng = 150, np.random.default_rng(5)
    asked = rng.random(n) < 0.3
    samples = Samples(
        np.arange(n), np.full(n, prediction), np.full(n, 0.3), asked, rng.random(n) < 0.3,
        np.ones(n),
    )  # fmt: skip
    seen = Looks.of_samples(60.0 * np.arange(n), samples, Worth(0.3))
    grid = rate_grid(RULES.warning_rate, RULES.critical_rate)
    top, state, open_looks = np.asarray(grid.top(np.array(math.nan))), EvidenceState.fresh(0.0), 0
    for look in range(n):
        state, _ = advance(state, seen.part(look, look + 1), RULES)
        if state.alarmed:
            views = [float(grid.upper(p, top)) for p in (state.log_p, state.quasi)]
            expected = min(max(views), 0.70 if state.status is Status.CRITICAL else 0.85)
            assert state.high == pytest.approx(expected, abs=1e-6)
            open_looks += 1
    assert open_looks > 10


def test_fall_from_the_reference_must_be_below_the_threshold():
    base = Baseline((0.90,), 0.92, 9000.0, 1.0, 1.0, effect_known=True)
    rng = np.random.default_rng(2)
    good = long_well(base)
    settled, _ = run(rng.random(4000) < 0.88, good)
    fallen, changes = run(rng.random(400) < 0.70, good)
    assert settled.status is Status.HEALTHY
    assert changes[0].certainty is Certainty.PROBABLE
    assert fallen.alarmed


def test_strict_policy_ignores_the_reference():
    base = Baseline((0.95,), 0.97, 9000.0, 1.0, 1.0, effect_known=True)
    good = long_well(base)
    outcomes = np.random.default_rng(3).random(300) < 0.80
    strict, _ = run(outcomes, good, Rules(use_reference=False))
    usual, _ = run(outcomes, good)
    assert (strict.status, usual.status) == (Status.HEALTHY, Status.WARNING)


def test_healthy_stream_without_samples_becomes_unknown():
    memory, _ = run([1] * 40)
    later, changes = idle(memory, memory.at_s + 7 * 3600, RULES)
    assert later.status is Status.INSUFFICIENT_DATA
    assert changes[0].time_s == memory.at_s + 6 * 3600


def test_gap_inside_one_call_is_noticed_like_one_between_calls():
    times = np.r_[np.arange(40) * 60.0, 9 * 3600.0 + np.arange(40) * 60.0]
    one = np.ones(times.size)
    _, changes = advance(EvidenceState.fresh(0.0), Looks(times, one, one, one), RULES)
    assert [change[:2] for change in changes[:2]] == [
        (29 * 60, Status.HEALTHY),
        (39 * 60 + 6 * 3600, Status.INSUFFICIENT_DATA),
    ]


@pytest.mark.parametrize("every_s", [60.0, 1200.0, 3600.0])
def test_six_failures_in_a_row_raise_the_judge_share_at_any_traffic(every_s):
    def after(failures):
        outcomes = np.r_[np.ones(400), np.zeros(failures)]
        return advance(EvidenceState.fresh(0.0), looks(outcomes, every_s), RULES)[0]

    assert not evidence_rises(after(0), bucket_s=60)
    assert not evidence_rises(after(5), bucket_s=60)
    assert evidence_rises(after(6), bucket_s=60)


def test_open_incident_does_not_raise_the_judge_share():
    memory, _ = run([1] * 40 + [0] * 40)
    assert memory.alarmed
    assert not evidence_rises(memory, bucket_s=60)


@pytest.mark.parametrize(
    ("known_for_min", "next_in_min"), [(0, 30), (60, 30), (100, 50), (720, 360), (9000, 360)]
)
def test_baseline_is_learned_again_after_half_the_past(known_for_min, next_in_min):
    state = EvidenceState.fresh(1000.0).but(learned_s=1000.0 + 60 * known_for_min)
    assert learn_due_s(state, RULES) == state.learned_s + 60 * next_in_min


def test_missing_samples_do_not_end_an_alarm():
    memory, _ = run([0] * 40)
    assert idle(memory, memory.at_s + 7 * 3600, RULES) == (memory, [])


def test_time_alone_does_not_end_an_alarm():
    daily = np.arange(40) * 86_400.0
    memory, changes = advance(
        EvidenceState.fresh(0.0), Looks(daily, np.ones(40), np.ones(40), np.zeros(40)), RULES
    )
    assert memory.alarmed
    assert statuses(changes) == [Status.CRITICAL]


def test_minute_with_thousands_of_samples_counts_as_one_look():
    one = Looks(*np.array([[60.0], [3000.0], [3000.0], [1200.0]]))
    memory, changes = advance(EvidenceState.fresh(60.0), one, RULES)
    assert memory.status is Status.CRITICAL
    assert len(changes) == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 1500), max_size=4), st.floats(0.1, 0.95))
def test_splitting_the_looks_anywhere_changes_nothing(seed, cuts, rate):
    rng = np.random.default_rng(seed)
    outcomes = np.concatenate([rng.random(700) < 0.93, rng.random(300) < rate, np.ones(500)])
    whole, expected = run(outcomes)
    memory, found = EvidenceState.fresh(0.0), []
    all_looks = looks(outcomes)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), outcomes.size], strict=True):
        memory = from_json(json.loads(json.dumps(to_json(memory))))
        memory, changes = advance(memory, all_looks.part(start, end), RULES)
        found += changes
    assert [change[:2] for change in found] == [change[:2] for change in expected]
    assert memory.bets.log_r == pytest.approx(whole.bets.log_r, rel=1e-5, abs=1e-4)


def test_state_of_a_newer_form_is_ignored():
    assert from_json(to_json(EvidenceState.fresh(0.0)) | {"form": 3}) is None


def history(n_minutes, per_minute, rate, rng):
    n = np.full(n_minutes, float(per_minute))
    passed = rng.binomial(per_minute, rate, n_minutes).astype(float)
    return History(np.arange(n_minutes), n, n, n, passed, passed, passed)


def learned(past, now, **options):
    return learn(past, now_bucket=now, begun_bucket=0, bucket_s=60, warning_rate=0.85, **options)


def test_reference_contains_only_certainly_normal_samples():
    past = history(8 * 1440, 5, 0.92, np.random.default_rng(5))
    (limit,) = learned(past, 8 * 1440).fallen_below
    assert 0.89 < limit < 0.915


def test_reference_never_looks_ahead():
    rng = np.random.default_rng(6)
    past = history(8 * 1440, 5, 0.92, rng)
    spoiled = past._replace(sum_wy=np.where(past.bucket < 7 * 1440, past.sum_wy, 0.0))
    assert learned(past, 7 * 1440) == learned(spoiled, 7 * 1440)


def test_incident_is_excluded_from_the_reference():
    past = history(8 * 1440, 5, 0.92, np.random.default_rng(7))
    broken = past._replace(sum_wy=np.where(past.bucket < 2000, 0.0, past.sum_wy))
    found = learned(broken, 8 * 1440, incidents=[ReferenceSpan(0, 2000)])
    assert found.rate == pytest.approx(0.92, abs=0.01)
    assert learned(broken, 8 * 1440).rate < 0.88


def test_measured_dependence_outlives_a_long_incident():
    past = history(8 * 1440, 1, 0.92, np.random.default_rng(10))
    well = learned(past, 8 * 1440)
    lasting = [ReferenceSpan(6 * 1440 - 60, 8 * 1440)]  # the two days in which it would be measured
    assert (well.effect, well.effect_known) == (1.0, True)
    assert not learned(past, 8 * 1440, incidents=lasting).effect_known
    found = learned(past, 8 * 1440, incidents=lasting, before=well)
    assert (found.effect, found.effect_known) == (1.0, True)


def test_daily_cycle_gives_each_hour_its_own_limit():
    minute = np.arange(8 * 1440)
    rate = 0.92 + 0.05 * np.sin(minute / 1440 * 2 * np.pi)
    found = learned(history(minute.size, 5, rate, np.random.default_rng(8)), minute.size)
    assert len(found.fallen_below) == 24
    assert max(found.fallen_below) - min(found.fallen_below) > 0.04


def test_reference_at_the_threshold_is_not_used():
    assert learned(history(8 * 1440, 5, 0.86, np.random.default_rng(9)), 8 * 1440)[0] == ()


def test_empty_history_teaches_no_baseline():
    empty = History(np.arange(0), *np.zeros((6, 0)))
    memory = relearn(EvidenceState.fresh(0.0), empty, 3600.0, RULES)
    assert memory.baseline == Baseline()


def test_minute_in_which_an_incident_ended_is_excluded_from_the_reference():
    minute = np.arange(8 * 1440)
    n, passed = np.full(minute.size, 25.0), np.where(minute <= 2000, 0.0, 23.0)
    ended = EvidenceState.fresh(0.0).but(incidents=(ReferenceSpan(0, 2000 * 60 + 1),))
    past = History(minute, n, n, n, passed, passed, passed)
    found = relearn(ended, past, 8 * 86_400.0, RULES)
    assert found.baseline.rate == pytest.approx(0.92, abs=1e-9)


def test_false_alarm_budget_is_shared_with_at_most_a_tenth_per_stream():
    assert stream_budget(1.0, roots=2) == 0.1
    assert stream_budget(1.0, roots=1000) == 0.001


def test_narrow_buckets_need_the_same_evidence_as_minutes():
    assert Rules(bucket_s=1).log_threshold() - RULES.log_threshold() == pytest.approx(math.log(60))
