"""The words of a message: figures, times and durations as people read them; pure."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.conditions import CONDITIONS
from alerts.evidence import CLOSED, Evidence, Reason, Thresholds
from alerts.routing import MONITOR_PREFIX
from alerts.snapshot import Other, Snapshot
from alerts.threshold_rules import RULE_PREFIX
from monitor.models.alerting import AlertEvent, Level
from monitor.models.status import Status, Verdict
from monitor.report.format import duration, percent, plain_text, sparkline, utc_time

Fact = tuple[str, str]
_OVER = frozenset({AlertEvent.RESOLVED, AlertEvent.SETTLED})
_BEFORE = {
    Evidence.HEALTHY: "it was healthy",
    Evidence.WARNING: "it was at warning",
    Evidence.CRITICAL: "it was critical",
    Evidence.UNCERTAIN: "not enough was known to tell",
}


def state_word(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    """Name the state in a word: the first thing that is read."""
    if _is_closed(snapshot):
        return "EXPIRED" if snapshot.reason == Reason.EXPIRED_NO_DATA else "CLOSED"
    if AlertEvent.SETTLED in tells:
        return "STABLE"
    if AlertEvent.RESOLVED in tells:
        return "RESOLVED"
    word = snapshot.level.value.upper()
    if AlertEvent.FIRED in tells:
        return word if snapshot.well_since is None else f"AGAIN {word}"
    if AlertEvent.ESCALATED in tells:
        return f"NOW {word}"
    return f"ALSO {word}" if AlertEvent.JOINED in tells else f"STILL {word}"


def subject_of(snapshot: Snapshot) -> str:
    """Name the app and metric, and the segment when it is not the whole app."""
    key = snapshot.key
    if snapshot.cause is not None:
        apps = {key.app} | {other.app for other in snapshot.others}
        return plain_text(f"{len(apps) + snapshot.more} apps · {snapshot.cause}", 200)
    names = [key.app, key.metric] + ([key.segment] if key.segment != "*" else [])
    return " · ".join(plain_text(name, 80) for name in names)


def headline(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    """Say in a line what is the matter."""
    length = duration(snapshot.at - snapshot.opened_at)
    over = AlertEvent.RESOLVED in tells
    if _is_closed(snapshot):
        return f"{_closed_because(snapshot)}; was {snapshot.peak.value}, fired {length} ago"
    if AlertEvent.SETTLED in tells:
        return f"stable again: it began {snapshot.onsets} times, and has been healthy for 8 h"
    if _is_about_monitor(snapshot):
        return _of_monitor(snapshot, over=over, length=length)
    if over:
        return f"healthy again; was {snapshot.peak.value} for {length}"
    return _of_rate(snapshot, tells, length)


def _of_rate(snapshot: Snapshot, tells: frozenset[AlertEvent], length: str) -> str:
    if snapshot.verdict.status is Status.BLIND:
        return f"no news, still firing after {length}: the monitor does not see"
    said = _ill(snapshot)
    if AlertEvent.FIRED in tells or snapshot.at == snapshot.opened_at:
        return said
    return f"got worse: {said}" if AlertEvent.ESCALATED in tells else f"after {length} still {said}"


def _ill(snapshot: Snapshot) -> str:
    verdict = snapshot.verdict
    if _is_of_rule(snapshot):
        return plain_text(verdict.reason, 200)
    if verdict.pass_rate is None:
        level = snapshot.level.value
        return f"{level}, with no scores in the last {duration(verdict.window_s)}"
    return f"only {percent(verdict.pass_rate)} of answers pass {_basis(verdict)}"


def facts(
    snapshot: Snapshot, tells: frozenset[AlertEvent], digest: Sequence[str] = ()
) -> tuple[Fact, ...]:
    """List what is known, each with a short label, in the order in which people ask."""
    verdict = snapshot.verdict
    listed = [
        *_of_answers(snapshot, tells),
        ("Since", _since(snapshot, tells)),
        ("Why", plain_text(verdict.reason, 300)),
        ("Changed", plain_text(snapshot.superseded, 400)),
        *_background(snapshot, tells),
        ("Do", _advice(snapshot, tells)),
        ("Also firing", _others(snapshot)),
        ("Flapping", _flapping(snapshot)),
        ("Stale", "" if snapshot.stale_since is None else _stale(snapshot)),
        ("Note", plain_text(snapshot.note, 300)),
        ("Not counted", _not_counted(verdict)),
        *(("And", plain_text(line, 200)) for line in digest),
    ]
    return tuple((label, text) for label, text in listed if text)


def trend(rates: Sequence[float | None]) -> str:
    """Return rates as a sparkline from the lowest to the highest of them, with both named."""
    known = [rate for rate in rates if rate is not None]
    if not known:
        return ""
    return f"{sparkline(rates, fit=True)} ({percent(min(known))} to {percent(max(known))})"


def _closed_because(snapshot: Snapshot) -> str:
    if snapshot.reason == Reason.EXPIRED_NO_DATA:
        return "closed because data stopped, not because it recovered"
    if snapshot.reason == Reason.SUPERSEDED:
        return "closed because it is judged in another way now, not because it recovered"
    return "closed because nobody evaluates it any more, not because it recovered"


def _is_closed(snapshot: Snapshot) -> bool:
    return snapshot.reason in CLOSED


def _is_about_monitor(snapshot: Snapshot) -> bool:
    return snapshot.key.metric.startswith(MONITOR_PREFIX)


def _is_of_rule(snapshot: Snapshot) -> bool:
    return snapshot.key.metric.startswith(RULE_PREFIX)


def _of_monitor(snapshot: Snapshot, *, over: bool, length: str) -> str:
    condition = CONDITIONS.get(snapshot.key.metric)
    if condition is None:
        return f"the monitor sees again, after {length}" if over else "the monitor does not see"
    return f"{condition.well}, after {length}" if over else condition.ill


def _advice(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    condition = CONDITIONS.get(snapshot.key.metric)
    over = tells & {AlertEvent.RESOLVED, AlertEvent.SETTLED}
    return "" if condition is None or over else condition.advice


def _others(snapshot: Snapshot) -> str:
    if not snapshot.others:
        return ""
    listed = ", ".join(_other(other, snapshot) for other in snapshot.others)
    return plain_text(f"{listed} and {snapshot.more} more" if snapshot.more else listed, 500)


def _other(other: Other, snapshot: Snapshot) -> str:
    names = [other.metric] if other.app == snapshot.key.app else [other.app, other.metric]
    if other.segment != "*":
        names.append(other.segment)
    return f"{' · '.join(names)} ({other.level.value})"


def _flapping(snapshot: Snapshot) -> str:
    if not snapshot.flapping or snapshot.event is AlertEvent.SETTLED:
        return ""
    return (
        f"it began {snapshot.onsets} times in a day; you will not hear of it again until it is"
        " stable, is worse than you know, or has gone on for a day"
    )


def _stale(snapshot: Snapshot) -> str:
    assert snapshot.stale_since is not None
    return f"nothing has been known since {utc_time(snapshot.stale_since)}"


def _of_answers(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> list[Fact]:
    if _is_closed(snapshot) or _is_about_monitor(snapshot):
        return []
    return [
        ("Now", figure(snapshot.verdict)),
        ("Course", trend(snapshot.trend)),
        ("Before", _before(snapshot)),
        ("Line", _line(snapshot.lines, snapshot, tells)),
    ]


def figure(verdict: Verdict) -> str:
    """Write the pass rate with all that it must never be shown without."""
    if verdict.pass_rate is None:
        return f"no scores in the last {duration(verdict.window_s)} (n = {verdict.n:,})"
    score = "" if verdict.average_score is None else f"average score {verdict.average_score:.2f}"
    rate = f"{percent(verdict.pass_rate)} pass {_basis(verdict)} since {utc_time(verdict.since)}"
    return "; ".join(filter(None, (rate, score)))


def _basis(verdict: Verdict) -> str:
    """Write what a rate rests on: its interval and its size."""
    size = f"n = {verdict.n:,}"
    if verdict.low is None or verdict.high is None:
        return f"({size})"
    return f"({percent(verdict.low)} to {percent(verdict.high)}, {size})"


def _background(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> list[Fact]:
    if tells & _OVER:
        return []
    found = snapshot.background
    return [
        ("Changed", plain_text(found.changed, 400)),
        ("Where", plain_text(found.segments, 400)),
        ("Monitor", plain_text(found.pipeline, 300)),
    ]


def _before(snapshot: Snapshot) -> str:
    """Say how it was before: what the status was, and the rate of the reference."""
    drift, status = snapshot.verdict.drift, snapshot.status_before
    said = [] if status is None else [_BEFORE[status]]
    if drift is not None and drift.reference_pass_rate is not None:
        size = f"n = {drift.reference_n:,}, the reference"
        said.append(f"{percent(drift.reference_pass_rate)} of answers passed ({size})")
    return "; ".join(said) or "nothing is known of the time before"


def _line(lines: Thresholds | None, snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    if lines is None or _is_of_rule(snapshot):
        return ""  # a rule has a line of its own, which its reason says
    if AlertEvent.RESOLVED in tells:
        return f"healthy from {percent(lines.of(Level.WARNING))}"
    return f"{snapshot.level.value} below {percent(lines.of(snapshot.level))}"


def _since(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    began = utc_time(snapshot.since)
    if tells & {AlertEvent.RESOLVED, AlertEvent.SETTLED}:
        fired, resolved = utc_time(snapshot.opened_at), utc_time(snapshot.at)
        ended = "closed" if _is_closed(snapshot) else "resolved"
        text = f"began {began}, fired {fired}, {ended} {resolved}; worst: {snapshot.peak.value}"
        late = ". Earlier messages about this may not have reached you"
        return text + late if AlertEvent.FIRED in tells else text
    held_for = duration(snapshot.at - snapshot.since)
    held = began if held_for == duration(0) else f"{began}, held for {held_for}"
    well = snapshot.well_since
    again = "" if well is None else f"; it had been over since {utc_time(well)}"
    return f"{held}{again}{_onset(snapshot.verdict)}"


def _onset(verdict: Verdict) -> str:
    """Say when the fall most likely began, with how sure that is."""
    if verdict.onset is None:
        return ""
    text = f"; most likely began {utc_time(verdict.onset)}"
    if verdict.onset_earliest is None or verdict.onset_latest is None:
        return text
    bounds = (verdict.onset_earliest, verdict.onset_latest)
    days = {verdict.onset.date(), *(bound.date() for bound in bounds)}
    low, high = (f"{b:%H:%M}" if len(days) == 1 else f"{b:%Y-%m-%d %H:%M}" for b in bounds)
    return text if low == high else f"{text} ({low} to {high})"


def _not_counted(verdict: Verdict) -> str:
    parts = [(verdict.n_failed, "failed"), (verdict.n_skipped, "skipped")]
    counted = [f"{count:,} {name}" for count, name in parts if count]
    return f"{' and '.join(counted)} evaluations in the window" if counted else ""
