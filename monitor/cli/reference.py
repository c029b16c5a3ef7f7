"""What there is to set and to score, and what to set: ``config``, ``metrics`` and ``plan``."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import getpass
import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import console
from monitor.errors import SettingsError
from monitor.format import (
    NONE,
    duration,
    percent,
    plain_text,
    setting_value,
    usd,
    utc_time,
)

if TYPE_CHECKING:
    from monitor.rolling.backtesting import Detection
    from monitor.settings import Settings
    from monitor.store.engine import Store
    from workers.reports import SamplingPlan
    from workers.tuning import RateRequest, TunedBy


class ListFormat(StrEnum):
    """How the settings are listed."""

    TEXT = "text"  #: as they are now
    MARKDOWN = "md"  #: with their defaults, for the manual


def config(
    form: Annotated[
        ListFormat,
        typer.Option("--format", help="text: current values; md: the page of the manual."),
    ] = ListFormat.TEXT,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from their default.")
    ] = False,
    as_json: console.AsJson = False,
) -> None:
    """List every setting with its value, secrets masked; those that you set in bold."""
    from monitor.settings import FILE_SUFFIX, TABLE_OF, setting_field, variable

    if form is ListFormat.MARKDOWN:
        typer.echo(manual(), nl=False)
        return
    settings = console.read_settings()
    names = [name for name in TABLE_OF if not changed or settings.is_changed(name)]
    if as_json:
        console.print_json({variable(n): setting_value(settings.value_of(n)) for n in names})
        return

    def style(name: str) -> str:
        is_set = {variable(name), variable(name) + FILE_SUFFIX} & os.environ.keys()  # noqa: TID251
        return "bold" if is_set else ""

    console.print_rows(names, {
        "variable": variable,
        "value": lambda name: setting_value(settings.value_of(name)),
        "what it is": lambda name: setting_field(name).description or "",
    }, none="every setting has its default", style=style)  # fmt: skip


_SETTINGS_HEAD = """# Settings

Set what you need as environment variables or in a file, `groundwatch.toml`.
Variables win.

- The file is read from the current directory, or from the path in `GROUNDWATCH_CONFIG`.
  Keys are the variables' names in lower case, without the prefix; a table's settings go
  under its name:

  ```toml
  app = "support-bot"
  sample_rate = 0.05

  [retention]
  keep_texts_days = 14
  ```
- Secrets are read from variables only. To read one from a file, put the file's path into
  the variable with `_FILE` appended to its name.
- An unknown name is refused, so a misspelt setting cannot go unnoticed."""
_TABLE_HEAD = ["| variable | default | what it is |", "|---|---|---|"]


def manual() -> str:
    """Return the manual's page on settings: name, default and meaning of each, by topic."""
    from monitor.settings import TABLE_OF, Settings
    from monitor.settings.fields import TOPICS

    lines = [_SETTINGS_HEAD]
    for topic, names in TOPICS.items():
        lines += ["", f"## {topic}", "", *_TABLE_HEAD]
        lines += [_row(name) for name in names if name in TABLE_OF]
        for table in (name for name in names if name not in TABLE_OF):
            what = Settings.model_fields[table].description or ""
            lines += ["", f"### Table `[{table}]`", "", what, *_TABLE_HEAD]
            lines += [_row(name) for name, inside in TABLE_OF.items() if inside == table]
    return "\n".join(lines) + "\n"


def _row(name: str) -> str:
    from monitor.settings import setting_field, variable

    field = setting_field(name)
    value = field.default
    if isinstance(value, bool):
        shown = str(value).lower()
    else:
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    default = "" if value in (None, ()) else f"`{shown}`"
    return f"| `{variable(name)}` | {default} | {field.description} |"


def metrics(
    form: Annotated[
        ListFormat,
        typer.Option("--format", help="text: with your own metrics; md: the page of the manual."),
    ] = ListFormat.TEXT,
    as_json: console.AsJson = False,
) -> None:
    """List every metric; bold ones are scored now."""
    from monitor.scoring.metric_config import manual as metrics_manual
    from monitor.scoring.registry import known_metrics, read_metrics_file

    if form is ListFormat.MARKDOWN:
        typer.echo(metrics_manual(), nl=False)
        return
    settings = console.read_settings()
    known = known_metrics(read_metrics_file(settings.metrics_file))
    console.print_rows([*known.items()], {
        "metric": lambda item: item[0],
        "better": lambda item: item[1].declaration.direction.value,
        "cost": lambda item: item[1].declaration.cost.value,
        "needs": lambda item: ", ".join(item[1].declaration.requires),
        "what it is": lambda item: plain_text(item[1].declaration.what),
    }, as_json=as_json, json_of=lambda item: {
        "metric": item[0], "better": item[1].declaration.direction.value,
        "cost": item[1].declaration.cost.value, "needs": list(item[1].declaration.requires),
        "is_scored": item[0] in settings.metrics, "what": plain_text(item[1].declaration.what),
    }, style=lambda item: "bold" * (item[0] in settings.metrics))  # fmt: skip


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
        typer.Option(help="Judge budget in dollars: 20/month, 1/day. Alone: show what it buys."),
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
    from monitor.store.verdicts import read_sample_rates
    from workers.reports import plan_sampling, read_status
    from workers.tuning import RateRequest, TunedBy, end_rate

    with console.usage_errors():
        parse_objective(detect or _USUAL)
    paid = _BUDGET.fullmatch(budget or "0")
    if paid is None:
        raise typer.BadParameter(f"Invalid budget '{budget}': expected 20/month, 5/week or 1/day")
    dollars = None if budget is None else float(paid[1]) * _A_MONTH[paid[2] or "month"]
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
            request = RateRequest(name, rate, set_by=who, now=now)
            tuned = TunedBy(metric, first.seen_per_hour) if auto else None
            _apply(store, settings, request, kept_s, tuned)


def _apply(
    store: Store, settings: Settings, request: RateRequest, kept_s: int, tuned: TunedBy | None
) -> None:
    from monitor.queue.consumer import connect
    from workers.tuning import ask_rate

    asked = ask_rate(connect(settings.broker_url), store, settings, request, kept_s, tuned)
    hooks = (
        f"applied: the hooks of {plain_text(request.app, 60)} sample {percent(asked.rate)} within"
    )
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
