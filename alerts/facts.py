"""What is known of an alert, as labelled facts in the order in which people ask; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from alerts.conditions import (
    BLINDNESS,
    CONDITIONS,
    ERROR_RATE,
    MONITOR_PREFIX,
    RULE_PREFIX,
)
from alerts.model import CLOSED, Evidence, Other, Snapshot
from monitor.models.alerting import AlertEvent, Severity
from monitor.models.status import Verdict
from monitor.report.format import (
    duration,
    percent,
    plain_text,
    rate_with_interval,
    sparkline,
    utc_time,
)

Fact = tuple[str, str]

#: Events that end an alert.
OVER = frozenset({AlertEvent.RESOLVED, AlertEvent.SETTLED})
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
    average = ""  # the plain rate of the window, where it is another than the one that decided
    if verdict.window_pass_rate is not None and verdict.window_n != verdict.n:
        span = f"{verdict.window_n:,} over the last {duration(verdict.window_s)}"
        average = f"{percent(verdict.window_pass_rate)} of {span}"
        if verdict.window_n > verdict.n:
            average += ", including answers from before"
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
        ("Average", average if of_answers and goes_on else ""),
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
    """Say what share of the answers is affected, with the figures that decided."""
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
    return f"{share} sampled answers {what}: {_figures(verdict)}"


def _figures(verdict: Verdict) -> str:
    """Write the pass rate with its interval, size and span, without which it says little."""
    if verdict.pass_rate is None:
        return f"no scores in the last {duration(verdict.window_s)} (n = {verdict.n:,})"
    rate = percent(verdict.pass_rate)
    if verdict.low is not None and verdict.high is not None:
        rate = rate_with_interval(verdict.pass_rate, verdict.low, verdict.high)
    return f"{rate} pass, n = {verdict.n:,}, since {utc_time(verdict.since)}"


def _since(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    began = utc_time(snapshot.since)
    if tells & OVER:
        fired, resolved = utc_time(snapshot.opened_at), utc_time(snapshot.at)
        ended = "closed" if snapshot.reason in CLOSED else "resolved"
        text = f"began {began}, fired {fired}, {ended} {resolved}; worst: {snapshot.peak.value}"
        late = ". Earlier messages about this may not have reached you"
        return text + late if AlertEvent.FIRED in tells else text
    held, verdict = duration(snapshot.at - snapshot.since), snapshot.verdict
    noticed = began if held == duration(0) else f"{began}, held for {held}"
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
    return text if noticed == utc_time(verdict.onset) else f"{text}; noticed {noticed}"


def _named(snapshot: Snapshot, alerts: Sequence[Other], more: int = 0) -> str:
    """Name other alerts of the same incident, each with its level."""
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
