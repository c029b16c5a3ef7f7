"""What every request passes: who asks, from where, and the headers that keep a page harmless."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.settings.addresses import is_loopback
from monitor.web.access import Access, Principal, Role

#: Open to everybody: what a load balancer asks, and what holds no data.
_OPEN = ("/healthz", "/readyz", "/static/", "/favicon/")
#: So many passwords may wait to be looked at, so that wrong ones do not keep the machine busy.
_MOST_WAITING = 8
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
S = TypeVar("S")
Method = Callable[[S, Request], Response]
#: Answers with a refusal: status, title, what to do.
Refuse = Callable[[Request, int, str, str], Response]


class Guard:
    """
    Lets in whoever may come in; an unsafe request only from our own pages.

    Without authentication the name in the address must be this machine's, so that a
    page elsewhere cannot reach in by giving its own name our address (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, access: Access, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse
        self._passwords = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        is_open = path_of(request).startswith(_OPEN)
        refused = None if is_open else await self._ask(request)
        await (refused or self._app)(scope, receive, with_headers)

    async def _ask(self, request: Request) -> Response | None:
        """Ask who it is, off the event loop: a password takes a while, on purpose."""
        if not request.headers.get("authorization", "").lower().startswith("basic "):
            return await to_thread.run_sync(self._refusal, request)
        if self._passwords.statistics().tasks_waiting >= _MOST_WAITING:
            headers = {"Retry-After": "1"}
            return PlainTextResponse("too many passwords at once\n", 429, headers=headers)
        return await to_thread.run_sync(self._refusal, request, limiter=self._passwords)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        if self._access.is_open and not is_loopback(_host_name(headers.get("host", ""))):
            return self._refuse(
                request, 421, "not this machine's name",
                "without authentication only 127.0.0.1 and localhost are answered",
            )  # fmt: skip
        peer = request.client.host if request.client else ""
        principal = self._access.identify(dict(headers), peer)
        if principal is None:
            answer = self._refuse(request, 401, "who are you?", "send a bearer token or a password")
            answer.headers["WWW-Authenticate"] = 'Basic realm="groundwatch", charset="UTF-8"'
            return answer
        request.state.principal = principal
        if request.method not in _SAFE and not principal.bearer and not comes_from_us(headers):
            return self._refuse(
                request, 403, "from another site", "nothing was changed; use the form on our page"
            )
        return None


def path_of(request: Request) -> str:
    """
    Give the path that the router goes by.

    ``request.url`` is no substitute: some versions of starlette build it out of the header
    ``Host``, which is the visitor's to choose.
    """
    path: str = request.scope["path"]
    return path


def comes_from_us(headers: Headers) -> bool:
    """Say whether a browser sent this from one of our own pages."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def needs(role: Role) -> Callable[[Method[S]], Method[S]]:
    """Answer 403 to whoever may not do this."""

    def decorate(endpoint: Method[S]) -> Method[S]:
        @wraps(endpoint)
        def checked(self: S, request: Request) -> Response:
            found = principal_of(request).role
            if found >= role:
                return endpoint(self, request)
            refuse: Refuse = request.app.state.refuse
            title = f"this needs the role {role.name.lower()}"
            return refuse(request, 403, title, f"you are {found.name.lower()}")

        return checked

    return decorate


def principal_of(request: Request) -> Principal:
    """Give who asks, as the guard found."""
    found: Principal = request.state.principal
    return found


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
