"""OTLP's requests of traces and logs: read both encodings, make spans, answer as it says."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable
from itertools import chain
from typing import Any, Literal, NamedTuple

from monitor.errors import MissingExtraError, RecordError
from monitor.integrations.spans import Span, error_of

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
except ModuleNotFoundError:
    raise MissingExtraError("the OTLP receiver", "otlp") from None

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

    Raises
    ------
    TooLargeError
        If there are more.
    RecordError
        If the encoding is unknown or the data is broken.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding != "gzip":
        raise RecordError("unknown content encoding: send gzip, or none")
    plain = b""
    while body:  # a member of the file each time; there may be several
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            plain += unpacker.decompress(body, limit + 1 - len(plain))
        except zlib.error:
            raise RecordError("the body is not gzip") from None
        if len(plain) > limit:
            raise TooLargeError(f"the body is larger than {limit} bytes when unpacked")
        if not unpacker.eof:
            raise RecordError("the gzip data ends too early")
        body = unpacker.unused_data
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
