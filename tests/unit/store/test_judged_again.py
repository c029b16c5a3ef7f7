"""Which old samples a judge is asked about again, and what is kept of both verdicts."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sqlalchemy import select

from monitor.models import StreamKey
from monitor.store.agreement import (
    JudgedStream,
    JudgeRecheckState,
    VerdictPair,
    calls_since,
    moved_judges,
    newest_verdicts,
    old_samples,
    read_judge,
    save_judge,
    save_pairs,
)
from monitor.store.retention import blank
from monitor.store.tables import rejudged, streams
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


def put(connection, *passed, at=NOW, judged=None, app="shop"):
    """Store one sample for each verdict, a second apart, the oldest first; return their ids."""
    about = {} if judged is None else {"metadata": {"judged": judged}}
    ids = []
    for number, good in enumerate(passed):
        it = make_interaction(app=app)
        sample = make_sample(it, sampled_at=at + timedelta(seconds=number))
        found = make_evaluation(score=0.9 if good else 0.1, target_event_id=it.id, **about)
        results = [result_of(sample, [found], RULES, now=NOW)]
        record(connection, results, now=NOW, bucket_s=60)
        ids.append(sample.sample_id)
    return ids


def stream(connection, app="shop"):
    c = streams.c
    key = StreamKey(*connection.execute(select(c.app, c.metric, c.segment, c.evaluator_version)
                                        .where(c.app == app)).first())  # fmt: skip
    return JudgedStream(key.app, key.metric, key.evaluator_version)


def drawn(connection, *, before=NOW, since=None, n=100, cascade=False, of=None):
    found = old_samples(
        connection, of or stream(connection), before=before, since=since, n=n, rng=Random(1),
        cascade=cascade,
    )  # fmt: skip
    return {old.sample_id: old.first for old in found}


def pair(sample_id, of, *, model="m"):
    return VerdictPair(sample_id=sample_id, stream=of, first=True, second=False, model=model)


def test_samples_before_the_change_are_drawn_with_their_first_verdicts(connection):
    put(connection, True, at=NOW - 3 * HOUR)
    first, second = put(connection, True, False, at=NOW - 2 * HOUR)
    put(connection, True, at=NOW - HOUR)
    put(connection, True, at=NOW - 2 * HOUR, app="other")
    found = drawn(connection, since=NOW - 2 * HOUR, before=NOW - HOUR)
    assert found == {first: True, second: False}
    assert len(drawn(connection, n=2)) == 2


def test_sample_is_judged_again_once_for_each_evaluator(connection):
    first, second = put(connection, True, True, at=NOW - HOUR)
    of = stream(connection)
    save_pairs(connection, [pair(first, of)], purpose="drip", now=NOW)
    elsewhere = of._replace(evaluator_version="another judge")
    save_pairs(connection, [pair(second, elsewhere)], purpose="drip", now=NOW)
    save_pairs(connection, [pair(second, of._replace(metric="x"))], purpose="drip", now=NOW)
    assert drawn(connection) == {second: True}


def test_sample_whose_texts_were_forgotten_is_not_judged_again(connection):
    first, second = put(connection, True, True, at=NOW - HOUR)
    blank(connection, [first], why="too old")
    assert drawn(connection) == {second: True}


def test_only_judged_cascade_samples_are_judged_again(connection):
    put(connection, True, at=NOW - HOUR, judged=False)
    (seen,) = put(connection, True, at=NOW - HOUR, judged=True)
    assert drawn(connection, cascade=True) == {seen: True}
    assert len(drawn(connection)) == 2


def test_verdicts_since_the_change_are_read_newest_first(connection):
    put(connection, False, at=NOW - 2 * HOUR)
    put(connection, True, False, False, at=NOW - HOUR)
    of = stream(connection)
    for n, verdicts in ((9, [False, False, True]), (2, [False, False]), (0, [])):
        found = newest_verdicts(connection, of, since=NOW - HOUR, n=n, cascade=False)
        assert found == verdicts


def test_second_verdict_is_stored_once_with_its_model(connection):
    of = JudgedStream("shop", "groundedness", "v")
    for model in ("x" * 300, "later"):
        save_pairs(connection, [pair("a", of, model=model)], purpose="drip", now=NOW)
    c = rejudged.c
    kept = connection.execute(select(c.first_passed, c.second_passed, c.model, c.purpose)).one()
    assert tuple(kept) == (1, 0, "x" * 200, "drip")


@pytest.mark.parametrize(("since", "n"), [(NOW - HOUR, 2), (NOW, 1), (NOW + HOUR, 0)])
def test_call_about_several_metrics_of_a_sample_counts_once(connection, since, n):
    for metric in ("groundedness", "relevance"):
        pairs = [pair("a", JudgedStream("shop", metric, "v"))]
        save_pairs(connection, pairs, purpose="drip", now=NOW - HOUR)
    for sample_id, purpose in (("b", "drip"), ("c", "burst")):
        of = JudgedStream("shop", "groundedness", "v")
        save_pairs(connection, [pair(sample_id, of)], purpose=purpose, now=NOW)
    assert calls_since(connection, since, purpose="drip") == n


def test_shifted_judge_is_named_from_its_detection_on(connection):
    assert read_judge(connection, "groundedness", "v") == JudgeRecheckState()
    moved = JudgeRecheckState(found_at=NOW, shift=-0.2, pairs=40)
    save_judge(connection, "groundedness", "v", moved)
    save_judge(connection, "groundedness", "w", JudgeRecheckState())
    assert read_judge(connection, "groundedness", "v") == moved
    assert moved_judges(connection, since=NOW) == {("groundedness", "v"): moved}
    assert moved_judges(connection, since=NOW + HOUR) == {}
