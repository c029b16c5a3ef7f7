"""``groundwatch plan``: how much to sample to find a fall in time, and what that costs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import check_app, open_store, out, parse_duration_s
from monitor.errors import SettingsError
from monitor.report.format import duration, percent, plain_text, usd
from monitor.report.listing import Listing
from monitor.rolling.backtesting import RATES, Detection, detections
from monitor.rolling.evidence_state import EvidenceState, from_json
from monitor.rolling.fleet import budget_keys
from monitor.rolling.policies import Rules, stream_budget
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_between
from monitor.store.query import active_streams, cost_usd_since, shared_values
from monitor.store.verdicts import read_states

_DAY_S, _WEEK_S, _HOURS_A_MONTH = 86_400, 604_800, 720
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
        state, rules = _present(store, settings, app, metric, now.timestamp())
        seen_per_hour, sampled, sample_usd = _traffic(store, app, now.timestamp())
    usual = state.recent[0].plus(0, state.recent[1].size, state.recent[1].passed)
    rate = usual.rate if state.baseline.rate is None else state.baseline.rate
    if rate - fall >= settings.warning_rate:
        raise SettingsError(
            f"a fall of {asked[1]} points from {percent(rate)} stays above the warning threshold"
            f" of {percent(settings.warning_rate)}, so it raises no alert: ask for a larger one"
        )
    rates = sorted({*RATES, *([sampled] if sampled else [])})
    found = detections(
        state, rules, after=max(rate - fall, 0.0), seen_per_hour=seen_per_hour, rates=rates
    )
    cost = {each.sample_rate: each.per_hour * _HOURS_A_MONTH * sample_usd for each in found}
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


def _present(
    store: Store, settings: Settings, app: str, metric: str, now_s: float
) -> tuple[EvidenceState, Rules]:
    """Return the evidence of a stream, and the rules that it is judged by."""
    with store.read() as connection:
        streams = active_streams(connection, since_s=now_s - _DAY_S)
        states = read_states(connection)
        shared = shared_values(connection, since_s=now_s - _DAY_S)
    mine = [each.stream_id for each in streams if each.key[:2] == (app, metric)]
    state = from_json(states[mine[0]]["memory"]) if mine and mine[0] in states else None
    if state is None:
        raise SettingsError(f"{metric!r} of {app!r} has no scores of the last day to plan from")
    if state.alarmed:
        raise SettingsError(f"{app!r} is {state.status.value}: plan when it has recovered")
    share = stream_budget(
        settings.false_alarms_per_month, roots=budget_keys((each.key for each in streams), shared)
    )
    rules = Rules(
        warning_rate=settings.warning_rate,
        critical_rate=settings.critical_rate,
        min_n=settings.min_n,
        bucket_s=settings.windows.bucket_s,
        false_alarms_per_month=share,
    )
    return state, rules


def _traffic(store: Store, app: str, now_s: float) -> tuple[float, float | None, float]:
    """Return requests an hour and the sample rate of the last day, and dollars a scored sample."""
    with store.read() as connection:
        day = read_between(connection, now_s - _DAY_S, app=app).get(app, Counter[Booking]())
        week = read_between(connection, now_s - _WEEK_S)
        spent = cost_usd_since(connection, now_s - _WEEK_S)
    seen, sampled = (day.get(Booking(kind, ""), 0) for kind in (Kind.SEEN, Kind.SAMPLED))
    if not seen:
        raise SettingsError(f"the hook of {app!r} reported no requests in the last day")
    scored = sum(counted.get(Booking(Kind.SCORED, ""), 0) for counted in week.values())
    return seen / 24, sampled / seen if sampled else None, spent / scored if scored else 0.0


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
