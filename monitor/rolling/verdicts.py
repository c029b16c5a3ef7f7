"""The verdict on one app, metric and window: the figures that decide, and why in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from monitor.format import percent, short_percent
from monitor.models import AppLevel, Status, StreamKey, Tally, Verdict
from monitor.models.status import certainty
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.evidence_state import (
    ALARMED,
    LINE,
    Certainty,
    EvidenceState,
    is_doubtful,
    line_threshold,
)
from monitor.rolling.policies import (
    EvidencePolicy,
    PolicyFinding,
    Rules,
    Thresholds,
    find_policy,
    nothing_scored,
    point,
    status_of,
)
from monitor.rolling.tallies import DOUBT, WindowStats, drift, window_stats
from monitor.stats.evidence import Onset, log_mean, rate_grid, resolution, samples_to_decide
from monitor.stats.intervals import Interval, wilson_interval

#: So many failed evaluations, and more failed than completed ones, make the monitor blind.
_BLIND_FROM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowData:
    """All that a verdict is based on."""

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
    thresholds: Thresholds,
    now: datetime,
    previous: Verdict | None = None,
    evidence: EvidenceFinding | None = None,
    level: AppLevel | None = None,
) -> Verdict:
    """
    Return the verdict on a stream; ``status_since`` goes on from *previous* while it is the same.

    Under a policy that collects evidence the status and its figures are those of *evidence*, else
    those of the window. A monitor that does not see says ``blind`` whatever the policy would say.
    """
    window = window_stats(data.current)
    rate = window.pass_rate
    headline = evidence.headline if evidence else None
    if evidence is not None:
        finding = PolicyFinding(evidence.status, evidence.reason)
    elif isinstance(policy := find_policy(policy_name), EvidencePolicy):
        raise TypeError(f"the policy {policy_name!r} judges by its evidence, which is missing")
    else:
        finding = policy(window, thresholds)
        if policy is point and window.n:  # it knows no weights
            rate = window.passed / window.n
    if window.failed >= _BLIND_FROM and window.failed > window.n:
        tried = window.failed + window.n
        finding = PolicyFinding(Status.BLIND, f"{window.failed} of {tried} evaluations failed")
    elif data.trouble:
        finding = PolicyFinding(Status.BLIND, data.trouble)
    status, reason = finding
    if headline is None:
        since_s = (now - timedelta(seconds=data.window_s)).timestamp()
        bounds = _shown_interval(window, rate, status, thresholds)
        headline = Headline(pass_rate=rate, interval=bounds, n=window.n, since_s=since_s)
    low, high = headline.interval or (None, None)
    if high is None and status in ALARMED:
        reason = f"{reason}, which may be chance"
    window_low, window_high = window.interval or (None, None)
    same = previous is not None and previous.status is status
    return Verdict(
        app=data.stream.app,
        metric=data.stream.metric,
        segment=data.stream.segment,
        evaluator_version=data.stream.evaluator_version,
        window_s=data.window_s,
        policy=policy_name,
        status=status,
        point_status=point(window, thresholds).status,
        reason=f"{reason}; {data.note}" if data.note else reason,
        pass_rate=headline.pass_rate,
        low=low,
        high=high,
        n=headline.n,
        since=datetime.fromtimestamp(headline.since_s, UTC),
        status_since=previous.status_since if previous is not None and same else now,
        window_pass_rate=window.pass_rate,
        window_low=window_low,
        window_high=window_high,
        window_n=window.n,
        average_score=window.average_score,
        n_effective=window.n_effective,
        **_evidence(evidence, status),
        n_failed=window.failed,
        n_skipped=window.skipped,
        n_total=data.n_total,
        n_judged=window.judged,
        n_agreed=window.agreed,
        cost_usd=window.cost_usd,
        drift=drift(data.reference, data.current, min_n=thresholds.min_n),
        level=level,
        evaluated_at=now,
    )


def _shown_interval(
    window: WindowStats, rate: float | None, status: Status, thresholds: Thresholds
) -> Interval | None:
    """Return the window's interval; None where a status that is based on less contradicts it."""
    bounds = window.interval
    if bounds is None or rate is None or not bounds.low <= rate <= bounds.high:
        return None
    says = status if status in ALARMED else Status.HEALTHY
    agrees = status is Status.BLIND or status_of(bounds.high, thresholds) is says
    return bounds if agrees else None


def _evidence(evidence: EvidenceFinding | None, status: Status) -> dict[str, Any]:
    if evidence is None:
        return {"phase": "collecting"} if status is Status.INSUFFICIENT_DATA else {}
    onset = evidence.onset
    names = ("onset", "onset_earliest", "onset_latest")
    moments = [datetime.fromtimestamp(at_s, UTC) for at_s in onset or ()]
    return dict(zip(names, moments, strict=False)) | {
        "phase": evidence.phase if status is Status.INSUFFICIENT_DATA else None,
        "evidence": evidence.certainty.value,
        "more_n": evidence.more_n,
        "resolution": evidence.resolution,
    }


#: A fall that would be seen within a day only below this rate is as good as not seen.
_LOW_POWER: Final = 0.3
_RESOLUTIONS: Final = lru_cache(maxsize=16_384)(resolution)
#: Level of the lower bound of a posterior.
_LOW: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """
    The figures on which a status rests; rates in [0, 1].

    Since the change in an incident, else of the last half to whole day. In an incident ``high`` is
    the 90 % quantile of the present rate, ``low`` the 5 % quantile or the rate counted if that is
    lower; they hold at every look. The status is read from ``high`` alone.
    """

    pass_rate: float | None
    interval: Interval | None
    n: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFinding:
    """A status with what it is based on; rates in [0, 1]."""

    status: Status
    reason: str
    headline: Headline
    certainty: Certainty
    effect: float  #: design effect: by how much the samples count less than independent ones
    phase: Literal["collecting", "undecided"] | None = None  #: of too little data
    onset: Onset | None = None
    more_n: int | None = None  #: about so many more samples decide, if the rate goes on
    resolution: float | None = None  #: only a fall below this would be seen within a day


def evidence_finding(state: EvidenceState, window: WindowStats, rules: Rules) -> EvidenceFinding:
    """Return how a stream stands; *window* is the status window, for the rate that goes on."""
    # Two digits are enough to show, and seldom change.
    n = float(f"{state.n_day / state.baseline.effect:.2g}")
    finest = _RESOLUTIONS(n, rules.warning_rate, line_threshold(state, rules))
    more_n = _more_n(state, window, rules)
    status, undecided = state.status, _is_undecided(state, rules)
    phase: Literal["collecting", "undecided"] | None = None
    if status is Status.HEALTHY and finest < _LOW_POWER:
        status, phase = Status.INSUFFICIENT_DATA, "collecting"
        reason = f"low power: only a pass rate below {short_percent(finest)} would be seen in a day"
    elif status is Status.INSUFFICIENT_DATA:
        phase = "undecided" if undecided else "collecting"
        if window.n == 0 and window.failed + window.skipped:
            reason = nothing_scored(window)
        elif undecided:
            decides = "" if more_n is None else f", about {more_n:,} more needed"
            reason = (
                f"{state.count.n:,.0f} scored{decides}: {percent(state.count.rate)} passed,"
                f" below {short_percent(rules.warning_rate)} but not beyond chance"
            )
        elif state.n_day >= rules.min_n:
            reason = "no new scores for six hours or more"
        else:
            n, worth = headline(state, rules).n, math.floor(state.n_day + 0.5)
            reason = f"{worth} of {rules.min_n} scores"
            if n > worth:  # unequally sampled, seen by no judge, or old
                reason = f"{n:,} scores count as {worth} of the {rules.min_n} needed"
    elif state.alarmed:
        reason = _alarm_reason(state, rules)
    else:
        reason = _healthy_reason(state, window, rules, finest, more_n)
    if window.n == 0 and status in {Status.HEALTHY, *ALARMED}:
        reason = f"no scores in the status window, so the status is that of before: {reason}"
    return EvidenceFinding(
        status=status,
        reason=reason,
        headline=headline(state, rules),
        certainty=state.certainty,
        effect=state.baseline.effect,
        phase=phase,
        onset=state.onset if state.alarmed else None,
        more_n=more_n,
        resolution=finest,
    )


def headline(state: EvidenceState, rules: Rules) -> Headline:
    """Return the figures on which the status of a stream rests."""
    count = state.count
    if not state.alarmed and not _is_undecided(state, rules):
        count = state.recently(rules.bucket_s)
    n = round(count.n)
    if count.size <= 0:
        return Headline(pass_rate=None, interval=None, n=n, since_s=count.from_s)
    rate = min(max(count.rate, 0.0), 1.0)
    if state.alarmed and state.log_p is not None:
        grid = rate_grid(rules.warning_rate, rules.critical_rate)
        limits = state.baseline.fallen_below or (math.nan,)
        top = grid.top(np.asarray(sum(limits) / len(limits)))
        both = [log_p for log_p in (state.log_p, state.quasi) if log_p is not None]
        low, middle = (
            [float(grid.quantile(log_p, top, level)) for log_p in both] for level in (_LOW, 0.5)
        )
        bounds = Interval(min(state.high, *low), state.high)
        if rate > state.high:  # it changed again, and what was counted lags behind
            rate = max(middle)
    else:
        effect = state.baseline.effect
        size = count.size / effect
        plain = wilson_interval(min(max(count.passed / effect, 0.0), size), size, alpha=DOUBT)
        # The threshold is not refuted, so it lies inside.
        bounds = Interval(plain.low, max(plain.high, rules.warning_rate))
    # Only `high` decides, so only there a rate is cut: 0 of 300 passed is 0 %.
    rate = min(rate, bounds.high)
    bounds = bounds._replace(low=min(bounds.low, rate))
    return Headline(pass_rate=rate, interval=bounds, n=n, since_s=count.from_s)


def _healthy_reason(
    state: EvidenceState, window: WindowStats, rules: Rules, finest: float, more_n: int | None
) -> str:
    line = rules.warning_rate
    reason = f"no evidence of a pass rate below {short_percent(line)}"
    reason += f"; a fall below {percent(finest)} would be seen within a day"
    if state.incidents and window.pass_rate is not None and window.pass_rate < line:
        count = state.count
        if count.n < window.n and count.rate >= line:
            return (
                "recovered, although the window still includes the incident:"
                f" {percent(count.rate)} passed since; {reason}"
            )
    if window.interval is None or window.interval.high >= line or more_n is None:
        return reason
    return f"{reason}; about {more_n:,} more samples as low as these would be evidence"


def _alarm_reason(state: EvidenceState, rules: Rules) -> str:
    critical = state.status is Status.CRITICAL
    line = rules.critical_rate if critical else rules.warning_rate
    where = f"pass rate is below the {short_percent(line)} {state.status.value} threshold"
    grid = rate_grid(rules.warning_rate, rules.critical_rate)
    assert state.log_p is not None
    weights = np.exp(state.log_p - state.log_p.max())
    sure = weights[np.flatnonzero(grid.below < line)].sum() / weights.sum()
    how_certain = certainty(sure)
    where += f" ({how_certain})" if how_certain else ", and no sign of recovery since the alarm"
    before = state.baseline.rate
    if state.certainty is Certainty.PROBABLE and before is not None:
        where += f"; it fell from about {percent(before, 0)}"
    return where


def _is_undecided(state: EvidenceState, rules: Rules) -> bool:
    if state.status is not Status.INSUFFICIENT_DATA:
        return False
    size, passed = np.array([[state.count.size], [state.count.passed]])
    return bool(is_doubtful(size, passed, rules, healthy=np.array([False]))[0])


def _more_n(state: EvidenceState, window: WindowStats, rules: Rules) -> int | None:
    rate = window.pass_rate
    if state.status is Status.INSUFFICIENT_DATA:
        if not _is_undecided(state, rules):
            return max(1, math.ceil(rules.min_n - state.n_day))
        rate = state.count.rate
    if state.alarmed or rate is None:
        return None
    missing = line_threshold(state, rules) - max(0.0, float(log_mean(state.bets.log_r[LINE])))
    decides = samples_to_decide(rate, rules.warning_rate, missing)
    return None if decides is None else math.ceil(decides * state.baseline.effect)


class Began(NamedTuple):
    """A status that began at some moment; ``onset_s`` is when its trouble began, where known."""

    at_s: float
    status: Status
    onset_s: float | None = None


def well_spans(changes: Iterable[Began], *, from_s: int, to_s: int) -> list[ReferenceSpan]:
    """
    Cut the times at which the status was warning or critical out of [from_s, to_s).

    A reference that held an incident would make the next one look normal. A status turns
    a little after its trouble began: where the onset is known, the cut is made there;
    otherwise a remainder of the trouble stays in. *changes* are those of one key, oldest first;
    they may begin before *from_s*. The spans are in order, without overlap.

    >>> well_spans([Began(40, Status.CRITICAL), Began(60, Status.HEALTHY)], from_s=0, to_s=100)
    [ReferenceSpan(from_s=0, to_s=40), ReferenceSpan(from_s=60, to_s=100)]
    >>> well_spans([Began(40, Status.CRITICAL, onset_s=30)], from_s=0, to_s=100)
    [ReferenceSpan(from_s=0, to_s=30)]
    """
    spans: list[ReferenceSpan] = []
    start: int | None = from_s
    for change in changes:
        at_s = min(max(int(change.at_s), from_s), to_s)
        if change.status in {Status.WARNING, Status.CRITICAL}:
            if start is not None:
                spans.append(ReferenceSpan(start, at_s))
            start = None
            if change.onset_s is not None:
                spans = [
                    ReferenceSpan(span.from_s, min(span.to_s, int(change.onset_s)))
                    for span in spans
                    if span.from_s < change.onset_s
                ]
        elif start is None:
            start = at_s
    if start is not None:
        spans.append(ReferenceSpan(start, to_s))
    return [span for span in spans if span.to_s > span.from_s]
