"""What samples tell of which a judge sees a part: the prediction, and what each is worth."""

import numpy as np
import pytest

from monitor.rolling.baseline import Baseline
from monitor.rolling.looks import (
    StreamSample,
    goes_by_samples,
    history_columns,
    looks_of,
    stakes_of,
    stream_sample,
    weighted_looks,
)
from monitor.stats.evidence import Samples, Worth


@pytest.mark.parametrize(("prediction", "passed"), [(0.9, True), (0.9, False), (0.25, True)])
def test_prediction_is_recovered_from_older_metadata(prediction, passed):
    probability = 0.2
    estimate = prediction + (passed - prediction) / probability
    noted = {"pass_estimate": estimate, "judged": True, "judge_probability": probability}
    found = stream_sample(0.0, 0.0, passed=passed, weight=1.0, noted=noted)
    assert found.prediction == pytest.approx(prediction)
    assert (found.probability, found.asked, found.passed) == (probability, True, passed)


def test_prediction_outside_zero_to_one_is_clipped():
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


def test_negative_weighted_passes_are_counted_as_zero():
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


def test_estimates_are_unbiased_over_judge_draws():
    """A prediction of 0.8, asked one time in four; where the judge says no, the estimate is 0."""
    found = Samples(
        np.zeros(2, dtype=np.int64), np.full(2, 0.8), np.full(2, 0.25), np.array([True, False]),
        np.array([False, False]), np.ones(2),
    ).estimates()  # fmt: skip
    assert found == pytest.approx([0.8 - 0.8 / 0.25, 0.8])
    assert 0.25 * found[0] + 0.75 * found[1] == pytest.approx(0.0)


def test_sample_weights_apply_once_the_baseline_knows_them():
    samples = [StreamSample(0.0, 0.0, 1.0, 1.0, True, True, w) for w in (1.0, 3.0)]
    known = looks_of(samples, [0.0, 60.0], Baseline(worth=0.2, mean_weight=2.0, most_weight=3.0))
    assert known.samples.weight.tolist() == [1.0, 3.0]
    assert known.worth == Worth(0.4, 2.0, 3.0)
    assert known.size == pytest.approx([0.4 * 1 / 2, 0.4 * 3 / 2])
    unknown = looks_of(samples, [0.0, 60.0], Baseline())
    assert unknown.samples.weight.tolist() == [1.0, 1.0]
    assert (unknown.worth, unknown.size.tolist()) == (Worth(0.2), [0.2, 0.2])


@pytest.mark.parametrize(
    ("worth", "mean", "most", "expected"),
    [
        (3.0, 2.0, 5.0, Worth(1.0, 2.0, 5.0)),
        (1e-4, 2.0, 5.0, Worth(0.01, 2.0, 5.0)),
        (0.3, 2.0, 1.0, Worth(0.6, 2.0, 2.0)),
    ],
)
def test_sample_worth_is_between_a_hundredth_and_one(worth, mean, most, expected):
    sample = StreamSample(0.0, 0.0, 1.0, 1.0, True, True, 2.0)
    base = Baseline(worth=worth, mean_weight=mean, most_weight=most)
    assert looks_of([sample], [0.0], base).worth == pytest.approx(expected)


def test_samples_of_one_weight_that_were_all_judged_are_plain_from_the_first():
    plain = [StreamSample(0.0, 0.0, 1.0, 1.0, True, True, 20.0)] * 2
    assert looks_of(plain, [0.0, 1.0], Baseline()).size.tolist() == [1.0, 1.0]
    asked_less = [plain[0], plain[0]._replace(probability=0.5)]
    assert looks_of(asked_less, [0.0, 1.0], Baseline()).size.tolist() == [0.2, 0.2]


def test_samples_with_one_time_form_one_look():
    samples = [
        StreamSample(0.0, 0.0, 1.0, 1.0, True, passed, 1.0) for passed in (True, False, True)
    ]
    found = looks_of(samples, [60.0, 60.0, 90.0], Baseline())
    assert (found.time_s.tolist(), found.n.tolist()) == ([60.0, 90.0], [2.0, 1.0])
    assert found.passed.tolist() == [1.0, 1.0]
    assert found.part(1).samples.look.tolist() == [0]
    assert found.part(0, 1).n.tolist() == [2.0]


@pytest.mark.parametrize(
    ("version", "sums", "by_samples"),
    [
        ("local-9", (4, 8.0, 16.0), False),
        ("local-9", (2, 4.0, 10.0), True),
        ("cascade-3", (4, 8.0, 16.0), True),
    ],
)
def test_stream_uses_single_samples_when_sums_are_insufficient(version, sums, by_samples):
    n, sum_w, sum_w2 = sums
    assert goes_by_samples(version, n=n, sum_w=sum_w, sum_w2=sum_w2) is by_samples


def test_cascade_metadata_is_read_back():
    noted = {
        "pass_estimate": 0.4, "judged": False, "judge_probability": 0.3, "expected_pass": 0.6,
        "judge_share": 0.5, "usual_share": 0.25,
    }  # fmt: skip
    found = stream_sample(1.0, 2.0, passed=True, weight=3.0, noted=noted)
    assert found == StreamSample(1.0, 2.0, 0.6, 0.3, False, True, 3.0, 0.5, 0.25)
    older = {"pass_estimate": 0.4, "judged": False, "judge_probability": 0.3}
    found = stream_sample(1.0, 2.0, passed=True, weight=3.0, noted=older)
    assert found == StreamSample(1.0, 2.0, 0.4, 0.3, False, True, 3.0, 1.0, 1.0)
    answered = stream_sample(0, 0, passed=True, weight=1.0, noted=noted | {"answered_share": 0.5})
    assert answered.probability == pytest.approx(0.15 / 0.85)
    for plain in (None, {}, {"judged": True}):
        found = stream_sample(1.0, 2.0, passed=False, weight=3.0, noted=plain)
        assert found == StreamSample(1.0, 2.0, 0.0, 1.0, True, False, 3.0)


def test_half_of_a_stake_is_placed_at_bucket_start_and_half_over_time():
    before, now = np.array([30.0, 30.0, 59.0, 90.0]), np.array([45.0, 90.0, 61.0, 60.0])
    assert stakes_of(before, now, 60) == pytest.approx([0.125, 1.0, 0.5 + 1 / 60, 0.0])
