"""Test sets: read with anybody's columns, filtered, written again, and versioned by content."""

import json

import pytest
from pydantic import ValidationError

from monitor.errors import RecordError
from monitor.testsets import TestCase, TestSet

GOLDEN = [
    {
        "query": "How long is a claim for a written contract open?",
        "ground_truth": {
            "answer": "Four years (§ 337).",
            "relevant_docs": ["code_337.txt"],
            "citations": [{"claim": "Four years", "source": "§ 337(1)"}],
        },
        "category": "statutory",
        "difficulty": "easy",
    },
    {
        "query": "What colour was the judge's tie?",
        "ground_truth": {"answer": "UNANSWERABLE", "relevant_docs": [], "citations": []},
        "category": "negative",
        "difficulty": "easy",
    },
]


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in GOLDEN))
    return path


def test_golden_set_with_ground_truth_is_read_as_the_metrics_expect_it(golden):
    first, second = TestSet.read(golden)
    assert first.expected["answer"] == "Four years (§ 337)."
    assert first.expected["relevant"] == ["code_337.txt"]
    assert first.expected["citations"] == ["§ 337(1)"]
    assert (first.category, first.difficulty) == ("statutory", "easy")
    assert second.expected["unanswerable"] is True


def test_golden_set_is_written_back_unchanged(golden, tmp_path):
    TestSet.read(golden).write(tmp_path / "again.jsonl", "golden")
    assert (tmp_path / "again.jsonl").read_text() == golden.read_text()


FULL = {
    "id": "refund-1",
    "query": "How long does a refund take?",
    "history": [{"role": "user", "content": "Hello"}],
    "contexts": [{"id": "d1", "text": 'Five days, "usually".\nNot more.'}],
    "expected": {"answer": "Five days.", "contexts": ["Five days."], "relevant": ["d1"]},
    "output": "Five days, [1].",
    "tags": ["billing", "plan=pro"],
    "category": "refunds",
    "complexity": "simple",
    "critical": True,
    "metadata": {"owner": "ann"},
}


@pytest.mark.parametrize("form", ["groundwatch", "golden", "ragas", "deepeval", "huggingface"])
@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_written_cases_are_read_back_unchanged(tmp_path, golden, form, ending):
    before = TestSet("all", [FULL, *TestSet.read(golden)])
    before.write(tmp_path / f"all.{ending}", form)
    again = TestSet.read(tmp_path / f"all.{ending}", tell=pytest.fail)
    assert (again.tests, again.version) == (before.tests, before.version)


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (
            {"user_input": "q", "response": "a", "retrieved_contexts": ["c"], "reference": "r"},
            {"query": "q", "output": "a", "expected": {"answer": "r"}},
        ),
        (
            {"user_input": "q", "reference": "r", "reference_contexts": ["c"]},
            {"expected": {"answer": "r", "contexts": ["c"]}, "contexts": ()},
        ),
        (
            {"input": "q", "actual_output": "a", "expected_output": "r", "retrieval_context": "c"},
            {"query": "q", "output": "a", "expected": {"answer": "r"}},
        ),
        ({"question": "q", "answer": "r"}, {"expected": {"answer": "r"}, "output": None}),
        (
            {"question": "q", "answer": "a", "contexts": ["c"], "ground_truths": ["r", "s"]},
            {"output": "a", "expected": {"answer": "r"}},
        ),
        (
            {"question": "q", "context": "c", "answers": {"text": ["r"], "answer_start": [0]}},
            {"expected": {"answer": "r"}},
        ),
        ({"query": "q", "tags": {"plan": "pro"}}, {"tags": ("plan=pro",)}),
        ({"query": "q", "owner": "ann", "note": None}, {"metadata": {"owner": "ann"}}),
    ],
    ids=",".join,
)
def test_columns_of_other_tools_are_understood(row, fields):
    case = TestCase.model_validate(row)
    assert {name: getattr(case, name) for name in fields} == fields


def test_lists_in_a_table_are_read_as_json_or_as_python_writes_them(tmp_path):
    path = tmp_path / "set.csv"
    path.write_text("user_input,retrieved_contexts,reference\nq,\"['a', 'b']\",r\nq2,,\n")
    first, second = TestSet.read(path)
    assert [each.text for each in first.contexts] == ["a", "b"]
    assert (second.contexts, second.expected) == ((), {})


def test_case_reads_like_a_dictionary_of_its_given_fields():
    case = TestCase(input="q", tags=["a"], owner="ann")
    assert (case["input"], case.get("tags"), case["owner"]) == ("q", ["a"], "ann")
    assert case.get("complexity", "medium") == "medium"
    assert "expected" not in case
    with pytest.raises(KeyError):
        case["category"]


def test_tags_criteria_and_complexity_select_cases():
    tests = TestSet("all")
    tests.add_test({"input": "one", "tags": ["tax", "eu"], "complexity": "simple"})
    tests.add_test({"input": "two", "tags": ["tax"], "owner": "ann"})
    assert tests.tags == {"tax": [0, 1], "eu": [0]}
    assert tests.filter(complexity="simple", tags=["tax", "eu"]) == tests.tests[:1]
    assert tests.filter(owner="ann") == tests.with_tag("tax")[1:]
    assert tests.filter(complexity="medium") == []
    assert tests.get_complexity_distribution() == {"simple": 1, "medium": 1}


def test_version_depends_only_on_the_content():
    one, two = {"id": "1", "query": "a"}, {"id": "2", "query": "b"}
    version = TestSet("x", [one, two]).version
    assert TestSet("y", [two, one]).version == version
    assert TestSet("x", [one | {"output": "an answer"}, two]).version == version
    for other in ({"query": "c"}, {"expected": {"answer": "x"}}, {"id": "3"}, {"critical": True}):
        assert TestSet("x", [one | other, two]).version != version


def test_case_id_comes_from_the_question_and_not_from_its_line():
    first, second = TestSet("x", [{"query": "a"}, {"query": "b"}])
    assert TestSet("x", [{"query": "new"}, {"query": "a"}, {"query": "b"}]).tests[1:] == [
        first,
        second,
    ]
    assert [case.id for case in TestSet("x", [first, {"query": "a"}])] == [
        first.id,
        f"{first.id}-2",
    ]


BAD = {
    "broken": ("{", "not_json"),
    "no question": ('{"category": "x"}', "missing_field"),
    "wrong type": ('{"query": "a", "critical": "often"}', "wrong_type"),
    "no list": ('{"query": "a", "contexts": 7}', "wrong_type"),
    "the id of another": ('{"id": "1", "query": "b"}', "duplicate_id"),
}


@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD)
def test_bad_line_is_counted_by_its_reason_and_the_others_are_read(tmp_path, line, reason):
    path, told = tmp_path / "set.jsonl", []
    path.write_text(f'{{"id": "1", "query": "a"}}\n{line}\n{{"id": "2", "query": "c"}}\n')
    tests = TestSet.read(path, tell=told.append)
    assert [case.id for case in tests] == ["1", "2"]
    assert (dict(tests.unreadable), len(told)) == ({reason: 1}, 1)
    assert told[0].startswith("line 2: ")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.jsonl", "", "no test case"),
        ("s.json", "[1", "Invalid JSON"),
        ("s.json", "3", "expected a JSON array"),
        ("s.jsonl", None, "No such file"),
    ],
)
def test_file_without_cases_is_refused_by_name(tmp_path, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=f"{name}: .*{said}"):
        TestSet.read(tmp_path / name)


@pytest.mark.parametrize("case", [{}, {"input": ""}, {"input": "q", "critical": "often"}])
def test_invalid_case_is_refused_in_one_line(case):
    with pytest.raises(RecordError, match=r"^Invalid test case: [^\n]*$"):
        TestSet("x").add_test(case)


def test_two_cases_with_one_id_cannot_be_paired():
    with pytest.raises(RecordError, match="two cases have the id 'x'"):
        TestSet("s", [{"id": "x", "query": "a"}, {"id": "x", "query": "b"}])


def test_unknown_argument_of_a_case_is_kept_and_a_wrong_one_refused():
    assert TestCase(query="q", extra=1).metadata == {"extra": 1}
    with pytest.raises(ValidationError):
        TestCase(query="q", metadata=3)
