"""What people read in a terminal: ``status``, ``report``, and the pages that ``open`` opens."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text
from sqlalchemy import Connection

from alerts.digest import enqueue, recipients_of_digests
from alerts.dispatch import Dispatcher
from alerts.queries import deliveries, incidents_named
from alerts.routes_file import wiring_from
from alerts.routing import Recipient
from monitor.cli.console import (
    AppName,
    AsJson,
    OnlyApp,
    Window,
    app_names,
    check_app,
    complete_app,
    complete_metric,
    err,
    known_apps,
    open_store,
    out,
    parse_duration_s,
    quiet_logs,
    say,
    write_or_print,
)
from monitor.cli.messages import print_sent
from monitor.errors import SettingsError
from monitor.models import Verdict
from monitor.report.build import exit_code
from monitor.report.digest import Digest, window_before
from monitor.report.format import (
    duration,
    number,
    percent,
    plain_text,
    points,
    rate_with_interval,
    score,
)
from monitor.report.listing import Listing, SparklineRow
from monitor.report.model import RatePoint, Report
from monitor.report.render import insight_lines, render_digest, render_markdown
from monitor.report.text import render_report, render_status, verdict_text
from monitor.report.words import drift_sentence, first_run_hint, unscored_sentence, verdict_rate
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.samples import read_sample
from monitor.web.detail import Detail, read_detail
from monitor.web.time_range import TimeRange, app_path, incident_path, metric_path, sample_path
from workers.reports import read_digest, read_report, read_status
from workers.stack import page_url_file

_EVERY_S = 2.0
_FILE_WIDTH = 100
#: The longest bar, and what its row needs beside it.
_BAR_CHARS, _BESIDE_BARS = 30, 30


def status(
    of: Annotated[
        str | None,
        typer.Argument(metavar="[APP]", help="Only this app.", autocompletion=complete_app),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Argument(
            help="One metric of the app: its trend, its samples, and why.",
            autocompletion=complete_metric,
        ),
    ] = None,
    app: OnlyApp = None,
    window: Window = "24h",
    json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and refresh.")] = False,
) -> None:
    """
    Show the status of every app and metric, or one metric and why it is so.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 unknown (too little data, blind, no store).
    """
    app = of or app
    if app is not None and metric is not None:
        verdict = show(app, metric, window, json)
        raise typer.Exit(exit_code([verdict.status]))
    settings = Settings.from_env()
    store = open_store(settings)
    check_app(store, app)
    report = read_status(store, settings, now=datetime.now(UTC), app=app)
    if json:
        typer.echo(report.model_dump_json(indent=2))
    elif watch:
        # Into a pipe each look goes at once; a screen is only written anew.
        live = Live(console=out, auto_refresh=False) if out.is_terminal else None
        with live or nullcontext(), suppress(KeyboardInterrupt):
            while True:
                if live:
                    live.update(render_status(report), refresh=True)
                else:
                    out.print(render_status(report))
                time.sleep(_EVERY_S)
                report = read_status(store, settings, now=datetime.now(UTC), app=app)
    else:
        out.print(render_status(report))
        for item in report.apps:
            if said := first_run_hint(item.app, item.ledger, settings.min_n):
                say(said)
        if not report.apps:
            out.print(
                'Call groundwatch.sample(...) in your app, after groundwatch.init(app="NAME",'
                " sample_rate=1.0); `groundwatch doctor hook` checks the way from there to here."
            )
    raise typer.Exit(
        exit_code([*(a.status for a in report.apps), *(f.status for f in report.fleet)])
    )


def digest(
    window: Window = "24h",
    send: Annotated[
        str | None, typer.Option(help="Send it through this channel; all: every digest channel.")
    ] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Show it here, as without --send.")
    ] = False,
    json: AsJson = False,
) -> None:
    """
    Show or send what happened: verdict, changes, incidents, movers, coverage, cost.

    GROUNDWATCH_DIGEST=daily or weekly sends it regularly.
    """
    settings = Settings.from_env()
    store, now = open_store(settings), datetime.now(UTC)
    period = window_before(now, parse_duration_s(window))
    found = read_digest(store, settings, period, now=now)
    if json:
        typer.echo(found.model_dump_json(indent=2))
    elif print_ or send is None:
        typer.echo(render_digest(found, width=out.width), nl=False)
    if send is not None:
        _send(found, store, settings, send)


def _send(found: Digest, store: Store, settings: Settings, name: str) -> None:
    channels, _ = wiring_from(settings)
    named = settings.digest_schedule.digest_channels if name == "all" else (name,)
    recipients: list[Recipient] = recipients_of_digests(channels, named)
    quiet_logs()
    # A name of its own: who asks twice wants it twice.
    found = found.model_copy(update={"name": f"{found.name}-{uuid.uuid4().hex[:12]}"})
    with store.write() as connection:
        enqueue(connection, found, recipients, found.made_at)
    Dispatcher(store, channels, Random()).run_once()  # noqa: S311
    with store.read() as connection:
        sent = deliveries(connection, incident_id=found.name)
    print_sent(sent, none="no channel that takes digests is configured")


class ReportFormat(StrEnum):
    """How a report is written."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"  #: one file that holds all it needs


def report(
    app: OnlyApp = None,
    window: Window = "24h",
    format: Annotated[ReportFormat, typer.Option(help="Output format.")] = ReportFormat.TEXT,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.")
    ] = None,
    as_digest: Annotated[
        bool, typer.Option("--digest", help="The digest of all apps on one page, as in mails.")
    ] = False,
    send: Annotated[
        str | None,
        typer.Option(help="Send the digest through this channel; all: every digest channel."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
) -> None:
    """
    Report what happened: statuses and their trends, alerts, worst samples, and the ledger.

    GROUNDWATCH_DIGEST=daily or weekly sends the digest regularly.
    """
    if as_digest or send is not None:
        digest(window, send, print_=as_digest and send is None, json=json)
        return
    format = ReportFormat.JSON if json else format  # noqa: A001
    window_s = parse_duration_s(window)
    settings = Settings.from_env()
    store = open_store(settings)
    check_app(store, app)
    found = read_report(store, settings, now=datetime.now(UTC), window_s=window_s, app=app)
    if output is not None:
        write_or_print(_write(found, format, settings), output)
        err.print(f"written to {output}", markup=False)
    elif format is ReportFormat.TEXT:
        out.print(render_report(found))
    else:
        typer.echo(_write(found, format, settings), nl=False)


def _write(found: Report, form: ReportFormat, settings: Settings) -> str:
    if form is ReportFormat.JSON:
        return found.model_dump_json(indent=2) + "\n"
    if form is ReportFormat.MARKDOWN:
        return render_markdown(found)
    if form is ReportFormat.HTML:
        from monitor.web.charts import ChartThresholds  # noqa: PLC0415  # only here
        from monitor.web.templating import render_html  # noqa: PLC0415

        lines = ChartThresholds(warning=settings.warning_rate, critical=settings.critical_rate)
        return render_html(found, lines)
    text = StringIO()
    Console(file=text, width=_FILE_WIDTH, no_color=True).print(render_report(found))
    return text.getvalue()


def show(
    app: AppName,
    metric: Annotated[str, typer.Argument(help="Name of the metric.")],
    window: Window = "24h",
    json: AsJson = False,
) -> Verdict:
    """Show one metric of one app: its course, its scores, its worst samples, and why."""
    span_s = parse_duration_s(window)
    settings = Settings.from_env()
    store = open_store(settings)
    now = datetime.now(UTC)
    found = read_detail(
        store, settings, app=app, metric=metric, time_range=TimeRange.last(span_s, now), now=now
    )
    if found is None:
        known = [
            f"{item.app} {m.metric}"
            for item in read_status(store, settings, now=now).apps
            for m in item.metrics
        ]
        there = ", ".join(plain_text(name, 80) for name in known[:10]) or "nothing yet"
        raise typer.BadParameter(f"nothing was scored as {app} {metric}; there is {there}")
    if json:
        typer.echo(found.verdict.model_dump_json(indent=2))
    else:
        out.print(Group(*metric_page(found)))
    return found.verdict


def metric_page(found: Detail) -> Iterator[RenderableType]:
    """Yield the parts of a metric's page, from its status to its worst samples."""
    verdict = found.verdict
    yield Text.assemble(
        (f"{plain_text(found.app, 60)}, {plain_text(found.metric, 60)}  ", "bold"),
        verdict_text(verdict),
        f"  {verdict_rate(verdict)}, n {verdict.n:,}",
    )
    yield Text(f"{plain_text(verdict.reason, 300)} ({plain_text(verdict.policy, 40)})", style="dim")
    steps = [
        RatePoint(start=datetime.fromtimestamp(step.start_s, UTC), n=step.n, pass_rate=step.rate)
        for step in found.series.steps
    ]
    gaps = f", {found.series.gaps} steps without scores" if found.series.gaps else ""
    yield Text()
    yield SparklineRow(
        steps, f"pass rate, last {duration(found.span_s)}, n {found.series.n:,}{gaps}"
    )
    if verdict.drift is not None:
        yield Text(drift_sentence(verdict.drift), style="dim")
    if found.insight is not None and (lines := insight_lines(found.insight, datetime.now(UTC))):
        yield Text("\nWhat explains it", style="bold")
        yield from (Text(line) for line in lines)
    if found.segments.rows:
        compared = f", against {plain_text(found.segments.reference, 60)}"
        yield Text.assemble(("\nSegments", "bold"), (compared, "dim"))
        figures = ("share", "n", "pass rate (90 %)", "change", "adds")
        listed = Listing.of("segment", *figures, right=figures)
        for row in found.segments.rows:
            listed.add_row(
                plain_text(f"{row.dimension} {row.value}", 60),
                percent(row.share),
                number(row.n),
                rate_with_interval(row.rate, row.low, row.high),
                points(row.change),
                points(row.adds),
            )
        yield listed
        if found.segments.left_out:
            yield Text(f"{found.segments.left_out} more add less", style="dim")
    if sum(found.histogram_now):
        yield Text("\nScores now, and in the reference", style="bold")
        yield Histogram(found.histogram_now, found.histogram_before)
    # Tell of single samples: why some have no score, and which are the worst.
    without = found.unscored
    if said := unscored_sentence(without.failed, without.skipped, found.span_s):
        yield Text(f"\n{said}", style="dim")
    if found.worst:
        yield Text("\nWorst samples", style="bold")
    for sample in found.worst:
        yield Text(
            f"{score(sample.score)}  {plain_text(sample.interaction_id, 60)}"
            f"  {plain_text(sample.evaluation.explanation or '')}"
        )


@dataclass(frozen=True, slots=True)
class Histogram:
    """Two distributions in tenths of the score, as bars and shares; as long as there is room."""

    now: Sequence[float]
    before: Sequence[float]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them."""
        current, earlier = (
            [sum(counts[i * each : (i + 1) * each]) / (sum(counts) or 1.0) for i in range(10)]
            for counts in (self.now, self.before)
            for each in (max(1, len(counts) // 10),)
        )
        longest = max(1, min(_BAR_CHARS, options.max_width - _BESIDE_BARS))
        listed = Listing.of("score", "now", "reference", "", right=("score", "now", "reference"))
        for tenth, (share, share_before) in enumerate(zip(current, earlier, strict=True)):
            listed.add_row(
                f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}",
                percent(share),
                percent(share_before) if sum(self.before) else "–",
                "█" * round(share / max(*current, 0.01) * longest),
            )
        yield listed


def open_page(
    what: Annotated[
        str, typer.Argument(help="An app, an incident id or a sample id; unset: the start page.")
    ] = "",
    metric: Annotated[str, typer.Argument(help="A metric of the app.")] = "",
    print_: Annotated[
        bool, typer.Option("--print", help="Only print the address, as in a pipe.")
    ] = False,
) -> None:
    """Print the address of a page, and open it in the browser."""
    settings = Settings.from_env()
    with closing(open_store(settings)) as store, store.read() as connection:
        path = _path(connection, store, what, metric) if what else "/"
    base = str(settings.report_url or "")
    if not base:
        # `up` may have found its usual port taken, and wrote down where its page is.
        file = page_url_file(settings.home)
        usual = f"http://{settings.web_host}:{settings.web_port}/"
        base = file.read_text(encoding="utf-8").strip() if file.exists() else usual
    url = base.rstrip("/") + path
    typer.echo(url)
    if not print_ and sys.stdout.isatty():
        typer.launch(url)


def _path(connection: Connection, store: Store, what: str, metric: str) -> str:
    apps = known_apps(store)
    if what in apps:
        return metric_path(what, metric) if metric else app_path(what)
    incidents = incidents_named(connection, what)
    if len(incidents) == 1:
        return incident_path(incidents[0].incident_id)
    if read_sample(connection, what) is not None:
        return sample_path(what)
    raise SettingsError(
        f"no app, incident or sample is named {plain_text(what, 64)!r}; apps: {app_names(apps)}"
    )
