"""Read what a judge says to criteria; whatever is not as asked is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import JudgeReplyError
from monitor.scoring.declaration import Answer, Criterion, Form
from monitor.scoring.judges.reply import CanaryMissedError, find_object
from monitor.scoring.words import storable

_MAX_CHARS = 300
_MOST_TEXTS, _MOST_SUGGESTIONS = 5, 3
_LOWEST, _HIGHEST = 1, 5
_ROW: dict[str, Any] = {
    "name": {"type": "string"},
    "reasoning": {"type": "string"},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "texts": {"type": "array", "items": {"type": "string"}},
    "score": {"type": "number"},
    "suggestions": {"type": "array", "items": {"type": "string"}},
}
#: What ``response_format`` asks for; strict mode wants every key required and no others.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["canary", "answers"],
    "properties": {
        "canary": {"type": "string"},
        "answers": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": list(_ROW),
                "properties": _ROW,
            },
        },
    },
}


def _no_flag(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 - what pydantic expects
    return value


_Number = Annotated[int, BeforeValidator(_no_flag)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    reasoning: str = ""
    numbers: tuple[_Number, ...] = ()
    texts: tuple[str, ...] = ()
    score: Annotated[float | None, BeforeValidator(_no_flag)] = Field(None, allow_inf_nan=False)
    suggestions: tuple[str, ...] = ()


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True)

    canary: str = ""
    answers: tuple[_Row, ...]


def read_answers(
    content: str, criteria: Sequence[Criterion], most: Mapping[Form, int], canary: str
) -> dict[str, Answer]:
    """
    Read one answer a criterion.

    Parameters
    ----------
    content
        The text of the reply.
    criteria
        What was asked.
    most
        For the forms that answer with numbers, the largest number there is.
    canary
        The word that the answer must hold.

    Raises
    ------
    CanaryMissedError
        If *canary* is not in its place.
    JudgeReplyError
        If an answer is missing, doubled, of the wrong form or out of range.
    """
    try:
        reply = _Reply.model_validate(find_object(content))
    except ValidationError as error:
        # Only places and kinds: the values are text that was judged.
        item = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in item["loc"])
        raise JudgeReplyError(f"the judge's answer is wrong at {place}: {item['type']}") from None
    if reply.canary.strip() != canary:
        raise CanaryMissedError("the judge's answer does not show that it followed our message")
    rows = {row.name: row for row in reply.answers}
    if len(rows) != len(reply.answers) or rows.keys() != {item.name for item in criteria}:
        raise JudgeReplyError(
            f"the judge gave {len(reply.answers)} answers to {len(criteria)} criteria,"
            " or to other ones"
        )
    return {item.name: _answer(item, rows[item.name], most) for item in criteria}


def _answer(criterion: Criterion, row: _Row, most: Mapping[Form, int]) -> Answer:
    numbers: tuple[int, ...] = ()
    if criterion.form in most:
        numbers = tuple(sorted(set(row.numbers)))
        if any(not 1 <= number <= most[criterion.form] for number in numbers):
            raise JudgeReplyError(
                f"the judge named a number for {criterion.name} that is not there"
            )
    texts = tuple(storable(text, _MAX_CHARS) for text in row.texts[:_MOST_TEXTS] if text.strip())
    if criterion.form is Form.TEXTS and not texts:
        raise JudgeReplyError(f"the judge gave no text for {criterion.name}")
    return Answer(
        score=_score(criterion, row.score),
        numbers=numbers,
        texts=texts,
        reasoning=storable(row.reasoning, _MAX_CHARS),
        suggestions=tuple(storable(t, _MAX_CHARS) for t in row.suggestions[:_MOST_SUGGESTIONS]),
    )


def _score(criterion: Criterion, score: float | None) -> float | None:
    if criterion.form not in (Form.SCORE, Form.LEVEL, Form.RATING):
        return None
    if score is None:
        raise JudgeReplyError(f"the judge gave no score for {criterion.name}")
    if criterion.form is Form.RATING:
        score = (score - _LOWEST) / (_HIGHEST - _LOWEST)
    if not 0 <= score <= 1:
        raise JudgeReplyError(f"the judge's score for {criterion.name} is out of range")
    return score
