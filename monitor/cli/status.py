"""What people read in a terminal: ``status``, ``report``, and the pages that ``open`` opens."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import sys
import time
import uuid
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import SettingsError
from monitor.format import (
    NONE,
    count,
    duration,
    number,
    percent,
    plain_text,
    points,
    rate_with_interval,
    score,
    short_id,
    utc_time,
)

if TYPE_CHECKING:
    from monitor.report.model import Report
    from monitor.store.engine import Store
    from monitor.web.detail import Detail

_EVERY_S = 2.0
_FILE_WIDTH = 100
#: The longest bar, and what its row needs beside it.
_BAR_CHARS, _BESIDE_BARS = 30, 30


def status(
    of: console.AnyApp = None,
    metric: Annotated[
        str | None,
        typer.Argument(
            help="One metric of the app: its trend, its samples, and why.",
            autocompletion=console.complete_metric,
        ),
    ] = None,
    app: console.OnlyApp = None,
    window: Annotated[
        str | None,
        typer.Option(help="How far back the trend of one metric goes: 90s, 15m, 7d; unset: 24h."),
    ] = None,
    json: console.AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep running and refresh.")] = False,
) -> None:
    """
    Show the status of every app and metric, or of one metric, with its reasons.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 unknown (too little data, blind, no store).
    """
    from rich.live import Live

    from monitor.report.build import exit_code
    from monitor.report.text import render_status
    from monitor.report.words import first_run_hint
    from workers.reports import read_status

    app = of or app
    if app is not None and metric is not None:
        raise typer.Exit(show(app, metric, window or "24h", json))
    if window is not None:
        raise typer.BadParameter(
            f"--window needs a metric: groundwatch status APP METRIC --window {window}; or read all"
            f" of them with: groundwatch report --window {window}"
        )
    with console.opened() as (settings, store):
        console.check_app(store, app)
        read = partial(read_status, store, settings, app=app, with_reasons=True)
        report = read(now=datetime.now(UTC))
        if json:
            typer.echo(report.model_dump_json(indent=2))
        elif watch:
            # Into a pipe each look goes at once; a screen is only written anew.
            live = Live(console=out, auto_refresh=False) if out.is_terminal else None
            with live or nullcontext(), suppress(KeyboardInterrupt):
                while True:
                    shown = Group(render_status(report), *_incident_lines(store, report))
                    if live:
                        live.update(shown, refresh=True)
                    else:
                        out.print(shown)
                    time.sleep(_EVERY_S)
                    report = read(now=datetime.now(UTC))
        else:
            out.print(Group(render_status(report), *_incident_lines(store, report)))
            for item in report.apps:
                if said := first_run_hint(item.app, item.ledger, settings.min_n):
                    console.say(said)
            if not report.apps:
                out.print(
                    'Call groundwatch.sample(...) in your app, after groundwatch.init(app="NAME",'
                    " sample_rate=1.0); `groundwatch doctor hook` checks the way from there to"
                    " here."
                )
    raise typer.Exit(
        exit_code([*(a.status for a in report.apps), *(f.status for f in report.fleet)])
    )


def _incident_lines(store: Store, report: Report) -> list[Text]:
    """Return a line for each open incident of the apps of a report: how long, and what to do."""
    from alerts.queries import open_incidents
    from alerts.store import acknowledgements
    from monitor.report.words import incident_sentence

    with store.read() as connection:
        found, acks = open_incidents(connection), acknowledgements(connection)
    shown, lines = {app.app for app in report.apps}, []
    for item in found:
        if not shown.intersection(item.apps):
            continue
        said = f"{', '.join(item.apps)}: {item.level} incident"
        said += f", {incident_sentence(item, report.generated_at)}"
        said += ", silenced" if item.silenced_by else ""
        if ack := acks.get(item.incident_id):
            said += f", acknowledged by {ack.by}"
        command = f"groundwatch incidents show {short_id(item.incident_id)}"
        lines.append(Text(f"\n{plain_text(said, 200)}: {command}", "bold"))
    return lines


SendTo = Annotated[
    str | None,
    typer.Option(help="Send the digest through this channel; all: every digest channel."),
]


def digest(
    window: console.Window = "24h",
    send: SendTo = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Show it here, as without --send.")
    ] = False,
    json: console.AsJson = False,
) -> None:
    """
    Show or send what happened: verdict, changes, incidents, movers, coverage, cost.

    GROUNDWATCH_DIGEST=daily or weekly sends it regularly.
    """
    from alerts.digest import enqueue, recipients_of_digests
    from alerts.dispatch import Dispatcher, wiring_from
    from alerts.queries import deliveries
    from monitor.cli.messages import print_sent
    from monitor.report.digest import window_before
    from monitor.report.render import render_digest
    from workers.digest import read_digest

    now = datetime.now(UTC)
    period = window_before(now, console.parse_duration_s(window))
    with console.opened() as (settings, store):
        found = read_digest(store, settings, period, now=now)
        if json:
            typer.echo(found.model_dump_json(indent=2))
        elif print_ or send is None:
            typer.echo(render_digest(found, width=out.width), nl=False)
        if send is None:
            return
        channels, _ = wiring_from(settings)
        named = settings.digest_schedule.digest_channels if send == "all" else (send,)
        recipients = recipients_of_digests(channels, named)
        console.quiet_logs()
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
    app: console.OnlyApp = None,
    window: console.Window = "24h",
    format: Annotated[ReportFormat, typer.Option(help="Output format.")] = ReportFormat.TEXT,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.")
    ] = None,
    as_digest: Annotated[
        bool, typer.Option("--digest", help="The digest of all apps on one page, as in mails.")
    ] = False,
    send: SendTo = None,
    json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """
    Report what happened: statuses and their trends, alerts, worst samples, and the ledger.

    GROUNDWATCH_DIGEST=daily or weekly sends the digest regularly.
    """
    from monitor.report.render import render_markdown
    from monitor.report.text import render_report
    from monitor.web.charts import ChartThresholds
    from monitor.web.templating import render_html
    from workers.reports import read_report

    if as_digest or send is not None:
        digest(window, send, print_=as_digest and send is None, json=json)
        return
    form = ReportFormat.JSON if json else format
    window_s = console.parse_duration_s(window)
    with console.opened() as (settings, store):
        console.check_app(store, app)
        found = read_report(store, settings, now=datetime.now(UTC), window_s=window_s, app=app)
    if form is ReportFormat.JSON:
        text = found.model_dump_json(indent=2) + "\n"
    elif form is ReportFormat.MARKDOWN:
        text = render_markdown(found)
    elif form is ReportFormat.HTML:
        lines = ChartThresholds(warning=settings.warning_rate, critical=settings.critical_rate)
        text = render_html(found, lines)
    elif output is None:
        out.print(render_report(found))
        return
    else:
        file = StringIO()
        Console(file=file, width=_FILE_WIDTH, no_color=True).print(render_report(found))
        text = file.getvalue()
    console.write_or_print(text, output)
    if output is not None:
        console.tell(f"written to {output}")


def show(
    app: console.AppName,
    metric: Annotated[str, typer.Argument(help="Name of the metric.")],
    window: console.Window = "24h",
    json: console.AsJson = False,
) -> int:
    """Show one metric of one app: its trend, its scores, its worst samples, and why."""
    from monitor.report.build import exit_code
    from monitor.web.detail import read_detail, read_first_score_s
    from monitor.web.time_range import read_time_range
    from workers.reports import read_status

    now, window_s = datetime.now(UTC), console.parse_duration_s(window)
    with console.opened() as (settings, store):
        period = read_time_range(
            {}, now=now, usual_s=window_s, bucket_s=settings.windows.bucket_s,
            first_s=read_first_score_s(store, app, metric),
        )  # fmt: skip
        found = read_detail(store, settings, app=app, metric=metric, time_range=period, now=now)
        if found is None:
            known = [
                plain_text(f"{item.app} {m.metric}", 80)
                for item in read_status(store, settings, now=now).apps
                for m in item.metrics
            ]
            raise typer.BadParameter(
                f"nothing was scored as {app} {metric}; there {'are' if len(known) > 1 else 'is'}"
                f" {', '.join(known[:10]) or 'nothing yet'}"
            )
    if json:
        typer.echo(found.verdict.model_dump_json(indent=2))
    else:
        print_metric(found)
    return exit_code([found.verdict.status])


def print_metric(found: Detail) -> None:
    """Print the page of a metric, from its status to its worst samples."""
    from monitor.report.listing import SparklineRow
    from monitor.report.model import RatePoint
    from monitor.report.render import insight_lines
    from monitor.report.text import verdict_text
    from monitor.report.words import (
        drift_sentence,
        proof_sentence,
        unscored_sentence,
        verdict_rate,
    )

    verdict = found.verdict
    name = (f"{plain_text(found.app, 60)}, {plain_text(found.metric, 60)}  ", "bold")
    figures = f"  {verdict_rate(verdict)}, n {verdict.n:,}"
    out.print(Text.assemble(name, verdict_text(verdict), figures))
    out.print(
        Text(
            f"since {utc_time(verdict.since)}: {plain_text(verdict.reason, 300)}"
            f" (policy {plain_text(verdict.policy, 40)})\n",
            style="dim",
        )
    )
    steps = [
        RatePoint(start=datetime.fromtimestamp(step.start_s, UTC), n=step.n, pass_rate=step.rate)
        for step in found.series.steps
    ]
    gaps = f", {count(found.series.gaps, 'step')} without scores" if found.series.gaps else ""
    said = f"pass rate, last {duration(found.time_range.length_s)}, n {found.series.n:,}{gaps}"
    out.print(SparklineRow(steps, said))
    if verdict.drift is not None:
        out.print(Text(drift_sentence(verdict.drift), style="dim"))
    if found.report.proof is not None:
        out.print(Text(proof_sentence(found.report.proof, datetime.now(UTC)), style="dim"))
    if found.insight is not None and (lines := insight_lines(found.insight, datetime.now(UTC))):
        out.print(Text("\nWhat explains it", style="bold"))
        out.print(Text("\n".join(lines)))
    if found.segments.rows:
        compared = f", against {plain_text(found.segments.reference, 60)}"
        out.print(Text.assemble(("\nSegments", "bold"), (compared, "dim")))
        console.print_rows(found.segments.rows, {
            "segment": lambda row: plain_text(f"{row.dimension} {row.value}", 60),
            "share": lambda row: percent(row.share),
            "n": lambda row: number(row.n),
            "pass rate (90 %)": lambda row: rate_with_interval(row.rate, row.low, row.high),
            "change": lambda row: points(row.change),
            "contribution": lambda row: points(row.adds),
        }, right=("share", "n", "pass rate (90 %)", "change", "contribution"))  # fmt: skip
        if found.segments.left_out:
            out.print(Text(f"{found.segments.left_out} more contribute less", style="dim"))
    if sum(found.histogram_now):
        out.print(Text("\nScores now, and in the reference", style="bold"))
        now, before = (
            [sum(counts[i * each : (i + 1) * each]) / (sum(counts) or 1.0) for i in range(10)]
            for counts in (found.histogram_now, found.histogram_before)
            for each in (max(1, len(counts) // 10),)
        )
        longest = max(1, min(_BAR_CHARS, out.width - _BESIDE_BARS)) / max(*now, 0.01)
        console.print_rows(range(10), {
            "score": lambda tenth: f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}",
            "now": lambda tenth: percent(now[tenth]),
            "reference": lambda tenth: percent(before[tenth]) if sum(before) else NONE,
            "": lambda tenth: "█" * round(now[tenth] * longest),
        }, right=("score", "now", "reference"))  # fmt: skip
    # Tell of single samples: why some have no score, and which are the worst.
    without = found.unscored
    if said := unscored_sentence(without.failed, without.skipped, found.time_range.length_s):
        out.print(Text(f"\n{said}", style="dim"))
    if found.worst:
        out.print(Text("\nWorst samples", style="bold"))
    for sample in found.worst:
        name_of = f"{score(sample.score)}  {plain_text(sample.sample_id, 60)}"
        out.print(Text(f"{name_of}  {plain_text(sample.evaluation.explanation or '')}"))


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
    from alerts.queries import incidents_named
    from monitor.store.samples import read_sample
    from monitor.web.time_range import app_path, incident_path, metric_path, sample_path
    from workers.stack import page_url_file

    with console.opened() as (settings, store), store.read() as connection:
        apps = console.known_apps(store)
        if not what:
            path = "/"
        elif what in apps:
            path = metric_path(what, metric) if metric else app_path(what)
        elif len(incidents := incidents_named(connection, what)) == 1:
            path = incident_path(incidents[0].incident_id)
        elif read_sample(connection, what) is not None:
            path = sample_path(what)
        else:
            raise SettingsError(
                f"no app, incident or sample is named {plain_text(what, 64)!r};"
                f" apps: {console.app_names(apps)}; `groundwatch samples` lists the ids of samples"
            )
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
