"""What the judge is expected to say of a sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.models.evaluation import Direction, PassRule
from monitor.scoring.calibration import JudgedSample, fit_curve

RULE = PassRule(0.7)
shares = st.floats(0, 1)
verdicts = st.builds(
    JudgedSample, shares, st.booleans(), shares, st.lists(st.integers(0, 5), unique=True).map(tuple)
)


def said(random, count, level, *, places=()):
    """Draw verdicts of a judge whose log odds lie *level* above the local score's."""
    scores = random.uniform(0.05, 0.95, count)
    chances = 1 / (1 + np.exp(-(np.log(scores / (1 - scores)) + level)))
    passed = random.random(count) < chances
    return [
        JudgedSample(float(s), bool(p), float(p), places)
        for s, p in zip(scores, passed, strict=True)
    ]


def test_local_score_is_used_without_verdicts():
    curve = fit_curve((), RULE)
    assert curve.expect(0.7).passes == pytest.approx(0.5)
    assert [curve.expect(s).score for s in (0.1, 0.5, 0.9)] == pytest.approx([0.1, 0.5, 0.9])
    assert curve.expect(0.1).passes < 0.1
    assert curve.expect(0.95).passes > 0.8


def test_lower_score_passes_when_lower_is_better():
    curve = fit_curve((), PassRule(0.3, Direction.LOWER))
    assert curve.expect(0.3).passes == pytest.approx(0.5)
    assert curve.expect(0.1).passes > 0.7
    assert curve.expect(0.1).score == pytest.approx(0.1)


def test_strict_judge_is_learned():
    curve = fit_curve(said(np.random.default_rng(1), 1_000, -2.0), RULE)
    assert curve.expect(0.5).passes == pytest.approx(1 / (1 + np.exp(2)), abs=0.04)


def test_uninformative_local_score_is_learned_as_uninformative():
    random = np.random.default_rng(2)
    drawn = [JudgedSample(float(s), bool(p), 0.5) for s, p in random.random((1_000, 2)).round()]
    curve = fit_curve(drawn, RULE)
    assert curve.expect(0.05).passes == pytest.approx(curve.expect(0.95).passes, abs=0.1)


def test_segment_that_the_judge_fails_more_often_is_learned():
    random = np.random.default_rng(4)
    drawn = said(random, 200, 1.0, places=(7,)) + said(random, 200, -1.0, places=(8,))
    curve = fit_curve(drawn, RULE)
    strict, mild = curve.expect(0.5, (8,)).passes, curve.expect(0.5, (7,)).passes
    assert (strict, mild) == pytest.approx((0.27, 0.73), abs=0.1)
    assert strict < curve.expect(0.5, (9,)).passes < mild


def test_redundant_dimensions_are_not_counted_twice():
    random = np.random.default_rng(5)
    drawn = said(random, 300, 1.5, places=(1, 11)) + said(random, 300, -1.5, places=(2, 12))
    curve = fit_curve(drawn, RULE)
    assert curve.expect(0.5, (1, 11)).passes == pytest.approx(1 / (1 + np.exp(-1.5)), abs=0.06)


def test_rarely_seen_segment_is_treated_like_an_unseen_one():
    drawn = said(np.random.default_rng(6), 200, 0.0, places=(1,))
    alone = [JudgedSample(0.5, passed=False, score=0.0, places=(2,)) for _ in range(4)]
    curve = fit_curve(drawn + alone, RULE)
    assert curve.expect(0.5, (2,)) == curve.expect(0.5, (3,))


@given(st.lists(verdicts, max_size=60), shares, st.lists(st.integers(0, 5), unique=True))
def test_expectations_are_never_certain(seen, score, places):
    expected = fit_curve(seen, RULE).expect(score, places)
    assert 0.02 <= expected.passes <= 0.98
    assert 0.02 <= expected.score <= 0.98
