"""WSGI middleware (Flask, Django, Bottle): an interaction for each request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from .context import app_hook
from .web import Visit, current

__all__ = ["InteractionMiddleware", "current"]


class InteractionMiddleware:
    """
    Opens an interaction for each request, which the handler fills through `current`.

    It is recorded when the server has closed the answer, or at once when the answer is a list or
    a file that the server sends by itself; these are handed on as they are. Parameters as in
    ``monitor.integrations.asgi``.
    """

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
        self._names = {"session_id": session_header, "user_id": user_header}
        self._fields = fields

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
