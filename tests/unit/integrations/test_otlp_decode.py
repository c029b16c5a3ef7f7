"""OTLP's two encodings give the same spans; what cannot be read is refused without its content."""

import gzip
import json

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from monitor.errors import RecordError
from monitor.ingest import (
    JSON,
    PROTOBUF,
    TooLargeError,
    accepted,
    decode,
    refused,
    unzip,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def request(**span):
    """A request with one span, in OTLP's JSON."""
    return {
        "resourceSpans": [{
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "bot"}}]
            },
            "scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": SPAN, "name": "n", **span}]}],
        }]
    }  # fmt: skip


def as_json(request):
    return json.dumps(request).encode()


def in_protobuf(**fields):
    message = ExportTraceServiceRequest()
    span = (
        message.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN))
    )
    for name, value in fields.items():
        setattr(span, name, value)
    return message


def test_span_is_read_from_json_with_its_values():
    values = {
        "a": {"stringValue": "text"}, "b": {"intValue": "7"}, "c": {"boolValue": True},
        "d": {"arrayValue": {"values": [{"doubleValue": 0.5}]}},
        "e": {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}},
        "f": {},
    }  # fmt: skip
    attributes = [{"key": key, "value": value} for key, value in values.items()]
    events = [{"name": "said", "attributes": attributes[:1]}]
    body = as_json(request(attributes=attributes, events=events, parentSpanId=SPAN, later=1))
    [span] = decode(body, JSON).spans
    assert (span.trace_id, span.is_root, span.resource) == (TRACE, False, {"service.name": "bot"})
    assert span.attributes == {
        "a": "text", "b": 7, "c": True, "d": [0.5], "e": {"k": "v"}, "f": None,
    }  # fmt: skip
    assert span.events == [("said", {"a": "text"})]


def test_span_is_read_from_protobuf():
    [span] = decode(in_protobuf().SerializeToString(), PROTOBUF).spans
    assert (span.trace_id, span.is_root) == (TRACE, True)


@pytest.mark.parametrize("wrong", [{"traceId": "0" * 32}, {"traceId": "ab"}, {"spanId": "zz"}])
def test_span_without_a_valid_id_is_rejected_and_counted(wrong):
    two = request(**wrong)
    two["resourceSpans"].append(request()["resourceSpans"][0])
    decoded = decode(as_json(two), JSON)
    assert (len(decoded.spans), decoded.rejected) == (1, 1)
    response = ExportTraceServiceResponse.FromString(accepted(decoded, PROTOBUF))
    assert response.partial_success.rejected_spans == 1
    assert "bytes" in response.partial_success.error_message


def test_full_success_has_no_partial_success():
    decoded = decode(as_json(request()), JSON)
    assert accepted(decoded, JSON) == b"{}"
    assert accepted(decoded, PROTOBUF) == b""


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"\xff\xff secret", PROTOBUF), (b"secret", JSON), (b"[1]", JSON), (b"\xff", JSON),
        (b'{"resourceSpans": "secret"}', JSON), (b"[" * 100_000, JSON),
    ],
)  # fmt: skip
def test_unreadable_body_is_refused_without_quoting_it(body, media_type):
    with pytest.raises(RecordError) as caught:
        decode(body, media_type)
    assert "secret" not in str(caught.value)


def test_refusal_is_encoded_like_the_request():
    assert json.loads(refused("no", JSON)) == {"code": 3, "message": "no"}
    assert Status.FromString(refused("no", PROTOBUF)).message == "no"


def test_gzip_is_unpacked():
    assert unzip(gzip.compress(b"plain"), "gzip", 5) == b"plain"
    assert unzip(b"plain", "", 5) == unzip(b"plain", "identity", 5) == b"plain"


def test_decompression_bomb_is_refused():
    with pytest.raises(TooLargeError):
        unzip(gzip.compress(b"\0" * 50_000_000), "gzip", 1_000_000)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(b"x", "br"), (b"no gzip", "gzip"), (gzip.compress(b"ab", mtime=0)[:-4], "gzip")],
)
def test_other_and_broken_encodings_are_refused(body, encoding):
    with pytest.raises(RecordError):
        unzip(body, encoding, 1_000)


def test_all_members_of_a_gzip_are_unpacked():
    members = gzip.compress(b"pl") + gzip.compress(b"ain")
    assert unzip(members, "gzip", 5) == b"plain"
    with pytest.raises(TooLargeError):
        unzip(members, "gzip", 4)
    with pytest.raises(RecordError):
        unzip(members + b"more", "gzip", 100)


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"3"])
def test_json_that_is_no_object_is_refused(body):
    with pytest.raises(RecordError):
        decode(body, JSON)
