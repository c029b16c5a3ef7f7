"""``groundwatch alerts backtest``: what rules would have sent, beside those in force."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from alerts.backtest import missed
from monitor.cli.console import open_store, out, parse_duration_s
from monitor.report.format import plain_text, utc_time
from monitor.report.listing import Listing
from monitor.settings import Settings
from workers.backtest import (
    POLICY_NAMES,
    of_scores,
    of_store,
    rules_from,
    scores_of,
)

_DAY_S = 86_400.0


def backtest(
    since: Annotated[str, typer.Option(help="How far back: 7d, 30d.")] = "30d",
    rules: Annotated[
        Path | None, typer.Option(help="Other settings, as a TOML file: warning_rate = 0.9.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="History from `score -o` or records with a score, not from the store."),
    ] = None,
    every_policy: Annotated[
        bool, typer.Option("--every-policy", help="The present rules under each policy beside.")
    ] = False,
) -> None:
    """Count the messages that rules would have sent on history, per key and 30 days."""
    settings = Settings.from_env()
    present = rules_from(settings)
    tried = {f"now ({present.policy})": present}
    if rules is not None:
        tried["with the new rules"] = rules_from(settings, rules)
    if every_policy:
        tried |= {p: replace(present, policy=p) for p in POLICY_NAMES if p != present.policy}
    end = datetime.now(UTC)
    if scores is not None:
        history = scores_of(scores)
        told = {name: of_scores(history, each) for name, each in tried.items()}
    else:
        begin = end - timedelta(seconds=parse_duration_s(since))
        with open_store(settings).read() as connection:
            told = {
                name: of_store(connection, each, begin=begin, end=end)
                for name, each in tried.items()
            }
    listed = Listing.of("app", "metric", *told)
    by_key = [{each.key[:3]: each for each in found} for found in told.values()]
    present_alerts = next(iter(told.values()))
    for one in present_alerts:
        names = (Text(plain_text(name, 40)) for name in (one.key.app, one.key.metric))
        found = (keys[one.key[:3]] for keys in by_key)
        # A shorter history says nothing about a month.
        cells = (
            f"{len(each.events)} ({each.per_month:.1f})"
            if each.span_s >= _DAY_S
            else f"{len(each.events)}"
            for each in found
        )
        listed.add_row(*names, *cells)
    out.print(listed if present_alerts else "there is no history yet")
    if present_alerts:
        out.print("messages on this history (and per 30 days, where it covers a day or more)")
    if rules is not None:
        before, after = list(told.values())[:2]
        gone = missed(before, after, within_s=float(present.window_s))
        out.print(f"of what fires now the new rules would miss: {len(gone) or 'nothing'}")
        for key, at in gone[:20]:
            out.print(Text(plain_text(f"  {utc_time(at)} {key.app} {key.metric}", 120)))
