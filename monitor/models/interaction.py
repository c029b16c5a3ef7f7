"""
One interaction with the user's app, the sample that travels through the queue, its
outcome once a worker had it, the segments that count it, and its run in a sheet.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .evaluation import Evaluation, EvaluationStatus


class Context(BaseModel):
    """One retrieved passage."""

    model_config = ConfigDict(frozen=True, extra="allow")

    text: str
    id: str | None = None
    score: float | None = Field(None, description="The retriever's own score, on its own scale.")


class ToolCall(BaseModel):
    """One tool or function that the app called on the way to its answer."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    arguments: Any = None
    result: Any = None
    duration_ms: float | None = Field(None, ge=0)
    error: str | None = None


#: What libraries call the two whose turns are read.
_ROLES = {
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant", "chatbot": "assistant",
}  # fmt: skip


class Turn(BaseModel):
    """One earlier message of a conversation; ``role`` is ``user``, ``assistant`` or another."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str

    @field_validator("content", mode="before")
    @classmethod
    def _join_parts(cls, value: object) -> object:
        """Join the texts of a message in parts; one without any text is empty."""
        if isinstance(value, list):
            parts = [part.get("text") if isinstance(part, dict) else part for part in value]
            return "\n".join(part for part in parts if isinstance(part, str))
        return "" if value is None else value

    @field_validator("role")
    @classmethod
    def _same_names(cls, role: str) -> str:
        """Return user for human, assistant for ai and model: only these two are scored."""
        return _ROLES.get(role.lower(), role)


def _printable(value: str) -> str:
    """Refuse control characters, which no database or terminal takes kindly."""
    if not value.isprintable() and any(ord(character) < 32 for character in value):  # noqa: PLR2004
        raise ValueError("must not contain control characters")
    return value


#: Invisible as well, but words of some scripts, and emojis, need them.
_JOINERS = "\u200c\u200d"


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
#: Characters that let one app look like another, or turn a line round, become visible.
AppName = Annotated[
    Name,
    AfterValidator(
        lambda name: "".join(
            "\ufffd" if unicodedata.category(c) == "Cf" and c not in _JOINERS else c for c in name
        )
    ),
]
#: A bare string is accepted where a passage is expected.
Passage = Annotated[
    Context, BeforeValidator(lambda value: {"text": value} if isinstance(value, str) else value)
]


class Interaction(BaseModel, frozen=True, extra="forbid"):
    """
    One exchange with the user's app: a line of JSONL for replay, score and eval.

    Only ``output`` is required; what is missing makes the metrics that need it
    ``skipped``, with the reason. ``messages``, as chat models take them, are read as
    ``history`` and, where these are missing, as ``query`` and ``output``. Unknown keys are
    kept in ``metadata``.
    """

    id: Name
    app: AppName = "default"
    query: str | None = None
    contexts: Annotated[
        tuple[Passage, ...], BeforeValidator(lambda value: () if value is None else value)
    ] = ()
    output: str
    history: Annotated[
        tuple[Turn, ...], BeforeValidator(lambda value: () if value is None else value)
    ] = Field((), description="Earlier turns of the conversation, the oldest first.")
    timestamp: AwareDatetime | None = None
    trace_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    release: str | None = None
    environment: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()
    expected: dict[str, Any] | None = None
    label: Literal[0, 1] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("history")
    @classmethod
    def _only_earlier(cls, turns: tuple[Turn, ...], info: ValidationInfo) -> tuple[Turn, ...]:
        """Leave out the question itself where it comes last, however often: read again, none."""
        asked = Turn(role="user", content=info.data.get("query") or "")
        while turns[-1:] == (asked,):
            turns = turns[:-1]
        return turns

    @model_validator(mode="before")
    @classmethod
    def _keep_unknown_keys(cls, value: object) -> object:
        """Move keys that are not fields into ``metadata``."""
        if not isinstance(value, dict):
            return value
        fields = cls.model_fields
        if value.keys() <= fields.keys():
            return value
        unknown = {key: value[key] for key in value if key not in fields}
        known = {key: value[key] for key in value if key in fields}
        metadata = known.get("metadata") or {}
        if not isinstance(metadata, dict):
            return known  # whose metadata is refused, with what is wrong with it
        return known | {"metadata": {**unknown, **metadata}}

    @model_validator(mode="before")  # the last of them goes first
    @classmethod
    def _read_messages(cls, value: object) -> object:
        """Read chat ``messages`` as query, output and history; what is no such list stays."""
        messages = value.get("messages") if isinstance(value, dict) else None
        if (
            not isinstance(value, dict)
            or not isinstance(messages, list)
            or not all(isinstance(each, dict) and "role" in each for each in messages)
            or value.get("history")
        ):
            return value
        found = {key: item for key, item in value.items() if key != "messages"}
        said = [Turn.model_validate({"content": None, **each}) for each in messages]
        last = max((n for n, each in enumerate(said) if each.role == "user"), default=-1)
        asked = said[last].content if last >= 0 else None
        after = [each for each in said[last + 1 :] if each.role == "assistant" and each.content]
        answered = after[-1].content if after else None
        given = (found.get("query"), found.get("output"))
        # With a question and an answer of its own, a record comes after all that is listed.
        is_later = answered and given[0] not in (None, asked) and given[1] not in (None, answered)
        earlier = said if is_later else said[: max(last, 0)]
        read = {"query": asked, "output": answered}
        found |= {name: text for name, text in read.items() if text and found.get(name) is None}
        turns = [each for each in earlier if each.role in {"user", "assistant"} and each.content]
        return found | {"history": [each.model_dump() for each in turns]}


class Sample(BaseModel, frozen=True, extra="forbid"):
    """
    An interaction that the hook chose, as it travels through the queue.

    ``sample_rate`` is the probability, in [1e-9, 1], with which this interaction
    was chosen; estimates weigh by its inverse.
    """

    schema_version: Literal[1] = 1
    sample_id: str = Field(
        min_length=1,
        max_length=64,
        description="UUIDv7, made by the hook; the key of everything downstream.",
    )
    sampled_at: AwareDatetime
    # Its inverse is a weight in sums that must stay finite.
    sample_rate: float = Field(ge=1e-9, le=1)
    hook_id: str = Field(description="Which process sampled it.")
    sequence: int = Field(ge=0, description="Position among the samples of that process.")
    truncated: tuple[str, ...] = Field((), description="Fields that were cut to the size limit.")
    interaction: Interaction


#: The id of an interaction without its texts.
REMOVED = "removed"


def without_texts(sample: Sample, why: str) -> Sample:
    """Return a sample reduced to what is counted: without texts, names and tags."""
    interaction = Interaction(
        id=REMOVED,
        app=sample.interaction.app,
        output="",
        timestamp=sample.interaction.timestamp,
        metadata={"removed": why},
    )
    return sample.model_copy(update={"interaction": interaction, "truncated": ()})


class Outcome(StrEnum):
    """The one place in which a sample ends."""

    SCORED = "scored"  #: at least one evaluation completed
    FAILED = "failed"  #: none completed and at least one failed
    SKIPPED = "skipped"  #: there was nothing to judge
    EXPIRED = "expired"  #: it waited too long to be of use, and was not scored


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSample:
    """A sample with its evaluations."""

    sample: Sample
    evaluations: tuple[Evaluation, ...]
    expired_by: str = ""  #: why it was not scored; '' where it was tried

    @property
    def outcome(self) -> Outcome:
        """Sum the evaluations up to one outcome."""
        if self.expired_by:
            return Outcome.EXPIRED
        statuses = {evaluation.status for evaluation in self.evaluations}
        if EvaluationStatus.COMPLETED in statuses:
            return Outcome.SCORED
        return Outcome.FAILED if EvaluationStatus.FAILED in statuses else Outcome.SKIPPED

    @property
    def reason(self) -> str:
        """Why the sample has no score at all, as its first metric says; '' when it has one."""
        if self.outcome is Outcome.SCORED:
            return ""
        if self.expired_by:
            return self.expired_by
        wanted = EvaluationStatus(self.outcome.value)
        reasons = (e.reason for e in self.evaluations if e.status is wanted)
        return next(reasons, "no_evaluator")


_MOST_CHARS = 120


def places_of(interaction: Interaction, dimensions: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """
    Return the (dimension, value) pairs of an interaction; one without a value is left out.

    A dimension is a field (``release``, ``environment``), else a tag, else a plain value
    in ``metadata`` of that name. A value that is too long is cut, with a mark that keeps
    two long ones apart.
    """
    fields = {"release": interaction.release, "environment": interaction.environment}
    places = []
    for dimension in dimensions:
        value = (
            fields.get(dimension)
            or interaction.tags.get(dimension)
            or interaction.metadata.get(dimension)
        )
        if not isinstance(value, str | int | float):
            continue
        text = str(value)
        plain = "".join(c if c.isprintable() else " " for c in text).strip()
        if len(plain) > _MOST_CHARS:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
            plain = f"{plain[:_MOST_CHARS]}…{digest}"
        if plain:
            places.append((dimension, plain))
    return tuple(places)


class Figure(NamedTuple):
    """The score of one metric, the figure behind it where there is one, and the explanation."""

    score: float | None
    value: float | None = None
    explanation: str = ""


class RunRecord(BaseModel):
    """An interaction that was sampled, without its texts."""

    # Before 2.10, pydantic warns of every field that begins with model_.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    sample_id: str
    run_id: str = Field(description="The interaction's own id.")
    app: str
    at: AwareDatetime
    company_name: str = ""
    model_used: str = ""
    figures: Mapping[str, Figure] = Field(default_factory=dict, description="By metric.")
