"""A TCP proxy in front of Redis that drips on request: a byte now and then."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self

from workers.supervise import free_port

_CHUNK = 65_536


class DrippingProxy:
    """Passes bytes on; while ``slow`` is set, one at a time, twenty a second."""

    def __init__(self, port: int) -> None:
        self._to, self._port = port, free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.slow = threading.Event()
        self._server = socket.create_server(("127.0.0.1", self._port))

    def __enter__(self) -> Self:
        """Begin to listen."""
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self._server.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self._server.accept()
                outside = socket.create_connection(("127.0.0.1", self._to))
                for pair in ((inside, outside), (outside, inside)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                for at in range(len(chunk)):
                    if not self.slow.is_set():
                        target.sendall(chunk[at:])
                        break
                    target.sendall(chunk[at : at + 1])
                    time.sleep(0.05)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
