"""Chat messages are read whatever they are made of."""

from types import SimpleNamespace

import pytest

from monitor.integrations.messages import (
    answer_in,
    earlier_turns,
    from_json,
    last_text,
    part_of,
    question_in,
    since_last_user,
    text_of,
    tool_call,
    turns_in,
)


class Hostile:
    @property
    def content(self):
        raise RuntimeError("the host's own")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (["a", {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image_url", "image_url": "x"}, {"type": "input_text", "text": "b"}], "b"),
        ([{"type": "text", "content": "new"}, {"type": "tool_call", "content": "no"}], "new"),
        ([SimpleNamespace(type="output_text", text="object")], "object"),
        ("", None), (None, None), ([], None), (7, None), ({"text": "no list"}, None),
    ],
)  # fmt: skip
def test_text_is_found_in_content(content, text):
    assert text_of(content) == text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "q"},
        {"role": "HUMAN", "content": "q"},
        {"role": "user", "parts": [{"type": "text", "content": "q"}]},
        SimpleNamespace(type="human", content="q"),
        SimpleNamespace(role=SimpleNamespace(value="user"), content="q"),
    ],
)
def test_last_user_message_is_found(message):
    others = [{"role": "assistant", "content": "a"}, {"role": "user", "content": ""}, None, 7]
    assert last_text([{"role": "user", "content": "before"}, message, *others]) == "q"


def test_message_part_that_raises_is_treated_as_missing():
    assert part_of(Hostile(), "content") is None
    assert last_text([Hostile()]) is None


def test_without_a_user_message_all_messages_count():
    messages = [{"role": "user", "content": "q"}, {"role": "assistant"}, {"role": "tool"}]
    assert since_last_user(messages) == messages[1:]
    assert since_last_user(messages[1:]) == messages[1:]


def test_tool_call_reads_arguments_in_json():
    assert tool_call("find", '{"k": 1}', None) == {"name": "find", "arguments": {"k": 1}}
    assert tool_call(None, "no json {", 0) == {
        "name": "unknown", "arguments": "no json {", "result": 0,
    }  # fmt: skip


def test_hostile_json_is_kept_as_text():
    assert from_json(deep := "[" * 100_000) is deep


@pytest.mark.parametrize(
    "inputs", ["q", {"question": "q"}, {"messages": [{"role": "user", "content": "q"}]},
               [{"role": "user", "content": "q"}], {"messages": [("user", "q")]},
               {"input": SimpleNamespace(content="q")}],
)  # fmt: skip
def test_question_is_found_in_chain_inputs(inputs):
    assert question_in(inputs) == "q"


@pytest.mark.parametrize(
    "outputs", ["a", {"answer": "a", "output": "no"}, SimpleNamespace(content="a"),
                {"messages": [{"role": "ai", "content": "a"}]}, {"result": {"content": "a"}}],
)  # fmt: skip
def test_answer_is_found_in_chain_outputs(outputs):
    assert answer_in(outputs) == "a"


@pytest.mark.parametrize("nothing", [None, 7, "", {}, {"score": 1}, [], [None], object()])
def test_empty_messages_yield_no_text(nothing):
    assert question_in(nothing) is None
    assert answer_in(nothing) is None


SAID = [{"role": "user", "content": "Before?"}, {"role": "assistant", "content": "Yes."}]
ASKED = {"role": "user", "content": "How long?"}
PAIRS = [("human", "Before?"), ("ai", "Yes.")]


@pytest.mark.parametrize(
    "messages",
    [
        [*SAID, ASKED],
        [{"role": "system", "content": "Be brief."}, *SAID, ASKED],
        [*SAID, ASKED, {"role": "assistant", "content": None, "tool_calls": []}],
        [[SimpleNamespace(type="human", content="Before?"), *SAID[1:], ASKED]],
    ],
)
def test_earlier_turns_are_the_messages_before_the_question(messages):
    assert earlier_turns(messages) == SAID


@pytest.mark.parametrize(
    "inputs",
    [
        [*SAID, ASKED],
        {"messages": [*SAID, ASKED]},
        {"input": "How long?", "chat_history": SAID},
        {"question": "How long?", "history": SAID},
        {"question": "How long?", "chat_history": PAIRS},
        {"question": "How long?", "chat_history": [("system", "Be brief."), *map(list, PAIRS)]},
        {"question": "How long?", "chat_history": [tuple(turn["content"] for turn in SAID)]},
        {"question": "How long?", "chat_history": [[turn["content"] for turn in SAID]]},
        {"messages": [*PAIRS, ("human", "How long?")]},
    ],
)
def test_earlier_turns_are_found_in_chain_inputs(inputs):
    assert turns_in(inputs) == SAID


@pytest.mark.parametrize("inputs", ["How long?", {"input": "How long?"}, [ASKED], None, 7])
def test_first_question_has_no_earlier_turns(inputs):
    assert turns_in(inputs) is None
