"""A report for the terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from monitor.format import (
    NONE,
    duration,
    percent,
    plain_text,
    score,
    usd,
    utc_second,
    utc_time,
)
from monitor.models import Status, Verdict
from monitor.report import words
from monitor.report.listing import Column, Listing, SparklineRow
from monitor.report.model import AppReport, MetricReport, Report
from monitor.report.render import input_lines, insight_lines, metric_sentences

STYLES: Mapping[Status, str] = {
    Status.HEALTHY: "green",
    Status.WARNING: "yellow",
    Status.CRITICAL: "bold red",
    Status.INSUFFICIENT_DATA: "dim",
    Status.BLIND: "magenta",
}

_FOOTNOTE = "* level not verified: 50 labels (groundwatch label) or a judge would verify it"
#: A name is folded to no less than this; figures never are.
_FOLDED, _WHOLE = 12, 1_000


def status_text(status: Status) -> Text:
    """Return a status as shape, word and colour."""
    return Text(f"{words.ICONS[status]} {words.WORDS[status]}", style=STYLES[status])


def verdict_text(verdict: Verdict) -> Text:
    """Return the status of a verdict as shape, word and colour."""
    return Text(
        f"{words.ICONS[verdict.status]} {words.verdict_word(verdict)}", style=STYLES[verdict.status]
    )


def render_status(report: Report) -> RenderableType:
    """Return the overview: one sentence, a table with the worst first, and the ledger."""
    parts: list[RenderableType] = [_headline(report)]
    if any(app.metrics for app in report.apps):
        parts.append(status_table(report))
    if any(
        words.NOT_VERIFIED in words.verdict_rate(item.verdict)
        for app in report.apps for item in app.metrics
    ):  # fmt: skip
        parts.append(Text(_FOOTNOTE, "dim"))
    parts += [Text(line, style="dim") for app in report.apps for line in _notes(app, report)]
    missing = (words.not_scored_sentence(app, report.window_s) for app in report.apps)
    parts += [Text(line) for line in missing if line]
    for app in report.apps:
        ledger = words.ledger_sentence(app.ledger)
        parts.append(Text(f"\n{plain_text(app.app, 40)}, all time:\n{ledger}", "dim"))
    return Group(*parts)


def _notes(app: AppReport, report: Report) -> Iterator[str]:
    """Return what belongs to the rows of an app: reasons of its statuses, errors, and costs."""
    name = plain_text(app.app, 40)
    alike: dict[str, list[str]] = {}  # metrics by what is to be said of them
    for item in app.metrics:
        verdict = item.verdict
        if {verdict.status, verdict.point_status} != {Status.HEALTHY}:
            said = f": {words.reason_sentence(verdict, with_level=False)}"
            if verdict.status in {Status.WARNING, Status.CRITICAL}:
                said = f" since {utc_time(verdict.since, report.generated_at)}{said}"
            alike.setdefault(said, []).append(plain_text(item.metric, 40))
    for said, metrics in alike.items():
        yield f"{name} {', '.join(metrics)}{said}"
    for item in app.metrics:
        if said := words.judge_sentence(item.verdict):
            last = duration(item.verdict.window_s)
            yield f"{name} {plain_text(item.metric, 40)}, last {last}: {said}"
    if said := words.error_sentence(app.recent, report.window_s):
        yield f"{name}, {said}"
    if said := words.cost_sentence([item.verdict for item in app.metrics]):
        yield f"{name}, {said}"
    if app.sample_rate is not None:
        yield f"{name}: {words.sample_rate_sentence(app.sample_rate, report.generated_at)}"


def status_table(report: Report) -> Listing:
    """Return a row a metric, worst first, with as many columns as the terminal has room for."""
    table = Listing(
        [
            Column("app", folds_to=_FOLDED),
            Column("metric", folds_to=_FOLDED),
            Column("status", folds_to=_WHOLE),
            Column("pass rate (90 %)", "right", folds_to=_WHOLE),
            Column("n", "right"),
            Column("average score", "right", from_width=100),
            Column("for", "right", from_width=90),
            Column("reference", from_width=110),
        ],
        n_head=2,
    )
    for app in report.apps:
        for verdict in (item.verdict for item in app.metrics):
            drift, reference = verdict.drift, NONE
            if drift is not None and drift.reference_pass_rate is not None:
                reference = f"{percent(drift.reference_pass_rate)} (n {drift.reference_n:,})"
            table.add_row(
                plain_text(app.app, 40), plain_text(verdict.metric, 40), verdict_text(verdict),
                words.verdict_rate(verdict, unverified="*"), f"{verdict.n:,}",
                f"{score(verdict.average_score)} in {duration(verdict.window_s)}",
                duration(report.generated_at - verdict.status_since), reference,
            )  # fmt: skip
    return table


def render_report(report: Report) -> RenderableType:
    """Return the whole report, app by app."""
    return Group(
        _headline(report),
        Text(
            f"{utc_second(report.generated_at)}, the last {duration(report.window_s)}",
            style="dim",
        ),
        *(part for app in report.apps for part in _app(app, report)),
    )


def _headline(report: Report) -> Text:
    said = [words.report_headline(report)]
    said += [words.fleet_sentence(fall, report.generated_at) for fall in report.fleet]
    return Text("\n".join(said) + "\n", style=f"bold {STYLES[report.status]}")


def _app(app: AppReport, report: Report) -> Iterator[RenderableType]:
    now = report.generated_at
    yield Text(f"\n{plain_text(app.app, 60)}", style="bold")
    for item in app.metrics:
        yield from (Padding(part, (0, 0, 0, 2)) for part in _metric(item, report))
    if said := words.cost_sentence([item.verdict for item in app.metrics]):
        yield _section("Cost", Text(said))
    if moved := input_lines(app.inputs):
        yield _section("Input drift", Text("\n".join(moved)))
    if app.changes:
        listed = Listing.of("", "", "", "", "")
        for change in app.changes:
            metric, rate = plain_text(change.metric, 40), percent(change.pass_rate)
            when, status = utc_time(change.at, now), status_text(change.after)
            listed.add_row(when, metric, status, rate, f"n {change.n:,}")
        yield _section("Status changes", listed)
    if app.incidents:
        listed = Listing.of("", "", "", "")
        for incident in app.incidents:
            metrics = plain_text(", ".join(incident.metrics), 40)
            lasted = words.incident_sentence(incident, now)
            opened = utc_time(incident.opened_at, now)
            listed.add_row(opened, metrics, words.level_words(incident), lasted)
        yield _section("Alerts", listed)
    everything = words.ledger_sentence(app.ledger)
    if app.recent:
        everything += "\n" + words.recent_sentence(app.recent, report.window_s)
    yield _section("Pipeline accounting (all time)", Text(everything))


def _metric(item: MetricReport, report: Report) -> Iterator[RenderableType]:
    verdict = item.verdict
    now = report.generated_at
    since = f"  for {duration(now - verdict.status_since)}"
    name = (f"\n{plain_text(item.metric, 60)}  ", "bold")
    yield Text.assemble(name, verdict_text(verdict), since)
    yield Text(
        f"{words.verdict_rate(verdict, unverified='')}, n {verdict.n:,} since"
        f" {utc_time(verdict.since, now)}: {words.reason_sentence(verdict)}"
        f" (policy {plain_text(verdict.policy, 40)})",
        style="dim",
    )
    if item.series:
        yield SparklineRow(item.series, f"pass rate, last {duration(report.window_s)}")
    figures = ("pass rate (90 %)", "n", "failed", "skipped", "score", "cost")
    windows = Listing.of("window", *figures, right=("window", *figures))
    for found in item.windows:
        counts = (f"{n:,}" for n in (found.window_n, found.n_failed, found.n_skipped))
        cost = usd(found.cost_usd) if found.cost_usd else "–"
        mean = score(found.average_score)
        windows.add_row(duration(found.window_s), words.window_rate(found), *counts, mean, cost)
    yield windows
    yield from (Text(said, style="dim") for said in metric_sentences(item, report))
    if item.insight is not None:
        yield from (Text(line) for line in insight_lines(item.insight, now))
    for sample in item.worst:
        yield Text(
            f"{sample.score:.2f}  {plain_text(sample.sample_id, 60)}"
            f"  {plain_text(sample.explanation)}"
        )


def _section(title: str, body: RenderableType) -> RenderableType:
    return Padding(Group(Text(f"\n{title}", style="bold"), body), (0, 0, 0, 2))
