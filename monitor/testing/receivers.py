"""Real servers on loopback that play Slack (here) and a mail server, for tests and the demo."""

from __future__ import annotations

import json
import threading
from collections import deque
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from monitor.testing.mail_receiver import MailAnswer, MailReceiver
from monitor.testing.waiting import Waiting

__all__ = ["MailAnswer", "MailReceiver", "SlackAnswer", "SlackReceiver"]

_DRIP_S = 0.02


class SlackAnswer(StrEnum):
    """How the Slack receiver answers one request."""

    OK = "ok"
    RATE_LIMITED = "rate_limited"  #: 429 with Retry-After
    SERVER_ERROR = "server_error"  #: 500
    NO_SERVICE = "no_service"  #: 404: the webhook was deleted
    INVALID_BLOCKS = "invalid_blocks"  #: 400: the form of the message is wrong
    HTML = "html"  #: 200 from somebody who is not Slack
    REDIRECT = "redirect"  #: 302 to elsewhere on the same server
    HANG = "hang"  #: takes the message, then says nothing
    DRIP = "drip"  #: takes the message, then sends a header a byte at a time
    DROP = "drop"  #: takes the message, then hangs up


_TAKEN = {SlackAnswer.OK, SlackAnswer.HANG, SlackAnswer.DRIP, SlackAnswer.DROP}
_PLAIN_ANSWERS: dict[SlackAnswer, tuple[int, str]] = {
    SlackAnswer.OK: (200, "ok"),
    SlackAnswer.RATE_LIMITED: (429, "rate_limited"),
    SlackAnswer.SERVER_ERROR: (500, "server_error"),
    SlackAnswer.NO_SERVICE: (404, "no_service"),
    SlackAnswer.INVALID_BLOCKS: (400, "invalid_blocks"),
    SlackAnswer.HTML: (200, "<html>Please log in</html>"),
    SlackAnswer.REDIRECT: (302, ""),
}


class SlackReceiver(Waiting):
    """
    An HTTP server that answers as Slack's incoming webhooks do.

    ``messages`` are the payloads it took, ``requests`` all that it was sent;
    ``script`` queues answers for the next requests, after which it answers ok.
    """

    def __init__(self, path: str = "/services/T000/B000/secret", retry_after: str = "30") -> None:
        super().__init__()
        self.path = path
        self.retry_after = retry_after
        self.messages: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self._script: deque[SlackAnswer] = deque()

    @property
    def url(self) -> str:
        """The address of the webhook."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"

    def script(self, *answers: SlackAnswer) -> None:
        """Queue answers for the next requests."""
        self._script.extend(answers)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* messages were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Say nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("Content-Length", 0))
        message = json.loads(handler.rfile.read(size))
        with self._changed:
            answer = self._script.popleft() if self._script else SlackAnswer.OK
            self.requests.append(message)
            if answer in _TAKEN:
                self.messages.append(message)
            self._changed.notify_all()
        if answer in _PLAIN_ANSWERS:
            self._reply(handler, answer)
        elif answer is SlackAnswer.HANG:
            self._stopping.wait()
        elif answer is SlackAnswer.DRIP:
            self._drip(handler)
        handler.close_connection = True

    def _reply(self, handler: BaseHTTPRequestHandler, answer: SlackAnswer) -> None:
        status, text = _PLAIN_ANSWERS[answer]
        handler.send_response(status)
        if answer is SlackAnswer.RATE_LIMITED:
            handler.send_header("Retry-After", self.retry_after)
        if answer is SlackAnswer.REDIRECT:
            handler.send_header("Location", "/elsewhere")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self._stopping.wait(_DRIP_S):
                handler.wfile.write(b".")
        except OSError:
            return
