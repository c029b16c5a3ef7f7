"""``groundwatch demo``: the whole loop on generated traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.demo.story import run


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Show each state only briefly.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder, with its logs.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Save the screen, as it was at the end, as an SVG.")
    ] = None,
) -> None:
    """
    Show the whole loop in a minute: healthy, degraded, recovered, and the report.

    Exit code 0 only if all that it shows happened.
    """
    if not run(quick=quick, keep=keep, picture=picture):
        raise typer.Exit(1)
