"""A sample once a worker had it: its outcome, the segments that count it, its run in a sheet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from .evaluation import Evaluation, EvaluationStatus
from .interaction import Interaction, Sample


class Outcome(StrEnum):
    """The one place in which a sample ends."""

    SCORED = "scored"  #: at least one evaluation completed
    FAILED = "failed"  #: none completed and at least one failed
    SKIPPED = "skipped"  #: there was nothing to judge
    EXPIRED = "expired"  #: it waited too long to be of use, and was not scored


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSample:
    """A sample with everything its evaluators said of it."""

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
        """Why the sample has no score at all; '' when it has one."""
        if self.outcome is Outcome.SCORED:
            return ""
        if self.expired_by:
            return self.expired_by
        wanted = EvaluationStatus(self.outcome.value)
        reasons = sorted({e.reason for e in self.evaluations if e.status is wanted})
        return reasons[0] if reasons else "no_evaluator"


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
