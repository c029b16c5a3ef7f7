"""The receiver's own process takes what OpenTelemetry's own exporter sends."""

import base64
import gzip
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest
import redis
from opentelemetry._logs import LogRecord
from opentelemetry.context import get_current
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from monitor.queue import names, wire
from support.waiting import wait_until
from workers.supervise import free_port

RETRIEVER = {
    "openinference.span.kind": "RETRIEVER",
    "retrieval.documents.0.document.content": "Refunds take five days.",
}
MODEL = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "How long?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Five days.",
}
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def started(redis_url, *options):
    """A receiver in a process of its own, and its address."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor", "otlp", "--port", str(port), *options],
        env={**os.environ, "GROUNDWATCH_REDIS_URL": redis_url, "GROUNDWATCH_SAMPLE_RATE": "1"},
        stderr=subprocess.PIPE,
    )
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: process.poll() is not None or answers(url), every_s=0.2)
    return process, url


def ended(process):
    """Tell a receiver to end, and look that it did so in good order."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=100)
    assert process.returncode in {0, -signal.SIGTERM}, errors
    assert b"Traceback" not in errors


@pytest.fixture(scope="module")
def shared(redis_urls):
    """A receiver for all tests that do not read its counters, and the address of its Redis."""
    with receiving(url := next(redis_urls)) as receiver:
        yield receiver, url


@pytest.fixture
def receiver(shared):
    receiver, url = shared
    with redis.Redis.from_url(url) as client:
        client.delete(names.SAMPLES)
    return receiver


@pytest.fixture
def redis_of_receiver(shared):
    return shared[1]


@contextmanager
def receiving(redis_url, wait_s=0.3):
    process, url = started(redis_url, "--wait", str(wait_s), "--max-mb", "1")
    try:
        yield url
    finally:
        ended(process)


@pytest.fixture
def fresh_receiver(redis_url):
    with receiving(redis_url) as receiver:
        yield receiver


@pytest.fixture
def patient_receiver(redis_url):
    """One that still waits for a trace when a busy machine sends its log events late."""
    with receiving(redis_url, wait_s=4) as receiver:
        yield receiver


def answers(url):
    try:
        return httpx.get(f"{url}/health").status_code in {200, 401}
    except httpx.TransportError:
        return False


def arrived(redis_url, n):
    """Wait for n interactions in the stream."""
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: client.xlen(names.SAMPLES) >= n)
        return [wire.decode(fields).interaction for _, fields in client.xrange(names.SAMPLES)]


def exporting(url, service, **options):
    """A tracer of a service whose spans go to the receiver, one request a span."""
    exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", **options)
    provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("bot")


def test_exported_spans_are_joined_across_services_and_recorded(receiver, redis_of_receiver):
    bot = exporting(receiver, "support-bot")
    search = exporting(receiver, "search", compression=Compression.Gzip)
    with bot.start_as_current_span("POST /ask") as root:
        with search.start_as_current_span("retrieve", attributes=RETRIEVER):
            pass
        with bot.start_as_current_span("llm", attributes=MODEL):
            pass
    [it] = arrived(redis_of_receiver, 1)
    assert (it.app, it.query, it.output) == ("support-bot", "How long?", "Five days.")
    assert [context.text for context in it.contexts] == ["Refunds take five days."]
    assert it.trace_id == format(root.get_span_context().trace_id, "032x")


def test_slow_answer_keeps_its_documents_and_is_recorded_once(receiver, redis_of_receiver):
    bot = exporting(receiver, "support-bot")
    with bot.start_as_current_span("POST /ask"):
        with bot.start_as_current_span("retrieve", attributes=RETRIEVER):
            pass
        time.sleep(1.5)  # longer than a trace that has its answer is waited for
        with bot.start_as_current_span("llm", attributes=MODEL):
            pass
        [it] = arrived(redis_of_receiver, 1)
        assert [context.text for context in it.contexts] == ["Refunds take five days."]
        late = {**MODEL, "llm.output_messages.0.message.content": "A title"}
        with bot.start_as_current_span("llm", attributes=late):
            pass
    with bot.start_as_current_span("another trace", attributes=MODEL):
        pass
    assert [it.output for it in arrived(redis_of_receiver, 2)] == ["Five days.", "Five days."]


def test_open_traces_are_delivered_when_the_process_is_terminated(redis_url):
    process, url = started(redis_url, "--app", "fixed")
    with exporting(url, "bot").start_as_current_span("llm", attributes=MODEL):
        pass
    assert httpx.get(f"{url}/health").json()["open"] == 1
    ended(process)
    assert [it.app for it in arrived(redis_url, 1)] == ["fixed"]


def test_responses_follow_the_otlp_protocol(fresh_receiver):
    def post(body, **headers):
        return httpx.post(f"{fresh_receiver}/v1/traces", content=body, headers=headers)

    accepted = post(b"", **PROTOBUF)
    assert (accepted.status_code, accepted.content) == (200, b"")
    assert accepted.headers["content-type"] == PROTOBUF["Content-Type"]
    half = post(
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00", "spanId": "00"}]}]}]}',
        **{"Content-Type": "application/json; charset=utf-8"},
    )
    assert half.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert post(b"\xff\xff", **PROTOBUF).status_code == 400
    assert post(b"x", **PROTOBUF, **{"Content-Encoding": "gzip"}).status_code == 400
    assert post(b"x", **{"Content-Type": "text/plain"}).status_code == 415
    assert post(b"x" * 2_000_000, **PROTOBUF).status_code == 413
    bomb = gzip.compress(b"\0" * 20_000_000)
    assert post(bomb, **PROTOBUF, **{"Content-Encoding": "gzip"}).status_code == 413
    assert httpx.get(f"{fresh_receiver}/v1/traces").status_code == 405
    assert ExportTraceServiceResponse.FromString(accepted.content) is not None
    assert httpx.get(f"{fresh_receiver}/health").json()["rejected"] == 1


def test_requests_without_the_required_token_get_401(redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_OTLP_TOKEN", "secret")
    process, url = started(redis_url)
    shown = (
        {}, {"Authorization": "Bearer other"}, {"Authorization": "Bearer secret"},
        {"Authorization": basic("public", "secret")}, {"Authorization": basic("secret", "no")},
        {"Authorization": "Basic %%%"}, {"x-api-key": "secret"},
    )  # fmt: skip
    codes = [
        httpx.post(f"{url}/v1/traces", headers=PROTOBUF | headers, content=b"").status_code
        for headers in shown
    ]
    health = [httpx.get(f"{url}/health", headers=headers).status_code for headers in shown[:3]]
    ended(process)
    assert codes == [401, 401, 200, 200, 401, 401, 200]
    assert health == [401, 401, 200]


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_foreign_web_page_cannot_post_without_a_token(receiver, headers):
    sent = httpx.post(f"{receiver}/v1/traces", headers=PROTOBUF | headers, content=b"")
    read = httpx.get(f"{receiver}/health", headers=headers)
    assert (sent.status_code, read.status_code) == (421, 421)
    assert "support-bot" not in read.text


def test_langfuse_export_path_is_accepted(receiver, redis_of_receiver):
    exporter = OTLPSpanExporter(endpoint=f"{receiver}/api/public/otel/v1/traces")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("bot").start_as_current_span("llm", attributes=MODEL):
        pass
    [it] = arrived(redis_of_receiver, 1)
    assert it.output == "Five days."


def test_texts_in_log_events_are_joined_with_the_spans(patient_receiver, redis_url):
    bot = exporting(patient_receiver, "support-bot")
    provider = LoggerProvider(
        resource=Resource({"service.name": "support-bot"}), shutdown_on_exit=False
    )
    exporter = OTLPLogExporter(endpoint=f"{patient_receiver}/v1/logs")
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    log = provider.get_logger("openai")
    with bot.start_as_current_span("POST /ask"):
        with bot.start_as_current_span("retrieve", attributes=RETRIEVER):
            pass
        with bot.start_as_current_span(
            "chat", attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
        ):
            for name, body in (
                ("gen_ai.user.message", {"content": "Hello"}),
                ("gen_ai.assistant.message", {"content": "Good day."}),
                ("gen_ai.user.message", {"content": "How long?"}),
                ("gen_ai.choice", {"index": 0, "message": {"content": "Five days."}}),
            ):
                log.emit(LogRecord(event_name=name, body=body, context=get_current()))
            log.emit(LogRecord(body="a line of the app", context=get_current()))
    provider.force_flush()
    [it] = arrived(redis_url, 1)
    assert (it.app, it.query, it.output) == ("support-bot", "How long?", "Five days.")
    assert [context.text for context in it.contexts] == ["Refunds take five days."]
    assert it.metadata["model"] == "m-1"
    assert httpx.get(f"{patient_receiver}/health").json()["ignored"] == {
        "log_other": 1,
        "span_other": 1,
    }


@pytest.fixture
def refused(warm_groundwatch):
    """Start a receiver that ends at once; return its exit code and what it said."""

    def start(*options):
        done = subprocess.run(
            [warm_groundwatch, "otlp", *options],
            capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        return done.returncode, done.stderr

    return start


def test_receiver_listens_on_other_addresses_only_with_a_token(refused, redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    code, said = refused("--host", "192.0.2.1")
    assert (code, "GROUNDWATCH_OTLP_TOKEN" in said) == (3, True)


def test_exporter_receives_a_success_response(receiver):
    provider = TracerProvider(shutdown_on_exit=False)
    span = provider.get_tracer("bot").start_span("llm", attributes=MODEL)
    span.end()
    exporter = OTLPSpanExporter(endpoint=f"{receiver}/v1/traces")
    assert exporter.export([span]) is SpanExportResult.SUCCESS


def test_otlp_command_refuses_an_invalid_app_name(refused):
    code, said = refused("--app", "a\nb")
    assert (code, "control character" in said) == (2, True)


def test_port_in_use_is_reported_in_one_line(refused, receiver):
    code, said = refused("--port", receiver.rpartition(":")[2])
    assert code != 0
    assert "Address already in use" in said


def test_health_endpoint_counts_ignored_spans(fresh_receiver):
    bot = exporting(fresh_receiver, "support-bot")
    with bot.start_as_current_span("llm", attributes={"gen_ai.operation.name": "new"}):
        pass
    with bot.start_as_current_span("GET /"):
        pass
    health = httpx.get(f"{fresh_receiver}/health").json()
    assert health["ignored"] == {"span_unknown_kind": 1, "span_other": 1}
    assert health["hooks"] == []
