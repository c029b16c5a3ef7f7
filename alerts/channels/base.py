"""
What a channel is: a name, addresses, a rate, and one attempt to deliver.

`HttpClient` makes the exchange with a vendor: one deadline, no redirects, no secret in logs or
errors.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx
from pydantic import SecretStr

from alerts.message import Message, without_samples
from monitor.errors import DeliveryError
from monitor.retry import wait_s

#: More than any vendor answers; the rest of a longer answer is not read.
_MOST_BODY_BYTES = 65_536
_LEAST_PAUSE_S, _USUAL_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0, 3600.0
#: For so long an answer that is not the vendor's own may be that of a proxy or login page.
_STRANGER_FOR_S = 3600.0
_PAGES = ("<!doctype", "<html")
#: These log the addresses that we post to, which are secrets.
_PARTS = ("connection", "http11", "http2", "proxy", "socks")
_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in _PARTS))
_posting: ContextVar[bool] = ContextVar("groundwatch_posting", default=False)
_PASSES = lambda record: not _posting.get() or record.levelno >= logging.WARNING  # noqa: E731
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The other side took the message; not ``confirmed`` when it cannot say that it arrived."""

    answer: str
    confirmed: bool = True
    ref: str | None = None  #: what the other side calls it, to answer or change it later


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRate:
    """The most messages a minute, and at once after a pause."""

    per_minute: float = 60.0
    burst: float = 30.0


class Channel:
    """One way to reach people: what is declared here, and one attempt to deliver."""

    name = ""  #: in settings, outbox and reports
    addresses: tuple[str, ...] = ("",)  #: the places it sends to; one without a name by default
    timeout_s = 20.0  #: of one exchange with the other side
    rate = ChannelRate()
    takes_digests = True  #: it is for reading, not for paging or counting
    explanations = True  #: what the scorer said of single samples is sent as well

    def __init__(self, *, name: str = "", timeout_s: float = 0.0) -> None:
        self.name = name or self.name
        self.timeout_s = timeout_s or self.timeout_s

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """
        Try once to deliver; never retries and never sleeps.

        Raise DeliveryError if the message was not taken, or may not have been; its text holds a
        code and no address, password or URL.
        """
        raise NotImplementedError

    def deliver(self, message: Message, delivery_id: str) -> Receipt:
        """Try once to send; without transcripts where ``explanations`` are off."""
        return self.send(message if self.explanations else without_samples(message), delivery_id)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the other side answered."""

    status: int
    body: bytes
    retry_after: str | None = None

    @property
    def text(self) -> str:
        """The answer as text, whatever it is."""
        return self.body.decode("utf-8", "replace").strip()

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people, which no vendor answers."""
        return self.text[:20].lower().startswith(_PAGES)

    @property
    def json(self) -> dict[str, Any]:
        """The answer as a JSON object; an empty one when it is none."""
        with suppress(ValueError, RecursionError):
            found = json.loads(self.body)
            if isinstance(found, dict):
                return found
        return {}


class _Loop(asyncio.SelectorEventLoop):
    """Looks a name up on a thread that neither a delivery's time-out nor the exit waits for."""

    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        found = Future[Any]()

        def look_up() -> None:
            with suppress(InvalidStateError):  # nobody waits any more
                try:
                    found.set_result(socket.getaddrinfo(*arguments, **options))
                except Exception as error:  # noqa: BLE001  # a name may be no name at all
                    found.set_exception(error)

        Thread(target=look_up, name="groundwatch-names", daemon=True).start()
        return await asyncio.wrap_future(found, loop=self)


class HttpClient:
    """
    Exchanges one request for one answer with *vendor*.

    With *only_public* it refuses addresses of this machine and of private networks,
    as an address that somebody else may choose must not reach what is inside.
    """

    def __init__(self, vendor: str, *, timeout_s: float, only_public: bool = False) -> None:
        self.vendor = vendor
        self.timeout_s = timeout_s
        self._only_public = only_public

    def send_json(
        self, url: SecretStr, body: Any, headers: Mapping[str, SecretStr] | None = None
    ) -> HttpAnswer:
        """Post a JSON document."""
        return self.send(url, json.dumps(body).encode(), headers or {})

    def send(
        self, url: SecretStr, body: bytes, headers: Mapping[str, SecretStr], method: str = "POST"
    ) -> HttpAnswer:
        """
        Ask once.

        Raise DeliveryError if there was no answer; ambiguous when the request may have arrived.
        """
        error: DeliveryError
        try:
            with quiet_http(), asyncio.Runner(loop_factory=_Loop) as runner:
                return runner.run(self._exchange(method, url, body, headers))
        except _NEVER_SENT as problem:
            error = self._failure(problem, ambiguous=False)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError):
            error = self._wrong("wrong address", "wrong_url")
        except (httpx.TransportError, TimeoutError) as problem:
            error = self._failure(problem, ambiguous=True)
        # Outside of `except`: what was caught holds the request and with it the URL.
        raise error

    async def _exchange(
        self, method: str, url: SecretStr, body: bytes, headers: Mapping[str, SecretStr]
    ) -> HttpAnswer:
        usual = {"Content-Type": "application/json; charset=utf-8", "Accept-Encoding": "identity"}
        secret = {name: value.get_secret_value() for name, value in headers.items()}
        reached: list[str] = []
        try:
            # httpx counts its time-outs again with every byte that drips in; this one does not.
            async with asyncio.timeout(self.timeout_s):
                if self._only_public:
                    parts, found = urlsplit(url.get_secret_value()), []
                    with suppress(OSError, UnicodeError):
                        found = await asyncio.get_running_loop().getaddrinfo(
                            parts.hostname, parts.port or 443, type=socket.SOCK_STREAM
                        )
                    if not found:
                        raise DeliveryError(f"{self.vendor}: no such host", code="http:NoSuchHost")
                    if not all(_is_public(str(at[4][0])) for at in found):
                        raise self._private()
                async with (
                    httpx.AsyncClient(verify=_trusted(), timeout=self.timeout_s) as client,
                    client.stream(
                        method,
                        url.get_secret_value(),
                        content=body,
                        headers=usual | secret,
                        extensions={"trace": partial(self._look, reached)},
                    ) as response,
                ):
                    answer = b""
                    async for chunk in response.aiter_raw():
                        answer += chunk
                        if len(answer) >= _MOST_BODY_BYTES:
                            break
                    pause = response.headers.get("Retry-After")
                    return HttpAnswer(response.status_code, answer[:_MOST_BODY_BYTES], pause)
        except TimeoutError:
            if reached:
                raise
            raise httpx.ConnectTimeout("") from None

    async def _look(self, reached: list[str], event: str, about: Mapping[str, Any]) -> None:
        """Note who was reached, and check it before anything is sent: names change address."""
        if event == "connection.connect_tcp.complete":
            stream = about["return_value"]
            reached.append(str(stream.get_extra_info("server_addr")[0]))
            if self._only_public and not getproxies() and not _is_public(reached[-1]):
                await stream.aclose()
                raise self._private()

    def _private(self) -> DeliveryError:
        return self._wrong(
            "the address is private; set allow_private = true if it is meant to be",
            "private_address",
        )

    def _failure(self, problem: Exception, *, ambiguous: bool) -> DeliveryError:
        kind = type(problem).__name__
        return DeliveryError(f"{self.vendor}: {kind}", code=f"http:{kind}", ambiguous=ambiguous)

    def _wrong(self, what: str, code: str) -> DeliveryError:
        return DeliveryError(f"{self.vendor}: {what}", code=code, transient=False)


#: NAT64 (RFC 6052, 8215), 6to4 (RFC 3056), addresses of IPv4 in IPv6: they lead to hosts within.
_TUNNELS = tuple(
    map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96"))
)


def _is_public(address: str) -> bool:
    """Return whether an address is of the public Internet, however it is written."""
    found = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    found = getattr(found, "ipv4_mapped", None) or found
    tunnelled = any(found in network for network in _TUNNELS if network.version == found.version)
    return found.is_global and not found.is_multicast and not tunnelled


#: The certificates that are trusted: loading them takes longer than a message.
_trusted = cache(httpx.create_ssl_context)


def refusal(
    vendor: str, answer: HttpAnswer, code: str = "", *, check: str, is_theirs: bool = True
) -> DeliveryError:
    """
    Make the error of an answer that is a no; *code* is the vendor's own word for it, if any.

    *check* is what to look at when it is final. *is_theirs* is false when the answer cannot be the
    vendor's: a proxy or login page stands between, and may be gone soon. So do redirects, which
    are never followed, and pages.
    """
    status = answer.status
    name = code or f"http_{status}"
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return slow_down(vendor, answer)
    if httpx.codes.is_server_error(status) or status == httpx.codes.REQUEST_TIMEOUT:
        pause_s = pause_of(answer) if answer.retry_after else None
        return DeliveryError(f"{vendor}: {name}", code=name, retry_after_s=pause_s)
    if httpx.codes.is_success(status):
        return DeliveryError(
            f"{vendor}: the answer is not theirs; a proxy or login page may stand between",
            code=f"not_{vendor.lower().replace(' ', '_')}",
        )
    if httpx.codes.is_redirect(status) or answer.is_page or not is_theirs:
        return DeliveryError(
            f"{vendor}: {name}, which is not theirs; a proxy or login page may stand between;"
            f" else check {check}",
            code=name,
            give_up_after_s=_STRANGER_FOR_S,
        )
    return DeliveryError(f"{vendor} refused: {name}; check {check}", code=name, transient=False)


def slow_down(vendor: str, answer: HttpAnswer) -> DeliveryError:
    """Make the error of a vendor that asks for a pause."""
    return DeliveryError(
        f"{vendor}: slow down", code="rate_limited", retry_after_s=pause_of(answer)
    )


def pause_of(answer: HttpAnswer) -> float:
    """
    Return how long to wait, in seconds within sensible bounds.

    From Retry-After, in seconds or as a date, or from ``retry_after`` in the answer.
    """
    in_body = answer.json.get("retry_after")
    header = (answer.retry_after or "").strip()
    pause_s = None if header.startswith("-") else wait_s(header)
    if pause_s is None and isinstance(in_body, int | float) and not isinstance(in_body, bool):
        pause_s = float(min(in_body, _LONGEST_PAUSE_S))  # it may have more digits than a float
    if pause_s is None or math.isnan(pause_s):
        pause_s = _USUAL_PAUSE_S
    return min(max(pause_s, _LEAST_PAUSE_S), _LONGEST_PAUSE_S)


@contextmanager
def quiet_http() -> Iterator[None]:
    """
    Hold back what httpx and httpcore log below a warning, whatever their level is.

    Only for what runs in this context: other users of httpx keep their logs.
    """
    for name in _LOGGERS:
        # Adding a filter that is there already does nothing.
        logging.getLogger(name).addFilter(_PASSES)
    token = _posting.set(True)
    try:
        yield
    finally:
        _posting.reset(token)
