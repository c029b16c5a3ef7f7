"""Files as other tools write them become records."""

import csv
import json

import pytest

from monitor.errors import RecordError
from monitor.testsets import Source
from monitor.testsets.cases import TestSet
from monitor.testsets.records import RecordFile

Q, A, C, WANTED = "How long does a refund take?", "Five days.", "Refunds take five days.", "5 days"
ASKED, SAID = {"role": "user", "content": Q}, {"role": "assistant", "content": A}
TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}, ASKED, SAID]
DOCUMENTS = [{"page_content": C, "metadata": {"page": 3}}]

#: Name of the file, --from, what is in it, and what comes out beside question and answer.
FILES = {
    "deepeval goldens": ("goldens.json", "deepeval", {"goldens": [
        {"input": Q, "actual_output": A, "expected_output": WANTED, "retrieval_context": [C],
         "context": ["the page on refunds"], "tools_called": [{"name": "find"}]},
    ]}, {"expected": {"answer": WANTED, "contexts": ["the page on refunds"]}, "contexts": [C],
         "tool_calls": ["find"]}),
    "ragas": ("ragas.jsonl", "ragas", [
        {"user_input": Q, "response": A, "retrieved_contexts": [C], "reference": WANTED},
    ], {"expected": {"answer": WANTED}, "contexts": [C]}),
    "ragas, several turns": ("ragas.json", "ragas", [
        {"user_input": [{"type": "human" if t["role"] == "user" else "ai", **t} for t in TURNS]},
    ], {"history": ["Hello", "Hi."]}),
    "hugging face": ("hf.csv", "hf", [
        {"question": Q, "answer": A, "contexts": str([C]), "ground_truth": WANTED},
    ], {"contexts": [C], "expected": {"answer": WANTED}}),
    "squad": ("squad.jsonl", "hf", [
        {"id": "56be", "question": Q, "answer": A, "context": C,
         "answers": {"text": [WANTED], "answer_start": [0]}},
    ], {"id": "56be", "contexts": [C], "expected": {"answer": WANTED}}),
    "langfuse traces": ("traces.json", "langfuse", [
        {"id": "t1", "name": "ask", "input": {"question": Q}, "output": {"answer": A},
         "sessionId": "s", "userId": "u", "release": "v1", "timestamp": "2026-01-02T03:04:05Z",
         "observations": [
             {"id": "o1", "type": "RETRIEVER", "traceId": "t1", "input": Q, "output": [C]},
             {"id": "o2", "type": "GENERATION", "traceId": "t1", "model": "m",
              "input": [ASKED], "output": SAID}]},
    ], {"id": "t1", "contexts": [C], "session_id": "s", "user_id": "u", "release": "v1",
        "trace_id": "t1", "metadata": {"model": "m"}}),
    "langfuse observations": ("observations.csv", "langfuse", [
        {"id": "o2", "traceId": "t1", "type": "GENERATION", "model": "m", "sessionId": "",
         "input": json.dumps([ASKED]), "output": json.dumps(SAID)},
        {"id": "o1", "traceId": "t1", "type": "RETRIEVER", "model": "", "sessionId": "",
         "input": Q, "output": json.dumps([C])},
    ], {"contexts": [C], "metadata": {"model": "m"}}),
    "langsmith runs": ("runs.jsonl", "langsmith", [
        {"id": "r2", "trace_id": "r1", "parent_run_id": "r1", "run_type": "retriever",
         "name": "find", "inputs": {"query": Q}, "outputs": {"documents": DOCUMENTS}},
        {"id": "r1", "trace_id": "r1", "parent_run_id": None, "run_type": "chain", "name": "ask",
         "session_id": "a project", "extra": {"metadata": {"thread_id": "s"}},
         "inputs": {"input": Q}, "outputs": {"output": A}, "start_time": "2026-01-02T03:04:05"},
    ], {"id": "r1", "contexts": [C], "session_id": "s"}),
    "phoenix spans": ("spans.parquet", "phoenix", [
        {"context.trace_id": "t1", "context.span_id": "b", "parent_id": "a", "name": "find",
         "span_kind": "RETRIEVER", "attributes.input.value": Q, "attributes.output.value": None,
         "attributes.retrieval.documents": [{"document.content": C}]},
        {"context.trace_id": "t1", "context.span_id": "a", "parent_id": None, "name": "ask",
         "span_kind": "CHAIN", "attributes.input.value": Q, "attributes.output.value": A,
         "attributes.retrieval.documents": None},
    ], {"id": "t1", "contexts": [C]}),
    "openai chats": ("chats.jsonl", "openai", [{"messages": TURNS}], {"history": ["Hello", "Hi."]}),
    "openai stored completions": ("stored.jsonl", "openai", [
        {"custom_id": "c1", "request": {"body": {"messages": [ASKED]}},
         "response": {"body": {"model": "m", "choices": [{"index": 0, "message": SAID}]}}},
    ], {"id": "c1", "metadata": {"model": "m"}}),
    "openai responses": ("responses.jsonl", "openai", [
        {"id": "resp", "input": Q, "model": "m", "output": [
            {"type": "message", "content": [{"type": "output_text", "text": A}]}]},
    ], {"id": "resp", "metadata": {"model": "m"}}),
    "our own, in parquet": ("own.parquet", None, [
        {"question": Q, "answer": A, "documents": DOCUMENTS, "id": 7},
    ], {"id": "7", "contexts": [C]}),
}  # fmt: skip


def written(path, rows):
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".parquet":
        from pyarrow import Table, parquet  # large: not for those who run another test

        parquet.write_table(Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def plain(value):
    """What of a field the table above has."""
    if isinstance(value, tuple):
        return [getattr(v, "text", getattr(v, "content", getattr(v, "name", v))) for v in value]
    return value


@pytest.mark.parametrize(("name", "tool", "rows", "more"), FILES.values(), ids=FILES)
def test_file_of_another_tool_is_read(tmp_path, name, tool, rows, more):
    path, source = written(tmp_path / name, rows), tool and Source(tool)
    (record,) = RecordFile(path, tell=pytest.fail, source=source)
    found = {field: plain(getattr(record.interaction, field)) for field in more}
    assert (record.interaction.query, record.interaction.output) == (Q, A)
    assert found == more
    (case,) = TestSet.read(path, tell=pytest.fail, source=source).tests
    assert case.query == Q


def test_missing_column_is_named_with_what_there_is_and_whose_file_it_looks_like(tmp_path):
    rows = [{"id": "r1", "run_type": "chain", "inputs": {"input": Q}, "outputs": {"output": A}}]
    told = []
    assert not list(RecordFile(written(tmp_path / "runs.jsonl", rows), told.append))
    assert "column 'output' is missing; expected output or answer" in told[0]
    assert "there are: id, run_type, inputs, outputs; add --from langsmith" in told[0]


def test_trace_without_an_answer_is_skipped_by_name(tmp_path):
    rows = [{"id": "r1", "run_type": "chain", "inputs": {"input": Q}, "outputs": None}]
    told = []
    file = RecordFile(written(tmp_path / "runs.jsonl", rows), told.append, Source.LANGSMITH)
    assert not list(file)
    assert file.unreadable == {"missing_field": 1}


@pytest.mark.parametrize("tool", Source)
@pytest.mark.parametrize(
    "row",
    [{}, {"messages": 5, "input": [1, None], "response": "x", "user_input": ["a"], "turns": [3]},
     {"observations": [1, {}], "inputs": "x", "outputs": [[]], "child_runs": 7, "extra": 3},
     {"attributes.llm.input_messages": [1, [{"a": [2]}]], "tools_called": [1], "answers": {}}],
)  # fmt: skip
def test_malformed_rows_are_skipped_without_raising(tmp_path, tool, row):
    file = RecordFile(written(tmp_path / "f.jsonl", [row]), lambda _: None, tool)
    assert not [record for record in file if record.interaction.output != "x"]


def test_broken_parquet_is_reported_in_one_line(tmp_path):
    (tmp_path / "f.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(RecordError, match=r"f\.parquet: Invalid Parquet"):
        list(RecordFile(tmp_path / "f.parquet", pytest.fail))
