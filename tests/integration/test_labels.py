"""Labels in the store: who said what of which sample; what is refused is named, nothing is lost."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from monitor.models.evaluation import OWN_LEAST, PassRule
from monitor.rolling.tallies import stream_key
from monitor.store.agreement import agreements, labelled_samples
from monitor.store.labels import LabelResult, draw, labels_of, read_record, take_labels
from monitor.store.samples import newest_acts
from monitor.store.tables import evaluations, samples, scores
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)
VERSION = stream_key("bot", make_evaluation(), pass_score=0.7).evaluator_version


@pytest.fixture
def connection(store):
    with store.write() as connection:
        yield connection


def put(
    connection, n=1, *, score=0.9, release="v1", label=None, ago_s=60, made_by=None, **interaction
):
    """Store samples, of "bot" by default, with a verdict each; return their ids."""
    results = []
    for number in range(n):
        fields = {"app": "bot", "release": release, "label": label} | interaction
        it = make_interaction(**fields)
        sample = make_sample(it, sampled_at=NOW - timedelta(seconds=ago_s + number))
        found = [make_evaluation(target_event_id=it.id, score=score, **(made_by or {}))]
        results.append(result_of(sample, found, RULES, now=NOW))
    record(connection, results, now=NOW, bucket_s=60)
    return [result.scored.sample.sample_id for result in results]


def take(connection, *values, annotator="eve", now=NOW):
    records = [read_record(value) for value in values]
    return [o.result for o in take_labels(connection, records, annotator=annotator, now=now)]


def test_label_notes_who_when_which_evaluator_and_which_release(connection):
    (sample_id,) = put(connection, release="v7")
    assert take(connection, {"sample_id": sample_id, "label": "fail", "note": "made up"}) == [
        "stored"
    ]
    (label,) = labels_of(connection, sample_id)
    assert (label.labelled_by, label.labelled_at, label.release) == ("eve", NOW, "v7")
    assert (label.evaluator_version, label.judge_passed, label.human_passed) == (
        VERSION,
        True,
        False,
    )
    assert (label.note, label.drawn) == ("made up", False)


def test_trace_id_identifies_its_only_sample(connection):
    (sample_id,) = put(connection, trace_id="trace-1")
    put(connection, 2, trace_id="trace-2")
    said = [{"trace_id": "trace-1", "label": 0}, {"sample_id": "trace-1", "label": 0}]
    assert take(connection, *said, {"trace_id": "trace-2", "label": 0}) == [
        "stored", "duplicate", "unknown_sample"
    ]  # fmt: skip
    (label,) = labels_of(connection, sample_id)
    assert not label.human_passed


def test_majority_of_annotators_decides_and_a_tie_is_reported(connection):
    one, two = put(connection, 2)
    for who, verdict in (("ann", 1), ("bob", 0), ("eve", 0)):
        take(connection, {"sample_id": one, "label": verdict}, annotator=who)
    for who, verdict in (("ann", 1), ("bob", 0)):
        take(connection, {"sample_id": two, "label": verdict}, annotator=who)
    found = {
        item.sample_id: item.good
        for item in labelled_samples(connection, app="bot", metric="groundedness")
    }
    assert found == {one: False, two: None}
    (agreed,) = agreements(connection)
    assert (agreed.n, agreed.tied, agreed.annotators) == (1, 1, 3)
    assert agreed.confusion.passed_bad == 1
    assert agreed.between_annotators == 0.25


def test_unstorable_label_is_named_and_does_not_stop_the_import(connection):
    (sample_id,) = put(connection)
    assert take(
        connection,
        {"sample_id": "nobody", "label": 1},
        {"sample_id": sample_id, "label": 1, "metric": "tone"},
        {"sample_id": sample_id, "label": 1, "release": "v9"},
        {"sample_id": sample_id, "label": 1, "evaluator_version": "gpt"},
        {"sample_id": sample_id},
        {"sample_id": sample_id, "label": "perhaps"},
        ["no", "object"],
        {"sample_id": sample_id, "label": 1, "release": "v1", "evaluator_version": VERSION},
    ) == [
        LabelResult.UNKNOWN_SAMPLE, LabelResult.NOT_EVALUATED,
        LabelResult.OTHER_RELEASE, LabelResult.OTHER_EVALUATOR,
        LabelResult.UNREADABLE, LabelResult.UNREADABLE, LabelResult.UNREADABLE, LabelResult.STORED,
    ]  # fmt: skip
    assert len(labels_of(connection, sample_id)) == 1


def test_contradicting_label_is_refused_and_the_first_kept(connection):
    (sample_id,) = put(connection)
    said = [{"sample_id": sample_id, "label": 1}, {"sample_id": sample_id, "label": 0}]
    assert take(connection, *said) == [LabelResult.STORED, LabelResult.CONTRADICTING]
    assert labels_of(connection, sample_id)[0].human_passed


@pytest.mark.parametrize("notes", [("made up", "no such fee"), ("no such fee", "made up")])
def test_repeated_label_replaces_the_note(connection, notes):
    (sample_id,) = put(connection)
    for note in (*notes, ""):
        take(connection, {"sample_id": sample_id, "label": 0, "note": note})
    assert labels_of(connection, sample_id)[0].note == notes[1]


def test_latest_label_counts_in_any_order_and_the_change_is_logged(connection):
    (sample_id,) = put(connection)
    early = {"sample_id": sample_id, "label": 1, "labelled_at": "2026-05-01T10:00:00Z"}
    late = {"sample_id": sample_id, "label": 0, "labelled_at": "2026-05-01T11:00:00Z"}
    assert take(connection, late, early) == [LabelResult.CHANGED, LabelResult.STORED]
    assert take(connection, early, late) == [LabelResult.OLDER, LabelResult.DUPLICATE]
    assert not labels_of(connection, sample_id)[0].human_passed
    act = newest_acts(connection)[0]
    assert (act.who, act.act, act.target) == (
        "eve",
        "changed label",
        f"{sample_id} groundedness pass to fail",
    )


def test_label_that_the_app_sends_with_its_sample_is_stored_with_it(connection):
    put(connection, label=0)
    (found,) = labelled_samples(connection, app="bot", metric="groundedness")
    assert (found.good, found.drawn) == (False, False)
    assert labels_of(connection, found.sample_id)[0].labelled_by == "app"


def drawn_until_done(connection, annotator="eve", label=1):
    order = []
    while True:
        queue = draw(connection, app="bot", metric="groundedness", annotator=annotator)
        if queue is None or queue.sample_id is None:
            return order
        order.append(queue.sample_id)
        take(
            connection,
            {"sample_id": queue.sample_id, "label": label, "drawn": True},
            annotator=annotator,
        )


def test_overall_agreement_weights_drawn_labels_by_the_pass_share(connection):
    put(connection, 90, score=0.9)
    put(connection, 10, score=0.1)
    for _ in range(20):  # ten passes that are good, ten fails of which all are good as well
        queue = draw(connection, app="bot", metric="groundedness", annotator="eve")
        take(connection, {"sample_id": queue.sample_id, "label": 1, "drawn": True})
    (found,) = agreements(connection)
    assert (found.n, found.drawn, found.confusion.agreement) == (20, 20, 0.5)
    assert found.weighted.agreement == pytest.approx(0.9)


def test_overall_agreement_weights_local_scorer_labels_by_score_band(connection):
    criteria = PassRule(OWN_LEAST, own=True).criteria()
    local = {"evaluator_version": "local-1", "criteria": criteria}
    low = put(connection, 50, score=0.4, made_by=local)
    high = put(connection, 150, score=0.9, made_by=local)
    for ids, label in ((low[:10], 0), (high[:10], 1)):
        take(connection, *({"sample_id": i, "label": label, "drawn": True} for i in ids))
    (found,) = agreements(connection)
    assert found.confusion.agreement == 0.5
    assert found.weighted.agreement == pytest.approx(0.75)


@pytest.mark.parametrize(("many", "few"), [(0.9, 0.1), (0.1, 0.9)])
def test_queue_draws_half_from_passes_and_half_from_fails(connection, many, few):
    put(connection, 20, score=many)
    rare = set(put(connection, 5, score=few))
    order = drawn_until_done(connection)
    assert len(order) == 25
    assert sum(sample_id in rare for sample_id in order[:10]) == 5


def test_labels_of_another_app_do_not_change_the_queue(connection):
    fails, passes = put(connection, score=0.1), put(connection, score=0.9)
    (other,) = put(connection, app="another", score=0.9)
    take(connection, {"sample_id": other, "label": 1})
    assert drawn_until_done(connection) == passes + fails


def test_queue_draws_only_from_the_current_release(connection):
    put(connection, 3, release="v1", ago_s=9_000)
    new = put(connection, 3, release="v2")
    queue = draw(connection, app="bot", metric="groundedness", annotator="eve")
    assert (queue.release, queue.evaluator_version) == ("v2", VERSION)
    assert set(drawn_until_done(connection)) == set(new)


def test_queue_offers_a_second_annotator_one_sample_in_five_and_every_tie_to_a_third(connection):
    put(connection, 60)
    drawn_until_done(connection, "ann", label=1)
    again = drawn_until_done(connection, "bob", label=0)
    assert 3 <= len(again) <= 25
    assert drawn_until_done(connection, "eve") == again
    assert agreements(connection)[0].tied == 0


def test_queue_resumes_and_omits_skipped_samples(connection):
    put(connection, 4)

    def queue(skip=()):
        return draw(
            connection, app="bot", metric="groundedness", annotator="eve", skip=skip
        ).sample_id

    first = queue()
    assert queue() == first
    assert queue({first}) != first


def test_label_counts_after_its_evaluation_is_deleted(connection):
    (gone,) = put(connection)
    put(connection, 2)
    take(connection, {"sample_id": gone, "label": 1})
    connection.execute(
        scores.delete().where(
            scores.c.position.in_(select(samples.c.position).where(samples.c.sample_id == gone))
        )
    )
    queue = draw(connection, app="bot", metric="groundedness", annotator="eve")
    assert (queue.n, queue.passes, queue.fails) == (1, 1, 0)


def test_queue_is_empty_without_verdicts(connection):
    assert draw(connection, app="bot", metric="groundedness", annotator="eve") is None


def test_sample_without_a_verdict_is_not_drawn(connection):
    put(connection, 2)
    connection.execute(scores.update().values(passed=None))
    assert draw(connection, app="bot", metric="groundedness", annotator="eve") is None
    assert len(connection.execute(select(evaluations)).all()) == 2
