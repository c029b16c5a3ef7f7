"""
Read what a judge replies; a reply that is not as asked is an error, never a score.

Three layers: the envelope of a chat completion (`read_envelope`, `read_content`), the JSON
object in what the model wrote (`find_object`), and the two forms of answer, verdicts on
sentences (`read_verdicts`) and answers to criteria (`read_answers`). `Quotable` finds a quote in
the passages: the proof that the judge has read them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import JudgeRefusedError, JudgeReplyError
from monitor.format import count
from monitor.scoring.base import storable
from monitor.scoring.declaration import Criterion, CriterionAnswer, Form
from monitor.scoring.language import MARKS, compatible, spaced, words
from monitor.scoring.limits.meter import Usage, read_usage
from monitor.scoring.local.passages import flatten
from monitor.scoring.sentences import split_sentences

_LONGEST_MODEL = 200
_WORST_FIRST = ("contradicted", "not_found", "no_claim", "supported")
_CUT_OFF = frozenset({"length", "model_length", "max_tokens"})  # as OpenAI, Mistral, others say it
_DIGITS = re.compile(r"\s*[0-9]{1,4}\s*")
_BETWEEN_WORDS = re.compile(r"[\s-]+")
_END_OF_THOUGHTS = "</think>"  # some servers leave thoughts in the answer, or their end alone
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL | re.IGNORECASE)
_MAX_CHARS = 300
_MOST_TEXTS, _MOST_SUGGESTIONS = 50, 3
_MOST_CLAIMS = 8  # of one sentence; the prompt asks for six
_LOWEST_RATING, _HIGHEST_RATING = 1, 5


class RetryDifferentlyError(JudgeReplyError):
    """The same question would meet the same answer; another one may not."""


class TruncatedReplyError(RetryDifferentlyError):
    """The answer is not whole; the same question would be cut off again."""


class ThoughtsCutOffError(RetryDifferentlyError):
    """The model was still thinking at the length limit; it needs more room, not less to do."""


class CanaryMissedError(RetryDifferentlyError):
    """The answer lacks the word that only our own message names: something else spoke."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds the answer: which model gave it, and what it used."""

    model: str | None
    usage: Usage
    choice: dict[str, Any] | None
    fingerprint: str = ""  #: of the provider's configuration; many give none


def read_envelope(body: bytes) -> Envelope:
    """Read the JSON object around the answer, or raise a ``JudgeReplyError``."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise JudgeReplyError(
            "the judge's endpoint did not answer with a JSON object; does OPENAI_BASE_URL end in"
            " /v1 or whatever its documentation says?"
        )
    choices, model = payload.get("choices"), payload.get("model")
    fingerprint = payload.get("system_fingerprint")
    first = choices[0] if isinstance(choices, list) and choices else None
    return Envelope(
        model=(storable(model, _LONGEST_MODEL) or None) if isinstance(model, str) else None,
        usage=read_usage(payload),
        choice=first if isinstance(first, dict) else None,
        fingerprint=storable(fingerprint, _LONGEST_MODEL) if isinstance(fingerprint, str) else "",
    )


def read_content(choice: dict[str, Any] | None) -> str:
    """Return the text of a choice, if the model finished and did not refuse; else raise."""
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
    text = content if isinstance(content, str) else ""
    if str(finish).casefold() in _CUT_OFF:
        if not text.strip() or (text.lstrip().startswith("<think>") and "</think>" not in text):
            raise ThoughtsCutOffError("the judge's thoughts were cut off at its length limit")
        raise TruncatedReplyError("the judge's answer was cut off at its length limit")
    if finish == "error":
        raise JudgeReplyError("the judge's endpoint broke the answer off")
    if not text.strip():
        raise JudgeReplyError("the judge's answer is empty")
    return text


def find_object(content: str) -> dict[str, Any]:
    """
    Return the JSON object in what a model wrote: bare, fenced, behind thoughts or among words.

    Nothing is repaired: an object that is not whole might say anything.

    Raises
    ------
    JudgeReplyError
        If there is none, or one of its keys stands there twice, so that it says two things.
    """

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands there twice")
        return found

    # The likeliest first: whole, as a quote may hold anything, also what ends thoughts or a fence.
    places = [content]
    behind_last = content.rpartition(_END_OF_THOUGHTS)[2]
    behind_first = content.partition(_END_OF_THOUGHTS)[2] or content
    for text in dict.fromkeys((behind_last, behind_first)):
        fenced, end = _FENCE.search(text), text.rfind("}") + 1
        places += [text, fenced.group(1) if fenced else "", text[text.find("{") : end]]
        places.append(text[text.rfind("\n{") + 1 : end])  # no string of JSON holds such a line
    for text in places:
        try:
            value = json.loads(text, object_pairs_hook=each_once)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise JudgeReplyError("the judge's answer is not JSON")


def strict_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object; strict mode wants every key required and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True)

    canary: str = ""


R = TypeVar("R", bound=_Reply)


M = TypeVar("M", bound=BaseModel)


def _checked(kind: type[M], value: object, *within: str) -> M:
    """Return *value* as *kind*, or raise a ``JudgeReplyError`` that says where it is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # Only places and kinds: the values are text that was judged.
        item = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in (*within, *item["loc"]))
        raise JudgeReplyError(f"the judge's answer is wrong at {place}: {item['type']}") from None


def _read_as(kind: type[R], content: str, canary: str) -> R:
    """Read the object in *content* as *kind*, with *canary* in its place, or raise."""
    reply = _checked(kind, find_object(content))
    if reply.canary.strip() != canary:
        raise CanaryMissedError("the judge's answer does not show that it followed our message")
    return reply


# Verdicts on the sentences of an answer.


def _word(value: object) -> object:
    """Accept a word however it is written: ``Not found`` is ``not_found``."""
    return _BETWEEN_WORDS.sub("_", value.strip()).casefold() if isinstance(value, str) else value


def _joined(value: object) -> object:
    """Accept a text that is written as a list of words, or left out."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value


_Text = Annotated[str, BeforeValidator(_joined)]


class VerdictRow(BaseModel):
    """The judge's verdict on one sentence, or on one statement that it makes."""

    model_config = ConfigDict(frozen=True)

    #: May be written as text, as sentences are numbered in the question.
    number: Annotated[
        int,
        Field(strict=True),
        BeforeValidator(lambda n: int(n) if isinstance(n, str) and _DIGITS.fullmatch(n) else n),
    ]
    claim: _Text = ""  #: empty for the whole sentence
    quote: str | None = None
    verdict: Annotated[
        Literal["supported", "contradicted", "not_found", "no_claim"], BeforeValidator(_word)
    ]
    unsupported: _Text = ""


class JudgeReply(_Reply):
    """The whole answer of the judge about sentences."""

    verdicts: tuple[VerdictRow, ...]
    answered: Annotated[Literal["yes", "partial", "no", "refusal"], BeforeValidator(_word)]
    answered_reason: _Text = ""


_STRING = {"type": "string"}
#: What ``response_format`` asks for.
VERDICT_SCHEMA = strict_schema(
    canary=_STRING,
    verdicts=_list_of(
        strict_schema(
            number={"type": "integer"},
            claim=_STRING,
            quote=_STRING,
            verdict=_STRING | {"enum": ["supported", "contradicted", "not_found", "no_claim"]},
            unsupported=_STRING,
        )
    ),
    answered=_STRING | {"enum": ["yes", "partial", "no", "refusal"]},
    answered_reason=_STRING,
)


def read_verdicts(
    content: str, asked: Collection[int], canary: str, beside: Collection[int] = ()
) -> JudgeReply:
    """
    Read the verdicts on the sentences numbered in *asked*, in order, by sentence or statement.

    Of two verdicts on one sentence or statement the worse counts. Some numbers may be missing;
    the caller asks for them again. Verdicts on the sentences *beside* are left out.

    Raises
    ------
    CanaryMissedError
        If *canary* is not in its place.
    JudgeReplyError
        If the answer is not as the prompt wants it, has a number that was not asked
        for (then all may be shifted), or has none that was.
    """
    reply = _read_as(JudgeReply, content, canary)
    if not asked:  # some models judge sentences all the same
        return reply.model_copy(update={"verdicts": ()})
    worst: dict[tuple[int, str], VerdictRow] = {}
    rows = [row for row in reply.verdicts if row.number not in beside]
    for row in sorted(rows, key=lambda row: _WORST_FIRST.index(row.verdict)):
        worst.setdefault((row.number, row.claim.strip().casefold()), row)
    numbers = {number for number, _ in worst}
    if not numbers or not numbers <= set(asked):
        raise JudgeReplyError(
            f"the judge gave {count(len(numbers), 'verdict')} for {count(len(asked), 'sentence')},"
            " or wrong numbers"
        )
    kept: list[VerdictRow] = []
    for number in sorted(numbers):
        of_it = [row for row in rows if row.number == number]
        named = dict.fromkeys(row.claim.strip().casefold() for row in of_it)
        kept += [worst[number, claim] for claim in named][:_MOST_CLAIMS]
    return reply.model_copy(update={"verdicts": tuple(kept)})


# Answers to criteria.


def _no_flag(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 - what pydantic expects
    return value


class _AnswerRow(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    reasoning: str = ""
    numbers: tuple[Annotated[int, BeforeValidator(_no_flag)], ...] = ()
    texts: tuple[str, ...] = ()
    score: Annotated[float | None, BeforeValidator(_no_flag)] = Field(None, allow_inf_nan=False)
    suggestions: tuple[str, ...] = ()

    def answer(self, criterion: Criterion, most: Mapping[Form, int]) -> CriterionAnswer:
        """Return what the row says to *criterion*, or raise a ``JudgeReplyError``."""
        numbers: tuple[int, ...] = ()
        if criterion.form in most:
            numbers = tuple(sorted(set(self.numbers)))
            if any(not 1 <= number <= most[criterion.form] for number in numbers):
                raise JudgeReplyError(
                    f"the judge named a number for {criterion.name} that is not there"
                )
        texts = tuple(
            storable(text, _MAX_CHARS) for text in self.texts[:_MOST_TEXTS] if text.strip()
        )
        if criterion.form is Form.TEXTS and not texts:
            raise JudgeReplyError(f"the judge gave no text for {criterion.name}")
        score = None
        if criterion.form in (Form.SCORE, Form.LEVEL, Form.RATING):
            if self.score is None:
                raise JudgeReplyError(f"the judge gave no score for {criterion.name}")
            score = self.score
            if criterion.form is Form.RATING:
                score = (score - _LOWEST_RATING) / (_HIGHEST_RATING - _LOWEST_RATING)
            if not 0 <= score <= 1:
                raise JudgeReplyError(f"the judge's score for {criterion.name} is out of range")
        return CriterionAnswer(
            score=score,
            numbers=numbers,
            texts=texts,
            reasoning=storable(self.reasoning, _MAX_CHARS),
            suggestions=tuple(
                storable(t, _MAX_CHARS) for t in self.suggestions[:_MOST_SUGGESTIONS]
            ),
        )


class _NamedRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    name: str


class _CriteriaReply(_Reply):
    answers: tuple[_NamedRow, ...]


#: What ``response_format`` asks for.
CRITERIA_SCHEMA = strict_schema(
    canary=_STRING,
    answers=_list_of(
        strict_schema(
            name=_STRING,
            reasoning=_STRING,
            numbers=_list_of({"type": "integer"}),
            texts=_list_of(_STRING),
            score={"type": "number"},
            suggestions=_list_of(_STRING),
        )
    ),
)


def read_answers(
    content: str, criteria: Sequence[Criterion], most: Mapping[Form, int], canary: str
) -> dict[str, CriterionAnswer | JudgeReplyError]:
    """
    Read one answer a criterion, by its name; what is wrong with an answer stands in its place.

    *most* has the largest number there is, for the forms that answer with numbers.

    Raises
    ------
    CanaryMissedError
        If *canary* is not in its place.
    JudgeReplyError
        If an answer is doubled or answers no criterion, so that all may be mixed up, or if
        every answer is missing, of the wrong form or out of range.
    """
    reply = _read_as(_CriteriaReply, content, canary)
    rows = {row.name: row for row in reply.answers}
    if len(rows) != len(reply.answers) or not rows.keys() <= {item.name for item in criteria}:
        raise JudgeReplyError(
            f"the judge gave {count(len(reply.answers), 'answer')} to"
            f" {count(len(criteria), 'question')}, or to other ones"
        )
    found: dict[str, CriterionAnswer | JudgeReplyError] = {}
    for item in criteria:
        found[item.name] = JudgeReplyError(f"the judge gave no answer for {item.name}")
        if item.name in rows:
            try:
                row = _checked(_AnswerRow, rows[item.name].model_dump(), item.name)
                found[item.name] = row.answer(item, most)
            except JudgeReplyError as error:
                found[item.name] = error
    wrong = [each for each in found.values() if isinstance(each, JudgeReplyError)]
    if wrong and len(wrong) == len(found):
        raise wrong[0]
    return found


# --- quotes ---

_LONGEST_QUOTE = 2_000  # characters; the prompt asks for 25 words
_WIDEST_GAP = 300  # characters that an ellipsis may stand for
_MOST_PARTS = 8
_LEAST_CONTENT = 3  # informative words; fewer stand in a passage by chance
_ELLIPSIS = re.compile(r"\[? ?(?:\.{3,}+|…) ?\]?")
_NO_WORD = re.compile(rf"(?:[^\w{MARKS}]|_)+")


class Quotable:
    """The passages of one interaction, prepared once for any number of quotes."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self._contexts = contexts
        self._plain = [_plain(context) for context in contexts]

    def find(self, quote: str) -> int | None:
        """
        Find the passage that holds *quote* word for word; None when no passage does.

        Case, punctuation and the form of Unicode characters do not matter. An ellipsis
        stands for words left out; the parts must follow each other in one passage, about
        fifty words apart at most: words from all over it can be put together to any claim. A
        quote proves something only with three informative words, or as a whole sentence
        of a passage with at least one.
        """
        quote = " ".join(quote.split())[:_LONGEST_QUOTE]
        content = sum(word.content for word in words(quote))
        if content < _LEAST_CONTENT:
            return self._sentences.get(_plain(quote)) if content else None
        parts = [plain for part in _ELLIPSIS.split(quote) if (plain := _plain(part)).strip()]
        return next((i for i, text in enumerate(self._plain) if _in_order(parts, text)), None)

    @cached_property
    def _sentences(self) -> dict[str, int]:
        """Map the sentences of all passages to the first passage that holds them."""
        found: dict[str, int] = {}
        for index, context in enumerate(self._contexts):
            for sentence in split_sentences(flatten(context)):
                found.setdefault(_plain(sentence), index)
        return found


def _in_order(parts: Sequence[str], text: str) -> bool:
    """Return whether *parts* follow each other in *text*, none too far behind the one before."""
    if len(parts) > _MOST_PARTS:
        return False
    ends: list[int] | None = None
    for part in parts:
        found: list[int] = []
        at = text.find(part)
        while at >= 0:
            # The last space of a part may be the first of the next.
            last = -1 if ends is None else bisect_right(ends, at) - 1
            if ends is None or (last >= 0 and at - ends[last] <= _WIDEST_GAP):
                found.append(at + len(part) - 1)
            at = text.find(part, at + 1)
        if not found:
            return False
        ends = found
    return True


def _plain(text: str) -> str:
    """Write *text* as lower-case words between single spaces, with a space at both ends."""
    return f" {_NO_WORD.sub(' ', spaced(compatible(text)).casefold()).strip()} "
