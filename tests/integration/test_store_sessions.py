"""A session is as good as its worst turn, and resolved when its last turn passes."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.store.retention import blank
from monitor.store.samples import MOST_TURNS, session_scores
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


def write(store, *scores, session="s", app="bot"):
    results = []
    for n, score in enumerate(scores):
        at = NOW + timedelta(seconds=n)
        turn = make_interaction(app=app, session_id=session, timestamp=at)
        sample = make_sample(turn, sampled_at=at)
        results.append(result_of(sample, (make_evaluation(score=score),), RULES, now=at))
    with store.write() as connection:
        record(connection, results, now=NOW + timedelta(seconds=len(scores)), bucket_s=60)
    return [each.scored.sample.sample_id for each in results]


def scores(store, session="s", app="bot"):
    with store.read() as connection:
        return session_scores(connection, app=app, session_id=session)


@pytest.mark.parametrize(
    ("turns", "failed", "worst", "resolved"),
    [
        ((0.9, 0.8), 0, 0.8, True),
        ((0.9, 0.1, 0.9), 1, 0.1, True),
        ((0.9, 0.9, 0.2), 1, 0.2, False),
    ],
)
def test_session_has_its_worst_turn_and_says_whether_it_is_resolved(
    store, turns, failed, worst, resolved
):
    ids = write(store, *turns)
    write(store, 0.0, session="another")
    write(store, 0.0, app="other")
    [found] = scores(store)
    assert (found.turns, found.failed, found.worst) == (len(turns), failed, worst)
    assert (found.worst_sample_id, found.resolved) == (ids[turns.index(worst)], resolved)


def test_endless_session_counts_its_latest_turns(store):
    write(store, *([0.0] + [0.9] * MOST_TURNS))
    [found] = scores(store)
    assert (found.turns, found.worst) == (MOST_TURNS, 0.9)


def test_deleted_session_has_no_scores(store):
    ids = write(store, 0.9)
    with store.write() as connection:
        blank(connection, ids, why="too old")
    assert scores(store) == []
