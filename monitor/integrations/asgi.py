"""ASGI middleware (Starlette, FastAPI, Django, Quart): an interaction for each HTTP request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..hook.sender import deliver
from .wsgi import RequestMiddleware, Visit, current

__all__ = ["InteractionMiddleware", "current"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_SHUT_DOWN = frozenset({"lifespan.shutdown.complete", "lifespan.shutdown.failed"})


class InteractionMiddleware(RequestMiddleware):
    """
    Opens an interaction for each request, which the handler fills through `current`.

    It is recorded when the answer has been sent, streamed or not, if an output was set. Messages
    pass untouched in both directions. Websockets pass by: one holds many interactions. When the
    server shuts down, what was sampled is delivered first, within two seconds.

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope.get("type") == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope.get("type") != "http":
            await self.app(scope, receive, send)
            return

        def header(name: str) -> str | None:
            wanted = name.encode("latin-1", "replace")
            for key, value in scope.get("headers") or ():
                if key.lower() == wanted:
                    return str(value.decode("latin-1"))
            return None

        visit = Visit(self._hook, header, self._names, self._fields)
        try:
            await self.app(scope, receive, send)
        except BaseException as error:
            visit.end(error)
            raise
        visit.end()

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Pass the start and the end of the server on, and deliver what was sampled before its end.

        Servers such as uvicorn end by the signal they got, so that no exit handler runs.
        """
        asked = False

        async def received() -> MutableMapping[str, Any]:
            nonlocal asked
            asked = True
            return await receive()

        async def delivered_before(message: MutableMapping[str, Any]) -> None:
            if message.get("type") in _SHUT_DOWN:
                await deliver()
            await send(message)

        try:
            await self.app(scope, received, delivered_before)
        except Exception:
            if asked:
                raise
            # An application such as Django's refuses the whole protocol: it is kept in its place.
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await deliver()
            await send({"type": "lifespan.shutdown.complete"})
