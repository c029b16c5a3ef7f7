"""Real servers on loopback that play Slack and a mail server, for tests and the demo."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from monitor.errors import MissingExtraError

_POLL_S = 0.02


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


class SlackReceiver(Receiver):
    """An HTTP server that takes ``messages``, the payloads sent to a Slack incoming webhook."""

    def __init__(self, path: str = "/services/T000/B000/secret") -> None:
        super().__init__(path)
        self.messages: list[dict[str, Any]] = []

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* messages were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        message = json.loads(handler.rfile.read(int(handler.headers.get("Content-Length", 0))))
        with self._changed:
            answer = self.take(message)
            self._changed.notify_all()
        self.reply(handler, answer)

    def take(self, message: dict[str, Any]) -> Any:
        """Note a message; return how it is answered."""
        self.messages.append(message)

    def reply(self, handler: BaseHTTPRequestHandler, _: Any) -> None:
        """Answer a message as Slack does."""
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"ok")


class MailReceiver(Waiting):
    """An SMTP server; ``messages`` are the mails it took."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[EmailMessage] = []
        self._listening = threading.Event()

    @property
    def url(self) -> str:
        """The address for GROUNDWATCH_SMTP_URL."""
        return f"smtp+plain://127.0.0.1:{self.port}"

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* mails were taken."""
        self._wait(lambda: len(self.messages) >= count, timeout_s)

    def __enter__(self) -> Self:
        try:
            import aiosmtpd.smtp  # noqa: F401, PLC0415 - only where it is used
        except ImportError:
            raise MissingExtraError("the mail receiver") from None
        self._loop = asyncio.new_event_loop()

        async def listen() -> None:
            self._closing = asyncio.Event()
            server = await self._loop.create_server(self.connection, "127.0.0.1", 0)
            self.port: int = server.sockets[0].getsockname()[1]
            self._listening.set()
            async with server:
                await self._closing.wait()

        def serve() -> None:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(listen())

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        if not self._listening.wait(10):
            raise TimeoutError("the mail receiver did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def connection(self) -> Any:
        """Return the protocol of a new connection."""
        from aiosmtpd.smtp import SMTP  # noqa: PLC0415 - as above

        return SMTP(self, loop=self._loop, hostname="localhost")

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        """Take a mail."""
        mail = message_from_bytes(envelope.original_content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        with self._changed:
            self.messages.append(mail)
            self._changed.notify_all()
        return "250 OK"
