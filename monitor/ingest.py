"""
The OTLP/HTTP receiver: traces and log events, answered as the protocol says.

For apps that already tell somebody: it samples through a hook as the app would.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hmac
import io
import json
import logging
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

from monitor.errors import MissingExtraError, RecordError
from monitor.hook import Hook
from monitor.integrations.spans import Span, error_of
from monitor.integrations.traces import Traces
from monitor.queue import names
from monitor.settings.kinds import is_addressed_here

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError, Message
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # has no types
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsServiceRequest,
        ExportLogsServiceResponse,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )
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
#: Services with a hook of their own; what further ones send counts as `OTHER`'s.
MOST_SERVICES = 100
OTHER = "other-services"
#: Where exporters send traces: OTLP's own path, and those of vendors whose SDKs fix theirs.
_TRACES = ("/v1/traces", "/api/public/otel/v1/traces", "/otel/v1/traces")
_LONGEST_NAME = 200

logger = logging.getLogger("groundwatch.otlp")


class Services:
    """A hook for each service that sends spans; its app is ``service.name`` unless one is fixed."""

    def __init__(self, app: str | None = None, make: Callable[..., Hook] = Hook) -> None:
        self._app = app
        self._make = make
        self._hooks: dict[str, Hook] = {}

    def hook(self, resource: Mapping[str, Any]) -> Hook:
        """Return the hook of the service that a resource describes."""
        name = self._app or ""
        if not name:  # without one it is the environment's
            service = resource.get("service.name")
            text = service if isinstance(service, str) else ""
            name = "".join(char for char in text if char.isprintable())[:_LONGEST_NAME]
            if service == names.DOCTOR_APP:  # that app counts nowhere: no sender may choose it
                name = OTHER
        found = self._hooks.get(name)
        if found is None:
            if len(self._hooks) >= MOST_SERVICES:
                name = OTHER
            found = self._hooks.setdefault(name, self._make(**({"app": name} if name else {})))
        return found

    def stats(self) -> list[dict[str, Any]]:
        """Return what has happened, hook by hook."""
        return [hook.stats() for hook in self._hooks.values()]

    def close(self, timeout: float = 2.0) -> bool:
        """Deliver what can be delivered within *timeout*; True when all was."""
        until_s = time.monotonic() + timeout
        hooks = self._hooks.values()
        delivered = [hook.close(max(0.0, until_s - time.monotonic())) for hook in hooks]
        return all(delivered)


class _BusyError(Exception):
    """More is being received than fits."""


class OtlpReceiver:
    """
    Takes spans, joins those of a trace, and hands interactions to the hooks of their services.

    A trace's spans come in several requests and from several processes, so a trace is whole when
    no span has arrived for *wait_s*. With a *token*, senders must show it: as a bearer token,
    as the password of basic authentication, or as ``x-api-key``. Without one, only what is
    addressed to this machine itself is answered, and nothing that a web page sends: neither
    can then be reached by a page whose name was bound to this address.
    """

    def __init__(
        self,
        services: Services,
        *,
        wait_s: float = 60.0,
        most_bytes: int = MOST_BYTES,
        token: str | None = None,
    ) -> None:
        self._token = token
        self._services = services
        self._most_bytes = most_bytes
        self._traces = Traces(wait_s=wait_s, most=_MOST_TRACES, most_chars=_MOST_CHARS)
        self.ignored: Counter[str] = Counter()  #: spans that are left out, by reason
        self.requests = self.spans = self.rejected = self.refused = 0
        self._bytes_open = 0

    def app(self) -> Starlette:
        """Make the application for an ASGI server."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(_SWEEP_EVERY_S)
                self._traces.sweep(time.monotonic())

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            sweeper = asyncio.create_task(sweep())
            try:
                yield
            finally:
                sweeper.cancel()
                self._traces.sweep(time.monotonic(), everything=True)
                self._services.close()

        return Starlette(
            routes=[
                *(Route(path, self.export, methods=["POST"]) for path in _TRACES),
                Route("/v1/logs", partial(self.export, kind="logs"), methods=["POST"]),
                Route("/health", self.health, methods=["GET"]),
            ],
            lifespan=lifespan,
        )

    async def export(self, request: Request, kind: Signal = "traces") -> Response:
        """Take one request."""
        if stranger := self._stranger(request):
            return stranger
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in {PROTOBUF, JSON}:
            message = f"send {PROTOBUF} or {JSON}"
            return Response(refused(message, JSON), 415, media_type=JSON)
        try:
            packed = await self._body(request)
            encoding = request.headers.get("content-encoding", "").strip().lower()
            plain = unzip(packed, encoding, self._most_bytes)
            decoded = decode(plain, media_type, kind)
        except (TimeoutError, ClientDisconnect):
            return Response(refused("the body did not come", media_type), 408)
        except _BusyError as error:
            self.refused += 1
            answer = refused(str(error), media_type)
            return Response(answer, 503, media_type=media_type, headers=_COME_AGAIN)
        except RecordError as error:
            status = 413 if isinstance(error, TooLargeError) else 400
            return Response(refused(str(error), media_type), status, media_type=media_type)
        self.requests += 1
        self.rejected += decoded.rejected
        self.ignored += Counter(log_other=decoded.others)
        for span in decoded.spans:
            self.spans += 1
            try:
                hook = partial(self._services.hook, span.resource)
                reason = self._traces.see(span, hook, now_s=time.monotonic())
                if reason is not None:
                    self.ignored[reason] += 1
            except Exception as error:  # noqa: BLE001  # one strange span must not cost the others
                logger.warning("span_failed error=%s", type(error).__name__)
        return Response(accepted(decoded, media_type), media_type=media_type)

    def _stranger(self, request: Request) -> Response | None:
        """Return the refusal of a request that is not for us; None if it is."""
        if self._token is None:
            host = request.headers.get("host", "localhost")
            if not is_addressed_here(host) or "origin" in request.headers:
                message = "without a token only programs of this machine are answered"
                return Response(refused(message, JSON), 421, media_type=JSON)
            return None
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                given = ""
        shown = given or request.headers.get("x-api-key", "")
        if hmac.compare_digest(shown.encode(), self._token.encode()):
            return None
        return Response(refused("send the bearer token", JSON), 401, media_type=JSON)

    async def health(self, request: Request) -> Response:
        """Return what has come and where it went."""
        if stranger := self._stranger(request):
            return stranger
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


# --- the protocol: both encodings read, spans made, answers ---

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
_ID_BYTES = {"trace_id": 16, "span_id": 8}
_ID_KEYS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
#: google.rpc.Code of a request that cannot be read.
_INVALID_ARGUMENT = 3
#: StatusCode of a span that failed.
_ERROR = 2
_DEEPEST = 20
_UNREADABLE = (
    *(DecodeError, json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError),
)
_MISTAKES_SHOWN = 3

Signal = Literal["traces", "logs"]


class TooLargeError(RecordError):
    """The request is larger than the receiver takes."""


class Decoded(NamedTuple):
    """
    What a request holds.

    ``rejected`` spans are broken, as ``mistakes`` says; ``others`` are log records that tell
    of no language model.
    """

    spans: list[Span]
    rejected: int
    mistakes: str
    signal: Signal
    others: int = 0


def unzip(body: bytes, encoding: str, limit: int) -> bytes:
    """
    Undo the content encoding, never making more than *limit* bytes.

    Raise TooLargeError if there are more, RecordError if the encoding is unknown or the data is
    broken.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding != "gzip":
        raise RecordError("unknown content encoding: send gzip, or none")
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(body)).read(limit + 1)
    except EOFError:
        raise RecordError("the gzip data ends too early") from None
    except (OSError, zlib.error):
        raise RecordError("the body is not gzip") from None
    if len(plain) > limit:
        raise TooLargeError(f"the body is larger than {limit} bytes when unpacked")
    return plain


def decode(body: bytes, media_type: str, signal: Signal = "traces") -> Decoded:
    """
    Read a request in either encoding.

    Of logs, those with a trace are read: instrumentations write what was asked and said as
    events, each a log record. Those of one span come back as one span of a model's call.

    Raises
    ------
    RecordError
        If it cannot be read; the message holds nothing of its content.
    """
    request = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
    problem = f"the body is no {request.DESCRIPTOR.name}"
    try:
        if media_type == JSON:
            document = json.loads(body)
            if not isinstance(document, dict):
                raise RecordError(problem)
            json_format.ParseDict(_with_bytes(document), request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
    except _UNREADABLE:
        raise RecordError(problem) from None
    return _decoded(request) if signal == "traces" else _decoded_logs(request)


def accepted(decoded: Decoded, media_type: str) -> bytes:
    """Answer a request that was taken, wholly or in part."""
    if decoded.signal == "logs":
        return _encoded(ExportLogsServiceResponse(), media_type)
    response = ExportTraceServiceResponse()
    if decoded.rejected:
        response.partial_success.rejected_spans = decoded.rejected
        response.partial_success.error_message = decoded.mistakes
    return _encoded(response, media_type)


def refused(message: str, media_type: str) -> bytes:
    """Answer a request that cannot be taken."""
    return _encoded(Status(code=_INVALID_ARGUMENT, message=message), media_type)


def _encoded(message: Message, media_type: str) -> bytes:
    if media_type == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return bytes(message.SerializeToString())


def _decoded(request: Any) -> Decoded:
    spans: list[Span] = []
    mistakes: list[str] = []
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        for span in chain.from_iterable(scope.spans for scope in resource_spans.scope_spans):
            for name, length in _ID_BYTES.items():
                value = getattr(span, name)
                if len(value) != length or not any(value):
                    mistakes.append(f"{name} should be {length} bytes, not all of them zero")
                    break
            else:
                attributes = _attributes(span.attributes)
                events = [(event.name, _attributes(event.attributes)) for event in span.events]
                took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
                error = error_of(span.status.code == _ERROR, attributes, events)
                spans.append(Span(
                    span.trace_id.hex(), not span.parent_span_id, span.name, attributes, events,
                    resource, took_ms, error,
                ))  # fmt: skip
    shown = "; ".join(sorted(set(mistakes))[:_MISTAKES_SHOWN])
    return Decoded(spans, len(mistakes), shown, "traces")


def _decoded_logs(request: Any) -> Decoded:
    spans: list[Span] = []
    others = 0
    for resource_logs in request.resource_logs:
        resource = _attributes(resource_logs.resource.attributes)
        events: dict[tuple[bytes, bytes], list[tuple[str, dict[str, Any]]]] = {}
        for record in chain.from_iterable(scope.log_records for scope in resource_logs.scope_logs):
            attributes = _attributes(record.attributes)
            name = getattr(record, "event_name", "") or str(attributes.get("event.name", ""))
            if len(record.trace_id) != _ID_BYTES["trace_id"] or not name.startswith("gen_ai."):
                others += 1
                continue
            body = _plain(record.body)
            said = body if isinstance(body, dict) else {"content": body}
            place = (record.trace_id, record.span_id)
            events.setdefault(place, []).append((name, {**attributes, **said}))
        chat = {"gen_ai.operation.name": "chat"}
        spans += [
            Span(trace_id.hex(), is_root=False, name="", attributes=chat, events=said_then,
                 resource=resource)
            for (trace_id, _), said_then in events.items()
        ]  # fmt: skip
    return Decoded(spans, 0, "", "logs", others)


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: Any, depth: int = 0) -> Any:
    """Turn an AnyValue into a plain one."""
    kind = value.WhichOneof("value")
    if kind is None or depth > _DEEPEST:
        return None
    found = getattr(value, kind)
    if kind == "array_value":
        return [_plain(item, depth + 1) for item in found.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value, depth + 1) for pair in found.values}
    return found


def _with_bytes(request: Any) -> Any:
    """Turn ids from hexadecimal digits, as OTLP has them in JSON, to what protobuf's JSON has."""
    if isinstance(request, list):
        return [_with_bytes(item) for item in request]
    if not isinstance(request, dict):
        return request
    plain = {}
    for key, value in request.items():
        plain[key] = _with_bytes(value)
        if key in _ID_KEYS and isinstance(value, str):
            try:
                plain[key] = base64.b64encode(binascii.unhexlify(value)).decode()
            except (binascii.Error, ValueError):
                plain[key] = ""  # of the wrong length, and so the span is rejected
    return plain
