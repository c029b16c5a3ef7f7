"""The verdict on one app, metric and window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.models import Status, StreamKey, Tally, Verdict
from monitor.rolling.policies import EvidencePolicy, PolicyFinding, Thresholds, find_policy, point
from monitor.rolling.standing import Standing
from monitor.rolling.windows import WindowStats, drift, window_stats

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


def judge_window(
    data: WindowData,
    *,
    policy_name: str,
    lines: Thresholds,
    now: datetime,
    previous: Verdict | None = None,
    standing: Standing | None = None,
) -> Verdict:
    """
    Return the verdict on a stream; ``status_since`` goes on from *previous* while it is the same.

    Under a policy that collects evidence the status and its figures are those of *standing*, else
    those of the window. A monitor that does not see says ``blind`` whatever the policy would say.
    """
    window = window_stats(data.current)
    headline = standing.headline if standing else None
    finding = standing.finding if standing else _by_window(window, policy_name, lines)
    if window.failed >= _BLIND_FROM and window.failed > window.n:
        tried = window.failed + window.n
        finding = PolicyFinding(Status.BLIND, f"{window.failed} of {tried} evaluations failed")
    elif data.trouble:
        finding = PolicyFinding(Status.BLIND, data.trouble)
    same = previous is not None and previous.status is finding.status
    bounds = headline.interval if headline else window.interval
    since = now - timedelta(seconds=data.window_s)
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
        pass_rate=headline.pass_rate if headline else window.pass_rate,
        low=bounds.low if bounds else None,
        high=bounds.high if bounds else None,
        n=headline.n if headline else window.n,
        since=datetime.fromtimestamp(headline.since_s, UTC) if headline else since,
        status_since=previous.status_since if previous is not None and same else now,
        window_pass_rate=window.pass_rate,
        window_low=window.interval.low if window.interval else None,
        window_high=window.interval.high if window.interval else None,
        window_n=window.n,
        average_score=window.average_score,
        n_effective=window.n_effective,
        **_evidence(standing, finding.status),
        n_failed=window.failed,
        n_skipped=window.skipped,
        n_total=data.n_total,
        n_judged=window.judged,
        n_agreed=window.agreed,
        cost_usd=window.cost_usd,
        drift=drift(data.reference, data.current, min_n=lines.min_n),
        evaluated_at=now,
    )


def _by_window(window: WindowStats, policy_name: str, lines: Thresholds) -> PolicyFinding:
    policy = find_policy(policy_name)
    if isinstance(policy, EvidencePolicy):
        raise TypeError(f"the policy {policy_name!r} judges by its evidence, which is missing")
    return policy(window, lines)


def _evidence(standing: Standing | None, status: Status) -> dict[str, Any]:
    if standing is None:
        return {"phase": "collecting"} if status is Status.INSUFFICIENT_DATA else {}
    onset = standing.onset
    moments = [datetime.fromtimestamp(at_s, UTC) for at_s in onset] if onset else [None] * 3
    return {
        "phase": standing.phase if status is Status.INSUFFICIENT_DATA else None,
        "evidence": standing.certainty.value,
        "onset": moments[0],
        "onset_earliest": moments[1],
        "onset_latest": moments[2],
        "more_n": standing.more_n,
        "resolution": standing.resolution,
    }
