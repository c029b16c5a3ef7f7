"""The alert of the monitor itself: it does not see how an app does; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from alerts.evidence import Observation
from alerts.routing.matchers import MONITOR_PREFIX
from monitor.models.status import Status, Verdict

#: Reserved: no evaluator may be named so.
BLIND_METRIC = "monitor:blind"
_CLEAR = "the monitor sees every metric of this app"


def blindness(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Say of each app and window whether the monitor sees: a warning when any metric is blind."""
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.metric.startswith(MONITOR_PREFIX):
            continue
        groups[verdict.app, verdict.window_s].append(verdict)
    return [_judge(group) for group in groups.values()]


def observe(verdict: Verdict) -> Observation:
    """Read a verdict as evidence; a blind monitor sees no new samples, yet each look is news."""
    seen = Observation.of(verdict)
    if not verdict.metric.startswith(MONITOR_PREFIX):
        return seen
    return replace(seen, n_total=round(verdict.evaluated_at.timestamp() * 1000))


def starts_nothing(verdict: Verdict) -> bool:
    """Say whether nothing needs to be remembered of a monitor that always saw."""
    return verdict.metric.startswith(MONITOR_PREFIX) and verdict.status is Status.HEALTHY


def _judge(group: Sequence[Verdict]) -> Verdict:
    blind = [verdict for verdict in group if verdict.status is Status.BLIND]
    status = Status.WARNING if blind else Status.HEALTHY
    now = max(verdict.evaluated_at for verdict in group)
    return Verdict(
        app=group[0].app,
        metric=BLIND_METRIC,
        window_s=group[0].window_s,
        policy="any_blind",
        status=status,
        point_status=status,
        reason=_reason(blind) if blind else _CLEAR,
        n=0,
        n_failed=sum(verdict.n_failed for verdict in blind),
        evaluated_at=now,
        since=min((verdict.since for verdict in blind), default=now),
    )


def _reason(blind: Sequence[Verdict]) -> str:
    first = min(blind, key=lambda verdict: (verdict.metric, verdict.segment))
    more = f" (and {len(blind) - 1} more like it)" if len(blind) > 1 else ""
    return f"{first.metric}: {first.reason}{more}"
