"""Writing results: exactly once, on both databases, in any order, from several at a time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from monitor.errors import SettingsError
from monitor.models import ErrorInfo, Evaluation
from monitor.store.columns import pack
from monitor.store.labels import Label, save_labels
from monitor.store.ledger import (
    Booking,
    DeadLetter,
    Kind,
    find_dead_letter,
    read_between,
    read_totals,
    set_aside,
)
from monitor.store.query import active_streams, window_tallies
from monitor.store.samples import unscored, worst_samples
from monitor.store.tables import dead_letters, evaluations, samples
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)
SKIPPED = Evaluation.skipped(
    target_event_id="i", evaluator_name="groundedness", reason="no_context"
)


def result(*evaluations, sample_rate=1.0, app="bot", **interaction):
    sample = make_sample(
        make_interaction(app=app, **interaction), sampled_at=NOW, sample_rate=sample_rate
    )
    return result_of(sample, evaluations or (make_evaluation(score=0.9),), RULES, now=NOW)


def write(store, results):
    with store.write() as connection:
        return record(connection, results, now=NOW, bucket_s=60)


def tallies(store):
    with store.read() as connection:
        streams = {s.stream_id: s.key for s in active_streams(connection, since_s=0)}
        found = window_tallies(connection, from_s=0)
    return {streams[stream_id]: tally for stream_id, tally in found.items()}


def totals(store, app="bot"):
    with store.read() as connection:
        return read_totals(connection, app).get(app, {})


def count(store, table):
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_new_samples_are_counted_by_the_return_value(store):
    assert write(store, [result(), result()]) == 2


@pytest.mark.parametrize(
    ("metadata", "judged"), [({}, None), ({"judged": True}, 1), ({"judged": False}, 0)]
)
def test_evaluation_row_records_whether_the_judge_was_called(store, metadata, judged):
    write(store, [result(make_evaluation(score=0.9, metadata=metadata))])
    with store.read() as connection:
        assert connection.execute(select(evaluations.c.judged)).scalar_one() == judged


def test_redelivery_changes_nothing(store):
    results = [result() for _ in range(5)]
    write(store, results)
    before = tallies(store)
    assert write(store, results) == 0
    assert tallies(store) == before
    assert totals(store)[Booking(Kind.SCORED, "")] == 5


def test_partly_redelivered_batch_adds_only_what_is_new(store):
    old, new = result(), result()
    write(store, [old])
    assert write(store, [old, new]) == 1
    assert next(iter(tallies(store).values())).n == 2


def test_duplicate_within_a_batch_is_counted_once(store):
    once = result()
    assert write(store, [once, once]) == 1


def test_bucket_stores_sums_and_histogram(store):
    write(store, [result(make_evaluation(score=s)) for s in (0.9, 0.9, 0.2)])
    (tally,) = tallies(store).values()
    assert (tally.n, tally.passed) == (3, 2)
    assert tally.sum_x == pytest.approx(2.0)
    assert tally.histogram == {90: 2, 20: 1}


def test_outcomes_are_counted_with_their_reason(store):
    write(store, [result(), result(SKIPPED)])
    found = totals(store)
    assert found[Booking(Kind.SCORED, "")] == 1
    assert found[Booking(Kind.SKIPPED, "no_context")] == 1


def test_window_counts_exclude_older_samples(store):
    write(store, [result()])
    with store.read() as connection:
        assert read_between(connection, NOW.timestamp() - 60)["bot"].total() == 1
        assert read_between(connection, NOW.timestamp() + 60) == {}


def test_evaluator_versions_have_separate_streams(store):
    versions = [make_evaluation(evaluator_version=v) for v in ("1", "2")]
    write(store, [result(version) for version in versions])
    with store.read() as connection:
        assert len(window_tallies(connection, from_s=0)) == 2


def test_concurrent_writers_count_each_sample_once(store):
    shared = [result() for _ in range(20)]
    own = [[result() for _ in range(20)] for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda mine: write(store, [*shared, *mine]), own))
    (tally,) = tallies(store).values()
    assert tally.n == 20 + 4 * 20
    assert totals(store)[Booking(Kind.SCORED, "")] == 100


@pytest.mark.parametrize("text", ["a\0b", "\ud7ff\U0001f600 \u202e", "\\u0000", "x" * 200_000])
def test_unusual_text_is_stored(store, text):
    assert write(store, [result(output=text)]) == 1
    with store.read() as connection:
        payload = connection.execute(select(samples.c.payload)).scalar_one()
    assert payload["interaction"]["output"] == text.replace("\0", "\ufffd")


def test_failed_transaction_writes_nothing(store):
    def broken():
        with store.write() as connection:
            record(connection, [result()], now=NOW, bucket_s=60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert (count(store, samples), count(store, evaluations), totals(store)) == (0, 0, {})


def test_dead_letter_is_counted_once_as_failed(store):
    letter = DeadLetter(
        entry_id="1-0",
        sample_id=None,
        app="bot",
        at=NOW,
        reason="worker_died",
        detail="",
        body=b"x",
    )
    for _ in range(2):
        with store.write() as connection:
            record(connection, [], [letter], now=NOW, bucket_s=60)
    assert count(store, dead_letters) == 1
    assert totals(store)[Booking(Kind.FAILED, "worker_died")] == 1


@pytest.mark.parametrize(
    ("name", "found"),
    [("1700-0", "1700-0"), ("1700", "1700-0"), ("18", None), ("1800", None), ("1800-1", "1800-1"),
     ("1700_0", None), ("17%0", None), ("1900", None)],
)  # fmt: skip
def test_dead_letter_is_found_by_an_unambiguous_id_prefix(store, name, found):
    letters = [
        DeadLetter(
            entry_id=key, sample_id=None, app="bot", at=NOW, reason="bad", detail="", body=b"{"
        )
        for key in ("1700-0", "1800-0", "1800-1")
    ]
    with store.write() as connection:
        set_aside(connection, letters)
        if found:
            assert find_dead_letter(connection, name).entry_id == found
        else:
            with pytest.raises(SettingsError, match="named"):
                find_dead_letter(connection, name)


def test_worst_samples_are_sorted_and_have_distinct_explanations(store):
    scores = [(0.5, "c"), (0.1, "a"), (0.1, "a"), (0.2, "b"), (0.9, "good")]
    write(store, [result(make_evaluation(score=s, explanation=e)) for s, e in scores])
    with store.read() as connection:
        found = worst_samples(connection, app="bot", metric="groundedness", since=NOW, limit=3)
    assert [item.evaluation.explanation for item in found] == ["a", "b", "c"]


def said_in_order(store):
    with store.read() as connection:
        found = worst_samples(connection, app="bot", metric="groundedness", since=NOW, limit=9)
    return [item.evaluation.explanation for item in found]


def test_judged_failure_precedes_a_slightly_lower_local_score(store):
    found = [(0.4, "judge", 0.6), (0.1, "local", None), (0.01, "local, far below", None)]
    write(store, [
        result(make_evaluation(
            score=s, explanation=e, metadata={"judged": local is not None, "local_score": local}
        ))
        for s, e, local in found
    ])  # fmt: skip
    assert said_in_order(store) == ["local, far below", "judge", "local"]


def test_contradicted_answer_comes_before_one_that_is_not_found(store):
    found = [(0.1, "not found", {"not_found": 1}), (0.2, "contradicted", {"contradicted": 1})]
    write(store, [
        result(make_evaluation(score=s, explanation=e, metadata={"verdicts": verdicts}))
        for s, e, verdicts in found
    ])  # fmt: skip
    assert said_in_order(store) == ["contradicted", "not found"]


def test_samples_labelled_bad_come_first_and_good_ones_are_left_out(store):
    labelled = [(0.1, "", ()), (0.2, "good", (1, 1, 0)), (0.3, "bad", (0,)), (0.4, "tie", (0, 1))]
    results = [result(make_evaluation(score=s, explanation=e)) for s, e, _ in labelled]
    write(store, results)
    with store.write() as connection:
        save_labels(connection, [
            Label(
                sample_id=each.scored.sample.sample_id, app="bot", metric="groundedness",
                evaluator_version="v", judge_passed=False, human_passed=bool(passed),
                labelled_by=f"p{n}", note="", labelled_at=NOW,
            )
            for each, (_, _, said) in zip(results, labelled, strict=True)
            for n, passed in enumerate(said)
        ])  # fmt: skip
    assert said_in_order(store) == ["bad", "", "tie"]


def test_evaluations_without_a_score_are_counted_by_metric_and_reason(store):
    asked = {"target_event_id": "i", "evaluator_name": "relevance"}
    broken = ErrorInfo(type="JudgeUnavailableError", message="", code="judge_unavailable")
    write(store, [
        result(make_evaluation(), Evaluation.skipped(reason="nothing_asked", **asked)),
        result(make_evaluation(), Evaluation.skipped(reason="no_query", **asked)),
        result(make_evaluation(), Evaluation.skipped(reason="no_query", **asked)),
        result(make_evaluation(), Evaluation.failed(error=broken, **asked)),
        result(Evaluation.skipped(reason="no_query", **asked), app="other"),
    ])  # fmt: skip

    def reasons_since(since, metric="relevance"):
        with store.read() as connection:
            return unscored(connection, app="bot", metric=metric, since=since)

    assert reasons_since(NOW) == ({"judge_unavailable": 1}, {"no_query": 2, "nothing_asked": 1})
    assert reasons_since(NOW, "groundedness") == ({}, {})
    assert reasons_since(NOW + timedelta(seconds=1)) == ({}, {})


def test_worst_samples_are_found_whatever_a_metric_keeps_as_its_verdicts(store):
    kept = [[1.0, 0.0], {"contradicted": 1}, "none", None]
    write(store, [
        result(make_evaluation(score=0.1, explanation=str(each), metadata={"verdicts": each}))
        for each in kept
    ])  # fmt: skip
    assert {*said_in_order(store)} == {*map(str, kept)}


def test_damaged_sample_is_left_out_of_the_worst_ones(store):
    write(store, [
        result(make_evaluation(score=score, explanation=said))
        for score, said in ((0.1, "damaged"), (0.2, "sound"))
    ])  # fmt: skip
    with store.write() as connection:
        worst = select(evaluations.c.position).order_by(evaluations.c.score).limit(1)
        connection.execute(
            samples.update()
            .where(samples.c.position == worst.scalar_subquery())
            .values(payload=pack('{"v":9}'))
        )
    assert said_in_order(store) == ["sound"]


def test_worst_samples_are_the_highest_when_lower_is_better(store):
    lower = {"pass_score": 0.3, "direction": "lower"}
    scores = (0.1, 0.5, 0.9)
    write(
        store,
        [
            result(make_evaluation(score=x, explanation=str(x), criteria=lower), id=f"i{x}")
            for x in scores
        ],
    )
    with store.read() as connection:
        found = worst_samples(connection, app="bot", metric="groundedness", since=NOW, limit=3)
    assert [item.score for item in found] == [0.9, 0.5]
