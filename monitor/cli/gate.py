"""``gate``: may this release stay? The verdict on live traffic."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli.compare import gate_live


def gate(  # the options of a command
    release: Annotated[str | None, typer.Option(help="Release that is live.")] = None,
    against: Annotated[str | None, typer.Option(help="Release to compare it with.")] = None,
    max_drop: Annotated[str, typer.Option(help="Drop of the pass rate that is allowed.")] = "3%",
    app: Annotated[str | None, typer.Option(help="App; not needed when there is one.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    since: Annotated[str, typer.Option(help="How far back: 24h, 7d.")] = "7d",
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """
    Say whether a live release is ok, worse, or not yet known; ask as often as you like.

    Exit code: 0 ok, 1 worse, 2 not yet known, 3 not comparable.
    """
    if release is None or against is None:
        raise typer.BadParameter("name both releases: groundwatch gate --release v12 --against v11")
    raise typer.Exit(
        gate_live(
            release=release, against=against, max_drop=max_drop, app=app, metrics=metric,
            since=since, as_json=as_json,
        )
    )  # fmt: skip
