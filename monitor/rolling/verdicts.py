"""The verdict on one app, metric and window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.errors import SettingsError
from monitor.models import Status, StreamKey, Tally, Verdict
from monitor.rolling.policies import POLICIES, Finding, Lines, Policy, point
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


def find_policy(name: str) -> Policy:
    """
    Find a policy by its name.

    Raises
    ------
    SettingsError
        If there is none of that name; the message lists those that exist.
    """
    try:
        return POLICIES[name]
    except KeyError:
        raise SettingsError(
            f"GROUNDWATCH_STATUS_POLICY: no policy {name!r}; there are {', '.join(POLICIES)}"
        ) from None


def judge_window(
    data: WindowData,
    *,
    policy_name: str,
    lines: Lines,
    now: datetime,
    previous: Verdict | None = None,
) -> Verdict:
    """
    Judge a window; ``since`` goes on from *previous* when the status is the same.

    A monitor that does not see says ``blind`` whatever the policy would say.
    """
    window = window_stats(data.current)
    finding = _blindness(window, data.trouble) or find_policy(policy_name)(window, lines)
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
        average_score=window.average_score,
        n=window.n,
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


def _blindness(window: WindowStats, trouble: str | None) -> Finding | None:
    if window.failed >= _BLIND_FROM and window.failed > window.n:
        tried = window.failed + window.n
        return Finding(Status.BLIND, f"{window.failed} of {tried} evaluations failed")
    return Finding(Status.BLIND, trouble) if trouble else None
