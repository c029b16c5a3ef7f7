"""WSGI middleware (Flask, Django, Bottle), and what a web request is for ASGI as well."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any, Unpack

from ..hook.api import Hook
from ..hook.interaction import HookProtocol, OpenInteraction, RecordFields
from . import app_hook

__all__ = ["InteractionMiddleware", "Visit", "current"]

#: Looks up a header of the request by its name in lower case.
Header = Callable[[str], str | None]

_LONGEST_VALUE = 200
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)", re.ASCII
)
_NOWHERE = Hook(enabled=False)
_current: ContextVar[OpenInteraction | None] = ContextVar("groundwatch_request", default=None)


def current() -> OpenInteraction:
    """
    Return the interaction of the request that is being answered, to set its fields on.

    Outside of a request it is one that is never recorded, so that a handler runs the same in tests.
    """
    return _current.get() or OpenInteraction(_NOWHERE, {})


def trace_id_in(traceparent: str | None) -> str | None:
    """Read the trace's id from a W3C ``traceparent`` header; None when there is no valid one."""
    found = _TRACEPARENT.match(traceparent.strip()) if traceparent else None
    return found[1] if found else None


class Visit:
    """The interaction of one request, from its first byte to the last of its answer."""

    def __init__(
        self,
        hook: HookProtocol,
        header: Header,
        names: Mapping[str, str],
        fields: Mapping[str, object],
    ) -> None:
        self._open = OpenInteraction(hook, fields)
        self._header, self._names = header, names
        self._token: Token[OpenInteraction | None] | None = _current.set(self._open)

    @property
    def answered(self) -> bool:
        """Return whether the handler has set an output."""
        return self._open.output is not None

    def end(self, error: BaseException | None = None) -> None:
        """
        Record it, if the handler has set an output; never raises, and counts once.

        With an *error* and without an output it counts as failed, if the handler has set a query:
        other requests than those to the model pass here as well.
        """
        token, self._token = self._token, None
        if token is None:
            return
        with contextlib.suppress(Exception):  # headers of whatever kind
            if self.answered:
                fields = {field: self._header(name) for field, name in self._names.items()}
                fields["trace_id"] = trace_id_in(self._header("traceparent"))
                for field, value in fields.items():
                    if value and not vars(self._open).get(field):  # what the handler set stays
                        setattr(self._open, field, value[:_LONGEST_VALUE])
        try:
            self._open.__exit__(None, None if self._open.query is None else error, None)
            _current.reset(token)
        except Exception:  # noqa: BLE001  # the server may end it in another context
            _current.set(None)


class RequestMiddleware:
    """What wraps an application; parameters as in ``monitor.integrations.asgi``."""

    def __init__(
        self,
        app: Any,
        *,
        hook: HookProtocol | None = None,
        session_header: str | None = "x-session-id",
        user_header: str | None = "x-user-id",
        **fields: Unpack[RecordFields],
    ) -> None:
        self.app = app
        self._hook = app_hook(hook)
        names = {"session_id": session_header, "user_id": user_header}
        self._names = {field: name.lower() for field, name in names.items() if name}
        self._fields = fields


class WSGIMiddleware(RequestMiddleware):
    """
    Opens an interaction for each request, which the handler fills through `current`.

    It is recorded when the server has closed the answer, or at once when the answer is a list or
    a file that the server sends by itself; these are handed on as they are.
    """

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""

        def header(name: str) -> str | None:
            return environ.get("HTTP_" + name.upper().replace("-", "_"))

        visit = Visit(self._hook, header, self._names, self._fields)
        try:
            body: Iterable[bytes] = self.app(environ, start_response)
        except BaseException as error:
            visit.end(error)
            raise
        file_wrapper = environ.get("wsgi.file_wrapper")
        is_file = isinstance(file_wrapper, type) and isinstance(body, file_wrapper)
        if type(body) in {list, tuple} or is_file:  # nothing of the app runs while it is sent
            visit.end()
            return body
        return (_SizedBody if hasattr(body, "__len__") else _Body)(body, visit)


#: Its name for apps, the same for both kinds of servers.
InteractionMiddleware = WSGIMiddleware


class _Body:
    """A streamed answer: each part passes as it comes."""

    def __init__(self, body: Iterable[bytes], visit: Visit) -> None:
        self._body = body
        self._parts: Iterator[bytes] = iter(())
        self._visit = visit

    def __iter__(self) -> Iterator[bytes]:
        self._parts = iter(self._body)
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._parts)
        except StopIteration:
            # Test clients often do not close; what is set while closing waits for it.
            if self._visit.answered:
                self._visit.end()
            raise

    def close(self) -> None:
        """Close the application's answer, then record."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._visit.end()


class _SizedBody(_Body):
    """One that knows its number of parts: of a single part servers tell the length."""

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type]  # it has one
