"""Files of records: good lines come out, bad ones are told and counted by reason."""

import gzip
import json
from datetime import UTC, datetime

import pytest

from monitor.errors import RecordError
from monitor.models.interaction import Context
from monitor.testsets.records import RecordFile

GOOD = [json.dumps({"id": f"r{i}", "output": "yes"}).encode() for i in range(3)]


def read(path, data):
    path.write_bytes(data)
    told = []
    records = RecordFile(path, tell=told.append)
    return [record.interaction.id for record in records], dict(records.unreadable), told


@pytest.mark.parametrize(
    ("line", "reason", "said"),
    [
        (b'{"id": "x", ', "not_json", "not JSON"),
        (b"yes", "not_json", "not JSON"),
        (b'{"id": "x", "output": "\xff"}', "not_json", "not JSON"),
        (b"[" * 200_000 + b"]" * 200_000, "not_json", "not JSON: nested too deeply"),
        (b'{"id": "x"}', "missing_field", "column 'output' is missing; expected output or answer"),
        (b'{"id": "x", "output": 7}', "wrong_type", "field 'output'"),
        (b'{"id": "x", "output": "", "contexts": [{"id": "1"}]}', "missing_field", "text"),
        (b'{"id": "x", "output": "", "timestamp": "yesterday"}', "wrong_type", "timestamp"),
        (b'{"id": "a\\nb", "output": ""}', "wrong_type", "must not contain control characters"),
        (b"[1, 2]", "not_an_object", "a record is a JSON object"),
        (b"null", "not_an_object", "a record is a JSON object"),
    ],
    ids=lambda value: str(value[:30]),
)
def test_invalid_line_is_counted_with_its_reason(tmp_path, line, reason, said):
    found, unreadable, told = read(tmp_path / "f.jsonl", b"\n".join([GOOD[0], line, GOOD[1]]))

    assert found == ["r0", "r1"]
    assert unreadable == {reason: 1}
    assert len(told) == 1
    assert told[0].startswith("line 2: ")
    assert said in told[0]
    assert told[0].endswith("; passed over")


NEAR_MISSES = {
    "no id": ({"output": "x"}, {"id": "2"}),
    "int id": ({"id": 7, "output": "x"}, {"id": "7"}),
    "naive time": (
        {"output": "x", "timestamp": "2024-01-01T00:00"},
        {"timestamp": datetime(2024, 1, 1, tzinfo=UTC)},
    ),
    "lone context": ({"output": "x", "contexts": "a"}, {"contexts": (Context(text="a"),)}),
    "langchain documents": (
        {"output": "x", "contexts": [{"page_content": "a", "metadata": {"page": 3}}]},
        {"contexts": (Context(text="a", metadata={"page": 3}),)},
    ),
    "tags in a list": ({"output": "x", "tags": ["beta"]}, {"tags": {"beta": "true"}}),
    "expected text": ({"output": "x", "expected": "y"}, {"expected": {"answer": "y"}}),
    "hugging face": (
        {"question": "q", "answer": "a", "contexts": ["c"], "ground_truth": "g"},
        {"query": "q", "output": "a", "expected": {"answer": "g"}},
    ),
    "ragas": (
        {"user_input": "q", "response": "a", "retrieved_contexts": ["c"], "reference": "g"},
        {"query": "q", "output": "a", "expected": {"answer": "g"}},
    ),
    "deepeval": (
        {"input": "q", "actual_output": "a", "retrieval_context": ["c"], "expected_output": "g"},
        {"query": "q", "output": "a", "contexts": (Context(text="c"),)},
    ),
}


@pytest.mark.parametrize(("line", "fields"), NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_common_field_variants_are_accepted(tmp_path, line, fields):
    (tmp_path / "f.jsonl").write_bytes(b"\n" + json.dumps(line).encode())
    (record,) = RecordFile(tmp_path / "f.jsonl", tell=pytest.fail)
    assert {name: getattr(record.interaction, name) for name in fields} == fields


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_lone_surrogates_are_replaced_in_files_of_every_kind(tmp_path, ending):
    line = json.dumps({"output": "a", "contexts": ["35 \ud83d days"]})
    if ending == "csv":
        line = 'output,contexts\na,"[""35 \\ud83d days""]"\n'
    (tmp_path / f"f.{ending}").write_text(line)
    (record,) = RecordFile(tmp_path / f"f.{ending}", tell=pytest.fail)
    assert [each.text for each in record.interaction.contexts] == ["35 \ufffd days"]


TURN = """expected {"role": "user", "content": "..."}"""
PASSAGE = """expected a text, or {"id": "...", "text": "..."}"""


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"history": "hi"}, "field 'history': expected a list of turns, each {\"role\""),
        ({"history": ["hi"]}, "turn 1 of 'history': " + TURN),
        ({"history": [{"role": "user"}]}, "turn 1 of 'history': 'content' is missing; " + TURN),
        ({"history": [{"role": "user", "content": 7}]},
         "turn 1 of 'history': 'content': expected a valid string; " + TURN),
        ({"messages": [{"role": "user", "content": 7}]},
         "a turn of 'messages': 'content': expected a valid string; " + TURN),
        ({"contexts": 7}, "field 'contexts': expected a list of passages, each a text"),
        ({"contexts": ["a", {"id": "b"}]},
         "passage 2 of 'contexts': 'text' is missing; " + PASSAGE),
        ({"contexts": [7]}, "passage 1 of 'contexts': " + PASSAGE),
        ({"tool_calls": [{}]}, "tool call 1 of 'tool_calls': 'name' is missing; expected {\"name"),
        ({"metadata": []}, "field 'metadata': expected an object"),
        ({"tags": "a"}, "field 'tags': expected an object"),
        ({"timestamp": "x"}, "field 'timestamp': expected a time such as 2026-01-31T12:00:00Z"),
    ],
)  # fmt: skip
def test_field_of_the_wrong_shape_is_told_with_the_right_one(tmp_path, field, said):
    told = read(tmp_path / "f.jsonl", json.dumps({"output": "x"} | field).encode())[2]
    assert told[0].startswith(f"line 1: {said}")
    assert "there are" not in told[0]  # only where a column is missing


@pytest.mark.parametrize("line", [b'{"query": "q"}', b'{"output": null}', b'{"messages": []}'])
def test_record_without_an_output_is_read_where_none_is_needed(tmp_path, line):
    (tmp_path / "f.jsonl").write_bytes(line)
    records = RecordFile(tmp_path / "f.jsonl", tell=pytest.fail, needs_output=False)
    assert [record.interaction.output for record in records] == [""]


def test_empty_output_is_read_as_one_and_a_missing_one_is_not(tmp_path):
    found, unreadable, _ = read(tmp_path / "f.jsonl", b'{"output": null}\n{"query": "q"}')
    assert (found, unreadable) == (["1"], {"missing_field": 1})


def test_invalid_field_is_reported_without_any_text(tmp_path):
    line = b'{"id": "x", "output": {"private": "words"}, "query": "confidential"}'

    assert "private" not in read(tmp_path / "f.jsonl", line)[2][0]


def test_further_bad_lines_are_only_counted_when_there_are_many(tmp_path):
    found, unreadable, told = read(tmp_path / "f.jsonl", b"{\n" * 100 + GOOD[0])

    assert found == ["r0"]
    assert unreadable == {"not_json": 100}
    assert told[5:] == ["further bad lines are counted, not shown"]


def test_blank_lines_between_records_are_ignored(tmp_path):
    found, unreadable, _ = read(tmp_path / "f.jsonl", b"\n\r\n" + b"\n \t\n".join(GOOD) + b"\n\n")

    assert (found, unreadable) == (["r0", "r1", "r2"], {})


def test_records_with_the_same_id_are_both_read(tmp_path):
    assert read(tmp_path / "f.jsonl", b"\n".join([GOOD[0], GOOD[0]]))[0] == ["r0", "r0"]


@pytest.mark.parametrize("name", ["f.jsonl.gz", "f.jsonl"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_compressed_file_is_detected_whatever_its_name(tmp_path, name, pack):
    assert read(tmp_path / name, pack(b"\n".join(GOOD)))[0] == ["r0", "r1", "r2"]


def test_record_size_is_that_of_its_line(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_bytes('{"id": "1", "output": "äöü"}'.encode())

    (record,) = RecordFile(path, tell=lambda _: None)

    assert (record.line, record.size_bytes) == (1, 31)


@pytest.mark.parametrize("end", [12, -4, -9])
def test_truncated_compressed_file_is_reported(tmp_path, end):
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"\n".join(GOOD * 99))[:end])

    with pytest.raises(RecordError, match=r"f\.gz: damaged \(.*\); copy or compress it again"):
        RecordFile(path, tell=lambda _: None).count_lines()


@pytest.mark.parametrize("data", [b"", b"\n\n  \n", gzip.compress(b"", mtime=0)])
def test_empty_file_is_refused(tmp_path, data):
    path = tmp_path / "f.jsonl"
    path.write_bytes(data)

    with pytest.raises(RecordError, match="empty; it should have one JSON object a line"):
        RecordFile(path, tell=lambda _: None).count_lines()


def test_file_is_named_when_it_cannot_be_opened(tmp_path):
    with pytest.raises(RecordError, match=r"none: No such file or directory"):
        list(RecordFile(tmp_path / "none", tell=lambda _: None))
