"""Doors for frameworks and clients: each module needs its own library, and none loads another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..hook.interaction import HookProtocol

__all__ = ["retrieved"]

_passages: ContextVar[object] = ContextVar("groundwatch_passages", default=None)


def app_hook(hook: HookProtocol | None) -> HookProtocol:
    """Return *hook*, or the one that ``groundwatch.init`` sets up when it is None."""
    if hook is not None:
        return hook
    # Here, so that the app's whole API is there whichever module is imported first.
    from .. import _hook  # noqa: PLC0415

    return _hook


def active_trace_id() -> str | None:
    """Return the id of OpenTelemetry's active span, 32 hexadecimal digits; None without one."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return None
    try:
        context = tracing.get_current_span().get_span_context()
        return format(context.trace_id, "032x") if context.is_valid else None
    except Exception:  # noqa: BLE001  # a tracer of the host's may do anything
        return None


@contextmanager
def retrieved(passages: object) -> Iterator[None]:
    """
    Say what the answers asked for in this block should be based on.

    *passages* are of any shape that ``groundwatch.sample(contexts=...)`` takes. Threads and tasks
    that are started in the block see them as far as they copy the context, as asyncio does.
    A streamed answer keeps those of the moment it was asked for; so leave the block before a
    generator yields, or the code that reads it is in the block as well.
    """
    # Not the list itself, which may change until a streamed answer ends.
    token = _passages.set([*passages] if isinstance(passages, list) else passages)
    try:
        yield
    finally:
        try:
            _passages.reset(token)
        except ValueError:  # left in another context, as a generator may be
            _passages.set(None)


def current_passages() -> object:
    """Return what `retrieved` said, or None."""
    return _passages.get()
