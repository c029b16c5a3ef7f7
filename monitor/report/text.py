"""A report for the terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.models import Status, Verdict
from monitor.report.format import duration, percent, plain_text, score, usd, utc_time
from monitor.report.listing import Listing, SparklineRow
from monitor.report.model import AppReport, MetricReport, Report
from monitor.report.render import drift_rows, input_lines, insight_lines, metric_sentences
from monitor.report.words import (
    ICONS,
    WORDS,
    cost_sentence,
    error_sentence,
    fleet_sentence,
    headline,
    incident_sentence,
    judge_sentence,
    ledger_sentence,
    level_words,
    reason_sentence,
    recent_sentence,
    verdict_rate,
    verdict_word,
    window_rate,
)

STYLES: Mapping[Status, str] = {
    Status.HEALTHY: "green",
    Status.WARNING: "yellow",
    Status.CRITICAL: "bold red",
    Status.INSUFFICIENT_DATA: "dim",
    Status.BLIND: "magenta",
}


#: Below so many characters a table has no room.
_NARROW = 60
#: A name is folded to no less than this.
_FOLDED = 12


class _Column(NamedTuple):
    name: str
    justify: Literal["left", "right"] = "right"
    from_width: int = 0
    folds: bool = False


_COLUMNS = (
    _Column("app", "left", folds=True),
    _Column("metric", "left", folds=True),
    _Column("status", "left"),
    _Column("pass rate (90 %)"),
    _Column("n"),
    _Column("score", from_width=100),
    _Column("window", from_width=90),
    _Column("since", from_width=80),
    _Column("before", "left", from_width=110),
)


def status_text(status: Status) -> Text:
    """Return a status as shape, word and colour."""
    return Text(f"{ICONS[status]} {WORDS[status]}", style=STYLES[status])


def verdict_text(verdict: Verdict) -> Text:
    """Return the status of a verdict as shape, word and colour."""
    return Text(f"{ICONS[verdict.status]} {verdict_word(verdict)}", style=STYLES[verdict.status])


def render_status(report: Report) -> RenderableType:
    """Return the overview: one sentence, a table with the worst first, and the ledger."""
    parts: list[RenderableType] = [_headline(report)]
    if report.apps:
        parts += [
            StatusTable(report),
            *(Text(line, style="dim") for app in report.apps for line in _notes(app, report)),
            *(
                Text(
                    f"\n{plain_text(app.app, 40)}, all time:\n{ledger_sentence(app.ledger)}", "dim"
                )
                for app in report.apps
            ),
        ]
    return Group(*parts)


def _notes(app: AppReport, report: Report) -> Iterator[str]:
    """Return what belongs to the rows of an app: the simple rule's verdict, errors, and costs."""
    name = plain_text(app.app, 40)
    for item in app.metrics:
        verdict = item.verdict
        if verdict.point_status is not verdict.status and verdict.status is not Status.BLIND:
            yield f"{name} {plain_text(item.metric, 40)}: {reason_sentence(verdict)}"
    for item in app.metrics:
        if said := judge_sentence(item.verdict):
            last = duration(item.verdict.window_s)
            yield f"{name} {plain_text(item.metric, 40)}, last {last}: {said}"
    if said := error_sentence(app.recent, report.window_s):
        yield f"{name}, {said}"
    if said := cost_sentence([item.verdict for item in app.metrics]):
        yield f"{name}, {said}"


@dataclass(frozen=True, slots=True)
class StatusTable:
    """One row a metric, worst first, with as many columns as the terminal has room for."""

    report: Report

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table; what matters least is left out first, and long names are folded."""
        room = options.max_width
        shown = [column for column in _COLUMNS if column.from_width <= room]
        rows = [
            (_row(app.app, item.verdict, self.report.generated_at), item.verdict)
            for app in self.report.apps
            for item in app.metrics
        ]
        widths = [
            max(len(column.name), *(cells[column.name].cell_len for cells, _verdict in rows), 0)
            for column in shown
        ]
        # Names may be folded.
        needed = sum(
            min(width, _FOLDED) if column.folds else width
            for column, width in zip(shown, widths, strict=True)
        )
        if room < max(_NARROW, needed + 2 * (len(shown) - 1)):
            # Two lines a metric, where a table would fold names letter by letter.
            for cells, verdict in rows:
                yield Text(f"{cells['app']} {cells['metric']}", style="bold")
                figures = f"  {verdict_rate(verdict)}, n {verdict.n:,}"
                yield Text("  ").append_text(verdict_text(verdict)).append(figures)
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for column in shown:
            table.add_column(
                column.name, justify=column.justify, no_wrap=not column.folds, overflow="fold"
            )
        for cells, _verdict in rows:
            table.add_row(*(cells[column.name] for column in shown))
        yield table


def render_report(report: Report) -> RenderableType:
    """Return the whole report, app by app."""
    return Group(
        _headline(report),
        Text(
            f"{utc_time(report.generated_at, report.generated_at)}, {report.generated_at:%Y-%m-%d};"
            f" the last {duration(report.window_s)}",
            style="dim",
        ),
        *(part for app in report.apps for part in _app(app, report)),
    )


def _headline(report: Report) -> Text:
    statuses = {plain_text(app.app, 60): app.status for app in report.apps}
    said = [headline(statuses), *(fleet_sentence(f, report.generated_at) for f in report.fleet)]
    return Text("\n".join(said) + "\n", style=f"bold {STYLES[report.status]}")


def _row(app: str, verdict: Verdict, now: datetime) -> dict[str, Text]:
    drift, before = verdict.drift, ""
    if drift is not None and drift.reference_pass_rate is not None:
        before = f"{percent(drift.reference_pass_rate)} (n {drift.reference_n:,})"
    return {
        "app": Text(plain_text(app, 40)),
        "metric": Text(plain_text(verdict.metric, 40)),
        "status": verdict_text(verdict),
        "pass rate (90 %)": Text(verdict_rate(verdict)),
        "n": Text(f"{verdict.n:,}"),
        "score": Text(score(verdict.average_score)),
        "window": Text(duration(verdict.window_s)),
        "since": Text(duration((now - verdict.status_since).total_seconds())),
        "before": Text(before),
    }


def _app(app: AppReport, report: Report) -> Iterator[RenderableType]:
    now = report.generated_at
    yield Text(f"\n{plain_text(app.app, 60)}", style="bold")
    for item in app.metrics:
        yield from (Padding(part, (0, 0, 0, 2)) for part in _metric(item, report))
    if said := cost_sentence([item.verdict for item in app.metrics]):
        yield _section("Cost", Text(said))
    if moved := input_lines(app.inputs):
        yield _section("Input drift", Text("\n".join(moved)))
    if app.changes:
        listed = Listing.of("", "", "", "", "")
        for change in app.changes:
            listed.add_row(
                utc_time(change.at, now),
                Text(plain_text(change.metric, 40)),
                status_text(change.after),
                percent(change.pass_rate),
                f"n {change.n:,}",
            )
        yield _section("Status changes", listed)
    if app.incidents:
        listed = Listing.of("", "", "", "")
        for incident in app.incidents:
            listed.add_row(
                utc_time(incident.opened_at, now),
                Text(plain_text(", ".join(incident.metrics), 40)),
                level_words(incident),
                incident_sentence(incident, now),
            )
        yield _section("Alerts", listed)
    everything = ledger_sentence(app.ledger)
    if app.recent:
        everything += "\n" + recent_sentence(app.recent, report.window_s)
    yield _section("Pipeline accounting (all time)", Text(everything))


def _metric(item: MetricReport, report: Report) -> Iterator[RenderableType]:
    verdict = item.verdict
    now = report.generated_at
    since = f"for {duration((now - verdict.status_since).total_seconds())}"
    yield Text.assemble(
        (f"\n{plain_text(item.metric, 60)}  ", "bold"),
        verdict_text(verdict),
        f"  {since}",
    )
    yield Text(
        f"{verdict_rate(verdict)}, n {verdict.n:,} since {utc_time(verdict.since, now)}:"
        f" {reason_sentence(verdict)} ({plain_text(verdict.policy, 40)})",
        style="dim",
    )
    if item.series:
        yield SparklineRow(item.series, f"pass rate, last {duration(report.window_s)}")
    figures = ("pass rate (90 %)", "n", "failed", "skipped", "score", "cost")
    windows = Listing.of("window", *figures, right=("window", *figures))
    for found in item.windows:
        windows.add_row(
            duration(found.window_s),
            window_rate(found),
            f"{found.window_n:,}",
            f"{found.n_failed:,}",
            f"{found.n_skipped:,}",
            score(found.average_score),
            usd(found.cost_usd) if found.cost_usd else "–",
        )
    yield windows
    yield from (Text(said, style="dim") for said in metric_sentences(item, report))
    if item.insight is not None:
        yield from (Text(line) for line in insight_lines(item.insight, now))
        if rows := drift_rows(item.insight):
            names = ("distance to the reference", "value", "effect", "significance")
            listed = Listing.of(*names, right=("value",))
            for row in rows:
                listed.add_row(*row)
            yield listed
    for sample in item.worst:
        yield Text(
            f"{sample.score:.2f}  {plain_text(sample.interaction_id, 60)}"
            f"  {plain_text(sample.explanation)}"
        )


def _section(title: str, body: RenderableType) -> RenderableType:
    return Padding(Group(Text(f"\n{title}", style="bold"), body), (0, 0, 0, 2))
