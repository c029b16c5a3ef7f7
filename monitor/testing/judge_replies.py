"""What the judge on loopback says: verdicts by word overlap, and the ways to spoil them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from monitor.testing.criteria_replies import answer_criteria, asks_criteria

_WORD = re.compile(r"\w+")
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
            "completion_tokens": used[1],
            "total_tokens": sum(used),
        },
    }


def judge_by_overlap(request: dict[str, Any]) -> dict[str, Any]:
    """Judge the data in the last message: a sentence is supported by a passage with its words."""
    if asks_criteria(request):
        return answer_criteria(request)
    data = json.loads(request["messages"][-1]["content"])
    passages = [str(context["text"]) for context in data["contexts"]]
    output = " ".join(str(sentence["text"]) for sentence in data["sentences"])
    asked, said = _long_words(str(data["query"])), _long_words(output)
    share = len(asked & said) / max(len(asked), 1)
    answered = "yes" if share >= _SOME else "no"
    verdicts = [_verdict(sentence, passages) for sentence in data["sentences"]] if passages else []
    return {
        "verdicts": verdicts,
        "answered": answered,
        "answered_reason": f"It shares {share:.0%} of the question's words.",
    }


def _verdict(sentence: dict[str, Any], passages: list[str]) -> dict[str, Any]:
    needed = _long_words(str(sentence["text"]))
    pieces = [piece for passage in passages for piece in re.split(r"(?<=[.!?])\s+", passage)]
    best = max(pieces, key=lambda piece: len(needed & _long_words(piece)))
    supported = len(needed & _long_words(best)) >= _ENOUGH * len(needed) > 0
    return {
        "number": sentence["number"],
        "quote": " ".join(best.split()[:_QUOTE_WORDS]) if supported else "",
        "verdict": "supported" if supported else "not_found",
        "unsupported": "" if supported else " ".join(sorted(needed - _long_words(best))[:5]),
    }


def _long_words(text: str) -> set[str]:
    words = {word.lower() for word in _WORD.findall(text)}
    return {word[:5] for word in words if len(word) > 3 or word.isdigit()}  # noqa: PLR2004


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


def _truncated(payload: dict[str, Any]) -> None:
    _content(lambda text: text[: len(text) // 2])(payload)
    _choice(finish_reason="length")(payload)


#: Behaviours that spoil a good answer.
SPOILS: dict[str, Callable[[dict[str, Any]], None]] = {
    "ok": _unchanged,
    "fenced": _content(lambda text: f"Here is my verdict:\n```json\n{text}\n```\nDone."),
    "malformed": _content(lambda text: text[:-3]),
    "truncated": _truncated,
    "refusal": _message(content=None, refusal="I cannot help with that."),
    "null": _message(content=None),
    "empty_choices": lambda payload: payload.update(choices=[]),
    "content_filter": _choice(finish_reason="content_filter"),
    "missing_number": _verdicts(lambda rows: rows.clear()),
    "duplicate_number": _verdicts(lambda rows: rows.append(dict(rows[0]))),
    "wrong_enum": _verdicts(lambda rows: rows[0].update(verdict="probably")),
    "wrong_quote": _verdicts(lambda rows: rows[0].update(quote="words from nowhere at all")),
    "no_usage": lambda payload: payload.pop("usage"),
}
