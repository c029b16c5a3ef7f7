"""OpenTelemetry span processor: records what instrumented clients and frameworks trace anyway."""

from __future__ import annotations

import logging
import time
from typing import Any, Unpack

from monitor.errors import MissingExtraError
from monitor.hook.streams import Fields
from monitor.integrations.app_hook import Taker, app_hook
from monitor.integrations.genai import Kind, kind_of, read, read_resource, size_of
from monitor.integrations.traces import Traces

try:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
except ModuleNotFoundError:
    raise MissingExtraError("the span processor", "otel") from None

logger = logging.getLogger("groundwatch.integrations")

_TRACE_ID_DIGITS = "032x"


class InteractionSpanProcessor(SpanProcessor):
    """
    Records one interaction for each trace with an answer: ``provider.add_span_processor(...)``.

    The trace's id decides whether it is sampled, by OpenTelemetry's own rule. It is recorded when
    the local root span ends, with the documents that were retrieved on the way; an answer that
    ends later, as a streamed one may, is waited for.

    Parameters
    ----------
    hook
        Where interactions go; unset: the app's own hook.
    wait_s
        A trace without news for so long is recorded as it is.
    fields
        Put on every record: ``tags``, ``release``, ``environment``, ``metadata``, ``mask``.
    """

    def __init__(
        self, *, hook: Taker | None = None, wait_s: float = 60.0, **fields: Unpack[Fields]
    ) -> None:
        self._hook = app_hook(hook)
        self._fields = fields
        self._traces = Traces(wait_s=wait_s)

    def on_end(self, span: ReadableSpan) -> None:
        """Look at a span that has ended; never raises."""
        try:
            self._see(span)
        except Exception as error:  # noqa: BLE001  # a mistake of ours must not reach the host
            logger.debug("span processor: %s", type(error).__name__)

    def shutdown(self) -> None:
        """Record what is still open."""
        self._traces.sweep(time.monotonic(), everything=True)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002
        """Keep what is open: a trace is recorded when it is whole."""
        return True

    def _see(self, span: ReadableSpan) -> None:
        now_s = time.monotonic()
        context = span.get_span_context()
        kind = kind_of(span.attributes or {})
        is_root = span.parent is None or span.parent.is_remote
        if context is None or not (kind or (is_root and len(self._traces))):
            return
        trace_id = format(context.trace_id, _TRACE_ID_DIGITS)
        if kind is not None:
            self._traces.add(
                trace_id, kind, lambda: self._read(kind, span), lambda: size_of(span.attributes),
                hook=self._hook, now_s=now_s,
            )  # fmt: skip
        if is_root:
            self._traces.finish(trace_id)
        self._traces.sweep(now_s)

    def _read(self, kind: Kind, span: ReadableSpan) -> dict[str, Any]:
        events = [(event.name, event.attributes or {}) for event in span.events]
        found = read(kind, span.attributes or {}, events)
        if kind in {"model", "flow"}:
            return {**read_resource(span.resource.attributes), **found, **self._fields}
        return found
