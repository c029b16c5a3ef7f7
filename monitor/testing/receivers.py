"""Real servers on loopback that play Slack (here) and a mail server, for tests and the demo."""

from __future__ import annotations

import json
from collections import deque
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any

from monitor.testing.mail_receiver import MailAnswer, MailReceiver
from monitor.testing.serving import Receiver

__all__ = ["MailAnswer", "MailReceiver", "SlackAnswer", "SlackReceiver"]


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


class SlackReceiver(Receiver):
    """
    An HTTP server that answers as Slack's incoming webhooks do.

    ``messages`` are the payloads it took, ``requests`` all that it was sent;
    ``script`` queues answers for the next requests, after which it answers ok.
    """

    def __init__(self, path: str = "/services/T000/B000/secret", retry_after: str = "30") -> None:
        super().__init__(path)
        self.retry_after = retry_after
        self.messages: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self._script: deque[SlackAnswer] = deque()

    def script(self, *answers: SlackAnswer) -> None:
        """Queue answers for the next requests."""
        self._script.extend(answers)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* messages were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

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
