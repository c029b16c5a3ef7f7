"""What a judge is, what an evaluator is, and what they say of one interaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from monitor.models import Evaluation, Interaction


class Verdict(StrEnum):
    """What a judge found for one claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"
    UNVERIFIED = "unverified"  #: called supported, but the quote is no proof
    NO_CLAIM = "no_claim"  #: nothing that passages could support: a refusal, a greeting


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement of the output; ``support`` is in [0, 1]."""

    text: str
    verdict: Verdict
    support: float
    evidence: str | None = None
    context_index: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """
    Everything one look at an interaction says, for all metrics at once.

    ``groundedness`` is set by a judge that has a calibrated probability for the
    whole response; without it the claims are averaged. ``relevance`` is None when
    it was not judged. ``readable`` is False when the judge finds no words.
    ``declined_rightly`` says that the output only declines and the passages hold no answer.
    """

    claims: tuple[Claim, ...] = ()
    groundedness: float | None = None
    relevance: float | None = None
    relevance_reason: str = ""
    readable: bool = True
    declined_rightly: bool = False
    claims_not_judged: int = 0  #: sentences beyond the most that are judged
    details: dict[str, Any] = field(default_factory=dict)  #: how it was judged, for the record
    notes: tuple[str, ...] = ()  #: what a reader of the explanation should know
    model: str | None = None
    kept: bool = False  #: paid for before, for the same texts
    duration_ms: float = 0.0
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Judge(Protocol):
    """Something that can judge an interaction; safe to call from several threads."""

    @property
    def version(self) -> str:
        """Name everything that shapes the verdict: prompt, model, coefficients."""

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge one interaction, or raise a ``JudgeError``."""

    def close(self) -> None:
        """Give connections back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one metric makes of a judgement: a score in [0, 1], or why there is none."""

    score: float | None = None
    skipped: str | None = None
    explanation: str = ""
    confidence: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Evaluator(Protocol):
    """One metric: what it needs, and how it reads a judgement."""

    def unmet(self, interaction: Interaction) -> str | None:
        """Name what *interaction* lacks for this metric; None when it can be judged."""

    def evaluate(self, judgement: Judgement, interaction: Interaction, /) -> Finding:
        """Read one metric out of a judgement of *interaction*."""


class ScoresSamples(Protocol):
    """Whatever turns an interaction into one evaluation a metric."""

    @property
    def version(self) -> str:
        """The ``evaluator_version`` of what it makes."""

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` are worth having in flight."""

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """Make one evaluation a metric; *key* names the sample."""

    def close(self) -> None:
        """Give connections back."""
