"""Groundedness: do the passages support what the output states?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from monitor.models import Interaction
from monitor.scoring.base import Claim, Finding, Judgement, Verdict

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
            return Finding(skipped="no_claim", details=details)
        calibrated = judgement.groundedness
        score = sum(c.support for c in claims) / len(claims) if calibrated is None else calibrated
        return Finding(
            score=score,
            explanation=_explain(claims),
            confidence=None if calibrated is None else max(calibrated, 1 - calibrated),
            details=details,
        )


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
