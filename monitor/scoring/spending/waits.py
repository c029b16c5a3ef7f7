"""Read how long an endpoint wants to be left alone, in all the ways in which vendors say it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
#: From here on a number is a moment since 1970, in seconds and in milliseconds: as a wait it
#: would be thirty years.
_EPOCH_S, _EPOCH_MS = 1e9, 1e12


def wait_s(text: str, *, now_s: float) -> float | None:
    """
    Read a wait: ``6m0s``, ``1.5s``, ``20ms``, plain seconds, or the moment when it ends.

    Moments are seconds or milliseconds since 1970, an HTTP date or RFC 3339, in UTC where
    they name no zone.

    Parameters
    ----------
    text
        The value of a header.
    now_s
        The time of who wrote it, in seconds since 1970.

    Returns
    -------
    float or None
        In seconds, at least 0; None for anything else.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= _EPOCH_S:
            number = (number / 1000 if number >= _EPOCH_MS else number) - now_s
        return max(number, 0.0)
    parts = _PART.findall(text)
    if parts and "".join(amount + unit for amount, unit in parts) == text:
        return sum(float(amount) * _UNITS_S[unit] for amount, unit in parts)
    ends_s = _moment_s(text)
    return None if ends_s is None else max(ends_s - now_s, 0.0)


def clock_s(headers: Mapping[str, str]) -> float:
    """Tell the time of who sent *headers*; ours, which may be another, where they do not."""
    told_s = _moment_s(headers.get("date", ""))
    return time.time() if told_s is None else told_s


def _moment_s(text: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = read(text)
        except (ValueError, TypeError):
            continue
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None
