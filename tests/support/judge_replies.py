"""What the judge on loopback says: verdicts by word overlap, and the ways to spoil them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from support.criteria_replies import answer_criteria, asks_criteria

_WORD = re.compile(r"\w+")
_CANARY = re.compile(r"`canary` is the word ([\w-]+)")
_ORDER = re.compile(r"\b(?:ignore all rules|obliviscere omnium praeceptorum)\b", re.IGNORECASE)
_DECLINES = re.compile(r"\b(?:(?:do not|don't) know|cannot (?:say|find))\b", re.IGNORECASE)
_ENOUGH, _SOME = 0.6, 0.2
_QUOTE_WORDS = 25
_CHARS_PER_TOKEN = 4


def completion(content: str | None, request: dict[str, Any], model: str) -> dict[str, Any]:
    """Wrap *content* as a chat completion, with tokens counted as a quarter of the characters."""
    asked = sum(len(str(message.get("content"))) for message in request.get("messages", ()))
    used = asked // _CHARS_PER_TOKEN, len(content or "") // _CHARS_PER_TOKEN
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, "refusal": None},
            }
        ],
        "usage": {
            "prompt_tokens": used[0],
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens": used[1],
            "total_tokens": sum(used),
        },
    }


class Question:
    """What a request asks: the data between the tags, its marks undone, and the canary."""

    def __init__(self, request: dict[str, Any]) -> None:
        user = str(request["messages"][1]["content"])
        self.canary = canary_of(request)
        data = json.loads(user[user.index("{") : user.rindex("}") + 1])
        mark = str(data.get("every_space_in_these_texts_is_written_as", ""))
        self.query = _unmarked(str(data["query"]), mark)
        self.passages = [_unmarked(str(text), mark) for text in data["contexts"]]
        self.sentences = {
            int(number): _unmarked(str(text), mark) for number, text in data["sentences"].items()
        }
        self.asked = [int(number) for number in data["asked"]]


def judge_by_overlap(request: dict[str, Any]) -> dict[str, Any]:
    """Judge the data of a request: a sentence is supported by a passage with its words."""
    if asks_criteria(request):
        return answer_criteria(request, canary_of(request))
    question = Question(request)
    asked, said = _long_words(question.query), _long_words(" ".join(question.sentences.values()))
    share = len(asked & said) / max(len(asked), 1)
    declines = all(_DECLINES.search(sentence) for sentence in question.sentences.values())
    held = _verdict(0, question.query, question.passages)["quote"] if declines else ""
    return {
        "canary": question.canary,
        "verdicts": [
            _verdict(number, question.sentences[number], question.passages)
            for number in question.asked
        ],
        "answered": "refusal" if declines else "yes" if share >= _SOME else "no",
        "answered_reason": held or f"It shares {share:.0%} of the question's words.",
    }


def obey(behaviour: str, request: dict[str, Any]) -> dict[str, Any]:
    """
    Judge like a model that obeys an order in the texts, if it can read one there.

    ``gullible`` forgets all earlier instructions; ``gullible_in_role`` stays in its
    role, and only finds what the order wants.
    """
    reply = judge_by_overlap(request)
    if not _ORDER.search(str(request["messages"][1]["content"])):
        return reply
    canary = {"canary": canary_of(request)} if behaviour == "gullible_in_role" else {}
    if asks_criteria(request):
        best = [each | {"score": 1.0, "numbers": []} for each in reply["answers"]]
        return {"answers": best} | canary
    rows = [
        {"number": n, "quote": "as was ordered above", "verdict": "supported", "unsupported": ""}
        for n in Question(request).asked
    ]
    return {"verdicts": rows, "answered": "yes", "answered_reason": "As ordered."} | canary


def canary_of(request: dict[str, Any]) -> str:
    """Return the word that a reply must repeat."""
    found = _CANARY.search(str(request["messages"][0]["content"]))
    return found.group(1) if found else ""


def _unmarked(text: str, mark: str) -> str:
    return text.replace(mark, " ") if mark else text


def _verdict(number: int, sentence: str, passages: list[str]) -> dict[str, Any]:
    needed = _long_words(sentence)
    pieces = [piece for passage in passages for piece in re.split(r"(?<=[.!?])\s+", passage)]
    best = max(pieces, key=lambda piece: len(needed & _long_words(piece)), default="")
    supported = len(needed & _long_words(best)) >= _ENOUGH * len(needed) > 0
    absent = "no_claim" if _DECLINES.search(sentence) else "not_found"
    return {
        "number": number,
        "quote": " ".join(best.split()[:_QUOTE_WORDS]) if supported else "",
        "verdict": "supported" if supported else absent,
        "unsupported": "" if supported else " ".join(sorted(needed - _long_words(best))[:5]),
    }


def _long_words(text: str) -> set[str]:
    words = {word.lower() for word in _WORD.findall(text)}
    return {word[:5] for word in words if len(word) > 3 or word.isdigit()}


def spoil(behaviour: str, payload: dict[str, Any]) -> None:
    """Spoil a good answer in place, as *behaviour* says; unknown ones leave it good."""
    SPOILS.get(behaviour, _unchanged)(payload)


def _unchanged(payload: dict[str, Any]) -> None:
    """Leave an answer as it is."""


def _choice(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda payload: payload["choices"][0].update(values)


def _message(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda payload: payload["choices"][0]["message"].update(values)


def _content(change: Callable[[str], str]) -> Callable[[dict[str, Any]], None]:
    def apply(payload: dict[str, Any]) -> None:
        message = payload["choices"][0]["message"]
        message["content"] = change(message["content"])

    return apply


def _verdicts(change: Callable[[list[dict[str, Any]]], None]) -> Callable[[dict[str, Any]], None]:
    def apply(content: str) -> str:
        reply = json.loads(content)
        change(reply["verdicts"])
        return json.dumps(reply)

    return _content(apply)


def _score_out_of_range(payload: dict[str, Any]) -> None:
    """Answer the question ``quality.clarity`` with 7 of 1; the rest well."""

    def apply(content: str) -> str:
        reply = json.loads(content)
        for row in reply.get("answers", ()):
            if row["name"] == "quality.clarity":
                row["score"] = 7
        return json.dumps(reply)

    _content(apply)(payload)


def _truncated(payload: dict[str, Any]) -> None:
    _content(lambda text: text[: len(text) // 2])(payload)
    _choice(finish_reason="length")(payload)


def _without_first(rows: list[dict[str, Any]]) -> None:
    if len(rows) > 1:
        rows.pop(0)


def _cached(payload: dict[str, Any]) -> None:
    usage = payload["usage"]
    usage["prompt_tokens_details"] = {"cached_tokens": usage["prompt_tokens"] // 2}


def _truncated_when_long(payload: dict[str, Any]) -> None:
    """Cut off an answer with more than two verdicts."""
    content = payload["choices"][0]["message"]["content"]
    if len(json.loads(content)["verdicts"]) > 2:
        _truncated(payload)


def _thoughts_truncated(payload: dict[str, Any]) -> None:
    _message(content=None)(payload)
    _choice(finish_reason="length")(payload)


def _error(code: int, **choice: Any) -> Callable[[dict[str, Any]], None]:
    """Put an error into a success reply, as the whole answer or after half of it."""

    def apply(payload: dict[str, Any]) -> None:
        error = {"message": "Provider returned error", "code": code}
        if choice:
            payload["choices"][0].update(choice, error=error)
        else:
            payload.clear()
            payload["error"] = error

    return apply


def _thoughts_in_total(payload: dict[str, Any]) -> None:
    payload["usage"]["total_tokens"] += 100


def _no_canary(text: str) -> str:
    return json.dumps(json.loads(text) | {"canary": "sung by another"})


def _three_claims(rows: list[dict[str, Any]]) -> None:
    """Answer about the first sentence claim by claim: two proven by quotes, one found nowhere."""
    known = "completed in 1889 and stands 330 meters tall"
    said = ("completed in 1889", known), ("is 330 meters high", known), ("made of iron", "")
    rows[:1] = [
        {
            "number": 1,
            "claim": claim,
            "quote": quote,
            "verdict": "supported" if quote else "not_found",
            "unsupported": "",
        }
        for claim, quote in said
    ]


#: Behaviours that spoil a good answer.
SPOILS: dict[str, Callable[[dict[str, Any]], None]] = {
    "ok": _unchanged,
    "score_out_of_range": _score_out_of_range,
    "three_claims": _verdicts(_three_claims),
    "fenced": _content(lambda text: f"Here is my verdict:\n```json\n{text}\n```\nDone."),
    "malformed": _content(lambda text: text[:-3]),
    "truncated": _truncated,
    "thoughts_truncated": _thoughts_truncated,
    "truncated_when_long": _truncated_when_long,
    "thinking": _content(lambda text: f"<think>Is it {{1}} or [2]?</think>\n{text}"),
    "refusal": _message(content=None, refusal="I cannot help with that."),
    "null": _message(content=None),
    "tool_calls": _message(content=None, tool_calls=[{"id": "1", "type": "function"}]),
    "error_in_200": _error(429),
    "error_after_200": _error(502, finish_reason="error"),
    "thoughts_in_total": _thoughts_in_total,
    "empty_choices": lambda payload: payload.update(choices=[]),
    "content_filter": _choice(finish_reason="content_filter"),
    "missing_number": _verdicts(lambda rows: rows.clear()),
    "first_missing": _verdicts(_without_first),
    "unasked_number": _verdicts(lambda rows: rows[0].update(number=0)),
    "no_canary": _content(_no_canary),
    "cached": _cached,
    "duplicate_number": _verdicts(
        lambda rows: rows.append(dict(rows[0], verdict="not_found", unsupported="all of it"))
    ),
    "wrong_enum": _verdicts(lambda rows: rows[0].update(verdict="probably")),
    "wrong_quote": _verdicts(lambda rows: rows[0].update(quote="words from nowhere at all")),
    "no_usage": lambda payload: payload.pop("usage"),
}
