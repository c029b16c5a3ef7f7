"""What integrations need of a hook, and which one they hand interactions to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Taker(Protocol):
    """What records: a hook."""

    def chance(self, trace_id: object = None) -> float:
        """Count one interaction and say with which probability it was chosen; 0 if it was not."""

    def take(self, given: Mapping[str, object], rate: float | None = None) -> None:
        """Record an interaction that was chosen with *rate*."""


def app_hook(hook: Taker | None) -> Taker:
    """Give *hook* back, or the one that ``monitor.init`` sets up when it is None."""
    if hook is not None:
        return hook
    # Here, so that the whole of the app's API is there whoever is imported first.
    from monitor import _hook  # noqa: PLC0415

    return _hook
