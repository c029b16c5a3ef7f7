"""The words of a message: figures, times and durations as people read them; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from alerts.blindness import BLIND_METRIC
from alerts.escaping import plain
from alerts.memory import Reason
from alerts.rules import Lines
from alerts.snapshot import Snapshot
from monitor.models.alerting import AlertEvent, Level
from monitor.models.status import Status, Verdict

Fact = tuple[str, str]
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def clock_time(moment: datetime) -> str:
    """Write a time with its date and zone; aware times in UTC only."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def duration(length: timedelta | float) -> str:
    """Write a duration in its two largest units."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, rest = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
            left = rest
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def percent(rate: float) -> str:
    """Write a rate in [0, 1] as a percentage."""
    return f"{100 * rate:.1f} %"


def state_word(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    """Name the state in a word: the first thing that is read."""
    if _is_closed(snapshot):
        return "CLOSED"
    if AlertEvent.RESOLVED in tells:
        return "RESOLVED"
    word = snapshot.level.value.upper()
    if AlertEvent.FIRED in tells:
        return word
    return f"STILL {word}" if AlertEvent.ESCALATED not in tells else f"NOW {word}"


def subject_of(snapshot: Snapshot) -> str:
    """Name the app and metric, and the segment when it is not the whole app."""
    key = snapshot.key
    names = [key.app, key.metric] + ([key.segment] if key.segment != "*" else [])
    return " · ".join(plain(name, 80) for name in names)


def headline(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    """Say in a line what is the matter."""
    length = duration(snapshot.at - snapshot.opened_at)
    if _is_closed(snapshot):
        return (
            "closed because nobody evaluates it any more, not because it recovered;"
            f" was {snapshot.peak.value}, fired {length} ago"
        )
    if _is_about_monitor(snapshot):
        over = AlertEvent.RESOLVED in tells
        return f"the monitor sees again, after {length}" if over else "the monitor does not see"
    if AlertEvent.RESOLVED in tells:
        return f"healthy again; was {snapshot.peak.value} for {length}"
    if snapshot.verdict.status is Status.BLIND:
        return f"no news, still firing after {length}: the monitor does not see"
    rate = f"{_short_rate(snapshot.verdict)} of answers pass {_basis(snapshot.verdict)}"
    if AlertEvent.FIRED in tells:
        return f"only {rate}"
    return f"got worse: {rate}" if AlertEvent.ESCALATED in tells else f"for {length} now: {rate}"


def facts(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> tuple[Fact, ...]:
    """List what is known, each with a short label, in the order in which people ask."""
    verdict = snapshot.verdict
    listed = [
        *_of_answers(snapshot, tells),
        ("Since", _since(snapshot, tells)),
        ("Why", plain(verdict.reason, 300)),
        ("Not counted", _not_counted(verdict)),
    ]
    return tuple((label, text) for label, text in listed if text)


def _is_closed(snapshot: Snapshot) -> bool:
    return snapshot.reason == Reason.NO_LONGER_EVALUATED


def _is_about_monitor(snapshot: Snapshot) -> bool:
    return snapshot.key.metric == BLIND_METRIC


def _of_answers(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> list[Fact]:
    if _is_closed(snapshot) or _is_about_monitor(snapshot):
        return []
    return [
        ("Now", figure(snapshot.verdict)),
        ("Before", _before(snapshot)),
        ("Line", _line(snapshot.lines, snapshot, tells)),
    ]


def figure(verdict: Verdict) -> str:
    """Write the pass rate with all that it must never be shown without."""
    if verdict.pass_rate is None:
        return f"no scores (n = {verdict.n:,}, last {duration(verdict.window_s)})"
    score = "" if verdict.average_score is None else f"average score {verdict.average_score:.2f}"
    rate = f"{percent(verdict.pass_rate)} pass {_basis(verdict)} in the last"
    return "; ".join(filter(None, (f"{rate} {duration(verdict.window_s)}", score)))


def _basis(verdict: Verdict) -> str:
    """Write what a rate rests on: its interval and its size."""
    size = f"n = {verdict.n:,}"
    if verdict.low is None or verdict.high is None:
        return f"({size})"
    return f"({percent(verdict.low)} to {percent(verdict.high)}, {size})"


def _short_rate(verdict: Verdict) -> str:
    return "an unknown share" if verdict.pass_rate is None else percent(verdict.pass_rate)


def _before(snapshot: Snapshot) -> str:
    drift = snapshot.verdict.drift
    status = f"status was {snapshot.status_before.value}" if snapshot.status_before else ""
    if drift is None or drift.reference_pass_rate is None:
        return status or "nothing is known from before"
    rate = f"{percent(drift.reference_pass_rate)} pass (n = {drift.reference_n:,}, reference)"
    return f"{rate}; {status}" if status else rate


def _line(lines: Lines | None, snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    if lines is None:
        return ""
    if AlertEvent.RESOLVED in tells:
        return f"healthy from {percent(lines.of(Level.WARNING))}"
    return f"{snapshot.level.value} below {percent(lines.of(snapshot.level))}"


def _since(snapshot: Snapshot, tells: frozenset[AlertEvent]) -> str:
    began = clock_time(snapshot.since)
    if AlertEvent.RESOLVED in tells:
        fired, resolved = clock_time(snapshot.opened_at), clock_time(snapshot.at)
        ended = "closed" if _is_closed(snapshot) else "resolved"
        text = f"began {began}, fired {fired}, {ended} {resolved}; worst: {snapshot.peak.value}"
        late = ". Earlier messages about this may not have reached you"
        return text + late if AlertEvent.FIRED in tells else text
    return f"{began}, held for {duration(snapshot.at - snapshot.since)}"


def _not_counted(verdict: Verdict) -> str:
    parts = [(verdict.n_failed, "failed"), (verdict.n_skipped, "skipped")]
    counted = [f"{count:,} {name}" for count, name in parts if count]
    return f"{' and '.join(counted)} evaluations in the window" if counted else ""
