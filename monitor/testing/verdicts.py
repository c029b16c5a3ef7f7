"""Verdicts as the rolling step would give them; each keyword changes one thing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from monitor.models.status import Drift, Status, Verdict

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
