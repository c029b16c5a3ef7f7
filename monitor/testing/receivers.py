"""Real servers on loopback that play Slack and a mail server, for tests and the demo."""

from __future__ import annotations

import json
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer
from typing import Any, Self

_POLL_S = 0.02


class Waiting:
    """A server whose messages can be waited for."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until *count* messages were taken."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.messages) >= count, timeout_s):
                raise TimeoutError(f"not enough messages after {timeout_s} s")


class Serving:
    """Serves from entering to leaving; ``_server`` is there, and bound, before that."""

    _server: TCPServer
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

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

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


class MailReceiver(Serving, Waiting):
    """An SMTP server without logins and encryption; ``messages`` are the mails it took."""

    def __init__(self) -> None:
        super().__init__()
        receiver = self

        class Session(StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 localhost\r\n")
                while (command := self.rfile.readline()[:4].upper()) not in {b"", b"QUIT"}:
                    if command == b"DATA":
                        self.wfile.write(b"354 Go ahead\r\n")
                        if not receiver.take(self.rfile):
                            return
                    self.wfile.write(b"250 OK\r\n")
                self.wfile.write(b"221 Bye\r\n")

        self._server = ThreadingTCPServer(("127.0.0.1", 0), Session)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        """The address for GROUNDWATCH_SMTP_URL."""
        return f"smtp+plain://127.0.0.1:{self.port}"

    def take(self, lines: BufferedIOBase) -> bool:
        """Take a mail up to its line with a dot; return whether it came whole."""
        text = b""
        while (line := lines.readline()) not in {b"", b".\r\n"}:
            text += line.removeprefix(b".")  # the client doubles a dot at the start of a line
        if line:
            mail = message_from_bytes(text, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            with self._changed:
                self.messages.append(mail)
                self._changed.notify_all()
        return bool(line)
