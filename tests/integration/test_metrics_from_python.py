"""`monitor.metrics`: records in, evaluations out, without a server."""

import asyncio

import numpy as np
import pytest

import monitor.metrics
from monitor.errors import BudgetReachedError, RecordError, SettingsError
from monitor.metrics import aevaluate, evaluate, faithfulness, precision_at_k, to_rows
from monitor.queue.consumer import connect
from monitor.scoring.metrics import METRICS
from monitor.settings import Settings
from support.judge_server import JudgeServer

RECORD = {
    "query": "How long does a refund take?",
    "contexts": ["Refunds take five days."],
    "output": "Refunds take five days.",
}


AT_1 = {"precision_at_k": {"k": 1}}


def test_records_are_evaluated_in_order():
    found = evaluate([RECORD, RECORD | {"output": "Cats fly at night.", "id": "mine"}])
    assert [[each.evaluator_name for each in row] for row in found] == [
        ["groundedness", "relevance"]
    ] * 2
    assert [row[0].target_event_id for row in found] == ["1", "mine"]
    assert found[0][0].score > 0.7 > found[1][0].score


def test_metric_is_a_function_of_the_fields_of_a_record():
    assert faithfulness(**RECORD).score == 1.0
    ranked = {"contexts": ["a", "b"], "output": "x", "expected": {"relevant": ["1"]}}
    assert precision_at_k(**ranked, parameters={"k": 2}).score == 0.5
    assert "passages support" in faithfulness.__doc__
    assert set(METRICS) < set(dir(monitor.metrics))


def test_misspelt_field_of_a_metric_is_named():
    with pytest.raises(RecordError, match="faithfulness has no field 'context'; did you mean cont"):
        faithfulness(context=["Five days."], output="Five days.")
    assert faithfulness(**RECORD, latency_ms=3).metadata is not None


def test_field_of_a_teams_own_that_is_like_another_may_stand_in_metadata():
    with pytest.raises(RecordError, match=r"did you mean release\? .* may stand in metadata"):
        faithfulness(**RECORD, release_id=3)
    assert faithfulness(**RECORD, metadata={"release_id": 3}).error is None


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"precision_at_k": {"kk": 3}}, r"parameters: \[precision_at_k\] has no parameter 'kk'"),
        ({"precision_at": {"k": 3}}, "parameters: no metric is called 'precision_at'"),
    ],
)
def test_wrong_parameter_is_not_blamed_on_a_file(parameters, said):
    with pytest.raises(SettingsError, match=f"^{said}"):
        evaluate([RECORD], ["precision_at_k"], parameters=parameters)


def test_unknown_metric_cannot_be_imported():
    with pytest.raises(ImportError, match="faithfulnes"):
        from monitor.metrics import faithfulnes  # noqa: F401
    with pytest.raises(SettingsError, match="did you mean faithfulness"):
        evaluate([RECORD], ["faithfulnes"])


def test_configured_judge_scores_several_records_concurrently():
    with JudgeServer() as server:
        settings = Settings(scorer="judge", openai_base_url=server.url, judge_concurrency=4)
        found = asyncio.run(aevaluate([RECORD] * 8, ["quality", "length"], settings=settings))
        assert len(server.requests) == 8
    assert {each.status for row in found for each in row} == {"completed"}


class Frame:
    """What pandas' data frame has that we use: rows, where an empty cell is not a number."""

    def __init__(self, rows):
        self.rows = rows

    def to_dict(self, orient):
        assert orient == "records"
        return self.rows


def test_data_frame_is_accepted_and_result_rows_form_one():
    frame = Frame([RECORD | {"id": "a", "expected": float("nan")}, RECORD | {"query": None}])
    found = to_rows(evaluate(frame, ["groundedness", "relevance"]))
    assert [row["id"] for row in found] == ["a", "2"]
    assert found[0]["groundedness"] > 0.7
    assert (found[1]["relevance"], found[1]["relevance_status"]) == (None, "skipped")
    assert found[1]["relevance_reason"] == "no_query: The sample has no question."


def test_numpy_cells_become_plain_values():
    passages = np.array(["Shops open at 9.", RECORD["contexts"][0]], dtype=object)
    row = RECORD | {"id": np.int64(7), "contexts": passages, "latency_ms": np.int64(30)}
    [found] = to_rows(evaluate(Frame([row]), ["groundedness", "latency_ms"]))
    assert found["id"] == "7"
    assert found["groundedness"] > 0.7
    assert found["latency_ms"] == 1.0


def test_single_record_and_comma_separated_metrics_are_accepted():
    [found] = evaluate(RECORD | {"contexts": RECORD["contexts"][0]}, "groundedness, length")
    assert [each.evaluator_name for each in found] == ["groundedness", "length"]
    assert found[0].score > 0.7


def test_metric_that_reads_no_output_needs_none():
    asked = {"contexts": [{"id": "a", "text": "x"}], "expected": {"relevant": ["a"]}}
    assert precision_at_k(**asked, parameters={"k": 1}).score == 1.0
    [row] = to_rows(evaluate(asked, "precision_at_k,groundedness", parameters=AT_1))
    assert row["precision_at_k"] == 1.0
    assert row["groundedness_reason"] == "empty_output: The sample has no answer."


@pytest.mark.parametrize("output", [None, "", float("nan")])
def test_empty_output_of_one_row_costs_no_other(output):
    frame = Frame([RECORD | {"output": output}, RECORD])
    found = to_rows(evaluate(frame, ["groundedness", "relevance"]))
    assert found[0]["groundedness_reason"] == "empty_output: The sample has no answer."
    assert found[1]["groundedness"] > 0.7


def test_columns_that_are_read_in_files_are_read_here():
    theirs = {"question": RECORD["query"], "answer": RECORD["output"], "documents": [
        {"page_content": RECORD["contexts"][0]},
    ]}  # fmt: skip
    read, ours = evaluate([theirs, RECORD])
    assert [each.score for each in read] == [each.score for each in ours]
    [[found]] = evaluate(RECORD | {"reference": "Five days."}, "context_recall")
    assert found.reason == "needs_judge"  # and not no_expected_answer


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("text", "Invalid records of type str: expected {"),
        (b"text", "Invalid records of type bytes: expected {"),
        (None, "Invalid records of type NoneType: .* a list of such records, or a data frame"),
        ([RECORD, "text"], "record 2 is of type str: expected {"),
        ([RECORD, RECORD | {"output": 7}], "record 2: field 'output': expected a valid string"),
        ({"query": "Why?"}, "record 1: column 'output' is missing; expected output or answer"),
        ({}, "record 1: column 'output' is missing"),
    ],
)
def test_what_is_no_record_is_named_with_what_is_expected(records, said):
    with pytest.raises(RecordError, match=said):
        evaluate(records)


def test_record_without_an_output_is_skipped_where_others_have_one():
    found = to_rows(evaluate([{"query": "Why?"}, RECORD]))
    assert found[0]["groundedness_reason"] == "empty_output: The sample has no answer."
    assert found[1]["groundedness"] > 0.7


@pytest.mark.parametrize(
    ("metrics", "parameters", "said"),
    [
        (7, None, "Invalid metrics: expected names"),
        ([7], None, "Invalid metrics: expected names"),
        ("length", "min_words", "Invalid parameters: expected them by metric"),
        ("length", {"length": 3}, "Invalid parameters: expected them by metric"),
    ],
)
def test_metrics_and_parameters_of_the_wrong_kind_are_named(metrics, parameters, said):
    with pytest.raises(SettingsError, match=said):
        evaluate(RECORD, metrics, parameters=parameters)


def test_rows_say_why_there_is_no_score():
    settings = Settings(scorer="judge", openai_base_url="http://127.0.0.1:9/v1", judge_attempts=1)
    metrics = ["faithfulness", "precision_at_k", "agent_overall_score"]
    [row] = to_rows(evaluate([RECORD], metrics, settings=settings))
    assert "cannot be reached" in row["faithfulness_reason"]
    assert "check OPENAI_BASE_URL" in row["faithfulness_reason"]
    assert (
        row["precision_at_k_reason"] == "no_expected_relevant: The sample has no expected.relevant."
    )
    missing = row["agent_overall_score_reason"]
    assert missing.startswith("part_missing: Too many of the metrics that it is made of have no")
    assert "6 of 6 parts are missing" in missing


def test_verdicts_are_cached_when_redis_is_configured(redis_url):
    with JudgeServer() as server, connect(redis_url) as client:
        settings = Settings(scorer="judge", openai_base_url=server.url)
        for _ in range(2):
            [[found]] = evaluate([RECORD], ["faithfulness"], settings=settings, client=client)
        assert len(server.requests) == 1
    assert (found.score, found.cost_usd) == (1.0, 0.0)


def test_budget_of_the_settings_is_enforced_through_their_redis(redis_url):
    with JudgeServer() as server:
        settings = Settings(
            scorer="judge",
            openai_base_url=server.url,
            redis_url=redis_url,
            budget_usd_per_day=0.000001,
        )
        with pytest.raises(BudgetReachedError, match="is reached"):
            evaluate([RECORD], ["faithfulness"], settings=settings)
        assert server.requests == []
