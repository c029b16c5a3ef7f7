"""
Who asks, what they may do and see, and what every request passes before a page answers.

Bearer tokens and passwords are known by their hashes only; a trusted proxy may vouch for a name
and its groups. Without any of them only this machine may come in. A form carries a signed token
of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    BaseUser,
)
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.errors import GroundwatchError, SettingsError
from monitor.settings import Settings, variable
from monitor.settings.kinds import is_addressed_here, is_loopback
from monitor.store.engine import Store
from monitor.store.tokens import find_token
from monitor.web.time_range import slug, unslug

_SCRYPT_MARK = "scrypt$"
_ENTRY = re.compile(
    r"([^:]*):(viewer|reader|operator):([0-9a-f]{64}|scrypt\$[0-9a-f]{32}\$[0-9a-f]{64})"
    r"(?::([\w.~+-]+))?",
    re.IGNORECASE,
)
#: Verifying a password is slow on purpose; one that was right is not verified again for so long.
_VERIFIED_S = 300.0
_MOST_VERIFIED = 1_000
_FORM_VALID_S = 12 * 3600
#: Open to everybody: what a load balancer asks, and what holds no data.
_OPEN = ("/healthz", "/readyz", "/static/", "/favicon/")
#: Most passwords waiting to be verified, so that wrong ones do not keep the machine busy.
_MOST_WAITING = 8
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: The one address that pages of other sites may send to, if the settings name them.
FEEDBACK_PATH = "/api/v1/feedback"
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
    "Cache-Control": "no-store",
}
S = TypeVar("S")
Method = Callable[[S, Request], Response]


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1  #: figures, no transcripts
    READER = 2  #: transcripts, as the hook's mask left them
    OPERATOR = 3  #: all that can be written: labels, silences, deploys


#: What a token may write besides what its role may, and what that is.
SCOPES: Mapping[str, str] = {
    "deploys": "record deploys",
    "acknowledgements": "acknowledge incidents",
    "silences": "add and end silences",
    "labels": "store labels",
    "feedback": "store what users said",
}

#: A user of the app, whose browser sends feedback from a page that the settings name.
VISITOR = "visitor"


@dataclass(frozen=True, slots=True)
class Principal(BaseUser):
    """
    A person or program that asks; ``bearer`` if no browser can have sent it by itself.

    ``apps`` are the only ones that it may see or change anything of; None: all. ``scopes`` are
    what it may write though its role may not.
    """

    name: str
    role: Role
    bearer: bool = False
    apps: frozenset[str] | None = None
    scopes: frozenset[str] = frozenset()

    def may_see(self, *apps: str) -> bool:
        """Return whether it may see anything of these apps, of each of them."""
        return self.apps is None or self.apps.issuperset(apps)

    def may_write(self, scope: str) -> bool:
        """Return whether it may write what *scope* is about."""
        return self.role >= Role.OPERATOR or scope in self.scopes


class Access:
    """
    Who may come in, from the settings, and from the tokens in the store if there is one.

    Raises SettingsError if an entry is not of the form that ``groundwatch web --new-...`` prints.
    """

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings, self.store = settings, store
        given = settings.web_access
        self._verified: dict[bytes, tuple[float, Principal]] = {}
        self._key = secrets.token_bytes(32)
        # Forms are signed with secrets that all pages of one deployment share, so that a form is
        # taken by any of them, also after a restart. Without a secret, the key is this process's.
        shared = [
            each.get_secret_value() if each else "" for each in (given.web_tokens, given.web_users)
        ]
        shared.append(urlsplit(settings.database_url or "").password or "")
        key = "\n".join(shared).encode() if any(shared) else self._key
        self._forms = URLSafeTimedSerializer(hmac.digest(b"groundwatch forms", key, "sha256"))
        self._tokens = _entries(shared[0], "web_tokens")
        self._users = {who.name: (who, hashed) for who, hashed in _entries(shared[1], "web_users")}
        try:
            self._proxies = [ipaddress.ip_network(each) for each in given.web_trusted_proxies]
        except ValueError as error:
            raise SettingsError(f"{variable('web_trusted_proxies')}: {error}") from None

    @property
    def is_open(self) -> bool:
        """Whether this machine may come in without a token or a password, and nobody else."""
        given = self.settings.web_access
        is_set = self._tokens or self._users or given.web_proxy_user_header
        return not (is_set or given.web_require_authentication)

    def identify(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        """
        Return who asks, by a bearer token, a password or a trusted proxy; None if unknown.

        Names of *headers* are in small letters; *peer* is the address that the socket says.
        """
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._by_token(value.strip())
        if self.is_open:
            return Principal("this machine", Role.OPERATOR)
        if scheme.lower() == "basic":
            return self._by_password(value.strip())
        given = self.settings.web_access
        header = given.web_proxy_user_header
        name = headers.get(header.lower(), "") if header else ""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return None
        if not name or not any(address in network for network in self._proxies):
            return None
        apps = None
        if given.web_proxy_groups_header:
            groups = headers.get(given.web_proxy_groups_header.lower(), "").split(",")
            mine = {group.strip() for group in groups}
            pairs = [entry.rpartition("=")[::2] for entry in given.web_group_apps]
            apps = frozenset(app for group, app in pairs if group in mine)
        everything = None if apps is None or "*" in apps else apps
        return Principal(name[:200], Role[given.web_proxy_role.upper()], apps=everything)

    def may_send_feedback(self, request: HTTPConnection) -> bool:
        """Return whether a request comes from a page that may send feedback, and is such."""
        origins = self.settings.web_access.feedback_origins
        return path_of(request) == FEEDBACK_PATH and request.headers.get("origin", "") in origins

    def form_token(self, principal: Principal) -> str:
        """Return the token of a form; a new one each time, so that compression reveals nothing."""
        return str(self._forms.dumps(secrets.token_urlsafe(12), salt=principal.name))

    def form_is_ours(self, token: str, principal: Principal) -> bool:
        """Return whether a form token is ours, for this person, and not too old."""
        try:
            self._forms.loads(token, max_age=_FORM_VALID_S, salt=principal.name)
        except BadData:
            return False
        return True

    def _by_token(self, secret: str) -> Principal | None:
        given, found = hashlib.sha256(secret.encode()).hexdigest(), None
        for who, secret_hash in self._tokens:  # compare all: the time must not reveal which one
            if hmac.compare_digest(secret_hash, given):
                found = replace(who, bearer=True)
        if found is not None or self.store is None:
            return found
        with self.store.read() as connection:
            token = find_token(connection, secret, datetime.now(UTC))
        if token is None:
            return None
        return Principal(
            token.name, Role[token.role.upper()], bearer=True,
            apps=frozenset(token.apps) or None, scopes=frozenset(token.scopes),
        )  # fmt: skip

    def _by_password(self, value: str) -> Principal | None:
        fingerprint = hmac.digest(self._key, value.encode(), "sha256")
        at, principal = self._verified.get(fingerprint, (-_VERIFIED_S, None))
        if principal is not None and time.monotonic() - at < _VERIFIED_S:
            return principal
        try:
            name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        principal, stored = self._users.get(name, (None, _NOBODYS))
        salt, _, _ = stored.removeprefix(_SCRYPT_MARK).partition("$")
        is_right = hmac.compare_digest(_hashed(password, bytes.fromhex(salt)), stored)
        if principal is None or not is_right:
            return None
        if len(self._verified) >= _MOST_VERIFIED:
            self._verified.clear()
        self._verified[fingerprint] = (time.monotonic(), principal)
        return principal


def check_address(settings: Settings, host: str) -> None:
    """
    Refuse to listen where others can reach us without authentication.

    Raise SettingsError if so, or if tokens, users or proxies are not written as they should be.
    """
    if Access(settings).is_open and not is_loopback(host):
        raise SettingsError(
            f"refusing to listen on {host} without authentication: set"
            f" {variable('web_tokens')}, {variable('web_users')} or"
            f" {variable('web_proxy_user_header')}; or make tokens by `groundwatch tokens create`"
            f" and set {variable('web_require_authentication')}=true; or listen on 127.0.0.1"
        )


def new_token(role: Role, name: str) -> tuple[str, str]:
    """Return a new bearer token, and the entry of the settings that knows it by its hash."""
    token = secrets.token_urlsafe(32)
    return token, f"{name}:{role.name.lower()}:{hashlib.sha256(token.encode()).hexdigest()}"


def password_entry(name: str, role: Role, password: str, apps: Collection[str] = ()) -> str:
    """Return the entry of the settings for a person with a password, who sees these apps only."""
    entry = f"{name}:{role.name.lower()}:{_hashed(password, secrets.token_bytes(16))}"
    return f"{entry}:{'+'.join(map(slug, apps))}" if apps else entry


def _hashed(password: str, salt: bytes) -> str:
    found = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    return f"{_SCRYPT_MARK}{salt.hex()}${found.hex()}"


#: Compared with when there is no such user, so that the time tells nothing.
_NOBODYS = f"{_SCRYPT_MARK}{'00' * 16}${'00' * 32}"


def _entries(text: str, setting: str) -> list[tuple[Principal, str]]:
    """Read who has which hash of a secret, and which apps they see if not all."""
    found = []
    for number, item in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        entry = _ENTRY.fullmatch(item)
        if entry is None:
            raise SettingsError(
                f"{variable(setting)}: entry {number} is not name:role:hash with a role of viewer,"
                " reader or operator, and :app+app behind it for some apps only; make one with:"
                " groundwatch web --new-token or --new-password"
            )
        name, role, secret_hash, apps = entry.groups()
        seen = frozenset(map(unslug, apps.split("+"))) if apps else None
        found.append((Principal(name, Role[role.upper()], apps=seen), secret_hash))
    return found


class RefusedError(AuthenticationError):
    """A request that is refused: status, title, what to do; `make_app` answers it."""

    def __init__(self, code: int, title: str, detail: str, **headers: str) -> None:
        super().__init__(title)
        self.code, self.title, self.detail = code, title, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def wrong_parameter(detail: str) -> RefusedError:
    """Return the refusal of a parameter of the query; *detail* names it."""
    return RefusedError(400, "a parameter is wrong", detail)


def read_number(request: Request, name: str, usual: int, most: int) -> int:
    """Return a whole number of the query, *usual* without one; RefusedError unless 1 to *most*."""
    text = request.query_params.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= most):  # noqa: PLR2004
        raise wrong_parameter(f"{name}: a whole number from 1 to {most}")
    return int(text)


class AccessBackend(AuthenticationBackend):
    """
    Lets in who may come in; unsafe requests only from our own pages.

    Without authentication the name in the address must be this machine's, so that a
    page elsewhere cannot reach in by giving its own name our address (DNS rebinding).
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._passwords = CapacityLimiter(1)

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Principal] | None:
        """Return who asks; None where nobody needs to be known."""
        if path_of(conn).startswith(_OPEN):
            return None
        if self._access.may_send_feedback(conn):
            return AuthCredentials(), Principal(VISITOR, Role.VIEWER, bearer=True)
        if conn.headers.get("authorization", "").partition(" ")[0].lower() != "basic":
            found = await to_thread.run_sync(self._let_in, conn)
        elif self._passwords.statistics().tasks_waiting >= _MOST_WAITING:
            raise RefusedError(
                429, "too many passwords at once", "send it again later", Retry_After="1"
            )
        else:  # off the event loop, one at a time: a password takes a while, on purpose
            found = await to_thread.run_sync(self._let_in, conn, limiter=self._passwords)
        return AuthCredentials([found.role.name.lower(), *found.scopes]), found

    def _let_in(self, conn: HTTPConnection) -> Principal:
        headers = conn.headers
        if self._access.is_open and not is_addressed_here(headers.get("host", "")):
            detail = "without authentication only 127.0.0.1 and localhost are answered"
            raise RefusedError(421, "host not allowed", detail)
        peer = conn.client.host if conn.client else ""
        try:
            principal = self._access.identify(dict(headers), peer)
        except GroundwatchError:
            detail = "the store of the tokens cannot be read; is it there?"
            raise RefusedError(503, "not possible now", detail) from None
        if principal is None:
            raise RefusedError(
                401, "authentication required", "send a bearer token or a password",
                WWW_Authenticate='Basic realm="groundwatch", charset="UTF-8"',
            )  # fmt: skip
        is_ours = principal.bearer or is_same_origin(conn)
        if conn.scope["method"] not in _SAFE and not is_ours:
            detail = "nothing was changed; use the form on our page"
            raise RefusedError(403, "from another site", detail)
        return principal


class SecureHeaders:
    """Middleware that tells browsers what our pages never do; answers are kept nowhere."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, and add headers to the answer."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class GuardedRoute(Route):
    """
    A route that shows visitors who are limited to some apps nothing of others.

    An app in the path or the query that they may not see is answered as one that is not there. A
    route about the ``whole`` monitor is refused; what else an endpoint shows, it narrows itself.
    Endpoints get the names in a path as they were before `slug` wrote them. Where *query* lists the
    parameters of a route, a request with any other is refused: it would get more than it asks for.
    """

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, whole: bool = False,
        query: Sequence[Mapping[str, Any]] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(path, endpoint, **options)
        self.whole, self.query = whole, query

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        params = scope["path_params"] = {k: unslug(v) for k, v in scope["path_params"].items()}
        principal = scope.get("user")
        if isinstance(principal, Principal) and principal.apps is not None:
            asked = [*Request(scope).query_params.getlist("app"), params.get("app", "")]
            if self.whole or not principal.may_see(*filter(None, asked)):
                why = (403, "this is about all apps") if self.whole else (404, "not found")
                detail = f"you may see: {', '.join(sorted(principal.apps)) or 'no app'}"
                raise RefusedError(*why, detail)
        if self.query is not None:
            known = [parameter["name"] for parameter in self.query]
            if unknown := Request(scope).query_params.keys() - {*known}:
                expected = ", ".join(known) or "none"
                raise wrong_parameter(
                    f"unknown parameter {min(unknown)[:60]!r}: expected {expected}"
                )
        await super().handle(scope, receive, send)


def path_of(request: HTTPConnection) -> str:
    """
    Return the path that the router uses.

    ``request.url`` is not a substitute: some versions of starlette build it out of the header
    ``Host``, which is the visitor's to choose.
    """
    path: str = request.scope["path"]
    return path


def is_same_origin(conn: HTTPConnection) -> bool:
    """Return whether a browser sent this from one of our own pages, or no browser can have."""
    headers = conn.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is not None:
        return urlsplit(origin).netloc == headers.get("host")
    # To JSON and DELETE all browsers add an origin.
    is_json = headers.get("content-type", "").startswith("application/json")
    return path_of(conn).startswith("/api/") and (is_json or conn.scope["method"] == "DELETE")


def needs(role: Role) -> Callable[[Method[S]], Method[S]]:
    """Refuse principals below *role*."""

    def decorate(endpoint: Method[S]) -> Method[S]:
        @wraps(endpoint)
        def checked(self: S, request: Request) -> Response:
            found = principal_of(request).role
            if found < role:
                title = f"this needs the role {role.name.lower()}"
                raise RefusedError(403, title, f"you are {found.name.lower()}")
            return endpoint(self, request)

        return checked

    return decorate


def principal_of(request: Request) -> Principal:
    """Return who asks, as the guard found."""
    found: Principal = request.user
    return found
