"""Whether the judge moved or the app: evidence pair by pair, and one attribution."""

import numpy as np
import pytest

from monitor.stats.judge_shift import Cause, ShiftEvidence, attribute_shift


def test_evidence_does_not_depend_on_the_batching_of_pairs():
    rng = np.random.default_rng(3)
    pairs = [(bool(a), bool(b)) for a, b in rng.random((80, 2)) < 0.8]
    whole = ShiftEvidence().add(pairs)
    parts = ShiftEvidence().add(pairs[:30]).add([]).add(pairs[30:])
    assert parts.log_sums == pytest.approx(whole.log_sums)
    assert (parts.pairs, parts.shift) == (80, whole.shift)


def test_judge_that_repeats_its_verdicts_has_not_shifted():
    assert not ShiftEvidence().add([(True, True), (False, False)] * 500).found
    assert not ShiftEvidence().add([(True, False), (False, True)] * 200).found


@pytest.mark.parametrize(("pair", "shift"), [((True, False), -1.0), ((False, True), 1.0)])
def test_shifted_judge_is_found_in_either_direction(pair, shift):
    found = ShiftEvidence().add([pair] * 20)
    assert found.found
    assert found.shift == shift


OLD = [True] * 143 + [False] * 7


def flipped(n):
    return [False] * n + OLD[n:]


@pytest.mark.parametrize(
    ("second", "good_after", "cause"),
    [
        (OLD, 105, Cause.APP), (OLD, 143, Cause.UNCLEAR), (flipped(30), 113, Cause.JUDGE),
        (flipped(30), 60, Cause.BOTH), (flipped(8), 125, Cause.UNCLEAR),
    ],
)  # fmt: skip
def test_change_is_attributed_to_the_app_or_the_judge(second, good_after, cause):
    after = [True] * good_after + [False] * (150 - good_after)
    assert attribute_shift(OLD, second, after).cause is cause


def test_unanimous_verdicts_leave_some_uncertainty():
    """The variance is that of half a sample more that disagrees."""
    found = attribute_shift([True] * 8, [True] * 8, [True] * 12)
    assert found.judge.error == pytest.approx((1 / 12 / 8) ** 0.5)
    assert found.app.error == pytest.approx((0.5 / 16 / 12 + 0.5 / 12 / 8) ** 0.5)


def test_attribution_needs_verdicts():
    with pytest.raises(ValueError, match="need pairs"):
        attribute_shift([], [], [True])
