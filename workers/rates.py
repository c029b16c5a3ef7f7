"""The sampling rate of an app, set by the workers while it runs; its hooks read it with a batch."""

from __future__ import annotations

import math
from typing import Any

import redis

from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.settings import Settings

#: Unless it is set again, a rate ends by itself, so that workers that die throttle nobody for ever.
KEPT_S = 3_600


def set_rate(
    client: redis.Redis, app: str, rate: float, settings: Settings, *, kept_s: int = KEPT_S
) -> float:
    """
    Ask the hooks of *app* to sample with the probability *rate* for *kept_s* seconds.

    They follow with their next batch or heartbeat, within ten seconds, each within
    the limits it was given itself; every record carries the probability in force.

    Returns
    -------
    float
        The rate that was asked for: *rate* within ``min_rate`` and ``max_rate``.

    Raises
    ------
    ValueError
        If the rate is no number in [0, 1].
    QueueUnavailableError
        If Redis does not answer.
    """
    if not (math.isfinite(rate) and 0 <= rate <= 1):
        raise ValueError(f"a sampling rate is a number from 0 to 1, not {rate}")
    asked = min(max(rate, settings.min_rate), settings.max_rate)
    with translated():
        client.set(names.rate(app), repr(float(asked)), ex=kept_s)
    return asked


def clear_rate(client: redis.Redis, app: str) -> None:
    """Let the hooks of *app* go back to the rate they were configured with."""
    with translated():
        client.delete(names.rate(app))


def asked_rate(client: redis.Redis, app: str) -> float | None:
    """Tell which rate is asked for now; None where none is."""
    anything: Any = client
    with translated():
        raw = anything.get(names.rate(app))
    try:
        return None if raw is None else float(raw)
    except ValueError:
        return None
