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
def test_wrapped_json_reply_is_read(text):
    assert read_verdicts(text.replace("{}", json.dumps(GOOD)), [1], CANARY).answered == "yes"


def test_shuffled_verdict_rows_are_put_in_order():
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
def test_malformed_reply_is_rejected(changes):
    with pytest.raises(JudgeReplyError):
        read_verdicts(json.dumps(GOOD | changes), [1], CANARY)


def test_verdict_on_a_heading_beside_what_is_asked_is_left_out():
    rows = [ROW | {"verdict": "no_claim"}, ROW | {"number": 2}]
    reply = read_verdicts(json.dumps(GOOD | {"verdicts": rows}), [2], CANARY, beside={1, 3})
    assert [row.number for row in reply.verdicts] == [2]


def test_worse_of_two_verdicts_for_a_sentence_counts():
    rows = [ROW, ROW | {"verdict": "contradicted"}, ROW]
    reply = read_verdicts(json.dumps(GOOD | {"verdicts": rows}), [1], CANARY)
    assert [row.verdict for row in reply.verdicts] == ["contradicted"]


def test_available_verdicts_are_read_when_some_are_missing():
    assert len(read_verdicts(json.dumps(GOOD), [1, 2], CANARY).verdicts) == 1


def test_reasoning_left_in_by_the_server_is_removed():
    text = f'<think>{{"canary": "x"}} or ```json {{}}```?</think>{json.dumps(GOOD)}'
    assert read_verdicts(text, [1], CANARY).answered == "yes"


@pytest.mark.parametrize(
    "thoughts",
    ["<think>so {1}</think>", "so {1} or </think> {2}?</think>", "It is {clear}.\n", "{1}\n\n"],
)
def test_quote_can_contain_reasoning_and_fence_markers(thoughts):
    row = ROW | {"quote": "he wrote </think> and ``` and }"}
    text = json.dumps(GOOD | {"verdicts": [row]})
    assert read_verdicts(text, [1], CANARY).verdicts[0].quote == row["quote"]
    assert read_verdicts(thoughts + json.dumps(GOOD), [1], CANARY).answered == "yes"


def test_reply_with_duplicate_keys_is_rejected():
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
def test_clear_unstructured_reply_is_read(changes, read):
    text = json.dumps(GOOD | {"verdicts": [ROW | changes], "answered": "Yes"})
    found = read_verdicts(text, [1], CANARY)
    assert found.answered == "yes"
    assert found.verdicts[0].model_dump() == ROW | read


def test_unrequested_verdicts_are_ignored():
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
def test_truncated_reasoning_is_distinguished_from_a_truncated_answer(content, error):
    with pytest.raises(error):
        read_content({"message": {"content": content}, "finish_reason": "length"})


def test_wrong_canary_raises_canary_missed():
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


def test_error_says_how_many_verdicts_were_given_for_how_many_sentences():
    rows = json.dumps(GOOD | {"verdicts": [ROW | {"number": 9}]})
    with pytest.raises(JudgeReplyError, match="gave 1 verdict for 2 sentences, or wrong numbers"):
        read_verdicts(rows, [1, 2], CANARY)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "no idea", "{}"])
def test_reply_without_a_verdict_is_rejected(text):
    with pytest.raises(JudgeReplyError):
        read_verdicts(text, [], CANARY)


def test_error_message_of_a_wrong_value_has_no_judged_text():
    with pytest.raises(JudgeReplyError) as caught:
        read_verdicts(json.dumps(GOOD | {"answered": "SECRET-TEXT"}), [1], CANARY)
    assert "SECRET-TEXT" not in str(caught.value)
    assert "answered" in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_response_body_that_is_no_object_is_rejected(body):
    with pytest.raises(JudgeReplyError, match="OPENAI_BASE_URL"):
        read_envelope(body)


def test_invalid_usage_leaves_tokens_unknown():
    envelope = read_envelope(b'{"usage": {"prompt_tokens": "many", "completion_tokens": -1}}')
    assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (None, None)


def test_content_parts_are_joined():
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
def test_unfinished_choice_is_rejected(choice, error):
    with pytest.raises(error):
        read_content(choice)


def test_any_model_name_from_the_endpoint_is_storable():
    name = "\ud800gpt\x00-\x1b4" + "x" * 500
    envelope = read_envelope(json.dumps({"model": name}).encode())
    assert envelope.model == ("gpt-4" + "x" * 500)[:200]
    assert read_envelope(json.dumps({"model": "\ud800\x00"}).encode()).model is None


def test_absurd_token_counts_leave_tokens_unknown():
    usage = {"prompt_tokens": 10**9, "completion_tokens": 10**9 + 1}
    envelope = read_envelope(json.dumps({"usage": usage}).encode())
    assert (envelope.usage.input_tokens, envelope.usage.output_tokens) == (10**9, None)
