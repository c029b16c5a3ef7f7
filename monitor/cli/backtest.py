"""``groundwatch alerts backtest``: what rules would have sent, beside those in force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from alerts.backtest import Told, missed
from monitor.cli.console import out, parse_duration_s, table
from monitor.cli.stores import open_store
from monitor.report.words import harmless
from monitor.settings import Settings
from workers.backtest import Rules, of_scores, of_store, rules_from, scores_of


def backtest(
    since: Annotated[str, typer.Option(help="How far back: 7d, 30d.")] = "30d",
    rules: Annotated[
        Path | None, typer.Option(help="Other settings, as a TOML file: warning_rate = 0.9.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="History from `score -o` or records with a score, not from the store."),
    ] = None,
) -> None:
    """Count the messages that rules would have sent on history, per key and 30 days."""
    settings = Settings.from_env()
    present, other = rules_from(settings), rules_from(settings, rules)
    end = datetime.now(UTC)
    if scores is not None:
        history = scores_of(scores)
        before, after = of_scores(history, present), of_scores(history, other)
    else:
        begin = end - timedelta(seconds=parse_duration_s(since))
        with open_store(settings).read() as connection:
            before = of_store(connection, present, begin=begin, end=end)
            after = of_store(connection, other, begin=begin, end=end)
    _print(before, after if rules is not None else None, present)


def _print(before: list[Told], after: list[Told] | None, present: Rules) -> None:
    names = ["app", "metric", "messages", "a month"]
    listed = table(*names, *(["with the new rules", "a month"] if after is not None else []))
    by_key = {told.key: told for told in after or []}
    for told in before:
        cells = [str(len(told.events)), f"{told.per_month:.1f}"]
        if after is not None:
            new = by_key[told.key]
            cells += [str(len(new.events)), f"{new.per_month:.1f}"]
        listed.add_row(
            Text(harmless(told.key.app, 40)), Text(harmless(told.key.metric, 40)), *cells
        )
    out.print(listed if before else "there is no history to look at")
    if after is not None:
        gone = missed(before, after, within_s=float(present.window_s))
        out.print(f"of what fires now the new rules would miss: {len(gone) or 'nothing'}")
        for key, at in gone[:20]:
            out.print(Text(harmless(f"  {at:%Y-%m-%d %H:%M} UTC {key.app} {key.metric}", 120)))
