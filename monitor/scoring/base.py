"""What a judge and a scorer are, and what they say of one interaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from monitor.models import Evaluation, Interaction

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


#: In the metadata of a skipped evaluation, the score of which the local scorer is not sure.
UNSURE_SCORE = "unsure_score"


class ClaimVerdict(StrEnum):
    """What a judge found for one claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"
    UNDECIDED = "undecided"  #: neither surely supported nor surely not
    WRONG_REFUSAL = "wrong_refusal"  #: it declines to answer, though the passages hold the answer
    UNVERIFIED = "unverified"  #: called supported, but without a true quote
    NO_CLAIM = "no_claim"  #: nothing that passages could support: a refusal, a greeting


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing that the output states; ``support`` is in [0, 1]."""

    text: str
    verdict: ClaimVerdict
    support: float
    evidence: str | None = None
    context_index: int | None = None
    reason: str = ""
    sentence: str = ""  #: of the output, where the text is in a judge's own words
    by_passage: tuple[float, ...] = ()  #: the support by each alone, where a judge knows that


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """
    What one judge says of an interaction, for all metrics that share it.

    ``groundedness`` is set by a judge that has a calibrated probability for the
    whole response; without it the claims are averaged. ``relevance`` is None when
    it was not judged. ``readable`` is False when the judge finds no words.
    ``declined_rightly`` says that the output only declines and the passages hold no answer.
    """

    claims: tuple[Claim, ...] = ()
    groundedness: float | None = None
    relevance: float | None = None
    relevance_reason: str = ""
    relevance_skipped: str = "nothing_asked"  #: why there is no relevance, where there is none
    readable: bool = True
    declined_rightly: bool = False
    claims_not_judged: int = 0  #: sentences beyond the most that are judged
    details: dict[str, Any] = field(default_factory=dict)  #: how it was judged, for the record
    notes: tuple[str, ...] = ()  #: what a reader of the explanation should know
    model: str | None = None
    kept: bool = False  #: from the verdict cache: paid for before, for the same texts
    duration_ms: float = 0.0
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Judge(Protocol):
    """Something that can judge an interaction; safe to call from several threads."""

    @property
    def version(self) -> str:
        """All that shapes the verdict: prompt, model, coefficients."""

    def judge(self, interaction: Interaction) -> Judgement:
        """Judge one interaction, or raise a ``JudgeError``."""

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one metric makes of a judgement: a score in [0, 1], or why there is none."""

    score: float | None = None
    skipped: str | None = None
    explanation: str = ""
    confidence: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class KeepsJudgements(Protocol):
    """A judge or a scorer that keeps judgements; ``score`` of such a scorer takes them."""

    def kept(self, interactions: Sequence[Interaction]) -> list[Judgement | None]:
        """Return the judgements that are kept, each in the place of its interaction."""


@runtime_checkable
class InfersContradictions(Protocol):
    """A judge that may tell of two texts whether they contradict each other."""

    def contradicted(self, pairs: Sequence[tuple[str, str]]) -> list[float] | None:
        """Return the probability that the first of two texts contradicts the second, in [0, 1]."""


class Scorer(Protocol):
    """Turns an interaction into one evaluation a metric; may be shared by threads."""

    @property
    def version(self) -> str:
        """The ``evaluator_version`` of its evaluations."""

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` are worth having in flight."""

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """Return one evaluation a metric; *key* names the sample."""

    def close(self) -> None:
        """Close connections."""


def storable(text: str, limit: int) -> str:
    """Return up to *limit* characters of a model's *text* without what a database refuses."""
    return _CONTROLS.sub("", text[: 2 * limit])[:limit].strip()
