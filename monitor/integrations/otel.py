"""OpenTelemetry span processor: records what instrumented clients and frameworks trace anyway."""

from __future__ import annotations

import logging
import time
from typing import Unpack

from ..errors import MissingExtraError
from ..hook.interaction import HookProtocol, RecordFields
from . import app_hook
from .spans import Span, error_of
from .traces import Traces

try:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.trace import StatusCode
except ModuleNotFoundError:
    raise MissingExtraError("the span processor", "otel") from None

logger = logging.getLogger("groundwatch.integrations")


class InteractionSpanProcessor(SpanProcessor):
    """
    Records one interaction for each trace with an answer: ``provider.add_span_processor(...)``.

    The trace's id decides whether it is sampled, by OpenTelemetry's own rule. It is recorded when
    the local root span ends, with the documents that were retrieved on the way; an answer that
    ends later, as a streamed one may, is waited for.

    A trace without news for *wait_s* seconds is recorded as it is. *hook* and *fields* are as in
    `monitor.integrations.openai.watch_openai`.
    """

    def __init__(
        self,
        *,
        hook: HookProtocol | None = None,
        wait_s: float = 60.0,
        **fields: Unpack[RecordFields],
    ) -> None:
        self._hook = app_hook(hook)
        self._fields = fields
        self._traces = Traces(wait_s=wait_s)

    def on_end(self, span: ReadableSpan) -> None:
        """Take in a span that has ended; never raises."""
        try:
            now_s, context = time.monotonic(), span.get_span_context()
            if context is None:
                return
            is_root = span.parent is None or span.parent.is_remote
            events = [(event.name, event.attributes or {}) for event in span.events]
            attributes, trace_id = span.attributes or {}, format(context.trace_id, "032x")
            failed = span.status.status_code is StatusCode.ERROR
            latency_ms = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
            error = error_of(failed, attributes, events)
            plain = Span(
                trace_id, is_root, span.name, attributes, events, span.resource.attributes,
                latency_ms, error,
            )  # fmt: skip
            reason = self._traces.see(plain, lambda: self._hook, fields=self._fields, now_s=now_s)
            if reason is not None:
                self._hook.ignore(reason)
            if is_root:
                self._traces.finish(trace_id)
            self._traces.sweep(now_s)
        except Exception as mistake:  # noqa: BLE001  # ours must not reach the host
            logger.debug("span_failed error=%s", type(mistake).__name__)

    def shutdown(self) -> None:
        """Record what is still open."""
        self._traces.sweep(time.monotonic(), everything=True)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002
        """Keep what is open: a trace is recorded when it is whole."""
        return True
