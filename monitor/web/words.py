"""The template engine of the pages, and the words that only pages need."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from alerts.backtest import next_reminder, progress
from alerts.evidence import AlertState, Reason, Timers
from monitor.models import Status, Verdict
from monitor.report import words
from monitor.report.build import recent_counts
from monitor.report.format import (
    duration,
    percent,
    plain_text,
    points,
    score,
    usd,
    utc_second,
    utc_time,
)
from monitor.report.model import Report
from monitor.web import charts, time_range


def iso(at: datetime) -> str:
    """Return a time as RFC 3339 in UTC, for programs."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_s(at_s: float) -> str:
    """Return a time given in epoch seconds, to the second."""
    return utc_second(datetime.fromtimestamp(at_s, UTC))


def statuses_of(report: Report) -> dict[str, Status]:
    """Return the status of each app by its name, made safe to show, for the headline."""
    return {plain_text(app.app, 60): app.status for app in report.apps}


def sentence(text: str) -> str:
    """Return words as a sentence: a capital first, a full stop last."""
    return f"{text[:1].upper()}{text[1:]}."


def bounds(low: float | None, high: float | None) -> str:
    """Return an interval of a rate in percent, or ''."""
    return "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"


def title(status: Status, counts: list[tuple[Status, int]]) -> str:
    """Return the worst status with how many metrics have it, for the title of a tab."""
    n = dict(counts).get(status, 0)
    return f"{words.ICONS[status]} {n} {words.WORDS[status]}" if n else words.ICONS[status]


def code(text: str) -> Markup:
    """Return text with what stands in backticks marked as code."""
    parts = re.split(r"`([^`]+)`", text)
    marked = (Markup("<code>{}</code>") if i % 2 else Markup("{}") for i in range(len(parts)))
    return Markup("").join(form.format(part) for form, part in zip(marked, parts, strict=True))


def breakable(name: str) -> Markup:
    """Return a variable's name that breaks behind its underscores only."""
    return Markup.escape(name).replace("_", Markup("_<wbr>"))


#: Reasons of alert events that say more than their name.
_EVENT_REASONS = {
    Reason.BREACH_HELD: "fired",
    Reason.CRITICAL_HELD: "became critical",
    Reason.CRITICAL_CLEARED: "no longer critical",
    Reason.HEALTHY_HELD: "healthy again",
    Reason.REPEAT_DUE: "reminder",
    Reason.NO_NEWS_STILL_FIRING: "still firing, no new scores",
    Reason.SUPERSEDED: "scorer or threshold changed (not a recovery)",
    Reason.EXPIRED_NO_DATA: "no more data (not a recovery)",
}


def event_reason(reason: str) -> str:
    """Return why an alert changed its state, in words."""
    return _EVENT_REASONS.get(reason, plain_text(reason, 300).replace("_", " "))  # type: ignore[call-overload, no-any-return]


def why(verdict: Verdict, lines: charts.ChartThresholds) -> list[tuple[str, str]]:
    """Return what a status rests on, as labels with values: rule, figures, thresholds."""
    evidence: list[tuple[str, str]] = []
    if verdict.evidence is not None:
        evidence.append(("evidence of a drop", verdict.evidence))
    if verdict.onset is not None:
        since = utc_second(verdict.onset)
        low, high = verdict.onset_earliest, verdict.onset_latest
        if low is not None and high is not None and utc_second(low) != utc_second(high):
            since += f" ({utc_second(low)} to {utc_second(high)})"
        evidence.append(("most likely began", since))
    if verdict.more_n is not None:
        evidence.append(("decided after", f"about {verdict.more_n:,} more samples"))
    return [
        ("policy", verdict.policy),
        ("reason", verdict.reason),
        ("pass rate (95 %)", words.verdict_rate(verdict)),
        *evidence,
        ("scores", f"{verdict.n:,} since {utc_second(verdict.since)}"),
        ("scores in the window", f"{verdict.window_n:,}"),
        ("failed, skipped", f"{verdict.n_failed:,}, {verdict.n_skipped:,}"),
        ("warning below", percent(lines.warning)),
        ("critical below", percent(lines.critical)),
        ("simple threshold check", words.WORDS[verdict.point_status]),
        ("window", duration(verdict.window_s)),
        ("evaluator", verdict.evaluator_version or "–"),
        ("since", utc_second(verdict.status_since)),
        ("evaluated", utc_second(verdict.evaluated_at)),
    ]


def alert_words(state: AlertState | None, timers: Timers, now: datetime) -> list[tuple[str, str]]:
    """Return where the alert stands: its phase, what is under way, and the next reminder."""
    if state is None:
        return [("alert", "not evaluated yet")]
    since = f" since {utc_second(state.phase_since)}" if state.phase_since else ""
    said = [("alert", f"{state.phase}{since}")]
    for item in progress(state, timers, now):
        held = f"{duration(min(item.held_s, item.for_s))} of {duration(item.for_s)}"
        if item.for_s <= 0:
            held = "immediately, once the evidence suffices"
        elif item.wanted > item.informed:
            held += "; waits for new samples"
        said.append((f"to {item.then}", held))
    reminder = next_reminder(state, timers)
    if reminder is not None:
        said.append(("next reminder", utc_second(max(now, reminder))))
    return said


def environment() -> Environment:
    """Return the template engine: everything is escaped, and a missing name is an error."""
    engine = Environment(
        loader=PackageLoader("monitor.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions: tuple[Callable[..., Any], ...] = (
        *(bounds, breakable, clock_s, code, event_reason, iso, sentence, statuses_of, title),
        *(duration, percent, plain_text, points, score, usd, utc_second, utc_time),
        *(
            words.headline,
            words.status_word,
            words.verdict_rate,
            words.verdict_word,
            words.window_rate,
            words.drift_sentence,
        ),
        *(words.judge_sentence, words.ledger_sentence, words.unscored_sentence),
        *(words.incident_sentence, words.reasons, recent_counts),
        *(charts.svg_sparkline, charts.series_chart, charts.histograms, charts.status_strip),
        *(time_range.metric_path, time_range.app_path),
        *(time_range.sample_path, time_range.incident_path),
    )
    engine.globals.update({function.__name__: function for function in functions})
    engine.globals.update(ICONS=words.ICONS, WORDS=words.WORDS)
    return engine
