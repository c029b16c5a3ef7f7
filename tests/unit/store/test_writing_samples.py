"""What becomes of a scored sample: rows, labels of the app, its own pass line, sums, the index."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from monitor.models import Evaluation
from monitor.models.evaluation import OWN, OWN_LEARNT_AT, OWN_LEAST, OWN_MOST
from monitor.models.insight import SampleRate
from monitor.models.status import OTHER
from monitor.queue.names import DOCTOR_APP
from monitor.store.engine import put
from monitor.store.labels import labels_of
from monitor.store.ledger import DeadLetter, Kind, read_totals, set_aside
from monitor.store.query import STREAM_SUMS, active_streams, read_first_scores, read_pass_lines
from monitor.store.retention import blank
from monitor.store.rollup import read_inputs
from monitor.store.sample_index import (
    APPS,
    LATEST_MS,
    PATIENCE_S,
    PLACES,
    TIE_BITS,
    Census,
    Placed,
    Seen,
    admit,
    allot_positions,
    index_older,
    place,
    samples_of_user,
)
from monitor.store.samples import newest_acts, note_act, worst_samples
from monitor.store.tables import counts, dimensions, evaluations, samples, streams
from monitor.store.verdicts import (
    own_rate,
    read_asked_spans,
    read_sample_rates,
    save_sample_rate,
)
from monitor.store.write import add_input_counts, bounded, record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, 30, 250_000, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


def result(*said, app="shop", at=NOW, now=NOW, sample_id=None, rules=RULES, **interaction):
    given = {"sample_id": sample_id} if sample_id else {}
    of = make_sample(make_interaction(app=app, **interaction), sampled_at=at, **given)
    return result_of(of, said or (make_evaluation(score=0.9),), rules, now=now)


def write(connection, *results, dead=(), now=NOW):
    return record(connection, results, dead, now=now, bucket_s=60)


def column(connection, of):
    return list(connection.execute(select(of)).scalars())


def test_sample_row_has_its_arrival_time_and_join_keys(connection):
    long = "é" * 201
    write(connection, result(trace_id=long, session_id="a\0b", release=""), now=NOW)
    c = samples.c
    row = connection.execute(select(c.received_at_ms, c.trace_id, c.session_id, c.release)).one()
    assert tuple(row) == (int(NOW.timestamp() * 1000), long[:200], "a\ufffdb", None)


def test_evaluation_without_a_score_has_a_reason_and_no_effect_on_rates(connection):
    skipped = Evaluation.skipped(
        target_event_id="i", evaluator_name="groundedness", reason="no_context"
    )
    write(connection, result(skipped))
    c = evaluations.c
    row = connection.execute(select(c.status, c.score, c.passed, c.reason, c.occurred_at_ms)).one()
    assert tuple(row)[:4] == ("skipped", None, None, "no_context")
    assert row.occurred_at_ms == int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(("label", "good"), [(True, True), (False, False)])
def test_label_from_the_app_is_stored_with_the_default_metrics_verdict(connection, label, good):
    said = [make_evaluation(score=0.2), make_evaluation(evaluator_name="relevance", score=0.9)]
    write(connection, result(*said, label=label, sample_id="s", release="r\0"))
    [found] = labels_of(connection, "s")
    assert (found.metric, found.labelled_by, found.release) == ("groundedness", "app", "r\ufffd")
    assert (found.judge_passed, found.human_passed, found.labelled_at) == (False, good, NOW)


def test_sample_without_a_label_stores_no_label(connection):
    write(connection, result(sample_id="s"))
    assert labels_of(connection, "s") == []


def test_sample_that_became_a_dead_letter_is_not_counted_again(connection):
    buried, fine = result(sample_id="a"), result(sample_id="b")
    letter = DeadLetter(
        entry_id="1-0", sample_id="a", app="shop", at=NOW, reason="worker_died", detail="",
        body=b"",
    )  # fmt: skip
    set_aside(connection, [letter])
    assert write(connection, buried, fine) == 1
    assert column(connection, samples.c.sample_id) == ["b"]


def test_dead_letter_of_a_stored_sample_is_not_counted_as_a_failure(connection):
    write(connection, result(sample_id="a"))
    letter = DeadLetter(
        entry_id="1-0", sample_id="a", app="shop", at=NOW, reason="worker_died", detail="",
        body=b"",
    )  # fmt: skip
    assert set_aside(connection, [letter]) == []


def test_doctor_samples_are_stored_but_not_counted(connection):
    assert write(connection, result(app=DOCTOR_APP, user_id="u")) == 1
    assert read_totals(connection) == {}
    assert column(connection, dimensions.c.dimension) == []


def test_samples_are_booked_at_their_own_time_and_failures_now(connection):
    at = NOW - timedelta(minutes=10)
    letter = DeadLetter(
        entry_id="1-0", sample_id=None, app="shop", at=at, reason="odd", detail="", body=b""
    )
    write(connection, result(at=at), dead=[letter])
    c = counts.c
    found = dict(map(tuple, connection.execute(select(c.kind, c.start_s))))
    start_s = int(NOW.timestamp()) // 60 * 60
    assert found[Kind.FAILED.value] == start_s
    assert found[Kind.SCORED.value] == start_s - 600


def own(*scores):
    """Results of an evaluator whose pass line is the app's own, and whose line it is."""
    key = ("shop", "groundedness", f"local-1{OWN}")
    made = [result(make_evaluation(score=score)) for score in scores]
    streams_of = [each.contributions[0].stream._replace(evaluator_version=key[2]) for each in made]
    return key, [
        replace(each, contributions=(replace(each.contributions[0], stream=stream),))
        for each, stream in zip(made, streams_of, strict=True)
    ]


def test_pass_score_is_learned_only_from_the_first_scores(connection):
    first, last = OWN_LEARNT_AT
    key, results = own(*[0.95] * (first - 1), 0.45, *[0.95] * (last - first), *[0.35] * 9)
    write(connection, *results[: first - 1])
    assert read_pass_lines(connection)[key] == (OWN_LEAST, first - 1)
    write(connection, *results[first - 1 : first])
    assert read_pass_lines(connection)[key] == (OWN_MOST, first)
    for start in range(first, len(results), 50):
        write(connection, *results[start : start + 50])
    assert read_pass_lines(connection)[key].n == last
    assert read_first_scores(connection, key) == {95: last - 1, 45: 1}


def test_result_older_than_the_status_window_counts_in_the_total_only(connection):
    write(connection, result(), result(at=NOW - timedelta(days=40)))
    c = streams.c
    assert tuple(connection.execute(select(c.n_total, c.past_n)).one()) == (2, 1)
    [stream] = active_streams(connection, since_s=0)
    assert [getattr(stream, name) for name in ("n_total", *STREAM_SUMS)] == [1] * 4
    assert stream.last_bucket_s == int(NOW.timestamp()) // 60 * 60


def test_apps_beyond_the_bound_keep_their_name_in_the_metadata(connection):
    full = {"a": 100} | {f"app{n}": 100 for n in range(PLACES - 1)}
    census = {"named": full, "waiting": {}}
    put(connection, dimensions, [{"app": APPS[0], "dimension": APPS[1], "census": census}])
    letters = [
        DeadLetter(
            entry_id=f"{n}-0", sample_id=None, app=app, at=NOW, reason="odd", detail="", body=b""
        )
        for n, app in enumerate(("a", "b", DOCTOR_APP))
    ]  # fmt: skip
    given = [result(app="a"), result(app="b", metadata={"k": 1}), result(app=DOCTOR_APP)]
    results, dead = bounded(connection, given, letters, now_s=60)
    of = [item.scored.sample.interaction for item in results]
    assert [(it.app, dict(it.metadata)) for it in of] == [
        ("a", {}), (OTHER, {"k": 1, "app": "b"}), (DOCTOR_APP, {}),
    ]  # fmt: skip
    assert {each.stream.app for each in results[1].contributions} == {OTHER}
    assert [item.app for item in dead] == ["a", OTHER, DOCTOR_APP]


def test_input_histograms_add_up(connection):
    for _ in range(2):
        add_input_counts(connection, {("shop", 60, "words", 3): 2, ("shop", 120, "words", 4): 1})
    assert read_inputs(connection, "shop", from_s=60) == {"words": {3: 4, 4: 2}}
    assert read_inputs(connection, "shop", from_s=60, to_s=120) == {"words": {3: 4}}
    assert read_inputs(connection, "bot", from_s=0) == {}


def test_positions_grow_with_time_and_differ_within_a_millisecond(connection):
    times = {"z": 5, "a": 6, "b": 6, "early": -7, "late": LATEST_MS + 7}
    found = allot_positions(connection, times)
    bits = TIE_BITS[connection.dialect.name]
    assert len(set(found.values())) == 5
    assert {name: at >> bits for name, at in found.items()} == {
        "z": 5, "a": 6, "b": 6, "early": 0, "late": LATEST_MS,
    }  # fmt: skip
    assert max(found.values()) < 2**63
    assert allot_positions(connection, times) == found


def test_no_two_samples_get_the_same_position(connection):
    write(connection, result(sample_id="a"))
    [taken] = column(connection, samples.c.position)
    bits = TIE_BITS[connection.dialect.name]
    again = allot_positions(connection, {"a": taken >> bits})
    assert again["a"] != taken
    assert (again["a"] >> bits) - (taken >> bits) in {0, 1}  # one draw further: at most the next


def test_samples_older_than_the_index_are_indexed_newest_first(connection):
    write(connection, *(result(sample_id=name, user_id="u") for name in ("a", "b", "c")))
    for number, name in enumerate("cba"):  # as the upgrade numbers them
        of = samples.update().where(samples.c.sample_id == name)
        connection.execute(of.values(position=-1 - number))
    assert index_older(connection, limit=2) == 2
    left = select(samples.c.sample_id).where(samples.c.position < 0)
    assert list(connection.execute(left).scalars()) == ["a"]
    assert sorted(samples_of_user(connection, "u")) == ["a", "b", "c"]
    assert index_older(connection) == 1
    assert index_older(connection) == 0


def test_samples_of_a_user_exclude_those_of_others(connection):
    given = (("a", "u"), ("b", "v"), ("c", None))
    write(connection, *(result(sample_id=name, user_id=user) for name, user in given))
    assert samples_of_user(connection, "u") == ["a"]


def test_segment_slots_are_stored_by_app_and_dimension(connection):
    items = [Placed("shop", [("user", "a"), ("plan", "x")], 60), Placed("bot", [("user", "b")], 60)]
    assert place(connection, items) == [("user=a", "plan=x"), ("user=b",)]
    c = dimensions.c
    rows = {
        (app, name): census
        for app, name, census in connection.execute(select(c.app, c.dimension, c.census))
    }
    assert rows == {
        (app, name): {"named": {value: 0}, "waiting": {}}
        for app, name, value in (("shop", "user", "a"), ("shop", "plan", "x"), ("bot", "user", "b"))
    }
    assert place(connection, [Placed("shop", [], 60)]) == [()]


def test_rarest_waiting_value_is_replaced_and_its_count_becomes_the_error():
    census = Census({"a": 9}, {"b": (3, 1), "c": (2, 0)})
    found = admit(census, {"d": 1}, {}, now_s=0, places=1, waiting=2)
    assert (found.named, found.waiting) == ({"a": 9}, {"b": (3, 1), "d": (3, 2)})


def test_promoted_value_keeps_its_certain_count():
    census = Census({"a": 0}, {"b": (7, 2)})
    found = admit(census, {"b": 3}, {"a": Seen(6, 0)}, now_s=0, places=1)
    assert (found.named, found.waiting) == ({"b": 5}, {})
    assert admit(census, {"b": 3}, {"a": Seen(8, 0)}, now_s=0, places=1).waiting == {"b": (10, 2)}


def test_slot_of_an_idle_value_is_freed_first():
    late_s = PATIENCE_S + 1
    seen = {"a": Seen(900, 0), "b": Seen(1, late_s)}
    found = admit(Census({"a": 0, "b": 0}), {"c": 1}, seen, now_s=late_s, places=2)
    assert found.named.keys() == {"b", "c"}


def test_worst_sample_is_one_of_its_metric_and_shows_question_and_answer(connection):
    said = [
        make_evaluation(evaluator_name=name, score=score, explanation=name)
        for name, score in (("groundedness", 0.3), ("a", 0.1), ("z", 0.2))
    ]
    write(connection, result(*said, query="q", output="o"))
    asked = {"app": "shop", "metric": "groundedness", "since": NOW}
    [found] = worst_samples(connection, **asked)
    assert (found.evaluation.explanation, found.query, found.output) == ("groundedness", "q", "o")
    assert worst_samples(connection, **asked, until=NOW) == []


def test_apps_own_rate_is_the_most_common_one_of_its_samples(connection):
    assert own_rate(connection, "shop") is None
    write(connection, result(), result(), result(app="bot"))
    assert own_rate(connection, "shop") == 1.0


def test_requested_rates_form_consecutive_spans(connection):
    for minutes, rate in ((0, 0.5), (10, 0.25)):
        since = NOW + timedelta(minutes=minutes)
        asked = SampleRate(
            rate=rate, own=0.1, reason="", since=since, until=since + timedelta(hours=1),
            set_by="ann", follows_evidence=False,
        )  # fmt: skip
        save_sample_rate(connection, "shop", asked, None)
    at_s = NOW.timestamp()
    assert read_asked_spans(connection) == {
        "shop": [(at_s, at_s + 600, 0.5, 0.1), (at_s + 600, at_s + 4200, 0.25, 0.1)]
    }
    assert read_sample_rates(connection, "shop") == {"shop": (asked, None)}


def test_more_frequent_values_get_the_few_slots():
    found = admit(Census(), {"a": 1, "b": 3, "c": 3}, {}, now_s=0, places=2)
    assert found.named.keys() == {"b", "c"}


def test_audit_entries_are_listed_newest_first_with_cut_targets(connection):
    for n in range(3):
        note_act(connection, who="ann", act=f"view{n}", target="t" * 500, at=NOW)
    found = newest_acts(connection, limit=2)
    assert [entry.act for entry in found] == ["view2", "view1"]
    assert found[0] == (NOW, "ann", "view2", "t" * 400)


@pytest.mark.parametrize("forgotten", [True, False])
def test_evaluation_reason_is_kept_only_while_its_record_has_it(connection, forgotten):
    said = Evaluation.skipped(
        target_event_id="i", evaluator_name="groundedness", reason="what ann said"
    )
    write(connection, result(said, sample_id="a"))
    shorten = {"shorten": lambda record: record | {"metadata": {}}} if forgotten else {}
    blank(connection, ["a"], why="removed", **shorten)
    assert column(connection, evaluations.c.reason) == (["" if forgotten else "what ann said"])


def test_prepacked_sample_is_used_only_when_the_segments_match():
    made = result(tags={"language": "en"})
    ahead = replace(made, packed=b"ahead")
    assert ahead.pack(ahead.likely_segments) == b"ahead"
    assert ahead.pack(("language=(other)",)) == made.pack(("language=(other)",))
    assert ahead.joined().packed is None
