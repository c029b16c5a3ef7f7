"""What a look at one thing found, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rich.text import Text

from monitor.cli.console import out
from monitor.errors import GroundwatchError
from monitor.settings import Settings


class Finding(NamedTuple):
    """One thing that was looked at; ``advice`` says what to do when it is not well."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    optional: bool = False


Check = Callable[[Settings], Iterator[Finding]]


def show(checks: Iterable[Check], settings: Settings) -> bool:
    """Print what the checks find, each as soon as it is found; say whether all is well."""
    well = True
    for check in checks:
        for item in _guarded(check, settings):
            out.print(_mark(item) + Text(f"{item.what}: {item.found}"))
            if not item.ok and item.advice:
                out.print(Text(f"  {item.advice}", style="yellow"))
            well = well and (item.ok or item.optional)
    return well


def _guarded(check: Check, settings: Settings) -> Iterator[Finding]:
    try:
        yield from check(settings)
    except GroundwatchError as error:
        yield Finding(check.__name__.strip("_"), ok=False, found=str(error))


def _mark(item: Finding) -> Text:
    if item.ok:
        return Text("✓ ", style="green")
    return Text("– ", style="yellow") if item.optional else Text("✗ ", style="bold red")
