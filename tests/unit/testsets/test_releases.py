"""The verdict on a live release: found soon, seldom wrong, whatever ran when."""

import numpy as np
import pytest

from monitor.testsets.releases import PassCounts, ReleaseStatus, judge_release, pair_blocks

RANDOM = np.random.default_rng(21)
MINUTE = 60


def counts(p, minutes, *, begins=0, each=2):
    n = np.full(minutes, float(each))
    start_s = (begins + np.arange(minutes)) * MINUTE
    return PassCounts(start_s, RANDOM.binomial(each, p, minutes).astype(float), n)


def verdict(before, after):
    return judge_release("groundedness", before, after, max_drop=0.03)


def share(status, before, after, runs):
    """How often a release has this status after so many (rate, minutes) at two samples each."""
    found = [
        verdict(counts(*before), counts(*after, begins=before[1] if before[1] != after[1] else 0))
        for _ in range(runs)
    ]
    return sum(one.status is status for one in found) / runs


def test_fall_of_ten_points_is_found_within_150_samples_a_side():
    assert share(ReleaseStatus.WORSE, (0.96, 75), (0.86, 75), runs=50) >= 0.4


def test_fall_is_found_within_150_samples_with_a_past_release():
    assert share(ReleaseStatus.WORSE, (0.9, 2_000), (0.8, 75), runs=40) >= 0.4


def test_false_verdicts_are_rare_over_all_looks():
    assert share(ReleaseStatus.WORSE, (0.9, 300), (0.9, 300), runs=40) <= 0.075
    assert share(ReleaseStatus.OK, (0.9, 300), (0.8, 300), runs=20) <= 0.1


def test_release_as_good_as_before_becomes_ok():
    found = verdict(counts(0.95, 3_000), counts(0.95, 3_000))
    assert found.status is ReleaseStatus.OK
    assert found.drop_low < 0 < found.drop_high <= 0.03 + 0.005


def test_undecided_release_says_how_many_more_samples_decide():
    found = verdict(counts(0.9, 20), counts(0.9, 20))
    assert found.status is ReleaseStatus.NOT_YET
    assert 50 < found.more_n < 20_000
    assert found.drop_low < found.before - found.after < found.drop_high


def test_release_verdict_is_final():
    before = counts(0.95, 400, each=4)
    fallen = counts(0.7, 60, begins=400, each=4)
    well = counts(0.95, 200, begins=460, each=4)
    both = PassCounts(*(np.concatenate(pair) for pair in zip(fallen, well, strict=True)))
    assert verdict(before, fallen).status is ReleaseStatus.WORSE
    assert verdict(before, both).status is ReleaseStatus.WORSE


def test_release_without_scores_is_unknown():
    found = verdict(counts(0.9, 100), counts(0.9, 0))
    assert (found.status, found.after, found.n_after) == (ReleaseStatus.NOT_YET, None, 0)


def test_releases_that_run_side_by_side_are_compared_minute_by_minute():
    before, after = counts(0.9, 5), counts(0.9, 5)
    paired = pair_blocks(before, after)
    assert paired.passed_before.tolist() == before.passed.tolist()
    assert paired.n_before.tolist() == [2.0] * 5


def test_past_of_the_previous_release_is_used_from_its_end():
    paired = pair_blocks(counts(0.9, 100), counts(0.9, 200, begins=100))
    assert paired.n_before[0] == pytest.approx(8.0)
    assert 150 < paired.n_before.sum() <= 200
    assert paired.n_before[-40:].sum() > 0


def test_pairs_of_the_first_minutes_do_not_depend_on_later_ones():
    before, after = counts(0.9, 100), counts(0.9, 200, begins=100)
    first = PassCounts(*(column[:50] for column in after))
    for all_of_it, part in zip(pair_blocks(before, after), pair_blocks(before, first), strict=True):
        assert all_of_it[:50].tolist() == part.tolist()
