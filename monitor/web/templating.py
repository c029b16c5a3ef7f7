"""The templates of the pages: their engine, the words that only they need, a report as one file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from alerts.backtest import next_reminder, progress
from alerts.model import AlertState, Reason
from alerts.state import Timers
from monitor import format as formats
from monitor.format import duration, percent, plain_text, public_functions, utc_second
from monitor.hook.capture import DETAILS, UNREADABLE
from monitor.hook.encoding import as_text
from monitor.models import Interaction, Status, Verdict
from monitor.report import words
from monitor.report.build import recent_counts
from monitor.report.model import AppReport, MetricReport, RatePoint, Report, error_rate
from monitor.report.render import (
    input_lines,
    insight_lines,
    metric_sentences,
    template_engine,
)
from monitor.store.samples import why_no_texts
from monitor.web import charts, time_range
from monitor.web.time_range import SeriesPoint, ShadedSpan, TimeSeries, spans_of


def iso(at: datetime) -> str:
    """Return a time as RFC 3339 in UTC, for programs."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_s(at_s: float) -> str:
    """Return a time given in epoch seconds, to the second."""
    return utc_second(datetime.fromtimestamp(at_s, UTC))


def sentence(text: str) -> str:
    """Return words as a sentence: a capital first, a full stop last unless it is a question."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def bounds(low: float | None, high: float | None) -> str:
    """Return an interval of a rate as everywhere, but '' where there is none."""
    return "" if low is None or high is None else formats.interval(low, high)


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
_EVENT_REASONS: Mapping[str, str] = {
    **words.CLOSED,
    Reason.BREACH_HELD: "fired",
    Reason.CRITICAL_HELD: "became critical",
    Reason.CRITICAL_CLEARED: "no longer critical",
    Reason.HEALTHY_HELD: "healthy again",
    Reason.REPEAT_DUE: "reminder",
    Reason.NO_NEWS_STILL_FIRING: "still firing, no new scores",
}


def event_reason(reason: str) -> str:
    """Return why an alert changed its state, in words."""
    return _EVENT_REASONS.get(reason, plain_text(reason, 300).replace("_", " "))


def why(verdict: Verdict, lines: charts.ChartThresholds) -> list[tuple[str, str]]:
    """Return what a status is based on, as labels with values: rule, figures, thresholds."""
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
        ("pass rate (90 %)", words.verdict_rate(verdict)),
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


def unread(interaction: Interaction) -> dict[str, str]:
    """Return which fields the hook could not read, with what it expected and got."""
    noted = interaction.metadata.get("unreadable")
    found = noted.items() if isinstance(noted, Mapping) else ()
    some = "some " if interaction.contexts else ""
    return {
        field: f"{some * (field == 'contexts')}{UNREADABLE[field]}, got {plain_text(str(what), 60)}"
        for field, what in found
        if field in UNREADABLE
    }


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
    engine = template_engine("monitor.web", html=True)
    engine.globals.update(
        public_functions(formats, words, charts, time_range, sys.modules[__name__]),
        recent_counts=recent_counts, error_rate=error_rate, input_lines=input_lines,
        insight_lines=insight_lines, metric_sentences=metric_sentences,
        ICONS=words.ICONS, WORDS=words.WORDS, BLAMED=words.BLAMED, DETAILS=DETAILS,
        as_text=as_text, why_no_texts=why_no_texts,
    )  # fmt: skip
    return engine


#: Largest size of a report in bytes: it goes by email.
MOST_BYTES = 480_000
_MOST_IN_FULL, _MOST_LINES, _MOST_EVENTS = 100, 300, 40


def render_html(report: Report, lines: charts.ChartThresholds) -> str:
    """
    Return the report as a page that reads from ``file://``; all that it needs is in it.

    The worst apps are shown in full. The more there are, the more of the others have one line
    each, so that the page stays below :data:`MOST_BYTES`.
    """
    style = (files("monitor.web") / "static" / "style.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html")

    def shaded(app: AppReport, item: MetricReport) -> list[ShadedSpan]:
        found = [incident for incident in app.incidents if incident.metric == item.metric]
        return spans_of(found[:_MOST_EVENTS], report.generated_at)

    count = min(_MOST_IN_FULL, sum(max(1, len(app.metrics)) for app in report.apps))
    while True:
        room, shown, short = (
            count,
            list[tuple[AppReport, Sequence[MetricReport]]](),
            list[tuple[str, MetricReport]](),
        )
        for app in report.apps:
            if room > 0:
                shown.append((app, app.metrics[:room]))
            short += [(app.app, item) for item in app.metrics[max(0, room) :]]
            room -= max(1, len(app.metrics))
        text = template.render(
            report=report, lines=lines, style=style, series_of=series_of, shown=shown,
            short=short[:_MOST_LINES], left_out=len(short[_MOST_LINES:]), most=_MOST_EVENTS,
            shaded=shaded,
        )  # fmt: skip
        size = len(text.encode())
        if size <= MOST_BYTES or count == 0:
            return text
        count = min(count - 1, int(0.95 * count * MOST_BYTES / size))


def series_of(points: Sequence[RatePoint]) -> TimeSeries:
    """Turn the points of a report into the time series of a page."""
    steps = [SeriesPoint(int(p.start.timestamp()), p.n, p.pass_rate, p.low, p.high) for p in points]
    step_s = steps[1].start_s - steps[0].start_s if len(steps) > 1 else 1
    return TimeSeries(step_s, tuple(steps)).fitted()
