"""What one evaluation adds to its bucket."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.metrics import micro_f1
from monitor.models import ErrorInfo, Evaluation, StreamKey, Tally
from monitor.models.status import WINDOW_WEIGHT, score_bin
from monitor.rolling.tallies import (
    bucket_start,
    pass_counts,
    stream_key,
    tally_of,
    window_stats,
)
from monitor.scoring.metrics import retrieval
from monitor.stats.intervals import wilson_interval
from monitor.testing import make_evaluation


def tally(evaluation, sample_rate=1.0):
    return tally_of(evaluation, sample_rate=sample_rate, pass_score=0.7)


@pytest.mark.parametrize(("score", "passed"), [(0.7, 1), (0.69, 0), (True, 1), (False, 0), (1, 1)])
def test_score_at_or_above_the_pass_score_passes(score, passed):
    assert tally(make_evaluation(score=score)).passed == passed


def test_weight_is_the_inverse_of_the_sample_rate():
    result = tally(make_evaluation(score=0.9), sample_rate=0.05)
    assert result.sum_w == pytest.approx(20)
    assert result.sum_w2y == pytest.approx(400)


def test_failure_counts_as_failed_and_in_no_rate():
    error = ErrorInfo(type="T", message="m", code="judge_unavailable")
    failed = Evaluation.failed(target_event_id="i", evaluator_name="groundedness", error=error)
    assert tally(failed) == Tally(failed=1)


def test_skip_counts_as_skipped_and_in_no_rate():
    skipped = Evaluation.skipped(target_event_id="i", evaluator_name="g", reason="no_context")
    assert tally(skipped) == Tally(skipped=1)


@pytest.mark.parametrize("score", ["good", 4, 1.5, -0.1, float("nan")])
def test_score_on_another_scale_is_counted_as_failed(score):
    assert tally(make_evaluation(score=score)) == Tally(failed=1)


def test_cost_is_counted_in_whole_microdollars():
    assert tally(make_evaluation(cost_usd=0.0012345)).cost_microusd == 1234


@pytest.mark.parametrize(("score", "position"), [(0.0, 0), (0.004, 0), (0.005, 1), (1.0, 100)])
def test_bins_are_centred_on_hundredths(score, position):
    assert score_bin(score) == position


def test_new_evaluator_version_is_a_new_stream():
    first, second = (make_evaluation(evaluator_version=v) for v in ("1", "2"))
    key = stream_key("bot", first, pass_score=0.7)
    assert key == StreamKey("bot", "groundedness", "*", "1 pass 0.7")
    assert key != stream_key("bot", second, pass_score=0.7)


def test_new_pass_score_is_a_new_stream():
    evaluation = make_evaluation()
    first, second = (stream_key("bot", evaluation, pass_score=p) for p in (0.7, 0.5))
    assert first != second


def test_bucket_starts_at_a_multiple_of_its_width():
    assert bucket_start(125.9, 60) == 120


def test_total_of_no_tallies_is_empty():
    assert Tally.total([]) == Tally()


CASCADED = {
    "local_score": 0.4,
    "pass_estimate": 3.5,
    "score_estimate": 2.0,
    "judge_probability": 0.2,
}


def test_cascade_sums_use_pass_estimates():
    noted = CASCADED | {"judged": True}
    result = tally(make_evaluation(score=0.9, metadata=noted), sample_rate=0.5)
    assert (result.passed, result.sum_x) == (1, 0.9)
    assert (result.sum_wy, result.sum_w2yy, result.sum_wxx) == (7.0, 49.0, 8.0)


def test_cascade_histogram_contains_local_scores():
    assert tally(make_evaluation(metadata=CASCADED | {"judged": True})).histogram == {40: 1}


@pytest.mark.parametrize(("score", "agreed"), [(0.9, 0), (0.2, 1)])
def test_agreement_compares_pass_and_fail(score, agreed):
    result = tally(make_evaluation(score=score, metadata=CASCADED | {"judged": True}))
    assert (result.judged, result.agreed) == (1, agreed)


def test_unjudged_sample_does_not_count_as_agreement():
    result = tally(make_evaluation(score=0.4, metadata=CASCADED | {"judged": False}))
    assert (result.judged, result.agreed) == (0, 0)


def test_window_of_micro_f1_is_the_f1_of_summed_counts():
    queries = [("ab", "a"), ("abcdefgh", "ax"), ("abc", "abcd"), ("z", "y")]
    tallies, counts = [], []
    for retrieved, relevant in queries:
        found = micro_f1(
            output="x",
            contexts=[{"id": each, "text": each} for each in retrieved],
            expected={"relevant": list(relevant)},
        )
        tallies.append(tally_of(found, sample_rate=0.5, pass_score=0.5))
        counts.append(retrieval.counts(retrieved, relevant))
    assert window_stats(Tally.total(tallies)).average_score == pytest.approx(
        retrieval.micro_average_f1(counts)
    )
    assert retrieval.micro_average_f1(counts) != pytest.approx(retrieval.macro_average_f1(counts))


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.sampled_from([1.0, 0.5, 0.05]), st.integers(0, 3)),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_sums_of_a_bucket_are_those_of_its_samples(samples):
    """Weights are the inverse rates, times the weight that a metric gives a sample of its own."""
    tallies, w, x = [], [], []
    for position, rate, own in samples:
        noted = {WINDOW_WEIGHT: own}
        evaluation = make_evaluation(score=position / 100, metadata=noted, cost_usd=0.002)
        tallies.append(tally(evaluation, rate))
        w.append(max(own, 1) / rate)
        x.append(position / 100)
    found, w, x = Tally.total(tallies), np.array(w), np.array(x)
    y = (x >= 0.7) * 1.0
    sums = (found.sum_w, found.sum_w2, found.sum_wy, found.sum_w2y, found.sum_w2yy)
    assert sums == pytest.approx(((w).sum(), w @ w, w @ y, w * w @ y, w * w @ (y * y)))
    assert (found.sum_x, found.sum_x2) == pytest.approx((x.sum(), x @ x))
    assert (found.sum_wx, found.sum_wxx) == pytest.approx((w @ x, w @ (x * x)))
    assert (found.n, found.passed, found.cost_microusd) == (len(x), y.sum(), 2000 * len(x))
    assert found.histogram == Counter(position for position, *_ in samples)
    window = window_stats(found)
    assert window.pass_rate == pytest.approx(w @ y / w.sum())
    assert window.average_score == pytest.approx(w @ x / w.sum())
    assert window.cost_usd == pytest.approx(0.002 * len(x))
    passed, n = window.counts(2.0)
    assert (passed, n) == pytest.approx(
        (window.pass_rate * window.n_effective / 2, window.n_effective / 2)
    )


@pytest.mark.parametrize(("local", "position"), [(1.3, 100), (-0.2, 0), (1.0, 100), (0.005, 1)])
def test_local_score_beyond_its_range_is_counted_at_the_end(local, position):
    noted = CASCADED | {"judged": True, "local_score": local}
    assert tally(make_evaluation(metadata=noted)).histogram == {position: 1}


@pytest.mark.parametrize(
    ("local", "score", "agreed"), [(0.7, 0.7, 1), (0.69, 0.7, 0), (0.7, 0.69, 0), (0.1, 0.2, 1)]
)
def test_local_score_agrees_if_both_pass_or_both_fail(local, score, agreed):
    noted = CASCADED | {"judged": True, "local_score": local}
    assert tally(make_evaluation(score=score, metadata=noted)).agreed == agreed


@pytest.mark.parametrize(("sum_wy", "rate"), [(14.0, 1.0), (-3.0, 0.0)])
def test_figures_of_out_of_range_estimates_are_valid_rates(sum_wy, rate):
    sums = {"sum_w": 10.0, "sum_w2": 10.0, "sum_wy": sum_wy, "sum_w2y": sum_wy, "sum_w2yy": 90.0}
    found = window_stats(Tally(n=10, passed=9, sum_wx=sum_wy, **sums))
    assert (found.pass_rate, found.average_score) == (rate, rate)
    assert found.interval.low <= rate <= found.interval.high


def test_displayed_interval_is_wilsons_at_90_percent():
    found = window_stats(
        Tally.total(tally(make_evaluation(score=s)) for s in [0.9] * 40 + [0.2] * 10)
    )
    assert found.interval == wilson_interval(40, 50, alpha=0.10)


def test_buckets_within_a_time_are_those_that_start_in_it():
    counts = pass_counts([(start, 4, 4, 4, 3, 3, 3) for start in (0, 60, 120, 180)])
    assert counts.within(60, 180).start_s.tolist() == [60, 120]
    assert counts.within(61, 181).n.tolist() == [4.0, 4.0]
    halved = pass_counts([(0, 4, 4, 4, 3, 3, 3)], design_effect=2.0)
    assert (halved.passed.tolist(), halved.n.tolist()) == ([1.5], [2.0])


def test_unscored_tally_has_no_rate_and_keeps_its_counts():
    found = window_stats(Tally(failed=3, skipped=2, cost_microusd=5))
    assert (found.n, found.failed, found.skipped, found.cost_usd) == (0, 3, 2, 5e-6)
    assert (found.pass_rate, found.interval, found.average_score) == (None, None, None)
    assert found.counts() == (0.0, 0.0)
