"""Where the commands write: figures to stdout, everything about the command itself to stderr."""

from __future__ import annotations

import re

import typer
from rich.console import Console

#: Honours NO_COLOR, TERM=dumb, pipes and the width of the terminal by itself.
out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_duration_s(text: str) -> int:
    """
    Read a duration such as 90s, 15m, 24h or 7d, in seconds.

    Raises
    ------
    typer.BadParameter
        If it is none; the message shows what one looks like.
    """
    match = re.fullmatch(r"(\d+)\s*([smhdw])", text.strip().lower())
    if not match or int(match[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no duration; write it as 90s, 15m, 24h or 7d")
    return int(match[1]) * _UNITS_S[match[2]]
