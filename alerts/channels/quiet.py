"""Keep the HTTP libraries from logging the addresses we post to, which are secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)
_posting: ContextVar[bool] = ContextVar("groundwatch_posting", default=False)


def _passes(record: logging.LogRecord) -> bool:
    return not _posting.get() or record.levelno >= logging.WARNING


@contextmanager
def quiet_http() -> Iterator[None]:
    """
    Hold back what httpx and httpcore log below a warning, whatever their level is.

    Only for what runs in this context: other users of httpx keep their logs.
    """
    for name in _LOGGERS:
        # Adding a filter that is there already does nothing.
        logging.getLogger(name).addFilter(_passes)
    token = _posting.set(True)
    try:
        yield
    finally:
        _posting.reset(token)
