"""What samples tell of which a judge sees a part: the prediction, and what each is worth."""

import numpy as np
import pytest

from monitor.rolling.baseline import Baseline
from monitor.rolling.looks import (
    StreamSample,
    history_columns,
    looks_of,
    stream_sample,
    weighted_looks,
)
from monitor.stats.evidence import Samples


@pytest.mark.parametrize(("prediction", "passed"), [(0.9, True), (0.9, False), (0.25, True)])
def test_older_note_without_a_prediction_gives_it_back(prediction, passed):
    probability = 0.2
    estimate = prediction + (passed - prediction) / probability
    noted = {"pass_estimate": estimate, "judged": True, "judge_probability": probability}
    found = stream_sample(0.0, 0.0, passed=passed, weight=1.0, noted=noted)
    assert found.prediction == pytest.approx(prediction)
    assert (found.probability, found.asked, found.passed) == (probability, True, passed)


def test_prediction_beyond_certainty_is_certain():
    noted = {"pass_estimate": 1.25, "judged": False, "judge_probability": 0.2}
    assert stream_sample(0.0, 0.0, passed=True, weight=1.0, noted=noted).prediction == 1.0


def sizes(*shares):
    """What one passing sample of each (share, usual share) counts for, where one is worth 0.5."""
    baseline = Baseline(worth=0.5, mean_weight=1.0, most_weight=1.0)
    samples = [StreamSample(0.0, 0.0, 1.0, 1.0, True, True, 1.0, *pair) for pair in shares]
    return looks_of(samples, np.arange(float(len(samples))), baseline).size.tolist()


def test_sample_counts_more_when_a_larger_share_is_judged_than_usual():
    usual, more, less = sizes((0.2, 0.2), (0.4, 0.2), (0.1, 0.2))
    assert less < usual == 0.5 < more <= 1.0


def test_each_sample_is_compared_with_the_usual_share_of_its_own_time():
    pairs = [(0.4, 0.2), (0.4, 0.5), (0.4, 0.4)]
    alone = [sizes(pair, (0.3, 0.1))[0] for pair in pairs[:2]]
    assert sizes(*pairs) == pytest.approx([*alone, 0.5])
    assert alone[1] < 0.5 < alone[0]


def test_weighted_sums_pass_at_their_weighted_rate_and_count_what_they_are_worth():
    """A hundred samples, half of weight 1 and all passed, half of weight 3 and none passed."""
    columns = [np.array([value]) for value in (60.0, 100.0, 200.0, 500.0, 50.0)]
    plain = weighted_looks(*columns, Baseline())
    assert plain.size == pytest.approx([200**2 / 500])  # Kish
    assert plain.passed / plain.size == pytest.approx([0.25])
    measured = weighted_looks(*columns, Baseline(worth=0.3))
    assert (measured.size, measured.passed) == (pytest.approx([60.0]), pytest.approx([15.0]))


def test_weighted_sums_never_count_for_more_than_their_samples():
    columns = [np.array([value]) for value in (60.0, 10.0, 200.0, 4000.0, 50.0)]
    assert weighted_looks(*columns, Baseline(worth=0.9)).size.tolist() == [10.0]


def test_judged_stream_that_fails_beyond_what_is_possible_passes_never():
    columns = [np.array([value]) for value in (60.0, 10.0, 10.0, 10.0, -2.0)]
    assert weighted_looks(*columns, Baseline()).passed.tolist() == [0.0]


def test_each_sample_adds_its_weight_and_its_unbiased_estimate_to_the_bucket_it_happened_in():
    judged = StreamSample(900.0, 125.0, 0.8, 0.5, True, False, 3.0)
    not_judged = StreamSample(900.0, 59.0, 0.8, 0.5, False, False, 2.0)
    found = history_columns([judged, not_judged], 60)
    assert found.bucket.tolist() == [2, 0]
    y = 0.8 - 0.8 / 0.5  # the prediction, corrected by the error over its probability
    rows = [(1, 3, 9, 3 * y, 9 * y, 9 * y * y), (1, 2, 4, 1.6, 3.2, 4 * 0.64)]
    assert list(zip(*found[1:], strict=True)) == [pytest.approx(row) for row in rows]


def test_estimates_are_unbiased_over_asking():
    """A prediction of 0.8, asked one time in four; where the judge says no, the estimate is 0."""
    found = Samples(
        np.zeros(2, dtype=np.int64), np.full(2, 0.8), np.full(2, 0.25), np.array([True, False]),
        np.array([False, False]), np.ones(2),
    ).estimates()  # fmt: skip
    assert found == pytest.approx([0.8 - 0.8 / 0.25, 0.8])
    assert 0.25 * found[0] + 0.75 * found[1] == pytest.approx(0.0)
