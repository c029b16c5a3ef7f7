"""Read what a chat completion endpoint sends back; whatever is not as asked is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import JudgeRefusedError, JudgeReplyError
from monitor.scoring.spending.meter import read_usage
from monitor.scoring.words import storable

_LONGEST_MODEL = 200
_WORST_FIRST = ("contradicted", "not_found", "no_claim", "supported")
_CUT_OFF = frozenset({"length", "model_length", "max_tokens"})  # as OpenAI, Mistral, others say it
_DIGITS = re.compile(r"\s*[0-9]{1,4}\s*")
_BETWEEN_WORDS = re.compile(r"[\s-]+")


def _number(value: object) -> object:
    """Take a number that is written as text, as sentences are numbered in the question."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def _word(value: object) -> object:
    """Take a word for itself however it is written: ``Not found`` is ``not_found``."""
    return _BETWEEN_WORDS.sub("_", value.strip()).casefold() if isinstance(value, str) else value


def _text(value: object) -> object:
    """Take words that come one by one, or none."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_text)]


class VerdictRow(BaseModel):
    """The judge's word on one sentence."""

    model_config = ConfigDict(frozen=True)

    number: Annotated[int, Field(strict=True), BeforeValidator(_number)]
    quote: str | None = None
    verdict: Annotated[
        Literal["supported", "contradicted", "not_found", "no_claim"], BeforeValidator(_word)
    ]
    unsupported: _Text = ""


class JudgeReply(BaseModel):
    """The whole answer of the judge."""

    model_config = ConfigDict(frozen=True)

    canary: str = ""
    verdicts: tuple[VerdictRow, ...]
    answered: Annotated[Literal["yes", "partial", "no", "refusal"], BeforeValidator(_word)]
    answered_reason: _Text = ""


#: What ``response_format`` asks for; strict mode wants every key required and no others.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["canary", "verdicts", "answered", "answered_reason"],
    "properties": {
        "canary": {"type": "string"},
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["number", "quote", "verdict", "unsupported"],
                "properties": {
                    "number": {"type": "integer"},
                    "quote": {"type": "string"},
                    "verdict": {
                        "type": "string",
                        "enum": ["supported", "contradicted", "not_found", "no_claim"],
                    },
                    "unsupported": {"type": "string"},
                },
            },
        },
        "answered": {"type": "string", "enum": ["yes", "partial", "no", "refusal"]},
        "answered_reason": {"type": "string"},
    },
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds the answer: which model gave it, and what it used."""

    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int  #: part of the input that the endpoint already had, at a lower price
    choice: dict[str, Any] | None


def read_envelope(body: bytes) -> Envelope:
    """Read the JSON object around the answer."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise JudgeReplyError(
            "the judge's endpoint did not answer with a JSON object; does OPENAI_BASE_URL end in"
            " /v1 or whatever its documentation says?"
        )
    usage, choices = read_usage(payload), payload.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    model = payload.get("model")
    return Envelope(
        model=(storable(model, _LONGEST_MODEL) or None) if isinstance(model, str) else None,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        choice=first if isinstance(first, dict) else None,
    )


def read_content(choice: dict[str, Any] | None) -> str:
    """Take the text out of a choice, if the model finished and did not refuse."""
    if choice is None:
        raise JudgeReplyError("the judge's answer has no choices")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    finish = choice.get("finish_reason")
    if finish == "content_filter":
        raise JudgeRefusedError("the judge's content filter stopped the answer")
    content = message.get("content")
    parts = [p for p in content if isinstance(p, dict)] if isinstance(content, list) else []
    if message.get("refusal") or any(part.get("refusal") for part in parts):
        raise JudgeRefusedError("the judge refused to judge this text")
    if isinstance(content, list):  # some vendors send parts
        content = "".join(str(part.get("text") or "") for part in parts)
    if str(finish).casefold() in _CUT_OFF:
        raise _cut_off(content)
    if finish == "error":
        raise JudgeReplyError("the judge's endpoint broke the answer off")
    if not isinstance(content, str) or not content.strip():
        raise JudgeReplyError("the judge's answer is empty")
    return content


def _cut_off(content: object) -> JudgeReplyError:
    text = content if isinstance(content, str) else ""
    if not text.strip() or (text.lstrip().startswith("<think>") and "</think>" not in text):
        return ThoughtsCutOffError("the judge's thoughts were cut off at its length limit")
    return TruncatedReplyError("the judge's answer was cut off at its length limit")


class RetryDifferentlyError(JudgeReplyError):
    """The same question would meet the same answer; another one may not."""


class TruncatedReplyError(RetryDifferentlyError):
    """The answer is not whole; the same question would be cut off again."""


class ThoughtsCutOffError(RetryDifferentlyError):
    """The model was still thinking at the length limit; it needs more room, not less to do."""


class CanaryMissedError(RetryDifferentlyError):
    """The answer lacks the word that only our own message names: something else spoke."""


def read_reply(content: str, asked: Collection[int], canary: str) -> JudgeReply:
    """
    Read the verdicts on the sentences numbered in *asked*, each once, in order.

    Of two verdicts on one sentence the worse counts. Some numbers may be missing;
    whoever asked looks for them.

    Raises
    ------
    CanaryMissedError
        If *canary* is not in its place.
    JudgeReplyError
        If the answer is not as the prompt wants it, has a number that was not asked
        for (then all may be shifted), or has none that was.
    """
    try:
        reply = JudgeReply.model_validate(find_object(content))
    except ValidationError as error:
        # Only places and kinds: the values are text that was judged.
        item = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in item["loc"])
        raise JudgeReplyError(f"the judge's answer is wrong at {place}: {item['type']}") from None
    if reply.canary.strip() != canary:
        raise CanaryMissedError("the judge's answer does not show that it followed our message")
    if not asked:  # some models judge sentences all the same
        return reply.model_copy(update={"verdicts": ()})
    rows: dict[int, VerdictRow] = {}
    for row in sorted(reply.verdicts, key=lambda row: _WORST_FIRST.index(row.verdict)):
        rows.setdefault(row.number, row)
    if not rows or not rows.keys() <= set(asked):
        raise JudgeReplyError(
            f"the judge gave {len(rows)} verdicts for {len(asked)} sentences, or wrong numbers"
        )
    return reply.model_copy(update={"verdicts": tuple(rows[number] for number in sorted(rows))})


# --- json object ---
# Find the JSON object in what a model writes: bare, fenced, behind thoughts or among words.


_END_OF_THOUGHTS = "</think>"  # some servers leave thoughts in the answer, or their end alone
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL | re.IGNORECASE)


def find_object(content: str) -> dict[str, Any]:
    """
    Read the JSON object in *content*.

    Raises
    ------
    JudgeReplyError
        If there is none, or one of its keys stands there twice, so that it says two things.
    """
    for text in _readings(content):
        try:
            value = json.loads(text, object_pairs_hook=_each_once)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise JudgeReplyError("the judge's answer is not JSON")


def _readings(content: str) -> Iterator[str]:
    """Give the places where it may stand, the likeliest first."""
    yield content  # whole: a quote may hold anything, also what ends thoughts or a fence
    behind_last = content.rpartition(_END_OF_THOUGHTS)[2]
    behind_first = content.partition(_END_OF_THOUGHTS)[2] or content
    for text in dict.fromkeys((behind_last, behind_first)):
        fenced = _FENCE.search(text)
        end = text.rfind("}") + 1
        yield text
        yield fenced.group(1) if fenced else ""
        yield text[text.find("{") : end]
        yield text[text.rfind("\n{") + 1 : end]  # no string of JSON holds such a line


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found
