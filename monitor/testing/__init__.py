"""
Public doubles: valid records, servers that play the outside world (`receivers`), and laws.

Records are valid by default; each keyword changes one thing.
"""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime
from typing import Any

from monitor.models import Evaluation, Interaction, Sample
from monitor.models.status import Drift, Status, Verdict
from monitor.testing.pipeline_laws import LawReport, laws

__all__ = [
    "LawReport",
    "laws",
    "make_evaluation",
    "make_interaction",
    "make_sample",
    "make_verdict",
]

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


_PASS_RATES = {Status.HEALTHY: 0.93, Status.WARNING: 0.80, Status.CRITICAL: 0.62}


def make_verdict(status: Status, now: datetime, **overrides: Any) -> Verdict:
    """Make a verdict of that status; ``n_total`` grows with time, as if traffic never stopped."""
    rate = _PASS_RATES.get(status)
    fields: dict[str, Any] = {
        "app": "support-bot",
        "metric": "groundedness",
        "window_s": 3600,
        "policy": "point_min_n",
        "status": status,
        "point_status": status,
        "reason": f"the pass rate says {status}",
        "pass_rate": rate,
        "low": None if rate is None else rate - 0.06,
        "high": None if rate is None else rate + 0.06,
        "average_score": rate,
        "n": 0 if rate is None else 212,
        "n_total": int(now.timestamp()),
        "drift": Drift(reference_pass_rate=0.94, reference_n=3410),
        "evaluated_at": now,
        "since": now,
    }
    return Verdict.model_validate(fields | overrides)
