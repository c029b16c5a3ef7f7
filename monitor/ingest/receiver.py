"""The OTLP/HTTP receiver: ``POST /v1/traces``, answered as the protocol says."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from monitor.errors import MissingExtraError, RecordError
from monitor.ingest.otlp import (
    JSON,
    PROTOBUF,
    TooLargeError,
    accepted,
    decode,
    refused,
    unzip,
)
from monitor.ingest.services import Services
from monitor.integrations.spans import Span
from monitor.integrations.traces import Traces

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError:
    raise MissingExtraError("the OTLP receiver", "otlp") from None

MOST_BYTES = 16 * 1024 * 1024
#: Bodies that are being read, taken together; beyond it a client is asked to come again.
_MOST_BYTES_OPEN = 4
_BODY_WITHIN_S = 30.0
_COME_AGAIN = {"Retry-After": "1"}
#: Traces that are open at once, in a process that has nothing else to do.
_MOST_TRACES = 20_000
_MOST_CHARS = 128_000_000
_SWEEP_EVERY_S = 1.0

logger = logging.getLogger("groundwatch.otlp")


class _BusyError(Exception):
    """More is being received than fits."""


class Receiver:
    """
    Takes spans, joins those of a trace, and hands interactions to the hooks of their services.

    A trace's spans come in several requests and from several processes, so a trace is whole when
    nothing of it has come for *wait_s*. With a *token*, senders must bear it.
    """

    def __init__(
        self,
        services: Services,
        *,
        wait_s: float = 60.0,
        most_bytes: int = MOST_BYTES,
        token: str | None = None,
    ) -> None:
        self._awaited = f"Bearer {token}".encode() if token else None
        self._services = services
        self._most_bytes = most_bytes
        self._traces = Traces(wait_s=wait_s, most=_MOST_TRACES, most_chars=_MOST_CHARS)
        self.ignored: Counter[str] = Counter()  #: spans that are left out, by reason
        self.requests = self.spans = self.rejected = self.refused = 0
        self._bytes_open = 0

    def app(self) -> Starlette:
        """Make the application for an ASGI server."""
        return Starlette(
            routes=[
                Route("/v1/traces", self.export, methods=["POST"]),
                Route("/health", self.health, methods=["GET"]),
            ],
            lifespan=self._lifespan,
        )

    async def export(self, request: Request) -> Response:
        """Take one request."""
        if not self._knows(request):
            return Response(refused("send the bearer token", JSON), 401, media_type=JSON)
        return await self._received(request)

    async def _received(self, request: Request) -> Response:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in {PROTOBUF, JSON}:
            message = f"send {PROTOBUF} or {JSON}"
            return Response(refused(message, JSON), 415, media_type=JSON)
        try:
            packed = await self._body(request)
            encoding = request.headers.get("content-encoding", "").strip().lower()
            decoded = decode(unzip(packed, encoding, self._most_bytes), media_type)
        except (TimeoutError, ClientDisconnect):
            return Response(refused("the body did not come", media_type), 408)
        except _BusyError as error:
            self.refused += 1
            return Response(
                refused(str(error), media_type), 503, media_type=media_type, headers=_COME_AGAIN
            )
        except TooLargeError as error:
            return Response(refused(str(error), media_type), 413, media_type=media_type)
        except RecordError as error:
            return Response(refused(str(error), media_type), 400, media_type=media_type)
        self.requests += 1
        self.rejected += decoded.rejected
        for span in decoded.spans:
            self._take(span)
        return Response(accepted(decoded, media_type), media_type=media_type)

    def _knows(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").encode()
        return self._awaited is None or hmac.compare_digest(given, self._awaited)

    async def health(self, request: Request) -> Response:  # noqa: ARG002  # as routes are called
        """Tell what has come and where it went."""
        counts = {
            "requests": self.requests, "spans": self.spans, "rejected": self.rejected,
            "refused": self.refused, "ignored": dict(self.ignored),
        }  # fmt: skip
        return JSONResponse({**counts, "open": len(self._traces), "hooks": self._services.stats()})

    async def _body(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_WITHIN_S):
                async for part in request.stream():
                    size += len(part)
                    self._bytes_open += len(part)
                    if size > self._most_bytes:
                        raise TooLargeError(f"the body is larger than {self._most_bytes} bytes")
                    if self._bytes_open > _MOST_BYTES_OPEN * self._most_bytes:
                        raise _BusyError("too many requests at once: send this one again")
                    parts.append(part)
        finally:
            self._bytes_open -= size
        return b"".join(parts)

    def _take(self, span: Span) -> None:
        self.spans += 1
        try:
            hook = partial(self._services.hook, span.resource)
            reason = self._traces.see(span, hook, now_s=time.monotonic())
            if reason is not None:
                self.ignored[reason] += 1
        except Exception as error:  # noqa: BLE001  # one strange span must not cost the others
            logger.warning("span_failed error=%s", type(error).__name__)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            self._traces.sweep(time.monotonic(), everything=True)
            self._services.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            self._traces.sweep(time.monotonic())
