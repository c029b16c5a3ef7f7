"""ASGI middleware (Starlette, FastAPI, Django, Quart): an interaction for each HTTP request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Unpack

from monitor.hook.streams import Fields
from monitor.integrations.app_hook import Taker, app_hook
from monitor.integrations.web import Visit, current

__all__ = ["InteractionMiddleware", "current"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class InteractionMiddleware:
    """
    Opens an interaction for each request, which the handler fills through `current`.

    It is recorded when the answer has been sent, streamed or not, if an output was set. Messages
    pass untouched in both directions. Websockets pass by: one holds many interactions.

    Parameters
    ----------
    app
        The application to wrap.
    hook
        Where interactions go; unset: the app's own hook.
    session_header, user_header
        Headers to take ``session_id`` and ``user_id`` from, where the handler sets none.
    fields
        Put on every record: ``tags``, ``release``, ``environment``, ``metadata``, ``mask``.
    """

    def __init__(
        self,
        app: App,
        *,
        hook: Taker | None = None,
        session_header: str | None = "x-session-id",
        user_header: str | None = "x-user-id",
        **fields: Unpack[Fields],
    ) -> None:
        self.app = app
        self._hook = app_hook(hook)
        self._names = {
            "session_id": session_header and session_header.lower(),
            "user_id": user_header and user_header.lower(),
        }
        self._fields = fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope.get("type") != "http":
            return await self.app(scope, receive, send)
        visit = Visit(self._hook, partial(_header, scope), self._names, self._fields)
        try:
            return await self.app(scope, receive, send)
        finally:
            visit.end()


def _header(scope: Scope, name: str) -> str | None:
    wanted = name.encode("latin-1", "replace")
    for key, value in scope.get("headers") or ():
        if key.lower() == wanted:
            return str(value.decode("latin-1"))
    return None
