"""What the HTTP servers that play the outside world share: a thread to serve on, and its end."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from monitor.testing.waiting import Waiting

_POLL_S = 0.02
_DRIP_S = 0.02


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

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Begin an answer, and send a header of it a byte at a time."""
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self._stopping.wait(_DRIP_S):
                handler.wfile.write(b".")
        except OSError:
            return
