"""When to try again: waits that servers ask for, and exponential backoff."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
#: From here on a number is a moment since 1970, in seconds and in milliseconds: as a wait it
#: would be thirty years.
_EPOCH_S, _EPOCH_MS = 1e9, 1e12
_MOST_DOUBLINGS = 60  # two to a larger power would overflow a float in time


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """
    Return how long the sender of *headers* asks callers to wait, in seconds.

    Reads ``Retry-After-Ms`` and ``Retry-After`` (RFC 9110, section 10.2.3, and the other
    forms of `wait_s`). *headers* must not depend on case, as httpx's do not, or be in lower
    case. None where there is no readable header.
    """
    now_s = clock_s(headers)
    if milliseconds := headers.get("retry-after-ms"):
        return wait_s(f"{milliseconds.strip()}ms", now_s=now_s)
    return wait_s(headers.get("retry-after", ""), now_s=now_s)


def wait_s(text: str, *, now_s: float | None = None) -> float | None:
    """
    Read a wait: ``6m0s``, ``1.5s``, ``20ms``, plain seconds, or the moment when it ends.

    Moments are seconds or milliseconds since 1970, an HTTP date or RFC 3339, in UTC where
    they name no zone.

    Parameters
    ----------
    text
        The value of a header.
    now_s
        The sender's time, in seconds since 1970; by default this machine's.

    Returns
    -------
    float or None
        In seconds, at least 0; None for anything else.
    """
    text, now_s = text.strip(), time.time() if now_s is None else now_s
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
    """Return the time in the ``Date`` of *headers*, else this machine's, in seconds since 1970."""
    sent_s = _moment_s(headers.get("date", ""))
    return time.time() if sent_s is None else sent_s


def _moment_s(text: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = read(text)
        except (ValueError, TypeError):
            continue
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


def backoff_s(
    failures: int,
    *,
    first_s: float,
    longest_s: float,
    factor: float = 2.0,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """
    Return the wait after so many *failures* in a row: longer with each, with jitter.

    Parameters
    ----------
    failures
        How many there were, at least 1.
    first_s, longest_s
        The wait after the first failure, and the most there ever is, in seconds.
    factor
        How many times as long each wait is as the one before.
    uniform
        Draws the jitter, between a half and the whole of the wait, so that callers that
        failed together do not try again in step.
    """
    whole_s = min(longest_s, first_s * factor ** min(failures - 1, _MOST_DOUBLINGS))
    return whole_s * uniform(0.5, 1.0)
