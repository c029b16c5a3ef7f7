"""What answers the questions that metrics have of their own, all of a sample in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from monitor.models import Interaction
from monitor.scoring.declaration import Answers, Criterion


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one call about criteria said, and what it used."""

    answers: Answers
    duration_ms: float = 0.0
    cost_usd: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Asker(Protocol):
    """Something that answers criteria about an interaction; safe for several threads."""

    @property
    def version(self) -> str:
        """Name everything that shapes an answer: prompt and model."""

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """Answer all criteria at once from those *fields*, or raise a ``JudgeError``."""

    def close(self) -> None:
        """Give connections back."""
