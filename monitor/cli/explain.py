"""Why it is so, and what to set: ``why`` explains failures, ``plan`` plans the sample rate."""

from __future__ import annotations

import getpass
import math
import re
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import (
    AppName,
    AsJson,
    MetricName,
    OnlyApp,
    check_app,
    complete_app,
    complete_metric,
    err,
    open_store,
    out,
    parse_duration_s,
    parse_time,
    print_json,
    print_rows,
    safe,
    say,
    the_app,
)
from monitor.errors import SettingsError
from monitor.queue.consumer import connect
from monitor.report.causes import BLAMED
from monitor.report.format import (
    count,
    duration,
    percent,
    plain_text,
    points_with_interval,
    usd,
    utc_time,
)
from monitor.report.listing import Listing
from monitor.report.words import proof_sentence, sample_rate_sentence
from monitor.rolling.backtesting import RATES, Detection
from monitor.rolling.faults import LEAST_SAMPLES, Faults, find_faults
from monitor.settings import Settings
from monitor.settings.kinds import parse_objective
from monitor.store.engine import Store
from monitor.store.sample_rates import read_sample_rates
from monitor.store.samples import read_sample, scored_exchanges
from monitor.store.verdicts import read_verdicts
from monitor.testsets.cases import TestSet
from monitor.testsets.golden import golden_case
from workers.reports import SamplingPlan, plan_sampling, read_status
from workers.tuning import Tuned, Wish, ask_rate, end_rate

_MOST_SAMPLES = 5_000


def why(
    app: AppName,
    metric: MetricName = "groundedness",
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
    as_json: AsJson = False,
) -> None:
    """
    Explain failures: traffic, retrieval or generation, what changed, and named failure modes.

    Compares the words of the newest 5,000 samples before and after; calls no model.
    """
    settings, now = Settings.from_env(), datetime.now(UTC)
    start = parse_time(before, now)
    with closing(open_store(settings)) as store, store.read() as connection:
        check_app(store, app)
        began = [
            verdict.onset
            for verdict in read_verdicts(connection, app).values()
            if verdict.metric == metric and verdict.onset is not None
        ]
        at = began[0] if began and since is None else parse_time(since or "24h", now)
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
        print_json(faults)
    else:
        _show(faults, app, metric, at)
        if test_set is not None:
            out.print(Text(f"{count(len(cases), 'case')} written to {test_set}"))


def _show(faults: Faults, app: str, metric: str, at: datetime) -> None:
    head = f"{plain_text(app, 60)} · {plain_text(metric, 60)} since {utc_time(at)}"
    out.print(Text(f"{head}: {faults.n_failed:,} of {faults.n_after:,} fail", style="bold"))
    if faults.blame is None:
        sizes = f"{faults.n_before:,} before, {faults.n_after:,} after"
        out.print(f"Cause: too few samples ({sizes}; {LEAST_SAMPLES} needed)")
    else:
        cause = faults.blame.cause
        meaning = BLAMED.get(cause, faults.blame.reason)
        out.print(f"Cause: {cause}{meaning and f' ({meaning})'}")
        print_rows(faults.blame.shares, {
            "cause": lambda each: each.cause,
            "fail before": lambda each: percent(each.before),
            "fail now": lambda each: percent(each.after),
            "change": lambda each: points_with_interval(
                each.after - each.before, each.low, each.high
            ),
        }, none="", right=("fail before", "fail now", "change"))  # fmt: skip
    for changed in faults.components:
        shares = f"from {percent(changed.before)} to {percent(changed.after)} of the samples"
        out.print(Text(f"Changed: {changed.component} {plain_text(changed.value, 60)}, {shares}"))
    if not faults.modes:
        out.print("Failure modes: none beyond chance")
        return
    out.print("Failure modes:")
    print_rows(faults.modes, {
        "words": lambda mode: safe(mode.name, 60),
        "failures": lambda mode: f"{mode.n:,}",
        "share": lambda mode: percent(mode.n / mode.n_failed),
        "by chance": lambda mode: f"{mode.expected:.1f}",
        "growing": lambda mode: "yes" if mode.growing else "no",
        "first seen": lambda mode: utc_time(mode.first_seen),
        "example": lambda mode: mode.examples[0],
    }, none="", right=("failures", "share", "by chance"))  # fmt: skip


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
            autocompletion=complete_app,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Argument(
            help="Unset: the first of GROUNDWATCH_METRICS with scores.",
            autocompletion=complete_metric,
        ),
    ] = None,
    *,
    app: OnlyApp = None,
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
    as_json: AsJson = False,
) -> None:
    """
    Plan the sample rate: how soon a fall would be found at each, and what the judge would cost.

    200 falls are played from the stream's present evidence through the code that decides live.
    With --budget and no --detect: how soon falls of several sizes are found for that money.
    """
    try:
        parse_objective(detect or _USUAL)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    dollars = None if budget is None else _dollars_a_month(budget)
    if auto and not apply:
        raise typer.BadParameter("--auto changes the rate: add --apply")
    settings, now, kept_s = Settings.from_env(), datetime.now(UTC), parse_duration_s(lasts)
    who = getpass.getuser()
    with closing(open_store(settings)) as store:
        name = the_app(store, of or app)
        if reset:
            end_rate(connect(settings.broker_url), store, name, set_by=who, now=now)
            say(f"the hooks of {plain_text(name, 60)} go back to their own sample rate")
            return
        scored = {m.metric: m.proof for a in read_status(store, settings, now=now, app=name).apps
                  for m in a.metrics}  # fmt: skip
        metric = metric or next((m for m in (*settings.metrics, *scored) if m in scored), "")
        proof = scored.get(metric)

        def play(fall: float, rates: Sequence[float] = RATES) -> SamplingPlan:
            return plan_sampling(store, settings, name, metric, fall=fall, now=now, rates=rates)

        if detect is None and dollars is not None:
            rows, rate, advice = _what_it_buys(play, dollars)
        else:
            fall, within_s = parse_objective(detect or (proof.objective if proof else _USUAL))
            rows, rate, advice = _what_it_takes(play, fall, within_s, dollars)
        with store.read() as connection:
            asked = read_sample_rates(connection, name).get(name, (None,))[0]
        _, first = rows[0]
        if as_json:
            figures = [
                _as_dict(fall, each, planned) for fall, planned in rows for each in planned.found
            ]
            print_json({
                "app": name, "metric": metric, "pass_rate": first.pass_rate, "sample_rate": rate,
                "rates": figures, "proof": proof and proof.model_dump(mode="json"),
                "asked": asked and asked.model_dump(mode="json"),
            })  # fmt: skip
        else:
            _show_plan(f"{plain_text(name, 60)} · {plain_text(metric, 60)}", rows, rate)
            say(advice)
            if proof is not None:
                say(proof_sentence(proof, now))
            say(f"Now: {sample_rate_sentence(asked, now)}.")
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
    asked = ask_rate(connect(settings.broker_url), store, settings, wish, kept_s, tuned)
    hooks = f"applied: the hooks of {plain_text(wish.app, 60)} sample {percent(asked.rate)} within"
    rest = f"until {utc_time(asked.until)}; end with --reset, or keep it with"
    err.print(Text(
        f"{hooks} ten seconds, {rest} GROUNDWATCH_SAMPLE_RATE={asked.rate:.3g} in the app"
        if tuned is None else
        f"{hooks} ten seconds, then what the evidence asks for while a scheduler runs; end with"
        " --reset"
    ), soft_wrap=True)  # fmt: skip


#: Falls, when they are found at which rates, the rate to set if one is enough, and what to do.
_Plan = tuple[list[tuple[float, SamplingPlan]], float | None, str]


def _what_it_takes(
    play: Callable[[float], SamplingPlan], fall: float, within_s: float, budget: float | None
) -> _Plan:
    """Plan for a fall: the least rate that finds it in time and within the budget."""
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
    return [(fall, planned)], enough, advice


def _what_it_buys(play: Callable[..., SamplingPlan], budget: float) -> _Plan:
    """Plan for a budget: the rate that it pays for, and which falls that finds."""
    whole = play(_FALLS[-1], [1.0]).usd_a_month[1.0]
    rate = min(1.0, budget / whole) if whole else 1.0
    if not rate:
        raise typer.BadParameter("Invalid budget: expected more than 0 dollars")
    rows = []
    for fall in _FALLS:
        with suppress(SettingsError):  # it stays above the warning threshold
            planned = play(fall, [rate])
            found = [each for each in planned.found if each.sample_rate == rate]
            rows.append((fall, planned._replace(found=found)))
    return rows, rate, _setting(rate)


def _setting(rate: float) -> str:
    return f"Set GROUNDWATCH_SAMPLE_RATE={rate:.3g} in the app, or add --apply."


def _show_plan(name: str, rows: list[tuple[float, SamplingPlan]], rate: float | None) -> None:
    _, first = rows[0]
    traffic = f"{percent(first.pass_rate)} pass, {first.seen_per_hour:,.0f} requests an hour"
    say(f"{name}: {traffic}. A fall is found after:")
    delays = ("scores needed", "median", "9 in 10 within")
    figures = ("fall", "sample rate", "scores an hour", *delays, "judge a month")
    table = Listing.of(*figures, right=figures)
    for fall, planned in rows:
        for each in planned.found:
            table.add_row(
                f"{100 * fall:g} points",
                percent(each.sample_rate)
                + (" (now)" if each.sample_rate == planned.sampled else ""),
                f"{each.per_hour:,.1f}",
                f"{each.samples:,.0f}" if math.isfinite(each.samples) else "–",
                _span(each.median_s), _span(each.slow_s),
                usd(planned.usd_a_month[each.sample_rate]),
                style="bold" if each.sample_rate == rate else "",
            )  # fmt: skip
    out.print(table)


def _span(seconds: float) -> str:
    return duration(seconds) if math.isfinite(seconds) else "not found"


def _as_dict(fall: float, found: Detection, planned: SamplingPlan) -> dict[str, float | None]:
    figures = {k: v if math.isfinite(v) else None for k, v in found._asdict().items()}
    return {"fall": fall, **figures, "usd_a_month": planned.usd_a_month[found.sample_rate]}
