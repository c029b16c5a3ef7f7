"""The moment of a fall, with its uncertainty."""

import numpy as np
import pytest
from scipy.integrate import quad

from monitor.stats.evidence import find_onset, locate_change


def fall(rng, after=0.65, per_bucket=5):
    rate = np.where(np.arange(240) < 200, 0.92, after)
    n = np.full(240, float(per_bucket))
    return np.arange(240) * 60.0, rng.binomial(per_bucket, rate).astype(float), n


def test_onset_range_contains_the_truth_in_about_nine_of_ten():
    rng = np.random.default_rng(3)
    found = [find_onset(*fall(rng)) for _ in range(300)]
    inside = np.mean([onset.earliest_s <= 200 * 60 <= onset.latest_s for onset in found])
    assert inside >= 0.88
    assert abs(np.median([onset.at_s for onset in found]) - 200 * 60) <= 120


def test_larger_fall_has_a_narrower_onset_range():
    rng = np.random.default_rng(4)
    small, large = find_onset(*fall(rng, 0.75)), find_onset(*fall(rng, 0.2))
    assert large.latest_s - large.earliest_s < small.latest_s - small.earliest_s


def test_rise_is_not_reported_as_a_fall():
    assert find_onset(np.arange(2.0), np.array([1.0, 5.0]), np.array([5.0, 5.0])) is None


def test_single_bucket_has_no_onset():
    assert find_onset(np.zeros(1), np.ones(1), np.ones(1)) is None


@pytest.mark.parametrize(("reference_passed", "reference_n"), [(0, 0), (7, 10)])
def test_evidence_of_a_change_is_the_bayes_factor_of_the_integrals(reference_passed, reference_n):
    """One change, equally likely at each bucket, against none; Jeffreys' prior for each rate."""
    passed, n = np.array([4.0, 3.0, 0.0, 1.0]), np.array([5.0, 5.0, 5.0, 5.0])

    def chance(good, bad):
        return quad(lambda rate: rate ** (good - 0.5) * (1 - rate) ** (bad - 0.5), 0, 1)[0]

    def mean(good, bad, known_good=0, known_bad=0):
        return chance(good + known_good, bad + known_bad) / chance(known_good, known_bad)

    known = reference_passed, reference_n - reference_passed
    bad = n - passed
    change = np.mean(
        [
            mean(passed[:k].sum(), bad[:k].sum(), *known) * mean(passed[k:].sum(), bad[k:].sum())
            for k in range(4)
        ]
    )
    found = locate_change(passed, n, reference_passed=reference_passed, reference_n=reference_n)
    assert found.evidence == pytest.approx(np.log(change / mean(passed.sum(), bad.sum(), *known)))
    assert (found.bucket, found.rate_after) == (2, 0.1)


def test_long_reference_counts_as_two_thousand_samples():
    passed, n = np.array([4.0, 3.0, 0.0, 1.0]), np.full(4, 5.0)
    long, short = (
        locate_change(passed, n, reference_passed=0.9 * size, reference_n=size)
        for size in (50_000.0, 2_000.0)
    )
    shorter = locate_change(passed, n, reference_passed=900.0, reference_n=1_000.0)
    assert long == pytest.approx(short)
    assert shorter.evidence != pytest.approx(short.evidence, abs=1e-4)


def test_change_range_is_the_smallest_set_of_buckets_with_95_percent():
    start_s, passed, n = fall(np.random.default_rng(6), 0.75)
    from scipy.special import betaln

    before, after = np.cumsum(passed) - passed, passed[::-1].cumsum()[::-1]
    size, rest = np.cumsum(n) - n, n[::-1].cumsum()[::-1]
    log = betaln(0.5 + before, 0.5 + size - before) + betaln(0.5 + after, 0.5 + rest - after)
    weight = np.exp(log - log.max()) * (before * rest > after * size)
    ranked = np.argsort(-weight)
    inside = ranked[: 1 + int((np.cumsum(weight[ranked]) < 0.95 * weight.sum()).sum())]
    assert find_onset(start_s, passed, n) == (
        start_s[ranked[0]], start_s[inside.min()], start_s[inside.max()],
    )  # fmt: skip


def test_unscored_stream_has_no_change():
    assert locate_change(np.zeros(3), np.zeros(3)) is None
