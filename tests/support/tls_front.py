"""TLS in front of a server that speaks none, as stunnel would put it there."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class TlsFront:
    """Takes TLS on a port of loopback and passes the bytes on; use it in a ``with``."""

    def __init__(self, context: ssl.SSLContext, *, to_port: int) -> None:
        self._context, self._to_port = context, to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tls-front", daemon=True)
        self._listening = threading.Event()
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._listening.wait(100)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(100)

    def _run(self) -> None:
        # A client that is refused, or leaves in the middle, is what the tests are about.
        self._loop.set_exception_handler(lambda *_: None)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        ways = (_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))
        await asyncio.gather(*ways)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
