"""
The one way in which the product writes figures, times and strangers' text for people.

The command line, the pages, reports, digests and alerts all use these, so that one value reads the
same wherever it is shown: a rate is "65.9 %", 3,700 seconds are "1 h 1 min". Pure: values in, text
out; where a result depends on the present, ``now`` is an argument.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import ModuleType
from typing import Any

#: Written in place of a value that does not exist.
NONE = "–"

_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = "·"
_UNITS_S = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
#: Up to here hours stay hours: "24 h" and "36 h" are read more easily than "1 d 12 h".
_DAYS_FROM_S = 2 * 86_400
_CENTS_FROM_USD = 0.1
#: Control, format (bidirectional marks, zero-width), private, surrogate and unassigned characters.
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


def percent(rate: float | None, digits: int = 1) -> str:
    """Return a rate in [0, 1] as a percentage, such as "65.9 %"; a dash for None."""
    return NONE if rate is None else f"{100 * rate:.{digits}f} %".replace("-", "−")  # noqa: RUF001


def short_percent(rate: float) -> str:
    """Return a rate that somebody set, without needless digits: "85 %", or "87.5 %"."""
    return f"{100 * rate:.4g} %"


def interval(low: float | None, high: float | None) -> str:
    """Return the bounds of a rate in percent without the sign, "55.0–69.0"; a dash for None."""
    return NONE if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def rate_with_interval(rate: float | None, low: float | None, high: float | None) -> str:
    """Return "62.0 % (55.0–69.0)"; a dash if any part is missing, for a bare rate says too much."""
    if rate is None or low is None or high is None:
        return NONE
    return f"{percent(rate)} ({interval(low, high)})"


def points(change: float | None) -> str:
    """Return a difference of two rates in percentage points, signed: "−18.1 pts"."""  # noqa: RUF002
    if change is None:
        return NONE
    return f"{100 * change:+.1f} pts".replace("-", "−")  # noqa: RUF001  # a minus sign


def points_with_interval(change: float, low: float, high: float) -> str:
    """Return a change of a rate with its bounds: "−13.0 pts (−17.0 to −9.0)"."""  # noqa: RUF002
    return f"{points(change)} ({change_bounds(low, high)})"


def change_bounds(low: float, high: float) -> str:
    """Return the bounds of a change of a rate, in points: "−17.0 to −9.0"."""  # noqa: RUF002
    return f"{100 * low:+.1f} to {100 * high:+.1f}".replace("-", "−")  # noqa: RUF001


def score(value: float | None) -> str:
    """Return a score with two decimals; a dash for None."""
    return NONE if value is None else f"{value:.2f}"


def number(value: float | None) -> str:
    """Return a count with thousands separated, rounded to a whole number; a dash for None."""
    return NONE if value is None else f"{value:,.0f}"


def count(n: int, noun: str) -> str:
    """Return "1 app", "2 apps": *n* with *noun*, whose plural takes an s."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def part_of(part: int, whole: int, noun: str, verb: str = "is", verbs: str = "are") -> str:
    """Return "1 of 3 apps is", "2 of 3 apps are", "0 of 1 app is": a part with its verb."""
    return f"{part:,} of {count(whole, noun)} {verb if 1 in (part, whole) else verbs}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first of *names* and the number of others: "a, b, c and 2 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def usd(amount: float) -> str:
    """Return US dollars in cents; below ten cents with four decimals, for cents say little."""
    return f"${amount:.4f}" if 0 < amount < _CENTS_FROM_USD else f"${amount:,.2f}"


def file_size(n_bytes: float) -> str:
    """Return a size in decimal units: "512 B", "1.2 kB", "34 MB"."""
    size, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if abs(size) < 999.5:  # noqa: PLR2004  # rounds to less than the next unit
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if unit != "B" and abs(size) < 9.95 else f"{size:.0f} {unit}"  # noqa: PLR2004


def duration(length: timedelta | float) -> str:
    """
    Return a duration in its largest unit and the next smaller one, if that is not zero.

    Seconds are rounded to whole ones; hours become days from 48 h on. So 90 s are "1 min 30 s",
    3,700 s are "1 h 1 min", a day is "24 h", a week "7 d". A negative duration is "0 s".
    """
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    left = max(0, round(seconds))
    units = _UNITS_S if left >= _DAYS_FROM_S else _UNITS_S[1:]
    for (unit, size), (smaller, smaller_size) in pairwise(units):
        if left >= size:
            whole, rest = divmod(left, size)
            more = rest // smaller_size
            return f"{whole} {unit} {more} {smaller}" if more else f"{whole} {unit}"
    return f"{left} s"


def utc_time(at: datetime, now: datetime | None = None) -> str:
    """Return "2026-03-01 14:10 UTC"; with *now* on the same day, "14:10:05 UTC"."""
    at = at.astimezone(UTC)
    if now is not None and at.date() == now.astimezone(UTC).date():
        return f"{at:%H:%M:%S} UTC"
    return f"{at:%Y-%m-%d %H:%M} UTC"


def utc_second(at: datetime) -> str:
    """Return a time to the second: "2026-03-01 14:10:05 UTC"."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def sparkline(rates: Sequence[float | None], *, fit: bool = False) -> str:
    """
    Return rates in [0, 1] as one block each, a dot where there is none.

    With *fit* the blocks span the lowest to the highest of *rates* instead of 0 to 1.
    """
    known = [rate for rate in rates if rate is not None]
    low, high = (min(known), max(known)) if fit and known else (0.0, 1.0)
    span = high - low
    top = len(_BLOCKS) - 1

    def block(rate: float) -> str:
        share = (rate - low) / span if span else 1.0
        return _BLOCKS[min(top, max(0, int(share * len(_BLOCKS))))]

    return "".join(_GAP if rate is None else block(rate) for rate in rates)


def plain_text(text: str, limit: int = 200) -> str:
    """
    Return a stranger's text on one line of at most *limit* characters, safe to print.

    White space becomes single spaces. Control characters (C0, C1), bidirectional marks,
    zero-width, private, surrogate and unassigned characters are removed. An ellipsis marks a cut.
    Idempotent.
    """
    # Cut generously first: a hostile text may be huge, and most is thrown away.
    head = text[: limit * 4]
    visible = "".join(
        " " if character.isspace() else character
        for character in head
        if character.isspace() or unicodedata.category(character) not in _INVISIBLE
    )
    return shorten(" ".join(visible.split()), limit)


def shorten(text: str, limit: int) -> str:
    """Return *text* cut to *limit* characters, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def short_id(identifier: str) -> str:
    """Return the first eight characters of an id: enough to name it in a command."""
    return plain_text(identifier, 64)[:8]


def setting_value(value: object) -> str:
    """Return the value of a setting without secrets; a dash if it is unset."""
    # The rest of this module needs the standard library alone, as the help of a command does.
    from pydantic import SecretStr  # noqa: PLC0415

    from monitor.settings import masked_url  # noqa: PLC0415

    if value is None:
        return NONE
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return plain_text(masked_url(str(value)), 500)


def public_functions(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that *modules* define, by name: what templates may call."""
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if callable(found) and not inspect.isclass(found) and not name.startswith("_")
        if getattr(found, "__module__", "") == module.__name__
    }
