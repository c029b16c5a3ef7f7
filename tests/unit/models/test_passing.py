"""Which way a metric is better, wherever its score goes."""

import pytest

from monitor.models.passing import Direction, PassRule
from monitor.rolling.tallies import stream_key, tally_of
from monitor.testing import make_evaluation

LOWER = {"pass_score": 0.3, "direction": "lower"}


@pytest.mark.parametrize(
    ("direction", "line", "passing", "failing"),
    [(Direction.HIGHER, 0.7, 0.7, 0.69), (Direction.LOWER, 0.3, 0.3, 0.31)],
)
def test_the_line_itself_passes(direction, line, passing, failing):
    rule = PassRule.mirrored(0.7, direction)
    assert rule == (line, direction)
    assert rule.passes(passing)
    assert not rule.passes(failing)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("line", [0, 0.05, 0.3, 0.7, 1, 0.00001])
def test_rule_is_read_back_from_a_version(line, direction):
    rule = PassRule(line, direction)
    assert PassRule.read(f"local-1 {rule}") == rule


def test_a_version_without_a_rule_has_none():
    assert PassRule.read("local-1") is None


def test_evaluation_without_a_direction_passes_at_the_settings_line():
    assert PassRule.of(make_evaluation(criteria={"pass_score": 0.2}), 0.7).line == 0.7
    assert PassRule.of(make_evaluation(), 0.7) == PassRule(0.7)


@pytest.mark.parametrize(("score", "passed"), [(0.1, 1), (0.3, 1), (0.9, 0)])
def test_low_score_is_counted_as_passed_when_lower_is_better(score, passed):
    tally = tally_of(make_evaluation(score=score, criteria=LOWER), sample_rate=0.5, pass_score=0.7)
    assert (tally.passed, tally.sum_wy, tally.sum_x) == (passed, 2 * passed, score)


def test_stream_says_which_way_is_better():
    key = stream_key("app", make_evaluation(criteria=LOWER), pass_score=0.7)
    assert key.evaluator_version == "local-1 pass <= 0.3"
    assert stream_key("app", make_evaluation(), pass_score=0.7)[3] == "local-1 pass 0.7"
