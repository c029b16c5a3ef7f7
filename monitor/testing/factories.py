"""Valid records by default; each keyword changes one thing."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime
from typing import Any

from monitor.models import Evaluation, Interaction, Sample

_sequence = itertools.count()


def make_interaction(**overrides: Any) -> Interaction:
    """Make an interaction whose answer its passage supports."""
    fields: dict[str, Any] = {
        "id": f"interaction-{next(_sequence)}",
        "app": "support-bot",
        "query": "How long does a refund take?",
        "contexts": ["Refunds are paid back to the original card within five working days."],
        "output": "A refund is paid back to your card within five working days.",
    }
    return Interaction.model_validate(fields | overrides)


def make_sample(interaction: Interaction | None = None, **overrides: Any) -> Sample:
    """Make a sample as the hook would have sent it."""
    fields: dict[str, Any] = {
        "sample_id": str(uuid.uuid4()),
        "sampled_at": datetime.now(UTC),
        "sample_rate": 1.0,
        "hook_id": "hook-1",
        "sequence": next(_sequence),
        "interaction": interaction or make_interaction(),
    }
    return Sample.model_validate(fields | overrides)


def make_evaluation(**overrides: Any) -> Evaluation:
    """Make a completed evaluation with a passing score."""
    fields: dict[str, Any] = {
        "target_event_id": "interaction-1",
        "evaluator_name": "groundedness",
        "evaluator_version": "local-1",
        "score": 0.9,
    }
    return Evaluation.model_validate(fields | overrides)
