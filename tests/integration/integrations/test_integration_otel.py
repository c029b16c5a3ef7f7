"""The span processor reads what OpenTelemetry's own SDK makes."""

import json
import threading

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

import monitor
from monitor.integrations.otel import InteractionSpanProcessor

RETRIEVER = {
    "openinference.span.kind": "RETRIEVER",
    "input.value": "refund duration",
    "retrieval.documents.0.document.content": "Refunds take five days.",
    "retrieval.documents.0.document.id": "d0",
}
MODEL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.response.model": "m",
    "gen_ai.conversation.id": "s",
    "gen_ai.input.messages": json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}]
    ),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Five days."}]}]
    ),
}


def traced(hook, **options):
    """A tracer whose spans a processor sees, and the processor."""
    resource = Resource({"service.version": "1.2", "deployment.environment.name": "production"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = InteractionSpanProcessor(hook=hook, **options)
    provider.add_span_processor(processor)
    return provider.get_tracer("bot"), processor


@pytest.fixture
def tracer(hook):
    return traced(hook)[0]


def answer(tracer):
    """One request of a RAG app, as instrumentation shows it."""
    with tracer.start_as_current_span("POST /ask") as root:
        with tracer.start_as_current_span("retrieve", attributes=RETRIEVER):
            pass
        with tracer.start_as_current_span("chat m", attributes=MODEL):
            pass
    return format(root.get_span_context().trace_id, "032x")


def test_request_is_recorded_with_its_documents(tracer, recorded):
    trace_id = answer(tracer)
    [it] = recorded()
    assert (it.query, it.output) == ("How long?", "Five days.")
    assert [(context.text, context.id) for context in it.contexts] == [
        ("Refunds take five days.", "d0")
    ]
    assert (it.trace_id, it.session_id) == (trace_id, "s")
    assert (it.release, it.environment) == ("1.2", "production")
    assert it.metadata.pop("latency_ms") > 0
    assert it.metadata == {"model": "m"}


def test_requests_in_threads_are_recorded_separately(tracer, hook, recorded):
    threads = [threading.Thread(target=answer, args=(tracer,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(it.contexts) for it in recorded()] == [1] * 8
    assert hook.stats()["seen"] == 8


def test_messages_in_span_events_are_read(tracer, recorded):
    with tracer.start_as_current_span("chat", attributes={"gen_ai.system": "openai"}) as span:
        span.add_event("gen_ai.user.message", {"content": "How long?"})
        span.add_event("gen_ai.choice", {"message": json.dumps({"content": "Five days."})})
    assert [(it.query, it.output) for it in recorded()] == [("How long?", "Five days.")]


def test_called_service_has_its_own_root(tracer, recorded):
    caller = SpanContext(trace_id=1, span_id=2, is_remote=True, trace_flags=TraceFlags(1))
    context = set_span_in_context(NonRecordingSpan(caller), Context())
    with tracer.start_as_current_span("chat m", context=context, attributes=MODEL):
        pass
    assert [it.trace_id for it in recorded()] == [format(1, "032x")]


def test_streamed_answer_that_ends_after_the_root_is_recorded_at_shutdown(hook, recorded):
    tracer, processor = traced(hook, tags={"lang": "en"})
    with tracer.start_as_current_span("POST /ask"):
        with tracer.start_as_current_span("retrieve", attributes=RETRIEVER):
            pass
        streaming = tracer.start_span("chat m", attributes=MODEL)
    streaming.end()
    assert recorded() == []
    assert processor.force_flush()
    processor.shutdown()
    [it] = recorded()
    assert (it.contexts[0].text, it.tags) == ("Refunds take five days.", {"lang": "en"})


def test_hook_samples_the_same_traces_as_opentelemetrys_sampler(redis_url):
    hook = monitor.Hook(sample_rate=0.5, redis_url=redis_url)
    tracer, _ = traced(hook)
    ids = [answer(tracer) for _ in range(60)]
    sampler = TraceIdRatioBased(0.5)
    theirs = sum(
        sampler.should_sample(None, int(trace_id, 16), "n").decision.is_sampled()
        for trace_id in ids
    )
    stats = hook.stats()
    assert (stats["seen"], stats["sampled"]) == (60, theirs)
    hook.close(0.2)


def test_answer_whose_text_is_redacted_is_counted_as_without_output(tracer, hook):
    hidden = {"openinference.span.kind": "LLM", "output.value": "__REDACTED__"}
    tracer_, processor = traced(hook)
    with tracer_.start_as_current_span("llm", attributes=hidden):
        pass
    processor.shutdown()
    assert hook.stats()["dropped"] == {"no_output": 1}


def test_unrelated_spans_pass_without_a_sampling_decision(unsampled):
    tracer, processor = traced(unsampled)
    with tracer.start_as_current_span("GET /"), tracer.start_as_current_span("SELECT"):
        pass
    assert (unsampled.asked, len(processor._traces)) == (0, 0)


def test_sampling_is_decided_once_for_an_unsampled_trace_and_leaves_no_state(unsampled):
    tracer, processor = traced(unsampled)
    answer(tracer)
    assert (unsampled.asked, unsampled.taken, len(processor._traces)) == (1, [], 0)


def test_internal_error_does_not_reach_the_app(broken):
    tracer, processor = traced(broken)
    assert answer(tracer)
    processor.shutdown()


LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.input": '[{"role": "user", "content": "How long?"}]',
    "langfuse.observation.output": "Five days.",
}


def test_ignored_spans_are_counted_and_logged_once(hook, caplog):
    tracer, _ = traced(hook)
    for _ in range(2):
        for attributes in ({"http.method": "GET"}, {"gen_ai.operation.name": "new"}):
            tracer.start_span("s", attributes=attributes).end()
    assert hook.stats()["ignored"] == {"span_unknown_kind": 2, "span_other": 2}
    [told] = [each for each in caplog.messages if "span_unknown_kind" in each]
    assert "gen_ai.operation.name" in told


def test_spans_of_the_langfuse_sdk_are_recorded(hook, recorded):
    tracer, _ = traced(hook)
    span = {"langfuse.observation.type": "span"}
    with tracer.start_as_current_span("ask", attributes=span):
        tracer.start_span("llm", attributes=LANGFUSE).end()
    [it] = recorded()
    assert (it.query, it.output) == ("How long?", "Five days.")
