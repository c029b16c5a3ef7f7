"""``groundwatch doctor --reconcile``: each sum beside its counterpart."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import UTC, datetime

import typer
from rich.text import Text

from monitor.cli.console import out, warn
from monitor.cli.stores import open_store
from monitor.queue.consumer import connect
from monitor.report.listing import Listing
from monitor.report.words import harmless
from monitor.settings import Settings
from monitor.store.balance import Check, Reconciliation
from workers.reconcile import reconcile

_MOST_WRONG = 10


def run(settings: Settings, window_s: int, *, as_json: bool) -> int:
    """Print the sums; give the exit code: 0 when all of them agree."""
    with closing(open_store(settings)) as store, closing(connect(settings.broker_url)) as client:
        found = reconcile(
            client, store, now_s=time.time(), window_s=window_s, bucket_s=settings.bucket_s
        )
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2))
    else:
        _print(found)
    return 0 if found.holds else 1


def _print(found: Reconciliation) -> None:
    since = datetime.fromtimestamp(found.since_s, UTC)
    out.print(f"rows since {since:%Y-%m-%d %H:%M} UTC; ledger and streams as of all time")
    figures = ("of", "found", "counterpart", "difference")
    listed = Listing.of("", "sum", *figures, right=figures)
    for check in found.checks:
        mark = Text("✗", style="bold red") if check.wrong else Text("✓", style="green")
        listed.add_row(
            mark,
            check.name,
            f"{check.sums:,}",
            _figure(check.found),
            _figure(check.expected),
            _figure(check.difference),
        )
    out.print(listed if found.sums else "nothing was counted so far")
    for check in found.checks:
        _print_wrong(check)
    for note in found.notes:
        out.print(Text(f"– {note}", style="yellow"), soft_wrap=True)
    if any(check.wrong for check in found.checks):
        warn("some sums differ; docs/operations.md says what each difference means")


def _print_wrong(check: Check) -> None:
    for item in check.wrong[:_MOST_WRONG]:
        where = harmless(item.where, 90)
        figures = f"{_figure(item.found)}, not {_figure(item.expected)}"
        out.print(Text(f"  {check.name}: {where}: {figures}", style="red"))
    if len(check.wrong) > _MOST_WRONG:
        out.print(f"  {check.name}: and {len(check.wrong) - _MOST_WRONG:,} more")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
