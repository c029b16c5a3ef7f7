"""Pairs of samples from before and after a moment, which people compare without knowing which."""

from datetime import UTC, datetime, timedelta

from monitor.store.labels import SamplePair, draw_pairs
from monitor.store.retention import blank
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


def put(connection, *seconds, app="shop", metric="groundedness"):
    ids = []
    for second in seconds:
        sample = make_sample(make_interaction(app=app), sampled_at=NOW + timedelta(seconds=second))
        found = make_evaluation(evaluator_name=metric, score=0.9)
        record(connection, [result_of(sample, [found], RULES, now=NOW)], now=NOW, bucket_s=60)
        ids.append(sample.sample_id)
    return ids


def pairs(connection, most=10):
    return draw_pairs(connection, app="shop", metric="groundedness", at=NOW, most=most)


def test_each_pair_has_one_sample_before_and_one_after_the_change(connection):
    before, after = put(connection, -3, -2, -1), put(connection, 0, 1)
    put(connection, -1, 1, app="bot")
    put(connection, -1, 1, metric="relevance")
    found = pairs(connection)
    assert len({pair.before for pair in found} & set(before)) == 2
    assert {pair.after for pair in found} == set(after)
    assert pairs(connection) == found
    assert pairs(connection, most=1) == found[:1]


def test_sample_with_deleted_texts_is_in_no_pair(connection):
    [gone] = put(connection, -1)
    put(connection, 1)
    blank(connection, [gone], why="too old")
    assert pairs(connection) == []


def test_pair_display_order_hides_which_sample_came_first():
    shown = [SamplePair(f"b{n}", f"a{n}") for n in range(200)]
    first = sum(pair.shuffled[0] == pair.before for pair in shown)
    assert 70 < first < 130
    assert all(set(pair.shuffled) == set(pair) for pair in shown)
