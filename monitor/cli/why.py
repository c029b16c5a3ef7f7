"""``groundwatch why``: whose fault a fall is, what changed, what failures have in common."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import check_app, open_store, out, parse_time
from monitor.report.causes import BLAMED
from monitor.report.format import count, percent, plain_text, points_with_interval, utc_time
from monitor.report.listing import Listing
from monitor.rolling.faults import LEAST_SAMPLES, Faults, find_faults
from monitor.settings import Settings
from monitor.store.samples import read_sample, scored_exchanges
from monitor.testsets.cases import TestSet
from monitor.testsets.golden import golden_case

_MOST_SAMPLES = 5_000


def why(
    app: Annotated[str, typer.Argument(help="Name of the app.")],
    metric: Annotated[str, typer.Argument(help="Such as groundedness.")] = "groundedness",
    since: Annotated[
        str, typer.Option(help="When it got worse: 2026-11-21T14:05 (UTC), or 24h ago.")
    ] = "24h",
    before: Annotated[str, typer.Option(help="Compare with samples from this time on.")] = "8d",
    test_set: Annotated[
        Path | None, typer.Option(help="Write the examples of all failure modes as a test set.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """
    Explain failures: traffic, retrieval or generation, what changed, and named failure modes.

    The newest 5,000 samples of either time are compared by their words; no model is called.
    """
    settings, now = Settings.from_env(), datetime.now(UTC)
    at, start = parse_time(since, now), parse_time(before, now)
    if start >= at:
        raise typer.BadParameter(f"--before {before} is not before --since {since}")
    with closing(open_store(settings)) as store, store.read() as connection:
        check_app(store, settings, app)
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
        typer.echo(json.dumps(_as_dict(faults), indent=2, default=str))
    else:
        _show(faults, app, metric, at)
        if test_set is not None:
            out.print(Text(f"{count(len(cases), 'case')} written to {test_set}"))


def _as_dict(faults: Faults) -> dict[str, object]:
    found = faults._asdict()
    found["blame"] = faults.blame and {
        **faults.blame._asdict(), "shares": [each._asdict() for each in faults.blame.shares]
    }  # fmt: skip
    found["components"] = [each._asdict() for each in faults.components]
    found["modes"] = [each._asdict() for each in faults.modes]
    return found


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
        figures = ("fail before", "fail now", "change")
        table = Listing.of("cause", *figures, right=figures)
        for each in faults.blame.shares:
            change = points_with_interval(each.after - each.before, each.low, each.high)
            table.add_row(each.cause, percent(each.before), percent(each.after), change)
        out.print(table)
    for changed in faults.components:
        shares = f"from {percent(changed.before)} to {percent(changed.after)} of the samples"
        out.print(Text(f"Changed: {changed.component} {plain_text(changed.value, 60)}, {shares}"))
    if not faults.modes:
        out.print("Failure modes: none beyond chance")
        return
    out.print("Failure modes:")
    figures = ("failures", "share", "by chance")
    table = Listing.of("words", *figures, "growing", "first seen", "example", right=figures)
    for mode in faults.modes:
        table.add_row(
            plain_text(mode.name, 60),
            f"{mode.n:,}",
            percent(mode.n / mode.n_failed),
            f"{mode.expected:.1f}",
            "yes" if mode.growing else "no",
            utc_time(mode.first_seen),
            mode.examples[0],
        )
    out.print(table)
