"""
What is known of an alert: its background, read when it fires, and the facts of its message.

`Backgrounds` reads likely causes, affected segments, trend, an example and how the pipeline does.
`facts_of` lists it all with labels, in the order in which people ask; pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select

from alerts.conditions import (
    BLINDNESS,
    CONDITIONS,
    ERROR_RATE,
    JUDGE_CHANGED,
    MONITOR_PREFIX,
    RULE_PREFIX,
    SELF,
)
from alerts.model import CLOSED, OVER, Background, Evidence, Other, Snapshot
from monitor.format import (
    duration,
    number,
    percent,
    plain_text,
    rate_with_interval,
    sparkline,
    utc_time,
)
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.insight import AppInsight, Insight
from monitor.models.status import Verdict
from monitor.report.words import NOT_VERIFIED
from monitor.store.ledger import Booking, Kind, read_between
from monitor.store.query import series
from monitor.store.samples import worst_samples
from monitor.store.tables import counts, streams
from monitor.store.verdicts import read_insights, read_release_marks

Fact = tuple[str, str]

#: What an answer does that fails a metric; of other metrics it "fails" them.
_FAILING = {
    "groundedness": "state things their sources do not support",
    "faithfulness": "state things their sources do not support",
    "relevance": "do not answer the question",
    "answer_relevance": "do not answer the question",
}
_BEFORE = {
    Evidence.HEALTHY: "healthy",
    Evidence.WARNING: "already at warning",
    Evidence.CRITICAL: "already critical",
    Evidence.UNCERTAIN: "not enough data to tell",
}


def facts_of(
    snapshot: Snapshot, tells: frozenset[AlertEvent], digest: Sequence[str]
) -> tuple[Fact, ...]:
    """List what is known, each with a short label, in the order in which people ask."""
    verdict, background, drift = snapshot.verdict, snapshot.background, snapshot.verdict.drift
    before, usual = [], rate_before(verdict)
    if snapshot.status_before is not None:
        before.append(_BEFORE[snapshot.status_before])
    if drift is not None and usual is not None:
        passed = f"{percent(usual)} of answers passed"
        before.append(f"{passed} (n = {drift.reference_n:,}, the reference)")
    window = ""  # its plain pass rate, where that is another than the one that decided
    if verdict.window_pass_rate is not None and verdict.window_n != verdict.n:
        span = f"of the {verdict.window_n:,} answers of the last {duration(verdict.window_s)} pass"
        window = f"{percent(verdict.window_pass_rate)} {span}"
        if verdict.window_n > verdict.n:
            window += ", those from before included"
    of_monitor = snapshot.key.metric.startswith(MONITOR_PREFIX)
    of_answers = not of_monitor and snapshot.reason not in CLOSED
    threshold, thresholds = "", snapshot.thresholds
    of_rule = snapshot.key.metric.startswith(RULE_PREFIX)  # which says its own threshold
    if of_answers and verdict.evidence is None and thresholds is not None and not of_rule:
        threshold = f"{snapshot.level.value} below {percent(thresholds.of(snapshot.level))}"
        if AlertEvent.RESOLVED in tells:
            threshold = f"healthy from {percent(thresholds.of(Severity.WARNING))}"
    goes_on = not tells & OVER
    sure = goes_on and verdict.evidence in {"probable", "confirmed"}
    condition = CONDITIONS.get(snapshot.key.metric, BLINDNESS if of_monitor else None)
    if snapshot.shared_cause and not of_monitor:
        condition = CONDITIONS[JUDGE_CHANGED]
    counts = [(verdict.n_failed, "failed"), (verdict.n_skipped, "skipped")]
    unscored = " and ".join(f"{count:,} {name}" for count, name in counts if count)
    reason = plain_text(verdict.reason, 300)
    causes = ("" if of_monitor else snapshot.shared_cause, background.changed)
    flapping = (
        f"it began {snapshot.onsets} times in a day; the next message comes when it is stable, is"
        " worse than reported so far, or has gone on for a day"
    )
    listed = [
        ("Impact", _impact(snapshot) if of_answers and goes_on else ""),
        ("Now", _figures(verdict) if of_answers and not goes_on else ""),
        ("Since", _since(snapshot, tells)),
        ("Likely cause", plain_text("; ".join(filter(None, causes)), 400) if goes_on else ""),
        ("Affected", plain_text(background.segments, 400) if goes_on else ""),
        ("Before", "; ".join(before) if of_answers and goes_on else ""),
        ("Trend", trend(snapshot.trend) if of_answers else ""),
        ("Whole window", window if of_answers and goes_on else ""),
        ("Threshold", threshold),
        ("Confidence" if sure else "Why", reason),
        ("Closed", plain_text(snapshot.superseded, 400)),
        ("Monitoring", plain_text(background.pipeline, 300) if goes_on else ""),
        ("Do", condition.advice if condition and goes_on else ""),
        ("Also firing", _named(snapshot, snapshot.others, snapshot.more)),
        ("Recovered", _named(snapshot, snapshot.recovered)),
        ("Flapping", flapping if snapshot.flapping and goes_on else ""),
        ("Stale since", utc_time(snapshot.stale_since) if snapshot.stale_since else ""),
        ("Note", plain_text(snapshot.note, 300)),
        ("Not counted", f"{unscored} evaluations in the window" if unscored else ""),
        *(("And", plain_text(line, 200)) for line in digest),
    ]  # fmt: skip
    return tuple((label, text) for label, text in listed if text)


def rate_before(verdict: Verdict) -> float | None:
    """Return the pass rate of the reference, unless it holds answers from after the fall."""
    if verdict.drift is None:
        return None
    began, window = verdict.onset, timedelta(seconds=verdict.window_s)
    is_clean = began is None or began >= verdict.evaluated_at - window
    return verdict.drift.reference_pass_rate if is_clean else None


def _impact(snapshot: Snapshot) -> str:
    """Return what share of the answers is affected, with the figures that decided."""
    verdict = snapshot.verdict
    if verdict.pass_rate is None or snapshot.key.metric.startswith(RULE_PREFIX):
        return _figures(verdict)
    failing = 1 - verdict.pass_rate
    tenths, most = round(10 * failing), 10
    if tenths == most:
        share = "nearly all"
    elif tenths > 1:
        share = f"about {tenths} in 10"
    else:
        share = f"about 1 in {round(1 / failing)}" if failing > 0 else "none"
    if snapshot.key.metric == ERROR_RATE:
        return f"{share} requests fail: {_figures(verdict)}"
    what = _FAILING.get(snapshot.key.metric, f"fail {plain_text(snapshot.key.metric, 80)}")
    if snapshot.key.metric == "groundedness" and not verdict.level_verified:
        what = "do not come from their contexts"
    return f"{share} sampled answers {what}: {_figures(verdict)}"


def _figures(verdict: Verdict) -> str:
    """Write the pass rate with its interval, size and span, without which it says little."""
    if verdict.pass_rate is None:
        return f"no scores in the last {duration(verdict.window_s)} (n = {verdict.n:,})"
    rate = percent(verdict.pass_rate)
    if verdict.low is not None and verdict.high is not None:
        rate = rate_with_interval(verdict.pass_rate, verdict.low, verdict.high)
    mark = "" if verdict.level_verified else NOT_VERIFIED
    return f"{rate} pass{mark}, n = {verdict.n:,}, since {utc_time(verdict.since)}"


def _since(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    began = utc_time(snapshot.since)
    if tells & OVER:
        fired, resolved = utc_time(snapshot.opened_at), utc_time(snapshot.at)
        ended = "closed" if snapshot.reason in CLOSED else "resolved"
        moments = {"began": began, "fired": fired, ended: resolved}
        if began == fired:
            del moments["began"]
        day = next(iter(moments.values()))[:_DAY_CHARS]
        times = [f"{what} {at}" for what, at in moments.items()]
        said = ", ".join([times[0], *(time.replace(day, "") for time in times[1:])])
        text = f"{said}; worst: {snapshot.peak.value}"
        late = ". Earlier messages about this may not have reached you"
        return text + late if AlertEvent.FIRED in tells else text
    verdict = snapshot.verdict
    moment = snapshot.since
    if verdict.onset is not None and began == utc_time(verdict.onset):
        moment = verdict.onset  # both read alike: the age is that of the headline
    age = duration(snapshot.at - moment)
    noticed = began if age == duration(0) else f"{began}, {age} ago"
    if snapshot.well_since is not None:
        noticed += f"; it had been over since {utc_time(snapshot.well_since)}"
    if verdict.onset is None:
        return noticed
    text = f"most likely began {utc_time(verdict.onset)}"
    if verdict.onset_earliest is not None and verdict.onset_latest is not None:
        bounds = (verdict.onset_earliest, verdict.onset_latest)
        one_day = {bound.date() for bound in bounds} == {verdict.onset.date()}
        low, high = (f"{b:%H:%M}" if one_day else f"{b:%Y-%m-%d %H:%M}" for b in bounds)
        text += "" if low == high else f" ({low} to {high})"
    if moment == verdict.onset:
        return text + noticed.removeprefix(began)
    return f"{text}; noticed {noticed}"


def _named(snapshot: Snapshot, alerts: Sequence[Other], more: int = 0) -> str:
    """Return the names of other alerts of the incident, each with its level."""
    named = []
    for other in alerts:
        parts = [] if other.app == snapshot.key.app else [other.app]
        parts += [other.metric] + ([other.segment] if other.segment != "*" else [])
        named.append(f"{' · '.join(parts)} ({other.level.value})")
    return plain_text(", ".join(named) + (f" and {more} more" if more else ""), 500)


def trend(rates: Sequence[float | None]) -> str:
    """Return rates as a sparkline with the lowest and the highest; '' while they are all alike."""
    known = {rate for rate in rates if rate is not None}
    if len(known) <= 1:
        return ""
    return f"{sparkline(rates, fit=True)} ({percent(min(known))} to {percent(max(known))})"


#: A deploy this long before the trouble may have caused it.
_BACKGROUND_BEFORE = timedelta(hours=1)
_PIPELINE_S = 900
#: Of "2026-03-01 14:10 UTC", the date and the space.
_DAY_CHARS = 11
_MOST = 3
_NAME_CHARS = 60
_ENOUGH_LATE_S = 120.0
_TREND_STEPS = 24
_TREND_WINDOWS = 2


@dataclass(slots=True)
class Backgrounds:
    """Reads the background of alerts within one transaction, each app's facts once."""

    connection: Connection
    now: datetime
    _insights: dict[str, tuple[dict[tuple[str, str], Insight], dict[str, AppInsight]]] = field(
        default_factory=dict
    )
    _pipelines: dict[str, str] = field(default_factory=dict)

    def added_to(self, snapshot: Snapshot, *, over: bool) -> Snapshot:
        """Return *snapshot* with its trend and, unless it is *over*, its background and example."""
        found: dict[str, Any] = {"trend": read_trend(self.connection, snapshot.verdict)}
        if not over:
            found["background"] = self.of(snapshot)
            verdict = snapshot.verdict
            worst = worst_samples(
                self.connection,
                app=verdict.app,
                metric=verdict.metric,
                evaluator_version=verdict.evaluator_version,
                since=verdict.onset or min(verdict.since, snapshot.since),
                limit=1,
            )
            found["example_id"] = worst[0].sample_id if worst else ""
        return snapshot.model_copy(update=found)

    def of(self, snapshot: Snapshot) -> Background:
        """Return what is known of the background of an alert; empty where nothing is."""
        app, metric = snapshot.key.app, snapshot.key.metric
        if app == SELF:
            return Background()
        if app not in self._pipelines:
            now_s = self.now.timestamp()
            found = read_between(self.connection, now_s - _PIPELINE_S, app=app)
            bookings = found.get(app, Counter())
            newest_s = self.connection.execute(
                select(func.max(counts.c.start_s)).where(
                    counts.c.app == app,
                    counts.c.kind == Kind.SCORED.value,
                    counts.c.start_s >= now_s - 86_400,
                )
            ).scalar()
            age_s = None if newest_s is None else now_s - newest_s
            self._pipelines[app] = _pipeline_words(bookings, age_s)
        pipeline = self._pipelines[app]
        if metric.startswith(MONITOR_PREFIX):
            return Background(pipeline=pipeline)
        if app not in self._insights:
            self._insights[app] = read_insights(self.connection, now=self.now, app=app)
        of_metrics, of_apps = self._insights[app]
        insight = of_metrics.get((app, metric))
        fall, segments = insight.attribution if insight else None, []
        # Those that explain a fall, the one that explains most first.
        named = sorted(fall.named, key=lambda item: -item.explains) if fall else []
        for item in named[:_MOST] if fall and fall.change < 0 else ():
            before = "new" if item.rate_before is None else percent(item.rate_before, 0)
            after = "new" if item.rate_after is None else percent(item.rate_after, 0)
            explains = percent(min(1.0, max(0.0, item.explains)), 0)
            segment, size = plain_text(item.segment, _NAME_CHARS), number(item.n_after)
            segments.append(f"{segment}: {before} to {after} (n = {size}), {explains} of the fall")
        return Background(
            changed="; ".join(self._changes(snapshot, insight, of_apps.get(app))),
            segments="; ".join(segments),
            pipeline=pipeline,
        )

    def _changes(
        self, snapshot: Snapshot, insight: Insight | None, of_app: AppInsight | None
    ) -> Iterator[str]:
        """Yield what changed shortly before the trouble or since; that need not be its cause."""
        verdict = snapshot.verdict
        began = (verdict.onset_earliest or verdict.onset or snapshot.since) - _BACKGROUND_BEFORE
        ended = max(snapshot.at, snapshot.since)
        marks = read_release_marks(self.connection, app=snapshot.key.app, since=began)
        newest = {mark.release: mark for mark in marks if mark.at <= ended}
        for mark in list(newest.values())[-_MOST:]:
            note = f" ({plain_text(mark.note, _NAME_CHARS)})" if mark.note else ""
            yield f"release {plain_text(mark.release, _NAME_CHARS)} at {_clock(mark.at)}{note}"
        if insight is not None:
            for deploy in insight.deploys:
                if deploy.release not in newest and began <= deploy.at <= ended:
                    release = plain_text(deploy.release, _NAME_CHARS)
                    yield f"release {release} since {_clock(deploy.at)}"
            since = insight.version_since
            if since is not None and began <= since <= ended:
                version = plain_text(insight.evaluator_version, _NAME_CHARS)
                yield f"evaluator {version} since {_clock(since)}"
        for item in of_app.inputs if of_app is not None else ():
            if item.moved:
                feature = plain_text(item.feature.replace("_", " "), 40)
                before, after = plain_text(item.before, 40), plain_text(item.after, 40)
                yield f"{feature} went from {before} to {after}"


def read_trend(connection: Connection, verdict: Verdict) -> tuple[float | None, ...]:
    """
    Return the pass rates of the last two windows in 24 steps, the oldest first.

    A step without scores is None; without any the answer is empty.
    """
    step_s = max(1, _TREND_WINDOWS * verdict.window_s // _TREND_STEPS)
    last_s = int(verdict.evaluated_at.timestamp()) // step_s * step_s
    first_s = last_s - (_TREND_STEPS - 1) * step_s
    stream_id = connection.execute(
        select(streams.c.stream_id).where(
            streams.c.app == verdict.app,
            streams.c.metric == verdict.metric,
            streams.c.segment == verdict.segment,
            streams.c.evaluator_version == verdict.evaluator_version,
        )
    ).scalar()
    if stream_id is None:
        return ()
    found = series(connection, [stream_id], from_s=first_s, step_s=step_s).get(stream_id, {})
    rates = []
    for at_s in range(first_s, last_s + 1, step_s):
        tally = found.get(at_s)
        weighed = tally is not None and tally.sum_w > 0
        # Estimates of passes may lie a little outside of what a rate can be.
        rates.append(min(1.0, max(0.0, tally.sum_wy / tally.sum_w)) if tally and weighed else None)
    return tuple(rates) if any(rate is not None for rate in rates) else ()


def _pipeline_words(bookings: Counter[Booking], newest_age_s: float | None) -> str:
    """Write how samples went through the monitor lately; nothing where none did."""
    totals: Counter[Kind] = Counter()
    reasons: Counter[str] = Counter()
    for (kind, reason), n in bookings.items():
        totals[kind] += n
        if kind is Kind.FAILED:
            reasons[reason] += n
    if not totals:
        return ""
    shown = [Kind.SEEN, Kind.SAMPLED, Kind.SCORED]
    # Counters of hooks arrive late, and a backlog is scored late: neither is worth a riddle.
    if totals[Kind.SCORED] > min(totals[Kind.SEEN], totals[Kind.SAMPLED]):
        shown = [Kind.SCORED]
    shown += [kind for kind in (Kind.FAILED, Kind.SKIPPED, Kind.DROPPED) if totals[kind]]
    worst = reasons.most_common(1)
    why = f" (most of all {plain_text(worst[0][0], 40)})" if worst and worst[0][0] else ""
    text = ", ".join(f"{totals[kind]:,} {kind.value}" for kind in shown) + f" in 15 min{why}"
    if newest_age_s is None:
        return f"{text}; no score within a day"
    late = newest_age_s >= _ENOUGH_LATE_S
    return f"{text}; the newest score is {duration(newest_age_s)} old" if late else text


def _clock(moment: datetime) -> str:
    return f"{moment:%m-%d %H:%M} UTC"
