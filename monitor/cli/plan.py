"""``groundwatch plan``: how much to sample to find a fall in time, and what that costs."""

from __future__ import annotations

import json
import math
import re
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import check_app, open_store, out, parse_duration_s
from monitor.report.format import duration, percent, plain_text, usd
from monitor.report.listing import Listing
from monitor.rolling.backtesting import Detection
from monitor.settings import Settings
from workers.reports import plan_sampling

_OBJECTIVE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:points?|pts|%)\s+in\s+(\d+\s*[smhd])\s*")


def plan(
    app: Annotated[str, typer.Argument(help="Name of the app.")],
    metric: Annotated[str, typer.Argument(help="Such as groundedness.")] = "groundedness",
    detect: Annotated[
        str, typer.Option(help="The fall to find, and how soon.")
    ] = "15 points in 2h",
    budget: Annotated[
        float | None, typer.Option(min=0, help="Most dollars a month for the judge.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """
    Plan the sample rate: how soon a fall would be found at each, and what the judge would cost.

    200 falls are played from the stream's present evidence through the code that decides live.
    """
    if not (asked := _OBJECTIVE.fullmatch(detect)):
        raise typer.BadParameter(f"Invalid objective '{detect}': expected \"15 points in 2h\"")
    fall, within_s = float(asked[1]) / 100, parse_duration_s(asked[2])
    settings, now = Settings.from_env(), datetime.now(UTC)
    with closing(open_store(settings)) as store:
        check_app(store, settings, app)
        planned = plan_sampling(store, settings, app, metric, fall=fall, now=now)
    rate, seen_per_hour, sampled, found, cost = planned
    paid = [each for each in found if budget is None or cost[each.sample_rate] <= budget]
    enough = next((each for each in paid if each.median_s <= within_s), None)
    if as_json:
        rows = [
            {k: v if math.isfinite(v) else None for k, v in each._asdict().items()}
            | {"usd_a_month": cost[each.sample_rate]}
            for each in found
        ]
        chosen = enough and enough.sample_rate
        typer.echo(json.dumps({"pass_rate": rate, "rates": rows, "sample_rate": chosen}, indent=2))
        return
    out.print(
        Text(
            f"{plain_text(app, 60)} · {plain_text(metric, 60)}: {percent(rate)} pass,"
            f" {seen_per_hour:,.0f} requests an hour. A fall of {asked[1]} points is found after:"
        )
    )
    figures = ("sample rate", "scores an hour", "scores needed", "median", "9 in 10 within")
    table = Listing.of(*figures, "judge a month", right=(*figures, "judge a month"))
    for each in found:
        mark = " (now)" if each.sample_rate == sampled else ""
        table.add_row(
            f"{percent(each.sample_rate)}{mark}",
            f"{each.per_hour:,.1f}",
            f"{each.samples:,.0f}" if math.isfinite(each.samples) else "–",
            _span(each.median_s),
            _span(each.slow_s),
            usd(cost[each.sample_rate]),
            style="bold" if each is enough else "",
        )
    out.print(table)
    out.print(_advice(enough, within_s, budget, paid))


def _span(seconds: float) -> str:
    return duration(seconds) if math.isfinite(seconds) else "not found"


def _advice(
    enough: Detection | None, within_s: float, budget: float | None, paid: list[Detection]
) -> str:
    """Return what to set, or what the budget buys."""
    if enough is not None:
        return f"Set GROUNDWATCH_SAMPLE_RATE={enough.sample_rate:.3g} in the app."
    within = f"in {duration(within_s)}"
    if budget is None:
        return f"No sample rate finds it {within}: there is too little traffic."
    if not paid:
        return f"{usd(budget)} a month pays for none of these rates."
    best = min(paid, key=lambda each: each.median_s)
    return (
        f"{usd(budget)} a month does not find it {within}. It buys a sample rate of"
        f" {percent(best.sample_rate)}, which finds it after {_span(best.median_s)} (median)."
    )
