"""A line of JSONL as an interaction: what is taken, what is kept, what is refused."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from monitor.models import Interaction, Sample
from monitor.testing import make_interaction, make_sample


def refusal(**fields):
    with pytest.raises(ValidationError) as refused:
        Interaction.model_validate({"id": "1", "output": "yes"} | fields)
    first = refused.value.errors()[0]
    return first["loc"][0], first["msg"]


def test_interaction_is_read_when_it_has_only_id_and_output():
    item = Interaction.model_validate({"id": "1", "output": ""})

    assert (item.app, item.query, item.contexts, item.metadata) == ("default", None, (), {})


def test_unknown_keys_are_kept_in_metadata_when_read():
    item = make_interaction(latency_ms=12, metadata={"lang": "en"})

    assert item.metadata == {"latency_ms": 12, "lang": "en"}


def test_own_metadata_wins_when_an_unknown_key_has_the_same_name():
    assert make_interaction(lang="de", metadata={"lang": "en"}).metadata == {"lang": "en"}


def test_passages_may_mix_strings_and_objects():
    item = make_interaction(contexts=["one", {"text": "two", "id": "d2", "score": 7.5}])

    assert [(c.text, c.id, c.score) for c in item.contexts] == [
        ("one", None, None),
        ("two", "d2", 7.5),
    ]


def test_passage_keeps_its_further_fields_when_read():
    item = make_interaction(contexts=[{"text": "two", "page": 3}])

    assert item.contexts[0].model_dump()["page"] == 3


def turns(*said):
    return [{"role": role, "content": content} for role, content in said]


@pytest.mark.parametrize(
    ("role", "as_read"),
    [("human", "user"), ("User", "user"), ("AI", "assistant"), ("model", "assistant"),
     ("tool", "tool")],
)  # fmt: skip
def test_roles_of_other_libraries_are_those_that_are_scored(role, as_read):
    assert make_interaction(history=turns((role, "hi"))).history[0].role == as_read


@pytest.mark.parametrize(
    ("appended", "kept"),
    [
        ([("user", "q")], 0),
        ([("human", "q")], 0),
        ([("user", "q"), ("user", "q")], 0),
        ([("user", "q"), ("assistant", "a")], 2),  # asked before
        ([("user", "another question")], 1),
        ([("assistant", "q")], 1),
    ],
)
def test_history_ends_before_the_question(appended, kept):
    before = [("user", "hello"), ("assistant", "Hello.")]
    item = make_interaction(query="q", output="a", history=turns(*before, *appended))
    assert [turn.content for turn in item.history[:2]] == ["hello", "Hello."]
    assert len(item.history) == 2 + kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, []),
        ({"query": "Rewritten?"}, []),
        ({"query": "Rewritten?", "output": "A."}, []),
        ({"query": "Q?", "output": "Another answer."}, []),
        ({"query": "Next?", "output": "Its answer."}, ["Q?", "A."]),
    ],
)
def test_messages_before_a_question_of_the_record_are_its_history(given, kept):
    listed = turns(("user", "Q?"), ("assistant", "A."))
    item = Interaction.model_validate({"id": "1", "messages": listed} | given)
    assert [turn.content for turn in item.history] == kept
    assert (item.query, item.output) == (given.get("query", "Q?"), given.get("output", "A."))


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_contexts_are_empty_when_there_are_none(nothing):
    assert make_interaction(contexts=nothing).contexts == ()


def test_timestamp_without_a_zone_is_refused():
    field, message = refusal(timestamp="2024-01-15T10:30:45")

    assert field == "timestamp"
    assert "timezone" in message


def test_timestamp_with_a_zone_is_read():
    item = make_interaction(timestamp="2024-01-15T12:30:45+02:00")

    assert item.timestamp == datetime(2024, 1, 15, 10, 30, 45, tzinfo=UTC)


@pytest.mark.parametrize("field", ["id", "app"])
@pytest.mark.parametrize("character", ["\n", "\x00", "\x1b", "\t"])
def test_name_with_a_control_character_is_refused(field, character):
    where, message = refusal(**{field: f"a{character}b"})

    assert where == field
    assert "must not contain control characters" in message


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_id_is_refused_when_empty_or_endless(name):
    assert refusal(id=name)[0] == "id"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("output", None),
        ("output", 7),
        ("query", ["q"]),
        ("contexts", "one passage"),
        ("contexts", [7]),
        ("tags", {"a": 1}),
        ("label", 2),
        ("tool_calls", [{"arguments": {}}]),
        ("metadata", "text"),
    ],
)
def test_field_of_an_interaction_is_named_when_its_type_is_wrong(field, value):
    assert refusal(**{field: value})[0] == field


def test_interaction_survives_json():
    item = make_interaction(
        tags={"tier": "pro"},
        tool_calls=[{"name": "search", "arguments": {"q": 1}, "duration_ms": 3.5}],
        expected={"answer": "yes"},
        label=1,
        timestamp="2024-01-15T10:30:45Z",
    )

    assert Interaction.model_validate_json(item.model_dump_json()) == item


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1])
def test_sample_with_an_invalid_rate_is_refused(rate):
    with pytest.raises(ValidationError, match="sample_rate"):
        make_sample(sample_rate=rate)


def test_sample_survives_json():
    sample = make_sample(truncated=("contexts",))

    assert Sample.model_validate_json(sample.model_dump_json()) == sample
