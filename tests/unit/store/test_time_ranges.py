"""Samples of a time range, and when a value first came: the end is not in it, the beginning is."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Evaluation
from monitor.store.drift import first_seen
from monitor.store.samples import scored_exchanges, unscored, worst_samples
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("release", "user"))


def put(connection, *evaluations, at=NOW, **interaction):
    it = make_interaction(**{"app": "shop"} | interaction)
    sample = make_sample(it, sampled_at=at)
    results = [result_of(sample, evaluations, RULES, now=at)]
    record(connection, results, now=at, bucket_s=60)
    return sample.sample_id


def later(seconds):
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [(0, None, [0, 1, 2]), (1, None, [1, 2]), (0, 2, [0, 1]), (1, 2, [1]), (3, None, [])],
)
def test_samples_are_those_of_the_range(connection, since, until, found):
    skipped = {"target_event_id": "i", "evaluator_name": "relevance"}
    for second in range(3):
        failed = make_evaluation(score=0.1, explanation=str(second))
        none = Evaluation.skipped(reason=str(second), **skipped)
        put(connection, failed, none, at=later(second))
    within = {"since": later(since), "until": None if until is None else later(until)}
    worst = worst_samples(connection, app="shop", metric="groundedness", **within)
    assert sorted(int(one.evaluation.explanation) for one in worst) == found
    none = unscored(connection, app="shop", metric="relevance", **within)
    assert sorted(map(int, none.skipped)) == found
    newest = scored_exchanges(connection, "shop", "groundedness", **within, limit=9)
    assert [int(one.evaluation.explanation) for one in newest] == found[::-1]


def test_newest_exchanges_say_whether_they_passed(connection):
    ids = [
        put(connection, make_evaluation(score=score), at=later(second), output=f"o{second}")
        for second, score in enumerate((0.1, 0.9, 0.2))
    ]
    found = scored_exchanges(connection, "shop", "groundedness", NOW, limit=2)
    assert [(one[0], one[1], one[2].output, one[3]) for one in found] == [
        (ids[2], later(2), "o2", False),
        (ids[1], later(1), "o1", True),
    ]


def test_segment_value_is_new_only_from_its_first_bucket(connection):
    for minutes, release in ((0, "v1"), (10, "v2"), (20, "v1"), (20, "v2"), (30, "v3")):
        at = NOW + timedelta(minutes=minutes)
        put(connection, make_evaluation(), at=at, release=release, user_id=release)
        put(connection, make_evaluation(), at=at, app="bot", release="of another app")
    first_s = int(NOW.timestamp())
    for since_s, found in {
        first_s: {"v1": 0, "v2": 600, "v3": 1800},
        first_s + 1: {"v2": 600, "v3": 1800},
        first_s + 600: {"v2": 600, "v3": 1800},
        first_s + 601: {"v3": 1800},
        first_s + 1801: {},
    }.items():
        new = first_seen(connection, "shop", "release", since_s=since_s)
        assert new == {value: first_s + after_s for value, after_s in found.items()}
