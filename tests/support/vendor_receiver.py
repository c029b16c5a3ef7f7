"""Real HTTP servers on loopback that take messages as vendors document it, or say no their way."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any

from monitor.testing.receivers import Receiver
from support.vendor_rules import RULES, Refused

_BOMB = b"\x1f\x8b\x08" + b"\0" * 2_000_000
#: What a response may be: status, headers, body.
Response = tuple[int, Mapping[str, str], bytes]


class Reaction(StrEnum):
    """How the receiver answers one request."""

    OK = "ok"
    OK_BUT_NO = "ok_but_no"  #: 200, and the body says no
    RATE_LIMITED = "rate_limited"  #: 429 in the vendor's own spelling
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"  #: 503 with Retry-After
    GONE = "gone"
    FORBIDDEN = "forbidden"
    BAD_PAYLOAD = "bad_payload"  #: the form of the message is refused
    HTML = "html"  #: 200 from somebody else
    REDIRECT = "redirect"  #: to an address of the machine's own network
    HANG = "hang"
    DRIP = "drip"
    DROP = "drop"  #: takes the message, then hangs up
    BOMB = "bomb"  #: 200 with a body of megabytes that says it is compressed


_TAKEN = {Reaction.OK, Reaction.HANG, Reaction.DRIP, Reaction.DROP, Reaction.BOMB}


@dataclass(frozen=True, slots=True)
class Request:
    """What arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which all vendors want as JSON."""
        return json.loads(self.body)


class VendorReceiver(Receiver):
    """
    Plays one vendor; refuses what breaks the vendor's documented rules.

    ``taken`` are the requests it took, ``requests`` all that came; ``script`` queues
    reactions for the next requests, after which it takes what is right.
    """

    def __init__(self, vendor: str, path: str = "") -> None:
        super().__init__(path)
        handler: Any = self._server.RequestHandlerClass
        handler.do_GET = handler.do_POST
        self.retry_after = "30"
        self.taken: list[Request] = self.messages
        self.requests: list[Request] = []
        self._rules = RULES[vendor]
        self._script: deque[Reaction] = deque()

    def script(self, *reactions: Reaction) -> None:
        """Queue reactions for the next requests."""
        self._script.extend(reactions)

    def wait_for(self, count: int, timeout_s: float = 100.0) -> None:
        """Wait until *count* requests were taken."""
        super().wait_for(count, timeout_s)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("Content-Length", 0))
        request = Request(handler.path, dict(handler.headers), handler.rfile.read(size))
        with self._changed:
            reaction = self._script.popleft() if self._script else Reaction.OK
            self.requests.append(request)
            response = self._respond(reaction, request)
            if reaction in _TAKEN and response[0] < 300:
                self.taken.append(request)
            self._changed.notify_all()
        handler.close_connection = True
        if reaction is Reaction.HANG:
            self._stopping.wait()
        elif reaction is Reaction.DRIP:
            self._drip(handler)
        elif reaction is not Reaction.DROP:
            _write(handler, response)

    def _respond(self, reaction: Reaction, request: Request) -> Response:
        general: dict[Reaction, Callable[[], Response]] = {
            Reaction.SERVER_ERROR: lambda: (500, {}, b"server error"),
            Reaction.UNAVAILABLE: lambda: (503, {"Retry-After": self.retry_after}, b"busy"),
            Reaction.FORBIDDEN: lambda: (403, {}, b""),
            Reaction.HTML: lambda: (200, {}, b"<html>Please log in</html>"),
            Reaction.REDIRECT: lambda: (302, {"Location": "http://169.254.169.254/latest"}, b""),
            Reaction.BOMB: lambda: (200, {"Content-Encoding": "gzip"}, _BOMB),
        }
        if reaction in general:
            return general[reaction]()
        special = self._rules.says(reaction.value, self.retry_after)
        if special is not None:
            return special
        try:
            return self._rules.take(request.path, request.headers, request.body)
        except Refused as refused:
            return refused.response


def _write(handler: BaseHTTPRequestHandler, response: Response) -> None:
    status, headers, body = response
    try:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    except OSError:
        return
