"""Why it is so, and what to set: ``why`` explains failures, ``plan`` plans the sample rate."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import getpass
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import SettingsError
from monitor.report.format import (
    NONE,
    count,
    duration,
    percent,
    plain_text,
    points_with_interval,
    usd,
    utc_time,
)

if TYPE_CHECKING:
    from monitor.rolling.backtesting import Detection
    from monitor.rolling.faults import Faults
    from monitor.settings import Settings
    from monitor.store.engine import Store
    from workers.reports import SamplingPlan
    from workers.tuning import Tuned, Wish

_MOST_SAMPLES = 5_000


def why(
    app: console.AppName,
    metric: console.MetricName = "groundedness",
    since: Annotated[
        str | None,
        typer.Option(
            help="When it got worse: 2026-11-21T14:05 (UTC), or 24h ago; unset: when the fall that"
            " the status tells of began, else 24h."
        ),
    ] = None,
    before: Annotated[str, typer.Option(help="Compare with samples from this time on.")] = "8d",
    test_set: Annotated[
        Path | None, typer.Option(help="Write the examples of all failure modes as a test set.")
    ] = None,
    as_json: console.AsJson = False,
) -> None:
    """
    Explain failures: traffic, retrieval or generation, what changed, and named failure modes.

    Compares the words of the newest 5,000 samples before and after; calls no model.
    """
    from monitor.rolling.faults import find_faults
    from monitor.store.samples import read_sample, scored_exchanges
    from monitor.store.verdicts import read_verdicts
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_case

    now = datetime.now(UTC)
    start = console.parse_time(before, now)
    with console.opened() as (_, store), store.read() as connection:
        console.check_app(store, app)
        began = [
            verdict.onset
            for verdict in read_verdicts(connection, app).values()
            if verdict.metric == metric and verdict.onset is not None
        ]
        at = began[0] if began and since is None else console.parse_time(since or "24h", now)
        if start >= at:
            raise typer.BadParameter(
                f"--before {before} is not before --since {since or utc_time(at)}"
            )
        later = scored_exchanges(connection, app, metric, at, limit=_MOST_SAMPLES)
        earlier = scored_exchanges(connection, app, metric, start, at, limit=_MOST_SAMPLES)
        faults = find_faults(earlier, later)
        if test_set is not None:
            named = dict.fromkeys(i for mode in faults.modes for i in mode.examples)
            if not named:
                raise typer.BadParameter("--test-set: there is no failure mode to take cases from")
            cases = TestSet(test_set.stem)
            for stored in filter(None, (read_sample(connection, each) for each in named)):
                cases.add_test(golden_case(stored))
            cases.write(test_set)
    if as_json:
        console.print_json(faults)
        return
    print_faults(faults, f"{plain_text(app, 60)} · {plain_text(metric, 60)} since {utc_time(at)}")
    if test_set is not None:
        console.say(f"{count(len(cases), 'case')} written to {test_set}")


def print_faults(faults: Faults, about: str) -> None:
    """Print what the samples say of a fall, under a headline."""
    from monitor.report.words import BLAMED, change_sentence
    from monitor.rolling.faults import LEAST_SAMPLES

    console.say(f"{about}: {faults.n_failed:,} of {faults.n_after:,} fail", style="bold")
    if faults.blame is None:
        sizes = f"{faults.n_before:,} before, {faults.n_after:,} after"
        out.print(f"Cause: too few samples ({sizes}; {LEAST_SAMPLES} needed)")
    else:
        cause = faults.blame.cause
        meaning = BLAMED.get(cause, faults.blame.reason)
        out.print(f"Cause: {cause}{meaning and f' ({meaning})'}")
        console.print_rows(faults.blame.shares, {
            "cause": lambda each: each.cause,
            "fail before": lambda each: percent(each.before),
            "fail now": lambda each: percent(each.after),
            "change": lambda each: points_with_interval(
                each.after - each.before, each.low, each.high
            ),
        }, right=("fail before", "fail now", "change"))  # fmt: skip
    for changed in faults.components:
        console.say(f"Changed: {change_sentence(changed)}")
    out.print("Failure modes:" if faults.modes else "Failure modes: none beyond chance")
    if faults.modes:
        console.print_rows(faults.modes, {
            "words": lambda mode: console.safe(mode.name, 60),
            "failures": lambda mode: f"{mode.n:,}",
            "share": lambda mode: percent(mode.n / mode.n_failed),
            "by chance": lambda mode: f"{mode.expected:.1f}",
            "growing": lambda mode: "yes" if mode.growing else "no",
            "first seen": lambda mode: utc_time(mode.first_seen),
            "example": lambda mode: mode.examples[0],
        }, right=("failures", "share", "by chance"))  # fmt: skip


_USUAL = "15 points in 2h"
_BUDGET = re.compile(r"\s*\$?\s*(\d+(?:\.\d+)?)\s*(?:/\s*(day|week|month))?\s*")
_A_MONTH = {"day": 30.0, "week": 30 / 7, "month": 1.0}
#: Falls for which a budget alone is answered with the time until each is found.
_FALLS = (0.1, 0.15, 0.2, 0.3, 0.4)


def plan(  # noqa: PLR0913 - the options of a command
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="The app; not needed if there is only one.",
            autocompletion=console.complete_app,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Argument(
            help="Unset: the first of GROUNDWATCH_METRICS with scores.",
            autocompletion=console.complete_metric,
        ),
    ] = None,
    *,
    app: console.OnlyApp = None,
    detect: Annotated[
        str | None, typer.Option(help=f'The fall to find, and how soon: "{_USUAL}".')
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Most dollars for the judge: 20/month, 1/day. Alone: what it buys."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the app's hooks sample at the planned rate.")
    ] = False,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto",
            help="With --apply: let the rate follow the evidence, within the plan's samples.",
        ),
    ] = False,
    lasts: Annotated[str, typer.Option("--for", help="How long --apply lasts: 7d, 30d.")] = "30d",
    reset: Annotated[
        bool, typer.Option("--reset", help="End what --apply set: back to the app's own rate.")
    ] = False,
    as_json: console.AsJson = False,
) -> None:
    """
    Plan the sample rate: how soon a fall would be found at each, and what the judge would cost.

    200 falls are played from the stream's present evidence through the code that decides live.
    With --budget and no --detect: how soon falls of several sizes are found for that money.
    """
    from monitor.queue.consumer import connect
    from monitor.report.words import proof_sentence, sample_rate_sentence
    from monitor.rolling.backtesting import RATES
    from monitor.settings.kinds import parse_objective
    from monitor.store.insights import read_sample_rates
    from workers.reports import plan_sampling, read_status
    from workers.tuning import Tuned, Wish, end_rate

    with console.usage_errors():
        parse_objective(detect or _USUAL)
    dollars = None if budget is None else _dollars_a_month(budget)
    if auto and not apply:
        raise typer.BadParameter("--auto changes the rate: add --apply")
    now, kept_s = datetime.now(UTC), console.parse_duration_s(lasts)
    who = getpass.getuser()
    with console.opened() as (settings, store):
        name = console.the_app(store, of or app)
        if reset:
            end_rate(connect(settings.broker_url), store, name, set_by=who, now=now)
            console.say(f"the hooks of {plain_text(name, 60)} go back to their own sample rate")
            return
        scored = {m.metric: m.proof for a in read_status(store, settings, now=now, app=name).apps
                  for m in a.metrics}  # fmt: skip
        metric = metric or next((m for m in (*settings.metrics, *scored) if m in scored), "")
        proof = scored.get(metric)

        def play(fall: float, rates: Sequence[float] = RATES) -> SamplingPlan:
            return plan_sampling(store, settings, name, metric, fall=fall, now=now, rates=rates)

        if detect is None and dollars is not None:
            plans, rate, advice = _what_it_buys(play, dollars)
        else:
            fall, within_s = parse_objective(detect or (proof.objective if proof else _USUAL))
            plans, rate, advice = _what_it_takes(play, fall, within_s, dollars)
        with store.read() as connection:
            asked = read_sample_rates(connection, name).get(name, (None,))[0]
        first = next(iter(plans.values()))
        if as_json:
            figures = [
                {"fall": fall}
                | {k: v if math.isfinite(v) else None for k, v in each._asdict().items()}
                | {"usd_a_month": planned.usd_a_month[each.sample_rate]}
                for fall, planned in plans.items()
                for each in planned.found
            ]
            console.print_json({
                "app": name, "metric": metric, "pass_rate": first.pass_rate, "sample_rate": rate,
                "rates": figures, "proof": proof and proof.model_dump(mode="json"),
                "asked": asked and asked.model_dump(mode="json"),
            })  # fmt: skip
        else:
            print_plans(f"{plain_text(name, 60)} · {plain_text(metric, 60)}", plans, rate)
            console.say(advice)
            if proof is not None:
                console.say(proof_sentence(proof, now))
            console.say(f"Now: {sample_rate_sentence(asked, now)}.")
        if apply:
            if rate is None:
                raise SettingsError("no sample rate fits, so none was applied")
            wish = Wish(name, rate, set_by=who, now=now)
            tuned = Tuned(metric, first.seen_per_hour) if auto else None
            _apply(store, settings, wish, kept_s, tuned)


def _dollars_a_month(budget: str) -> float:
    if not (paid := _BUDGET.fullmatch(budget)):
        raise typer.BadParameter(f"Invalid budget '{budget}': expected 20/month, 5/week or 1/day")
    return float(paid[1]) * _A_MONTH[paid[2] or "month"]


def _apply(store: Store, settings: Settings, wish: Wish, kept_s: int, tuned: Tuned | None) -> None:
    from monitor.queue.consumer import connect
    from workers.tuning import ask_rate

    asked = ask_rate(connect(settings.broker_url), store, settings, wish, kept_s, tuned)
    hooks = f"applied: the hooks of {plain_text(wish.app, 60)} sample {percent(asked.rate)} within"
    rest = f"until {utc_time(asked.until)}; end with --reset, or keep it with"
    console.tell(
        f"{hooks} ten seconds, {rest} GROUNDWATCH_SAMPLE_RATE={asked.rate:.3g} in the app"
        if tuned is None else
        f"{hooks} ten seconds, then what the evidence asks for while a scheduler runs; end with"
        " --reset"
    )  # fmt: skip


def print_plans(about: str, plans: dict[float, SamplingPlan], rate: float | None) -> None:
    """Print by fall and sample rate how soon it is found; *rate* in bold."""
    first = next(iter(plans.values()))
    traffic = f"{percent(first.pass_rate)} pass, {first.seen_per_hour:,.0f} requests an hour"
    console.say(f"{about}: {traffic}. A fall is found after:")
    columns: console.Columns[tuple[float, Detection, SamplingPlan]] = {
        "fall": lambda row: f"{100 * row[0]:g} points",
        "sample rate": lambda row: (
            percent(row[1].sample_rate) + " (now)" * (row[1].sample_rate == row[2].sampled)
        ),
        "scores an hour": lambda row: f"{row[1].per_hour:,.1f}",
        "scores needed": lambda row: (
            f"{row[1].samples:,.0f}" if math.isfinite(row[1].samples) else NONE
        ),
        "median": lambda row: _span(row[1].median_s),
        "9 in 10 within": lambda row: _span(row[1].slow_s),
        "judge a month": lambda row: usd(row[2].usd_a_month[row[1].sample_rate]),
    }
    rows = [(fall, each, planned) for fall, planned in plans.items() for each in planned.found]
    console.print_rows(
        rows, columns, right=[*columns], style=lambda row: "bold" * (row[1].sample_rate == rate)
    )


def _what_it_takes(
    play: Callable[[float], SamplingPlan], fall: float, within_s: float, budget: float | None
) -> tuple[dict[float, SamplingPlan], float | None, str]:
    """Return the plan of a fall, the least rate that finds it in time and budget, and advice."""
    planned = play(fall)
    cost, within = planned.usd_a_month, f"in {duration(within_s)}"
    paid = [each for each in planned.found if budget is None or cost[each.sample_rate] <= budget]
    enough = next((each.sample_rate for each in paid if each.median_s <= within_s), None)
    if enough is not None:
        advice = _setting(enough)
    elif budget is None:
        advice = f"No sample rate finds it {within}: there is too little traffic."
    elif not paid:
        advice = f"{usd(budget)} a month pays for none of these rates."
    else:
        best = min(paid, key=lambda each: each.median_s)
        advice = (
            f"{usd(budget)} a month does not find it {within}. It buys a sample rate of"
            f" {percent(best.sample_rate)}, which finds it after {_span(best.median_s)} (median)."
        )
    return {fall: planned}, enough, advice


def _what_it_buys(
    play: Callable[..., SamplingPlan], budget: float
) -> tuple[dict[float, SamplingPlan], float | None, str]:
    """Return the plans by fall, the rate that the budget pays for, and advice."""
    whole = play(_FALLS[-1], [1.0]).usd_a_month[1.0]
    rate = min(1.0, budget / whole) if whole else 1.0
    if not rate:
        raise typer.BadParameter("Invalid budget: expected more than 0 dollars")
    plans = {}
    for fall in _FALLS:
        with suppress(SettingsError):  # it stays above the warning threshold
            planned = play(fall, [rate])
            found = [each for each in planned.found if each.sample_rate == rate]
            plans[fall] = planned._replace(found=found)
    return plans, rate, _setting(rate)


def _setting(rate: float) -> str:
    return f"Set GROUNDWATCH_SAMPLE_RATE={rate:.3g} in the app, or add --apply."


def _span(seconds: float) -> str:
    return duration(seconds) if math.isfinite(seconds) else "not found"
