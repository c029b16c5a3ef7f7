"""Real servers on loopback that play Slack and a mail server, for tests and the demo."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from monitor.errors import MissingExtraError

_POLL_S = 0.02
_DRIP_S = 0.02


class Waiting:
    """A server whose messages can be waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopping = threading.Event()

    def _wait(self, arrived: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(arrived, timeout_s):
                raise TimeoutError(f"not enough messages after {timeout_s} s")


class Serving:
    """Serves from entering to leaving; ``_server`` is there, and bound, before that."""

    _server: ThreadingHTTPServer
    _thread: threading.Thread

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _let_go(self) -> None:
        """Release who is kept waiting, before the end."""


class Receiver(Serving, Waiting):
    """Takes what is posted to it; who makes one says how each request is answered."""

    def __init__(self, path: str, *, gets: bool = False) -> None:
        super().__init__()
        self.path = path
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

            def do_GET(self) -> None:
                if gets:
                    receiver._answer(self)
                else:
                    self.send_error(501)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Say nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def _let_go(self) -> None:
        self._stopping.set()


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


class MailReceiver(Waiting):
    """
    An SMTP server; ``messages`` are the mails it took.

    With *tls* it offers STARTTLS, and with *password* a login for any user.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, password: str | None = None) -> None:
        super().__init__()
        self.logins: list[bool] = []
        self._tls = tls
        self._password = password
        self.messages: list[EmailMessage] = []
        self._script: deque[MailAnswer] = deque()
        self._listening = threading.Event()

    @property
    def url(self) -> str:
        """The address for GROUNDWATCH_SMTP_URL."""
        return f"smtp+plain://127.0.0.1:{self.port}"

    def script(self, *answers: MailAnswer) -> None:
        """Queue treatments for the next mails."""
        self._script.extend(answers)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* mails were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

    def __enter__(self) -> Self:
        try:
            import aiosmtpd.smtp  # noqa: F401, PLC0415 - only where it is used
        except ImportError:
            raise MissingExtraError("the mail receiver") from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        if not self._listening.wait(10):
            raise TimeoutError("the mail receiver did not start")
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        """Take or refuse a recipient."""
        answer = self._script[0] if self._script else MailAnswer.OK
        if answer in {MailAnswer.LATER, MailAnswer.REFUSED}:
            self._script.popleft()
            return "451 come back later" if answer is MailAnswer.LATER else "550 no such user"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Take a mail."""
        answer = self._script.popleft() if self._script else MailAnswer.OK
        mail = message_from_bytes(envelope.original_content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        with self._changed:
            self.messages.append(mail)
            self._changed.notify_all()
        if answer is MailAnswer.DROP:
            server.transport.abort()
        return "250 OK"

    def _login(self, _server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult  # noqa: PLC0415 - as above

        self.logins.append(data.password == str(self._password).encode())
        # `handled=True` on a failure would leave the client without any answer.
        return AuthResult(success=self.logins[-1], handled=False)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        from aiosmtpd.smtp import SMTP  # noqa: PLC0415 - as above

        self._closing = asyncio.Event()

        def connection() -> SMTP:
            return SMTP(
                self,
                loop=self._loop,
                hostname="localhost",
                tls_context=self._tls,
                authenticator=None if self._password is None else self._login,
            )

        server = await self._loop.create_server(connection, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._listening.set()
        async with server:
            await self._closing.wait()
