"""Groundedness: do the passages support what the output states?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from monitor.models import Interaction
from monitor.scoring.base import Claim, Finding, Judgement, Verdict

_ABSENCE_COSTS = 0.5  # of what a contradiction costs: absence may be true, only unproven
_CONTRADICTED = 2  # weight of a contradicted claim
_MAX_LISTED = 50
_MAX_NAMED = 2
_MAX_CLAIM_CHARS = 120
_MAX_LISTED_CHARS = 1_000


class Groundedness:
    """Scores the judge's probability for the whole, else the mean support of the claims."""

    def unmet(self, interaction: Interaction) -> str | None:
        """Need an output and at least one passage with text."""
        if not interaction.output.strip():
            return "empty_output"
        if not any(context.text.strip() for context in interaction.contexts):
            return "no_context"
        return None

    def evaluate(self, judgement: Judgement, _: Interaction | None = None) -> Finding:
        """Read groundedness; refusals and small talk are left out, never counted as grounded."""
        if not judgement.readable:
            return Finding(skipped="unsupported_text")
        claims = [claim for claim in judgement.claims if claim.verdict is not Verdict.NO_CLAIM]
        details: dict[str, Any] = {
            "claims": [_listed(claim) for claim in judgement.claims[:_MAX_LISTED]]
        }
        more = len(judgement.claims) - _MAX_LISTED
        if more > 0:
            details["claims_not_listed"] = more
        if judgement.claims_not_judged:
            details["claims_not_judged"] = judgement.claims_not_judged
        if not claims:
            skipped = "right_refusal" if judgement.declined_rightly else "no_claim"
            return Finding(skipped=skipped, details=details)
        details |= _shares(claims)
        calibrated = judgement.groundedness
        score = _mean_support(claims) if calibrated is None else calibrated
        return Finding(
            score=score,
            explanation=" ".join([_explain(claims), *(f"{note}." for note in judgement.notes)]),
            confidence=None if calibrated is None else max(calibrated, 1 - calibrated),
            details=details,
        )


def _shares(claims: Sequence[Claim]) -> dict[str, Any]:
    """
    Say what else follows from the verdicts, each in [0, 1].

    ``hallucination`` is the share of claims that the passages do not carry, and
    ``faithfulness`` what is left when each contradicted claim costs a whole point and each
    that is only absent or unproven half of one.
    """
    counts = Counter(claim.verdict for claim in claims)
    wrong = counts[Verdict.CONTRADICTED]
    absent = counts[Verdict.NOT_FOUND] + counts[Verdict.UNVERIFIED]
    return {
        "verdicts": {verdict.value: count for verdict, count in sorted(counts.items())},
        "hallucination": round((wrong + absent) / len(claims), 6),
        "faithfulness": round(1 - (wrong + absent * _ABSENCE_COSTS) / len(claims), 6),
    }


def _mean_support(claims: Sequence[Claim]) -> float:
    """Average the claims; one that is contradicted weighs twice one that is only not found."""
    weights = [_CONTRADICTED if c.verdict is Verdict.CONTRADICTED else 1 for c in claims]
    supported = sum(c.support * weight for c, weight in zip(claims, weights, strict=True))
    return supported / sum(weights)


def _explain(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.verdict for claim in claims)
    supported = counts[Verdict.SUPPORTED]
    head = f"{supported} of {len(claims)} {'claim is' if len(claims) == 1 else 'claims are'}"
    failing = [
        f"{verdict.replace('_', ' ')}: {_quoted(claims, verdict)}"
        for verdict in (Verdict.CONTRADICTED, Verdict.NOT_FOUND, Verdict.UNVERIFIED)
        if counts[verdict]
    ]
    return "; ".join([f"{head} supported", *failing]) + "."


def _quoted(claims: Sequence[Claim], verdict: Verdict) -> str:
    texts = [claim.text for claim in claims if claim.verdict is verdict]
    quoted = ", ".join(f'"{_shortened(text)}"' for text in texts[:_MAX_NAMED])
    more = len(texts) - _MAX_NAMED
    return f"{quoted} and {more} more" if more > 0 else quoted


def _shortened(text: str, limit: int = _MAX_CLAIM_CHARS) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _listed(claim: Claim) -> dict[str, Any]:
    return {
        "text": _shortened(claim.text, _MAX_LISTED_CHARS),
        "verdict": claim.verdict.value,
        "support": round(claim.support, 4),
        "evidence": claim.evidence,
        "context_index": claim.context_index,
        "reason": claim.reason,
    }
