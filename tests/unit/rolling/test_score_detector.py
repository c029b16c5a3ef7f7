"""What the detector of scores counts, and what the tests of a closed chunk call worth a finding."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from monitor.models import Tally
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import (
    DOWN,
    UP,
    ScoreDetector,
    ScoreDriftState,
    ScoreReference,
    advance,
    chunk_tests,
    compare_inputs,
    has_course,
    moments,
    null_mean,
    same_hours,
    score_reference,
    take_in,
    threshold,
)
from monitor.stats.distance import ks_test, mann_whitney

HOUR, DAY = 3600, 86_400
START = ScoreDriftState(
    at_s=600, began_s=0, baseline=ScoreReference(0.85, 0.1, 3000), baseline_at_s=0, chunk_from_s=0
)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 100), max_size=4), min_size=1, max_size=6),
    st.floats(0.1, 0.9), st.sampled_from([1.0, 2.5]),
)  # fmt: skip
def test_detector_sums_follow_the_documented_recursion(buckets, null, effect):
    counts = np.zeros((len(buckets), 101))
    sums = np.zeros(5)
    for row, scores in zip(counts, buckets, strict=True):
        payoff = np.ones(5)
        for position in scores:
            row[position] += 1
            upper = min(1.0, position / 100 + 0.005)
            payoff *= 1 + np.array([0.03, 0.08, 0.2, 0.45, 0.9]) / (1 - null) * (null - upper)
        sums = (sums + 1) * payoff ** (1 / effect)
    found = advance(ScoreDetector(), counts, null=null, design_effect=effect)
    assert found.shape == (len(buckets), 5)
    assert np.exp(found[-1]) == pytest.approx(sums, rel=1e-6)
    level = ScoreDetector(tuple(found[-1].tolist())).level
    assert level == pytest.approx(sums.mean(), rel=1e-6)


def test_mean_may_fall_by_its_error_and_a_fifth_of_a_deviation():
    assert null_mean(ScoreReference(0.8, 0.1, 400)) == pytest.approx(0.8 - 0.01165 - 0.02)
    assert null_mean(ScoreReference(0.8, 0.1, 0)) == pytest.approx(0.8 - 0.233 - 0.02)
    assert null_mean(ScoreReference(0.0, 0.3, 400)) == 0.001
    assert null_mean(ScoreReference(1.0, 0.0, 400)) == 0.999


def test_detector_level_is_buckets_per_month_over_the_budget():
    assert threshold(60, 0.01) == pytest.approx(43_200 / 0.01)


def test_started_bucket_is_processed_whole():
    state, _ = take_in(START, {600: {80: 3}}, to_s=630, bucket_s=60, line=4e6)
    assert state.at_s == 660
    assert state.down != START.down


@pytest.mark.parametrize("to_s", [600, 540, 0])
def test_buckets_are_not_processed_before_their_time(to_s):
    assert take_in(START, {540: {0: 99}}, to_s=to_s, bucket_s=60, line=2.0) == (START, [])


def test_buckets_outside_the_processed_range_do_not_count():
    inside = {600: {80: 3}, 720: {}}
    around = inside | {540: {0: 50}, 840: {0: 50}}
    alone, both = (take_in(START, b, to_s=840, bucket_s=60, line=4e6) for b in (inside, around))
    assert alone == both


def fallen(at, length=9, state=START):
    """Return scores of 0 in some buckets from *at* on, each enough for an alarm by itself."""
    buckets = {600 + 60 * k: {0: 30} for k in range(at, at + length)}
    return take_in(state, buckets, to_s=600 + 60 * 20, bucket_s=60, line=1e5)


def test_detector_resets_and_pauses_after_an_alarm():
    state, (alarm,) = fallen(5, length=3)
    assert (alarm.test, alarm.at_s, alarm.from_s) == (DOWN, 600 + 60 * 6, 0)
    assert alarm.level >= 1e5
    assert alarm.baseline == START.baseline
    assert state.quiet_to_s == (600 + 60 * 8 + 1440 * 60, 0)
    quiet = replace(START, quiet_to_s=(600 + 60 * 6, 0))
    assert fallen(5, length=1, state=quiet)[1] != []
    quieter = replace(START, quiet_to_s=(600 + 60 * 6 + 1, 0))
    assert fallen(5, length=1, state=quieter)[1] == []


def test_rise_detector_mirrors_the_fall_detector():
    scores = {600 + 60 * k: {20: 2, 30: 1} for k in range(60)}
    turned = {at: {100 - b: n for b, n in bins.items()} for at, bins in scores.items()}
    low = replace(START, baseline=ScoreReference(0.6, 0.1, 900))
    high = replace(START, baseline=ScoreReference(0.4, 0.1, 900))
    down, (fell,) = take_in(low, scores, to_s=4200, bucket_s=60, line=1e4)
    up, (rose,) = take_in(high, turned, to_s=4200, bucket_s=60, line=1e4)
    assert (fell.test, rose.test) == (DOWN, UP)
    assert fell.level == pytest.approx(rose.level)
    assert down.down.log_r == pytest.approx(up.up.log_r)


def tally(bins):
    n = sum(bins.values())
    return Tally(n=n, histogram=dict(bins))


@pytest.mark.parametrize("effect", [1.0, 3.0])
@pytest.mark.parametrize("moved", [0.05, 0.16, 0.18, 0.2, 0.3, 0.5])
def test_chunk_effect_is_reported_only_beyond_its_noise(moved, effect):
    before, after = {80: 400}, {80: round(300 * (1 - moved)), 20: round(300 * moved)}
    ks, ranks = chunk_tests(tally(before), tally(after), alpha=0.01, design_effect=effect)
    size = math.sqrt(400 * 300 / 700 / effect)
    assert ks.worth_it == (moved - 0.87 / size >= 0.10)
    assert ranks.worth_it == (moved / 2 - 0.473 / size >= 0.06)
    rows = [np.zeros(101), np.zeros(101)]
    for row, bins in zip(rows, (before, after), strict=True):
        row[list(bins)] = list(bins.values())
    assert ks.p_value == ks_test(*rows, exact_below=0.2, design_effect=effect).p_value
    assert (ranks.value, ranks.p_value) == mann_whitney(*rows, design_effect=effect)


def test_reference_of_scores_is_their_mean_deviation_and_number():
    scores = np.array([0.2, 0.6, 0.7, 0.9])
    found = score_reference(Tally(n=4, sum_x=scores.sum(), sum_x2=(scores**2).sum()))
    assert found == pytest.approx((scores.mean(), scores.std(), 4))
    assert score_reference(Tally()) == (0.0, 0.0, 0)
    assert moments(Tally()) == (0.0, 0.0, 0.0)


def hours(days, of_day, n=50):
    wave = {hour: 0.7 + 0.1 * math.sin(hour) for hour in range(24)}
    return {
        d * DAY + h * HOUR: Tally(n=n, sum_x=n * (wave[h] + 0.001 * ((7 * d + h) % 5)))
        for d in range(days) for h in of_day
    }  # fmt: skip


@pytest.mark.parametrize(
    ("days", "of_day", "found"),
    [(3, range(24), True), (2, range(24), False), (7, range(6), True), (7, range(5), False),
     (5, range(6), False), (6, range(6), True)],
)  # fmt: skip
def test_daily_cycle_needs_three_days_six_hours_and_spare_hours(days, of_day, found):
    assert has_course(hours(days, of_day)) is found


def test_hours_count_for_the_cycle_only_with_a_score():
    empty = {9 * DAY + h * HOUR: Tally() for h in range(24)}
    assert not has_course(hours(2, range(24)) | empty)
    assert has_course(hours(3, range(24), n=1))


def test_noise_free_cycle_is_found_and_a_flat_series_has_none():
    def exact(of_hour):
        return {
            d * DAY + h * HOUR: Tally(n=8, sum_x=8 * of_hour(h))
            for d in range(4)
            for h in range(24)
        }

    assert has_course(exact(lambda h: (h % 4) / 4))
    assert not has_course(exact(lambda _: 0.5))


@settings(max_examples=30)
@given(st.integers(0, 6 * DAY), st.integers(1, 30 * HOUR))
def test_same_hours_are_those_of_the_window_and_one_on_either_side(begin, lasts):
    window = ReferenceSpan(begin, begin + lasts)
    spans = [ReferenceSpan(0, 2 * DAY + 5000), ReferenceSpan(3 * DAY, 5 * DAY)]
    found = same_hours(spans, window)
    around = range(begin // HOUR - 1, -(-(begin + lasts) // HOUR) + 1)
    wanted = {hour % 24 for hour in around}
    for at in range(50, 6 * DAY, 1800):
        kept = any(span.from_s <= at < span.to_s for span in found)
        known = any(span.from_s <= at < span.to_s for span in spans)
        assert kept == (known and (at // HOUR % 24 in wanted))
    assert all(span.to_s > span.from_s for span in found)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(30, 300), st.integers(30, 300)), min_size=2, max_size=6))
def test_language_distance_is_half_of_the_total_change(counts):
    before, after = ({i: pair[side] for i, pair in enumerate(counts)} for side in (0, 1))
    assume(before != after)
    p, q = (np.array([*bins.values()]) / sum(bins.values()) for bins in (before, after))
    (found,) = compare_inputs({"language": before}, {"language": after}, alpha=1e-9)
    assert found.distance == pytest.approx(np.abs(q - p).sum() / 2)
    table = [list(before.values()), list(after.values())]
    expected = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert found.moved == (found.p_value <= 1e-9 and found.distance >= 0.1)


@pytest.mark.parametrize(("n", "compared"), [(29, False), (30, True)])
def test_thirty_questions_on_either_side_are_compared(n, compared):
    few, many = {"contexts": {3: n}}, {"contexts": {3: 100}}
    for pair in ((few, many), (many, few)):
        assert bool(compare_inputs(*pair, alpha=0.01)) is compared


def test_numbers_of_passages_are_shown_by_their_median():
    before, after = {"contexts": {2: 50, 5: 51}}, {"contexts": {5: 40, 80: 60}}
    (found,) = compare_inputs(before, after, alpha=0.01)
    assert (found.before, found.after) == ("median 5", "median 63")
    assert (found.moved, found.distance) == (True, pytest.approx(0.6))


def topics(first, second, n=(400, 200)):
    sides = (
        {"topic": dict(enumerate(counts)), "queries": {0: size}}
        for counts, size in zip((first, second), n, strict=True)
    )
    (found,) = compare_inputs(*sides, alpha=1e-3)
    return found


def test_topic_that_moved_most_has_the_corrected_z_of_two_proportions_times_all_groups():
    found = topics([200, 100, 40], [60, 52, 20])
    p, q, pooled = 0.5, 0.3, 260 / 600
    worth = 1 / 400 + 1 / 200
    z = (abs(q - p) - worth / 2) / math.sqrt(pooled * (1 - pooled) * worth)
    assert found.p_value == pytest.approx(3 * math.erfc(z / math.sqrt(2)), rel=1e-6)
    assert (found.distance, found.moved) == (pytest.approx(0.2), True)
    assert found.before == "a group of words in 50 %"
    assert found.after == "a group of words in 30 %"


def test_ubiquitous_and_rare_topics_are_not_tested():
    """Where fewer than five are expected, or less than one without, the normal errs."""
    found = topics([400, 4, 0], [200, 0, 6])
    assert (found.distance, found.p_value, found.moved) == (0.0, 1.0, False)
