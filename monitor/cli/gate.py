"""``gate``: may this be released, or stay? By a run over a test set, or by live traffic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from monitor.cli.console import out, parse_share
from monitor.testsets.gate import GatePolicy, decide
from monitor.testsets.report import gate_page, write_report
from monitor.testsets.runs import read_run

_STYLES = {"pass": "green", "fail": "red", "open": "yellow"}
_LIVE_DROP = "3%"


def gate(  # noqa: PLR0913 - the options of a command
    run: Annotated[Path | None, typer.Argument(help="The run that eval wrote.")] = None,
    *,
    baseline: Annotated[Path | None, typer.Option(help="The run of what is in production.")] = None,
    policy: Annotated[
        Path | None, typer.Option(help="TOML with all that is tolerated in a run.")
    ] = None,
    floor: Annotated[
        list[str] | None, typer.Option(help="Least mean: faithfulness=0.95; repeatable.")
    ] = None,
    critical_metric: Annotated[
        list[str] | None, typer.Option(help="May fall by 2 points only; repeatable.")
    ] = None,
    shared_cases: Annotated[
        bool, typer.Option("--shared-cases", help="Compare what both have, where sets differ.")
    ] = False,
    report: Annotated[
        list[Path] | None, typer.Option(help="Write a report: .md, .html, .xml; repeatable.")
    ] = None,
    release: Annotated[str | None, typer.Option(help="Release that is live.")] = None,
    against: Annotated[str | None, typer.Option(help="Release to compare it with.")] = None,
    max_drop: Annotated[
        str | None,
        typer.Option(help="Drop that is allowed: of a mean, 5%; of a live pass rate, 3%."),
    ] = None,
    app: Annotated[str | None, typer.Option(help="Live app; not needed with one.")] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this live metric; repeatable.")
    ] = None,
    since: Annotated[str, typer.Option(help="How far back in live traffic: 24h, 7d.")] = "7d",
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """
    Say whether a run may be released, or whether a live release is worse than another.

    A run: gate run.json --baseline main.json. Live, as often as you like: gate --release v12
    --against v11. Exit code: 0 pass or ok, 1 fail or worse, 2 not decided yet, 3 not comparable.
    """
    if run is None:
        if release is None or against is None:
            raise typer.BadParameter(
                "name a run, groundwatch gate run.json --baseline main.json, or both releases,"
                " groundwatch gate --release v12 --against v11"
            )
        if baseline or policy or floor or critical_metric or shared_cases or report:
            raise typer.BadParameter(
                "a live release is compared with --against and --max-drop only"
            )
        from monitor.cli.compare import gate_live  # noqa: PLC0415 - the live half, with the store

        raise typer.Exit(
            gate_live(
                release=release, against=against, max_drop=max_drop or _LIVE_DROP, app=app,
                metrics=metric, since=since, as_json=as_json,
            )
        )  # fmt: skip
    if release or against:
        raise typer.BadParameter("name either a run or two live releases")
    rules = _policy(policy, max_drop, floor, critical_metric)
    if shared_cases:
        rules = rules.model_copy(update={"shared_cases": True})
    before = None if baseline is None else read_run(baseline)
    found = decide(read_run(run), before, rules)
    for path in report or ():
        write_report(path, found)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        page = gate_page(found)
        out.print(Text(page.outcome, style=_STYLES[page.kind]), soft_wrap=True)
        for line in page.lines:
            out.print(Text(f"  {line}"), soft_wrap=True)
    raise typer.Exit(found.exit_code)


def _policy(
    file: Path | None,
    max_drop: str | None,
    floors: Sequence[str] | None,
    critical_metrics: Sequence[str] | None,
) -> GatePolicy:
    """Return the policy of a file with what the options say instead."""
    found: dict[str, Any] = GatePolicy.read(file).model_dump() if file else {}
    if max_drop is not None:
        found["max_drop"] = parse_share(max_drop)
    if critical_metrics:
        found["critical_metrics"] = tuple(critical_metrics)
    for each in floors or ():
        metric, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"Invalid floor {each!r}: expected METRIC=0.95")
        found.setdefault("floors", {})[metric.strip()] = parse_share(value)
    return GatePolicy(**found)
