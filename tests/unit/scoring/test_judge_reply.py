"""Whatever a judge sends that is not as asked is an error, not a score."""

import json

import pytest

from monitor.errors import JudgeRefusedError, JudgeReplyError
from monitor.scoring.judges.reply import (
    CanaryMissedError,
    ThoughtsCutOffError,
    TruncatedReplyError,
    read_content,
    read_envelope,
    read_verdicts,
)

ROW = {"number": 1, "claim": "", "quote": "q", "verdict": "supported", "unsupported": ""}
CANARY = "canary-1"
GOOD = {"canary": CANARY, "verdicts": [ROW], "answered": "yes", "answered_reason": "fine"}


@pytest.mark.parametrize(
    "text", ["{}", "```json\n{}\n```", "```\n{}\n```", "Here you are: {} That is all."]
)
def test_reply_is_read_when_json_is_wrapped(text):
    assert read_verdicts(text.replace("{}", json.dumps(GOOD)), [1], CANARY).answered == "yes"


def test_rows_are_ordered_when_judge_mixes_them():
    rows = [ROW | {"number": 2, "verdict": "no_claim"}, ROW]
    reply = read_verdicts(json.dumps(GOOD | {"verdicts": rows}), [1, 2], CANARY)
    assert [row.number for row in reply.verdicts] == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"verdicts": []},
        {"verdicts": [ROW, ROW | {"number": 0}]},
        {"canary": ""},
        {"verdicts": [ROW | {"number": 2}]},
        {"verdicts": [ROW | {"number": "one"}]},
        {"verdicts": [ROW | {"number": True}]},
        {"verdicts": [ROW | {"unsupported": [1]}]},
        {"verdicts": [ROW | {"verdict": "maybe"}]},
        {"verdicts": "all good"},
        {"answered": 5},
        {"answered": None},
    ],
)
def test_reply_is_rejected_when_it_is_not_as_asked(changes):
    with pytest.raises(JudgeReplyError):
        read_verdicts(json.dumps(GOOD | changes), [1], CANARY)


def test_worse_verdict_counts_when_there_are_two():
    rows = [ROW, ROW | {"verdict": "contradicted"}, ROW]
    reply = read_verdicts(json.dumps(GOOD | {"verdicts": rows}), [1], CANARY)
    assert [row.verdict for row in reply.verdicts] == ["contradicted"]


def test_what_is_there_is_read_when_some_numbers_are_missing():
    assert len(read_verdicts(json.dumps(GOOD), [1, 2], CANARY).verdicts) == 1


def test_thoughts_are_left_out_when_a_server_leaves_them_in():
    text = f'<think>{{"canary": "x"}} or ```json {{}}```?</think>{json.dumps(GOOD)}'
    assert read_verdicts(text, [1], CANARY).answered == "yes"


@pytest.mark.parametrize(
    "thoughts",
    ["<think>so {1}</think>", "so {1} or </think> {2}?</think>", "It is {clear}.\n", "{1}\n\n"],
)
def test_quote_may_hold_what_ends_thoughts_or_a_fence(thoughts):
    row = ROW | {"quote": "he wrote </think> and ``` and }"}
    text = json.dumps(GOOD | {"verdicts": [row]})
    assert read_verdicts(text, [1], CANARY).verdicts[0].quote == row["quote"]
    assert read_verdicts(thoughts + json.dumps(GOOD), [1], CANARY).answered == "yes"


def test_reply_is_rejected_when_it_says_two_things():
    twice = json.dumps(GOOD).replace('"verdict": ', '"verdict": "not_found", "verdict": ')
    with pytest.raises(JudgeReplyError, match="not JSON"):
        read_verdicts(twice, [1], CANARY)


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({"number": " 1 "}, {"number": 1}),
        ({"verdict": "Not found "}, {"verdict": "not_found"}),
        ({"verdict": "NO-CLAIM"}, {"verdict": "no_claim"}),
        ({"unsupported": ["five", "days"]}, {"unsupported": "five, days"}),
        ({"unsupported": None}, {"unsupported": ""}),
    ],
)
def test_reply_without_structured_output_is_read_when_it_is_clear(changes, read):
    text = json.dumps(GOOD | {"verdicts": [ROW | changes], "answered": "Yes"})
    found = read_verdicts(text, [1], CANARY)
    assert found.answered == "yes"
    assert found.verdicts[0].model_dump() == ROW | read


def test_verdicts_are_left_out_when_none_was_asked_for():
    assert read_verdicts(json.dumps(GOOD), [], CANARY).verdicts == ()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, ThoughtsCutOffError),
        ("<think>What if", ThoughtsCutOffError),
        ('<think>so</think>{"canary', TruncatedReplyError),
        ('{"canary', TruncatedReplyError),
    ],
)
def test_thoughts_are_told_from_answers_when_cut_off(content, error):
    with pytest.raises(error):
        read_content({"message": {"content": content}, "finish_reason": "length"})


def test_canary_is_missed_when_another_word_stands_there():
    with pytest.raises(CanaryMissedError):
        read_verdicts(json.dumps(GOOD), [1], "canary-2")


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, 4),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}, 5),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, 0),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 99}}, 9),
        ({"prompt_tokens_details": {"cached_tokens": -1}}, 0),
    ],
)
def test_cached_tokens_are_counted_when_the_endpoint_says(usage, cached):
    assert read_envelope(json.dumps({"usage": usage}).encode()).usage.cached_tokens == cached


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "no idea", "{}"])
def test_reply_is_rejected_when_there_is_no_verdict_in_it(text):
    with pytest.raises(JudgeReplyError):
        read_verdicts(text, [], CANARY)


def test_message_has_no_judged_text_when_a_value_is_wrong():
    with pytest.raises(JudgeReplyError) as caught:
        read_verdicts(json.dumps(GOOD | {"answered": "SECRET-TEXT"}), [1], CANARY)
    assert "SECRET-TEXT" not in str(caught.value)
    assert "answered" in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_body_is_rejected_when_it_is_no_object(body):
    with pytest.raises(JudgeReplyError, match="OPENAI_BASE_URL"):
        read_envelope(body)


def test_tokens_are_unknown_when_usage_is_nonsense():
    envelope = read_envelope(b'{"usage": {"prompt_tokens": "many", "completion_tokens": -1}}')
    assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (None, None)


def test_content_is_joined_when_it_comes_in_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_content({"message": {"content": parts}}) == "ab"


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (None, JudgeReplyError),
        ({}, JudgeReplyError),
        ({"message": {"content": None}}, JudgeReplyError),
        ({"message": {"content": "x", "refusal": "no"}}, JudgeRefusedError),
        ({"message": {"content": "x"}, "finish_reason": "length"}, JudgeReplyError),
        ({"message": {"content": "x"}, "finish_reason": "model_length"}, TruncatedReplyError),
        ({"message": {"content": "x"}, "finish_reason": "error"}, JudgeReplyError),
        ({"message": {"content": [{"type": "text", "text": None}]}}, JudgeReplyError),
        ({"message": {"content": [{"type": "refusal", "refusal": "no"}]}}, JudgeRefusedError),
        ({"message": {"content": None, "tool_calls": [{}]}}, JudgeReplyError),
        ({"message": {"content": "", "reasoning_content": "{}"}}, JudgeReplyError),
        ({"message": {"content": "x"}, "finish_reason": "content_filter"}, JudgeRefusedError),
    ],
)
def test_choice_is_rejected_when_model_did_not_finish(choice, error):
    with pytest.raises(error):
        read_content(choice)


def test_model_is_storable_when_the_endpoint_sends_anything():
    name = "\ud800gpt\x00-\x1b4" + "x" * 500
    envelope = read_envelope(json.dumps({"model": name}).encode())
    assert envelope.model == ("gpt-4" + "x" * 500)[:200]
    assert read_envelope(json.dumps({"model": "\ud800\x00"}).encode()).model is None


def test_tokens_are_unknown_when_there_are_absurdly_many():
    usage = {"prompt_tokens": 10**9, "completion_tokens": 10**9 + 1}
    envelope = read_envelope(json.dumps({"usage": usage}).encode())
    assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (10**9, None)
