"""
An app that knows OpenTelemetry and nothing of groundwatch.

Receive:   groundwatch otlp
Run it:    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces python app.py
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def messages(role: str, text: str) -> str:
    """Return one message in the form of the GenAI conventions."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def answer(tracer: trace.Tracer, question: str) -> str:
    """Answer a question, with a span for the retrieval and one for the model."""
    with tracer.start_as_current_span("answer"):
        with tracer.start_as_current_span("retrieve") as span:
            passages = ["A refund takes five working days.", "Delivery is free above 40 euros."]
            span.set_attribute("gen_ai.operation.name", "retrieval")
            documents = [{"content": text} for text in passages]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))
        with tracer.start_as_current_span("chat") as span:
            said = passages[0]
            span.set_attribute("gen_ai.operation.name", "chat")
            span.set_attribute("gen_ai.input.messages", messages("user", question))
            span.set_attribute("gen_ai.output.messages", messages("assistant", said))
        return said


if __name__ == "__main__":
    provider = TracerProvider(resource=Resource({"service.name": "refund-traces"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    question = " ".join(sys.argv[1:]) or "How long does a refund take?"
    print(answer(provider.get_tracer("example"), question))
    provider.shutdown()
