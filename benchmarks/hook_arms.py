"""The SDKs that benchmarks/hook.py compares, each as its users would call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

#: What to import to use each one; what is not installed is left out.
IMPORTS = {
    "groundwatch": "import monitor",
    "opentelemetry": "import opentelemetry.sdk.trace.export,"
    " opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "langfuse": "import langfuse",
    "sentry": "import sentry_sdk",
}


def bare(query: str) -> str:
    """Stand for the function that is watched."""
    return query


class Empty:
    """The floor: a call that does nothing, with the signature of ours."""

    decorated = staticmethod(bare)

    def __init__(self, rate: float, url: str) -> None:
        pass

    @staticmethod
    def call(  # noqa: PLR0913
        *, output: object, query: object = None, contexts: object = None,
        tool_calls: object = None, expected: object = None, trace_id: object = None,
        session_id: object = None, user_id: object = None, release: object = None,
        environment: object = None, tags: object = None, metadata: object = None,
        mask: object = None, id: object = None, label: object = None,  # noqa: A002
    ) -> None:  # fmt: skip
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""


class Groundwatch(Empty):
    """Ours, delivering to a real Redis."""

    def __init__(self, rate: float, url: str) -> None:
        import monitor  # noqa: PLC0415

        self.hook = monitor.Hook(
            app="benchmark", sample_rate=rate, redis_url=url, queue_limit=1_000_000
        )
        self.call = self.hook.sample  # type: ignore[method-assign]
        self.decorated = self.hook.watch(bare)  # type: ignore[method-assign]

    def flush(self) -> None:
        """Wait until all has been delivered."""
        self.hook.flush(timeout=10.0)


class OpenTelemetry:
    """A span with three attributes, exported over HTTP."""

    def __init__(self, rate: float, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415

        self._provider = TracerProvider(sampler=TraceIdRatioBased(rate))
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("benchmark")
        self.decorated: Callable[[str], str] = self._tracer.start_as_current_span("answer")(bare)

    def call(self, *, query: str, contexts: list[str], output: str) -> None:
        """Trace one interaction."""
        with self._tracer.start_as_current_span("answer") as span:
            if span.is_recording():
                span.set_attribute("query", query)
                span.set_attribute("contexts", contexts)
                span.set_attribute("output", output)

    def flush(self) -> None:
        """Wait until all has been delivered."""
        self._provider.force_flush(10_000)


class Langfuse:
    """A span with input and output."""

    def __init__(self, rate: float, url: str) -> None:
        import langfuse  # noqa: PLC0415

        # Some versions take a rate of 0 for "not given" and sample everything.
        self._client = langfuse.Langfuse(
            public_key="pk",
            secret_key="sk",  # noqa: S106  # nobody checks it
            host=url,
            sample_rate=rate or 1e-9,
        )
        self.decorated: Callable[[str], str] = langfuse.observe()(bare)

    def call(self, *, query: str, contexts: list[str], output: str) -> None:
        """Trace one interaction."""
        given = {"query": query, "contexts": contexts}
        with self._client.start_as_current_observation(name="answer", input=given) as span:
            span.update(output=output)

    def flush(self) -> None:
        """Wait until all has been delivered."""
        self._client.flush()


class Sentry:
    """A transaction with three data items."""

    decorated = None  # its decorator makes a part of a transaction only

    def __init__(self, rate: float, url: str) -> None:
        import sentry_sdk  # noqa: PLC0415

        self._sdk: Any = sentry_sdk
        sentry_sdk.init(dsn=url.replace("://", "://key@") + "/1", traces_sample_rate=rate)

    def call(self, *, query: str, contexts: list[str], output: str) -> None:
        """Trace one interaction."""
        with self._sdk.start_transaction(op="answer", name="answer") as transaction:
            transaction.set_data("query", query)
            transaction.set_data("contexts", contexts)
            transaction.set_data("output", output)

    def flush(self) -> None:
        """Wait until all has been delivered."""
        self._sdk.flush(2.0)


class Arms:
    """All by name."""

    known: ClassVar[dict[str, type[Any]]] = {
        "floor": Empty,
        "groundwatch": Groundwatch,
        "opentelemetry": OpenTelemetry,
        "langfuse": Langfuse,
        "sentry": Sentry,
    }
