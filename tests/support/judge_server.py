"""A judge on loopback: speaks chat completions, judges by word overlap, plays faults on request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from monitor.testing.receivers import Serving
from support.judge_dialects import DIALECTS
from support.judge_replies import SPOILS, completion, judge_by_overlap, obey, spoil

_HANG_S = 60.0

#: Behaviours that are a status with an error body: (status, headers, code, message).
_STATUSES: dict[str, tuple[int, dict[str, str], str, str]] = {
    "401": (401, {}, "invalid_api_key", "Incorrect API key provided: {key}"),
    "403": (403, {}, "access_denied", "This key has no access: {key}"),
    "404": (404, {}, "model_not_found", "The model does not exist"),
    "429": (429, {"Retry-After": "0"}, "rate_limit_exceeded", "Slow down"),
    "429_long": (429, {"Retry-After": "120"}, "rate_limit_exceeded", "Slow down"),
    "429_ms": (429, {"Retry-After-Ms": "5"}, "rate_limit_exceeded", "Slow down"),
    "insufficient_quota": (429, {}, "insufficient_quota", "You exceeded your current quota"),
    "500": (500, {}, "server_error", "Something broke"),
    "503": (503, {}, "overloaded", "Come back later"),
    "503_long": (503, {"Retry-After": "120"}, "overloaded", "Come back later"),
    "504": (504, {}, "timeout", "The upstream server took too long"),
    "402": (402, {}, "insufficient_credits", "Add credits"),
    "json_validate_failed": (400, {}, "json_validate_failed", "Failed to generate JSON"),
    "too_long": (400, {}, "context_length_exceeded", "{too_long}"),
    "filtered": (400, {}, "content_filter", "The prompt was filtered"),
}
#: Behaviours that obey an order in the texts that are judged.
_GULLIBLE = ("gullible", "gullible_in_role")
#: Behaviours that refuse an argument when it is there: (argument, message).
_ARGUMENTS = {
    "no_response_format": ("response_format", "response_format is not supported"),
    "no_max_tokens": ("max_tokens", "Use 'max_completion_tokens' instead"),
    "no_seed": ("seed", "Unrecognized request argument supplied: seed"),
    "no_temperature": ("temperature", "temperature does not support 0 with this model"),
}


class JudgeServer(Serving):
    """
    A real HTTP server that plays an OpenAI-compatible endpoint; use it in a ``with``.

    Unscripted requests are judged by word overlap. ``script`` names what the next
    requests meet instead, one each, such as ``["503", "ok"]``; ``always`` names
    what every unscripted request meets. ``dialect`` is one of ``DIALECTS``; with
    ``most_chars`` every request whose messages have more is too long.
    """

    def __init__(
        self,
        *,
        always: str = "ok",
        model: str | None = None,
        dialect: str = "openai",
        most_chars: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._always = _known(always)
        self.dialect = DIALECTS[dialect]
        self.most_chars = most_chars
        self.model = model  #: model named in answers; None repeats the one asked for
        #: What is answered when nothing else is scripted.
        self.reply: Callable[[dict[str, Any]], dict[str, Any]] = judge_by_overlap
        self.requests: list[dict[str, Any]] = []  #: bodies of all requests, as they came
        self.flooded = 0  #: bytes that ``error_flood`` got rid of
        self._script: deque[str] = deque()
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        server = _Server((host, 0), _Handler)
        server.judge = self
        self._server = server

    @property
    def url(self) -> str:
        """The value for ``OPENAI_BASE_URL``."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self.dialect.path}"

    @property
    def always(self) -> str:
        """What every unscripted request meets."""
        return self._always

    @always.setter
    def always(self, behaviour: str) -> None:
        self._always = _known(behaviour)

    def script(self, behaviours: Iterable[str]) -> None:
        """Queue what the next requests meet, one each."""
        known = [_known(name) for name in behaviours]
        with self._lock:
            self._script.extend(known)

    def clear(self) -> None:
        """Forget what was queued."""
        with self._lock:
            self._script.clear()

    def take(self, request: dict[str, Any]) -> str:
        """Note a request and say what it meets."""
        size = sum(len(str(message.get("content"))) for message in request.get("messages", ()))
        with self._lock:
            self.requests.append(request)
            if self.most_chars is not None and size > self.most_chars:
                return "too_long"
            return self._script.popleft() if self._script else self.always

    def _let_go(self) -> None:
        self.stopping.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # with the usual 5 many callers at once are cut off
    judge: JudgeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up are part of the play."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Write no access log."""

    def do_POST(self) -> None:
        """Answer one chat completion."""
        length = int(self.headers.get("Content-Length", 0))
        request = json.loads(self.rfile.read(length))
        behaviour = self.server.judge.take(request)
        if self.path != f"{self.server.judge.dialect.path}/chat/completions":
            behaviour = "404"
        if behaviour in _STATUSES:
            self._refuse(behaviour)
        elif behaviour in _ARGUMENTS and _ARGUMENTS[behaviour][0] in request:
            argument, message = _ARGUMENTS[behaviour]
            error = self.server.judge.dialect.error(400, "unsupported_value", message, argument)
            self._send(400, error)
        elif behaviour in _WIRE:
            _WIRE[behaviour](self)
        else:
            model = self.server.judge.model or str(request.get("model"))
            judged = obey(behaviour, request) if behaviour in _GULLIBLE else None
            reply = judged or self.server.judge.reply(request)
            payload = completion(json.dumps(reply), request, model)
            self.server.judge.dialect.decorate(payload)
            spoil(behaviour, payload)
            self._send(200, payload)

    def _refuse(self, behaviour: str) -> None:
        status, headers, code, message = _STATUSES[behaviour]
        dialect = self.server.judge.dialect
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        text = message.format(key=key, too_long=dialect.too_long)
        self._send(status, dialect.error(status, code, text, None), headers)

    def _send(self, status: int, payload: object, headers: dict[str, str] | None = None) -> None:
        self._write(status, json.dumps(payload).encode(), "application/json", headers)

    def _write(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def html(self) -> None:
        """Answer like a proxy's login page."""
        self._write(200, b"<html><body>Sign in</body></html>", "text/html")

    def streamed(self) -> None:
        """Answer in events, as an endpoint that can do nothing else."""
        self._write(200, b'data: {"choices": []}\n\ndata: [DONE]\n\n', "text/event-stream")

    def bad_gzip(self) -> None:
        """Call a body packed that is not."""
        self._write(200, b"no gzip at all", "application/json", {"Content-Encoding": "gzip"})

    def hang(self) -> None:
        """Answer nothing until the server stops."""
        self.server.judge.stopping.wait(_HANG_S)
        self.close_connection = True

    def drip(self) -> None:
        """Send a body a byte at a time, for ever."""
        self._drip_body(200)

    def error_drip(self) -> None:
        """Send the body of an error a byte at a time, for ever."""
        self._drip_body(500)

    def drip_header(self) -> None:
        """Send a header a byte at a time, for ever."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(b"x")

    def cut(self) -> None:
        """End in the middle of a body."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"{")
        self.close_connection = True

    def _drip_body(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self._drip(b" ")

    def _drip(self, byte: bytes) -> None:
        while not self.server.judge.stopping.wait(0.02):
            self.wfile.write(byte)
            self.wfile.flush()

    def error_flood(self) -> None:
        """Send an error whose body never ends; ``flooded`` counts its bytes."""
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.close_connection = True
        while not self.server.judge.stopping.is_set():
            self.wfile.write(b" " * 65_536)
            self.server.judge.flooded += 65_536

    def reset(self) -> None:
        """Cut the connection without a word."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def oversized(self) -> None:
        """Send more than any verdict can be."""
        self._write(200, b'{"choices": "' + b"x" * 6_000_000 + b'"}', "application/json")


def _known(behaviour: str) -> str:
    if behaviour not in BEHAVIOURS:
        raise ValueError(f"no such behaviour: {behaviour}; there are {', '.join(BEHAVIOURS)}")
    return behaviour


#: Behaviours that are about the connection.
_WIRE: dict[str, Callable[[_Handler], None]] = {
    "html": _Handler.html,
    "streamed": _Handler.streamed,
    "bad_gzip": _Handler.bad_gzip,
    "hang": _Handler.hang,
    "cut": _Handler.cut,
    "drip": _Handler.drip,
    "drip_header": _Handler.drip_header,
    "error_drip": _Handler.error_drip,
    "error_flood": _Handler.error_flood,
    "reset": _Handler.reset,
    "oversized": _Handler.oversized,
}
#: Everything that ``script`` understands.
BEHAVIOURS = (*SPOILS, *_GULLIBLE, *_WIRE, *_STATUSES, *_ARGUMENTS)
