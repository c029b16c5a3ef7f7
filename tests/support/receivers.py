"""Slack and a mail server on loopback that fail on request, in the ways that they do."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from contextlib import suppress
from email import message_from_bytes, policy
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

from monitor.testing import receivers

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


class SlackReceiver(receivers.SlackReceiver):
    """``script`` queues answers for the next requests, after which it answers ok."""

    def __init__(self, path: str = "/services/T000/B000/secret", retry_after: str = "30") -> None:
        super().__init__(path)
        self.retry_after = retry_after
        self.requests: list[dict[str, Any]] = []  #: all that it was sent
        self._script: deque[SlackAnswer] = deque()

    def script(self, *answers: SlackAnswer) -> None:
        self._script.extend(answers)

    def take(self, message: dict[str, Any]) -> SlackAnswer:
        answer = self._script.popleft() if self._script else SlackAnswer.OK
        self.requests.append(message)
        if answer in _TAKEN:
            self.messages.append(message)
        return answer

    def reply(self, handler: BaseHTTPRequestHandler, answer: SlackAnswer) -> None:
        if answer in _PLAIN_ANSWERS:
            status, text = _PLAIN_ANSWERS[answer]
            handler.send_response(status)
            if answer is SlackAnswer.RATE_LIMITED:
                handler.send_header("Retry-After", self.retry_after)
            if answer is SlackAnswer.REDIRECT:
                handler.send_header("Location", "/elsewhere")
            handler.send_header("Content-Length", str(len(text)))
            handler.end_headers()
            handler.wfile.write(text.encode())
        elif answer is SlackAnswer.HANG:
            self._stopping.wait()
        elif answer is SlackAnswer.DRIP:
            with suppress(OSError):
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not self._stopping.wait(_DRIP_S):
                    handler.wfile.write(b".")
        handler.close_connection = True


class MailAnswer(StrEnum):
    """How the mail receiver treats one mail."""

    OK = "ok"
    LATER = "later"  #: 451 for the recipient: come back later
    REFUSED = "refused"  #: 550 for the recipient: nobody of that name
    DROP = "drop"  #: takes the mail, then hangs up


class MailReceiver(receivers.Waiting):
    """With *tls* it offers STARTTLS, and with *password* a login for any user."""

    url = receivers.MailReceiver.url

    def __init__(self, tls: ssl.SSLContext | None = None, password: str | None = None) -> None:
        super().__init__()
        self._listening = threading.Event()
        self.logins: list[bool] = []
        self._tls = tls
        self._password = password
        self._script: deque[MailAnswer] = deque()

    def script(self, *answers: MailAnswer) -> None:
        """Queue treatments for the next mails."""
        self._script.extend(answers)

    async def handle_RCPT(self, _server, _session, envelope, address, options):  # noqa: N802
        """Take or refuse a recipient."""
        answer = self._script[0] if self._script else MailAnswer.OK
        if answer in {MailAnswer.LATER, MailAnswer.REFUSED}:
            self._script.popleft()
            return "451 come back later" if answer is MailAnswer.LATER else "550 no such user"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server, _session, envelope):  # noqa: N802
        """Take a mail."""
        answer = self._script.popleft() if self._script else MailAnswer.OK
        with self._changed:
            self.messages.append(
                message_from_bytes(envelope.original_content, policy=policy.default)
            )
            self._changed.notify_all()
        if answer is MailAnswer.DROP:
            server.transport.abort()
        return "250 OK"

    def __enter__(self):
        self._loop = asyncio.new_event_loop()

        async def listen():
            self._closing = asyncio.Event()
            server = await self._loop.create_server(self.connection, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self._listening.set()
            async with server:
                await self._closing.wait()

        def serve():
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(listen())

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        assert self._listening.wait(100)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def connection(self) -> SMTP:
        """Return the protocol of a new connection."""
        return SMTP(
            self,
            loop=self._loop,
            hostname="localhost",
            tls_context=self._tls,
            authenticator=None if self._password is None else self._login,
        )

    def _login(self, _server, _session, _envelope, _how, data) -> AuthResult:
        self.logins.append(data.password == str(self._password).encode())
        # `handled=True` on a failure would leave the client without any answer.
        return AuthResult(success=self.logins[-1], handled=False)
