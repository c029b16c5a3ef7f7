"""`monitor.metrics`: records in, evaluations out, without a server."""

import asyncio

import pytest

import monitor.metrics
from monitor.errors import SettingsError
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


def test_metric_that_there_is_not_cannot_be_imported():
    with pytest.raises(ImportError, match="faithfulnes"):
        from monitor.metrics import faithfulnes  # noqa: F401
    with pytest.raises(SettingsError, match="did you mean faithfulness"):
        evaluate([RECORD], ["faithfulnes"])


def test_judge_of_the_settings_is_asked_for_several_records_at_a_time():
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


def test_data_frame_goes_in_and_rows_for_one_come_out():
    frame = Frame([RECORD | {"id": "a", "expected": float("nan")}, RECORD | {"query": None}])
    found = to_rows(evaluate(frame, ["groundedness", "relevance"]))
    assert [row["id"] for row in found] == ["a", "2"]
    assert found[0]["groundedness"] > 0.7
    assert (found[1]["relevance"], found[1]["relevance_status"]) == (None, "skipped")
    assert found[1]["relevance_reason"] == "no_query"


def test_verdicts_are_cached_where_there_is_a_redis(redis_url):
    with JudgeServer() as server, connect(redis_url) as client:
        settings = Settings(scorer="judge", openai_base_url=server.url)
        for _ in range(2):
            [[found]] = evaluate([RECORD], ["faithfulness"], settings=settings, client=client)
        assert len(server.requests) == 1
    assert (found.score, found.cost_usd) == (1.0, 0.0)
