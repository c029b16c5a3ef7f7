"""
Read from the store what status, reports and plans say.

`read_status` is the overview, `read_report` a report over a window. `read_faults` and
`plan_sampling` take a second or more: whose fault a fall is, how soon one would be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from alerts.queries import incidents_since, outbox_counts
from monitor.errors import SettingsError
from monitor.format import percent
from monitor.models import ROOT, Tally, Verdict
from monitor.models.insight import InputDrift, Insight
from monitor.report.build import (
    app_report,
    blind_when_stale,
    make_ledger,
    newest_only,
    rate_points,
    recent_counts,
    worst_first,
)
from monitor.report.model import RatePoint, Report, ReportedChange, Worst
from monitor.rolling.backtesting import RATES, Detection, detections
from monitor.rolling.evidence_state import from_json
from monitor.rolling.policies import budget_keys, rules_of
from monitor.rolling.tallies import window_stats
from monitor.settings import Settings
from monitor.store.agreement import agreements
from monitor.store.drift import read_findings
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, last_heartbeats, read_between, read_totals
from monitor.store.query import active_streams, cost_usd_since, series, shared_values
from monitor.store.samples import scored_exchanges, unscored, worst_samples
from monitor.store.verdicts import (
    StatusChange,
    fleet_falls,
    read_changes,
    read_insights,
    read_proofs,
    read_sample_rates,
    read_verdicts,
)
from monitor.store.verdicts import read_states as read_evidence

if TYPE_CHECKING:
    from monitor.rolling.faults import Faults

_STEPS = 48
_STALE_AFTER_S = 60.0
#: Of each side of a comparison of texts; more would take seconds.
_MOST_EXCHANGES, _EXCHANGES_BEFORE = 1_000, timedelta(days=8)
_DAY_S, _WEEK_S, _HOURS_A_MONTH = 86_400, 604_800, 720


def read_status(
    store: Store,
    settings: Settings,
    *,
    now: datetime,
    app: str | None = None,
    with_reasons: bool = False,
) -> Report:
    """
    Read the overview of the status window: verdicts and ledger, without series and samples.

    *with_reasons* also counts why evaluations have no score, which reads each of them.
    """
    return read_report(
        store, settings, now=now, window_s=settings.windows.status_window_s, app=app,
        whole=False, with_reasons=with_reasons,
    )  # fmt: skip


def read_report(
    store: Store,
    settings: Settings,
    *,
    now: datetime,
    window_s: int,
    app: str | None = None,
    whole: bool = True,
    with_reasons: bool = True,
) -> Report:
    """
    Read what a report over the last *window_s* seconds says, *whole* or as an overview.

    *with_reasons* counts why evaluations have no score.
    """
    windows, since = settings.windows, now - timedelta(seconds=window_s)
    # About fifty steps of whole buckets.
    step_s = max(1, -(-window_s // _STEPS // windows.bucket_s)) * windows.bucket_s
    with store.read() as connection:
        verdicts = verdicts_by_app(connection, settings, now, app)
        totals = read_totals(connection, app)
        within = read_between(connection, since.timestamp(), app=app)
        heartbeats, proofs = last_heartbeats(connection), read_proofs(connection, app=app)
        rates = read_sample_rates(connection, app)
        apps = []
        for name in sorted(verdicts.keys() | totals.keys()):
            recent = dict.fromkeys((kind.value for kind in Kind), 0)
            lost: dict[str, dict[str, int]] = {}
            for (kind, reason), n in within.get(name, Counter()).most_common():
                recent[kind.value] += n
                if n and kind in {Kind.DROPPED, Kind.FAILED, Kind.EXPIRED}:
                    lost.setdefault(kind.value, {})[reason] = n
            mine = verdicts.get(name, [])
            more: dict[str, Any] = {}
            by_metric: dict[str, dict[str, Any]] = {}
            if whole:
                more, by_metric = _explained(
                    connection, name, mine, now=now, window_s=window_s, step_s=step_s,
                    status_window_s=windows.status_window_s,
                )  # fmt: skip
            for verdict in mine if with_reasons else ():
                if verdict.window_s == windows.status_window_s and verdict.segment == ROOT:
                    without = unscored(connection, app=name, metric=verdict.metric, since=since)
                    by_metric.setdefault(verdict.metric, {}).update(without._asdict())
            for (of, metric), proof in proofs.items():
                if of == name:
                    by_metric.setdefault(metric, {})["proof"] = proof
            apps.append(app_report(
                name, mine, now=now, status_window_s=windows.status_window_s, by_metric=by_metric,
                ledger=make_ledger(totals.get(name, {})), recent=recent_counts(recent),
                lost=lost,
                last_heartbeat=heartbeats.get(name), sample_rate=rates.get(name, (None,))[0],
                **more,
            ))  # fmt: skip
        fleet = [] if app else fleet_falls(connection)
        sent = {str(state): n for state, n in outbox_counts(connection).items()} if whole else {}
    return Report(
        generated_at=now, window_s=window_s, apps=worst_first(apps), fleet=fleet, deliveries=sent
    )


def _explained(
    connection: Connection,
    app: str,
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
    window_s: int,
    step_s: int,
    status_window_s: int,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Read what a whole report says of an app beside verdicts and counts, and of each metric."""
    since = now - timedelta(seconds=window_s)
    from_s = int(since.timestamp()) // step_s * step_s
    streams = {
        stream.stream_id: stream.key.metric
        for stream in active_streams(connection, since_s=from_s, app=app)
    }
    sums = series(connection, streams, from_s=from_s, step_s=step_s)
    steps = {streams[stream_id]: tallies for stream_id, tallies in sums.items()}
    insights, inputs = read_explained(connection, app, now=now, since=since)
    labels = {
        (found.metric, found.evaluator_version): found.confusion
        for found in agreements(connection, app=app)
    }
    by_metric = {}
    for verdict in verdicts:
        if verdict.window_s != status_window_s or verdict.segment != ROOT:
            continue
        metric = verdict.metric
        by_metric[metric] = {
            "series": rate_points(
                {at_s: _point(at_s, tally) for at_s, tally in steps.get(metric, {}).items()},
                now=now, window_s=window_s, step_s=step_s,
            ),
            "worst": [
                Worst(
                    sample_id=item.sample_id, interaction_id=item.interaction_id,
                    at=item.occurred_at, score=item.score,
                    explanation=item.evaluation.explanation or "",
                )
                for item in worst_samples(connection, app=app, metric=metric, since=since)
            ],
            "insight": insights.get(metric),
            "labels": labels.get((metric, verdict.evaluator_version)),
        }  # fmt: skip
    return {
        "changes": [
            report_change(change)
            for change in read_changes(connection, since=since, app=app)
            if change.window_s == status_window_s
        ],
        "incidents": incidents_since(connection, since, app=app),
        "inputs": inputs,
        "cost_usd": cost_usd_since(connection, since.timestamp(), app),
    }, by_metric


def report_change(change: StatusChange) -> ReportedChange:
    """Return what a report says of a change of status."""
    verdict = change.verdict
    return ReportedChange(
        at=change.at, metric=change.metric, before=change.before, after=change.after,
        pass_rate=verdict.pass_rate, n=verdict.n, reason=verdict.reason,
    )  # fmt: skip


def read_explained(
    connection: Connection, app: str, *, now: datetime, since: datetime
) -> tuple[dict[str, Insight], Sequence[InputDrift]]:
    """
    Read what explains each metric of an app, and how its questions, answers and contexts moved.

    Insights have the findings of the whole stretch since then.
    """
    of_metrics, of_apps = read_insights(connection, now=now, app=app)
    found = read_findings(connection, since=since, app=app)
    return {
        metric: insight.model_copy(
            update={"findings": [item for item in found if item.metric == metric]}
        )
        for (_, metric), insight in of_metrics.items()
    }, of_apps[app].inputs if app in of_apps else ()


def verdicts_by_app(
    connection: Connection, settings: Settings, now: datetime, app: str | None
) -> dict[str, list[Verdict]]:
    """Read the newest verdicts by app; what was not evaluated for long is blind."""
    stale_after_s = max(_STALE_AFTER_S, 5 * settings.evaluate_every_s)
    found: dict[str, list[Verdict]] = {}
    for verdict in newest_only(list(read_verdicts(connection).values())):
        if app in (None, verdict.app):
            fresh = blind_when_stale(verdict, now=now, stale_after_s=stale_after_s)
            found.setdefault(verdict.app, []).append(fresh)
    return found


def _point(at_s: int, tally: Tally) -> RatePoint:
    of = rate_and_interval(tally)
    start = datetime.fromtimestamp(at_s, UTC)
    return RatePoint(start=start, n=tally.n, pass_rate=of["rate"], low=of["low"], high=of["high"])


def rate_and_interval(tally: Tally) -> dict[str, float | None]:
    """Return the pass rate and its interval, as `rate`, `low` and `high`; None without any."""
    found = window_stats(tally)
    low, high = found.interval or (None, None)
    return {"rate": None if low is None else found.pass_rate, "low": low, "high": high}


def read_faults(
    store: Store,
    app: str,
    metric: str,
    *,
    since: datetime,
    until: datetime | None = None,
    began: datetime | None = None,
) -> Faults:
    """Compare the newest samples of [since, until) with those of [began, since), usually 8 days."""
    from monitor.rolling.faults import find_faults  # noqa: PLC0415  # loads scipy.stats

    with store.read() as connection:
        later = scored_exchanges(connection, app, metric, since, until, limit=_MOST_EXCHANGES)
        began = began or since - _EXCHANGES_BEFORE
        earlier = scored_exchanges(connection, app, metric, began, since, limit=_MOST_EXCHANGES)
    return find_faults(earlier, later)


class SamplingPlan(NamedTuple):
    """
    How soon a fall of the pass rate would be found at some sample rates, and what the judge costs.

    ``sampled`` is the sample rate of the last day, None without any; ``usd_a_month`` is by rate.
    """

    pass_rate: float
    seen_per_hour: float
    sampled: float | None
    found: Sequence[Detection]
    usd_a_month: dict[float, float]


def plan_sampling(
    store: Store,
    settings: Settings,
    app: str,
    metric: str,
    *,
    fall: float,
    now: datetime,
    rates: Sequence[float] = RATES,
) -> SamplingPlan:
    """
    Play falls of the pass rate by *fall*, in [0, 1], at *rates* and the present sample rate.

    Raise SettingsError if there is nothing to plan from: no scores or requests of the last day, an
    alarm, a fall that stays above the warning threshold.
    """
    now_s = now.timestamp()
    with store.read() as connection:
        streams = active_streams(connection, since_s=now_s - _DAY_S)
        states = read_evidence(connection)
        shared = shared_values(connection, since_s=now_s - _DAY_S)
        day = read_between(connection, now_s - _DAY_S, app=app).get(app, Counter[Booking]())
        week = read_between(connection, now_s - _WEEK_S)
        spent = cost_usd_since(connection, now_s - _WEEK_S)
    mine = [each.stream_id for each in streams if each.key[:2] == (app, metric)]
    state = from_json(states[mine[0]]["memory"]) if mine and mine[0] in states else None
    if state is None:
        raise SettingsError(f"{metric!r} of {app!r} has no scores of the last day to plan from")
    if state.alarmed:
        raise SettingsError(f"{app!r} is {state.status.value}: plan when it has recovered")
    seen, sampled = (day.get(Booking(kind, ""), 0) for kind in (Kind.SEEN, Kind.SAMPLED))
    if not seen:
        raise SettingsError(f"the hook of {app!r} reported no requests in the last day")
    rate = state.usual_rate
    if rate - fall >= settings.warning_rate:
        raise SettingsError(
            f"a fall of {100 * fall:g} points from {percent(rate)} stays above the warning"
            f" threshold of {percent(settings.warning_rate)}, so it raises no alert"
        )
    rules = rules_of(settings, keys=budget_keys((each.key for each in streams), shared))
    scored = sum(counted.get(Booking(Kind.SCORED, ""), 0) for counted in week.values())
    now_sampled = sampled / seen if sampled else None
    found = detections(
        state, rules, after=max(rate - fall, 0.0), seen_per_hour=seen / 24,
        rates=sorted({*rates, *([now_sampled] if now_sampled else [])}),
    )  # fmt: skip
    each_usd = spent / scored if scored else 0.0
    cost = {one.sample_rate: one.per_hour * _HOURS_A_MONTH * each_usd for one in found}
    return SamplingPlan(rate, seen / 24, now_sampled, found, cost)
