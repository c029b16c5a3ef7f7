"""Which way a metric is better, wherever its score goes."""

import pytest

from monitor.models.evaluation import OWN_LEAST, Direction, PassRule, own_line
from monitor.rolling.tallies import stream_key, tally_of
from monitor.testing import make_evaluation

LOWER = {"pass_score": 0.3, "direction": "lower"}


@pytest.mark.parametrize(
    ("direction", "line", "passing", "failing"),
    [(Direction.HIGHER, 0.7, 0.7, 0.69), (Direction.LOWER, 0.3, 0.3, 0.31)],
)
def test_score_at_the_pass_score_passes(direction, line, passing, failing):
    rule = PassRule.mirrored(0.7, direction)
    assert rule == PassRule(line, direction)
    assert rule.passes(passing)
    assert not rule.passes(failing)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("line", [0, 0.05, 0.3, 0.7, 1, 0.00001])
def test_rule_is_read_back_from_a_version(line, direction):
    rule = PassRule(line, direction)
    assert PassRule.read(f"local-1 {rule}") == rule


def test_version_without_a_rule_has_none():
    assert PassRule.read("local-1") is None


def test_evaluation_without_a_direction_uses_the_configured_pass_score():
    assert PassRule.of(make_evaluation(criteria={"pass_score": 0.2}), 0.7).line == 0.7
    assert PassRule.of(make_evaluation(), 0.7) == PassRule(0.7)


@pytest.mark.parametrize(("score", "passed"), [(0.1, 1), (0.3, 1), (0.9, 0)])
def test_low_score_is_counted_as_passed_when_lower_is_better(score, passed):
    tally = tally_of(make_evaluation(score=score, criteria=LOWER), sample_rate=0.5, pass_score=0.7)
    assert (tally.passed, tally.sum_wy, tally.sum_x) == (passed, 2 * passed, score)


def test_stream_records_which_direction_is_better():
    key = stream_key("app", make_evaluation(criteria=LOWER), pass_score=0.7)
    assert key.evaluator_version == "local-1 pass <= 0.3"
    assert stream_key("app", make_evaluation(), pass_score=0.7)[3] == "local-1 pass 0.7"


@pytest.mark.parametrize(
    ("bins", "line"),
    [
        ({90: 99}, 0.2),  # too few scores
        ({41: 3, 90: 97}, 0.5),  # never above 0.5: nobody is measured by sickness
        ({30: 2, 41: 3, 90: 95}, 0.41),
        ({3: 50, 90: 50}, 0.2),  # never below what good answers of every kind reach
    ],
)
def test_own_pass_score_is_the_third_percentile_of_first_scores(bins, line):
    assert own_line(bins) == line


def test_own_pass_score_can_change_without_a_new_stream():
    before, after = (
        make_evaluation(criteria=PassRule(line, own=True).criteria()) for line in (OWN_LEAST, 0.41)
    )
    first, second = (stream_key("shop", each, pass_score=0.7) for each in (before, after))
    assert first == second
    assert PassRule.read(first.evaluator_version) == PassRule(OWN_LEAST, own=True)
    assert PassRule.of(after, 0.7).line == 0.41
