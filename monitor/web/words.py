"""Words, marks and numbers as the pages write them: what templates may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from alerts.backtest import Progress, next_reminder, progress
from alerts.evidence import AlertState, Timers
from monitor.models import Status, Verdict
from monitor.report import words
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
from monitor.web.overview import Glance


def iso(at: datetime) -> str:
    """Write a time as RFC 3339 in UTC, for programs."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_s(at_s: float) -> str:
    """Write a time given in epoch seconds."""
    return utc_second(datetime.fromtimestamp(at_s, UTC))


def statuses(glance: Glance) -> dict[str, Status]:
    """Give the status of each app, names made harmless, for the headline."""
    return statuses_of(glance.report)


def statuses_of(report: Report) -> dict[str, Status]:
    """Give the status of each app of a report, in the same way."""
    return {plain_text(app.app, 60): app.status for app in report.apps}


def sentence(text: str) -> str:
    """Write words as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def bounds(low: float | None, high: float | None) -> str:
    """Write an interval of a rate in percent."""
    return "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"


def title(status: Status, counts: list[tuple[Status, int]]) -> str:
    """Begin the title with the worst status, so that a tab says it."""
    n = dict(counts).get(status, 0)
    return f"{words.ICONS[status]} {n} {words.WORDS[status]}" if n else words.ICONS[status]


def why(verdict: Verdict, lines: charts.Lines) -> list[tuple[str, str]]:
    """Say what a status rests on: the rule, the numbers, the lines."""
    return [
        ("rule", verdict.policy),
        ("because", verdict.reason),
        ("pass rate (95 %)", words.verdict_rate(verdict)),
        *_evidence(verdict),
        ("scores", f"{verdict.n:,} since {utc_second(verdict.since)}"),
        ("scores in the window", f"{verdict.window_n:,}"),
        ("failed, skipped", f"{verdict.n_failed:,}, {verdict.n_skipped:,}"),
        ("warning below", percent(lines.warning)),
        ("critical below", percent(lines.critical)),
        ("the plain rule says", words.WORDS[verdict.point_status]),
        ("window", duration(verdict.window_s)),
        ("scorer", verdict.evaluator_version or "–"),
        ("since", utc_second(verdict.status_since)),
        ("evaluated", utc_second(verdict.evaluated_at)),
    ]


def _evidence(verdict: Verdict) -> list[tuple[str, str]]:
    """Say how certain a status is and since when; nothing where the policy does not know."""
    said: list[tuple[str, str]] = []
    if verdict.evidence is not None:
        said.append(("evidence of a fall", verdict.evidence))
    if verdict.onset is not None:
        since, low, high = (
            utc_second(verdict.onset),
            verdict.onset_earliest,
            verdict.onset_latest,
        )
        if low is not None and high is not None and utc_second(low) != utc_second(high):
            since += f" ({utc_second(low)} to {utc_second(high)})"
        said.append(("most likely began", since))
    if verdict.more_n is not None:
        said.append(("would be decided", f"after about {verdict.more_n:,} more samples"))
    return said


def alert_words(state: AlertState | None, timers: Timers, now: datetime) -> list[tuple[str, str]]:
    """Say where the alert stands: what is under way, how far it has come, and what is next."""
    if state is None:
        return [("alert", "never looked at")]
    since = f" since {utc_second(state.phase_since)}" if state.phase_since else ""
    said = [("alert", f"{state.phase}{since}")]
    said += [(f"to {item.then}", _progress(item)) for item in progress(state, timers, now)]
    reminder = next_reminder(state, timers)
    if reminder is not None:
        said.append(("next reminder", utc_second(max(now, reminder))))
    return said


def _progress(item: Progress) -> str:
    if item.for_s <= 0:
        return "at once: the evidence is the hold"
    held = duration(min(item.held_s, item.for_s))
    said = f"{held} of {duration(item.for_s)}"
    missing = item.wanted - item.informed
    return f"{said}; waits for new samples" if missing > 0 else said


def environment() -> Environment:
    """Make the template engine: everything is escaped, and a missing name is an error."""
    engine = Environment(
        loader=PackageLoader("monitor.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.globals.update(_helpers())
    return engine


def _helpers() -> Mapping[str, Any]:
    functions: list[Callable[..., Any]] = [
        *(
            utc_second,
            clock_s,
            statuses,
            statuses_of,
            iso,
            points,
            bounds,
            usd,
            title,
            sentence,
        ),
        *(
            percent,
            score,
            words.status_word,
            duration,
            plain_text,
            utc_time,
        ),
        *(words.headline, words.verdict_rate, words.window_rate, words.drift_sentence),
        *(
            words.judge_sentence,
            words.ledger_sentence,
            words.unscored_sentence,
            words.incident_sentence,
            words.reasons,
        ),
        *(charts.sparkline, charts.course_chart, charts.histograms, charts.status_strip),
        *(
            time_range.metric_path,
            time_range.app_path,
            time_range.sample_path,
            time_range.incident_path,
        ),
    ]
    return {function.__name__: function for function in functions} | {
        "ICONS": words.ICONS,
        "WORDS": words.WORDS,
    }
