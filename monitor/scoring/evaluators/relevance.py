"""Relevance: does the output answer the query?"""

from __future__ import annotations

from monitor.models import Interaction
from monitor.scoring.base import Finding, Judgement


class Relevance:
    """Scores what the judge says about query and output; passages are not needed."""

    def unmet(self, interaction: Interaction) -> str | None:
        """Need an output and a query."""
        if not interaction.output.strip():
            return "empty_output"
        return None if (interaction.query or "").strip() else "no_query"

    def evaluate(self, judgement: Judgement, _: Interaction | None = None) -> Finding:
        """Read relevance out of a judgement."""
        if judgement.declined_rightly:
            return Finding(skipped="right_refusal")
        if not judgement.readable:
            return Finding(skipped="unsupported_text")
        if judgement.relevance is None:
            return Finding(skipped="nothing_asked")
        return Finding(score=judgement.relevance, explanation=judgement.relevance_reason)
