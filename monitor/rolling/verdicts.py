"""The verdict on one app, metric and window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from monitor.models import Status, StreamKey, Tally, Verdict
from monitor.rolling.choice import EvidencePolicy, find_policy
from monitor.rolling.policies import Finding, Thresholds, point
from monitor.rolling.standing import Standing
from monitor.rolling.windows import WindowStats, drift, window_stats
from monitor.stats.intervals import Interval

#: So many failed evaluations, and more failed than completed ones, make the monitor blind.
_BLIND_FROM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowData:
    """All that a verdict rests on."""

    stream: StreamKey
    window_s: int
    current: Tally
    reference: Tally
    n_total: int = 0
    trouble: str | None = None  #: why the monitor cannot see, if it cannot
    note: str | None = None  #: what people must know beside the figures, if anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How the policy judges, where a window alone does not say it."""

    standing: Standing | None = None  #: of a policy that collects evidence
    bounds: Interval | None = None  #: on the pass rate, at all looks at once


def judge_window(
    data: WindowData,
    *,
    policy_name: str,
    lines: Thresholds,
    now: datetime,
    previous: Verdict | None = None,
    judged: Judged | None = None,
) -> Verdict:
    """
    Judge a window; ``since`` goes on from *previous* when the status is the same.

    A monitor that does not see says ``blind`` whatever the policy would say.
    """
    window = window_stats(data.current)
    judged = judged or Judged()
    finding = _blindness(window, data.trouble) or _finding(
        window, policy_name, lines, judged.standing
    )
    same = previous is not None and previous.status is finding.status
    return Verdict(
        app=data.stream.app,
        metric=data.stream.metric,
        segment=data.stream.segment,
        evaluator_version=data.stream.evaluator_version,
        window_s=data.window_s,
        policy=policy_name,
        status=finding.status,
        point_status=point(window, lines).status,
        reason=f"{finding.reason}; {data.note}" if data.note else finding.reason,
        pass_rate=window.pass_rate,
        low=window.interval.low if window.interval else None,
        high=window.interval.high if window.interval else None,
        low_any=judged.bounds.low if judged.bounds and window.n else None,
        high_any=judged.bounds.high if judged.bounds and window.n else None,
        average_score=window.average_score,
        n=window.n,
        n_effective=window.n_effective,
        **_evidence(judged.standing),
        n_failed=window.failed,
        n_skipped=window.skipped,
        n_total=data.n_total,
        n_judged=window.judged,
        n_agreed=window.agreed,
        cost_usd=window.cost_usd,
        drift=drift(data.reference, data.current, min_n=lines.min_n),
        evaluated_at=now,
        since=previous.since if previous is not None and same else now,
    )


def _finding(
    window: WindowStats, policy_name: str, lines: Thresholds, standing: Standing | None
) -> Finding:
    if standing is not None:
        return standing.finding
    policy = find_policy(policy_name)
    if isinstance(policy, EvidencePolicy):
        raise TypeError(f"the policy {policy_name!r} judges by its evidence, which is missing")
    return policy(window, lines)


def _evidence(standing: Standing | None) -> dict[str, Any]:
    if standing is None:
        return {}
    onset = standing.onset
    moments = [datetime.fromtimestamp(at_s, UTC) for at_s in onset] if onset else [None] * 3
    return {
        "evidence": standing.certainty.value,
        "onset": moments[0],
        "onset_earliest": moments[1],
        "onset_latest": moments[2],
        "more_n": standing.more_n,
        "resolution": standing.resolution,
    }


def _blindness(window: WindowStats, trouble: str | None) -> Finding | None:
    if window.failed >= _BLIND_FROM and window.failed > window.n:
        tried = window.failed + window.n
        return Finding(Status.BLIND, f"{window.failed} of {tried} evaluations failed")
    return Finding(Status.BLIND, trouble) if trouble else None
