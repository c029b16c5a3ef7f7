"""What was retrieved for the answer that comes next, carried past the code in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_passages: ContextVar[object] = ContextVar("groundwatch_passages", default=None)


@contextmanager
def retrieved(passages: object) -> Iterator[None]:
    """
    Say what the answers asked for in this block should rest on.

    *passages* are of any shape that ``monitor.sample(contexts=...)`` takes. Threads and tasks
    that are started in the block see them as far as they copy the context, as asyncio does.
    A streamed answer keeps those of the moment it was asked for; so leave the block before a
    generator yields, or whoever reads it is in the block as well.
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
    """Give what `retrieved` said, or None."""
    return _passages.get()
