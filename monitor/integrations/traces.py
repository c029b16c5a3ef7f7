"""Join the spans of a trace to one interaction: retrieved documents, tool calls, the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..hook import sender
from ..hook.capture import PASSAGES
from ..hook.interaction import HookProtocol
from .spans import Kind, Span, ignored_because, kind_of, read, read_resource, size_of

#: Spans before the answer, and tool calls, kept of one trace.
MOST_SPANS = 50
_SWEEP_EVERY_S = 1.0
#: A trace whose answer is still to come is waited for so many times as long.
_PATIENCE = 10
#: Recorded traces that are remembered, so that a late span does not make a second interaction.
_MOST_DONE = 10_000
_RANKS: dict[Kind, int] = {"model": 0, "flow": 1}
_NAMES_SHOWN = 5

logger = logging.getLogger("groundwatch.integrations")

#: Reads a span's fields; called only when its trace was chosen.
Read = Callable[[], dict[str, Any]]


class Trace:
    """What is known of one trace; nothing but that it was not chosen, if it was not."""

    def __init__(self, trace_id: str, now_s: float, rate: float | None = None) -> None:
        self.trace_id = trace_id
        self.touched_s = now_s
        self.hook: HookProtocol | None = None  #: set by the first answer, which decides
        self.rate = rate  #: with which it was chosen; 0 if it was not, None until an answer decides
        self.chars = 0
        self._waiting: list[tuple[Kind, Read]] = []
        self._answer: dict[str, Any] = {}
        self._rank = -1
        #: By id and text: what comes twice is kept once.
        self._retrieved: dict[Any, dict[str, Any]] = {}
        self._reranked: dict[Any, dict[str, Any]] = {}
        self._given: dict[Any, dict[str, Any]] = {}  #: to a flow
        self._queries: list[str] = []
        self._flow_query: str | None = None  #: of the flow that ended last, as the outermost does
        self._calls: list[dict[str, Any]] = []
        self._asked_calls: list[dict[str, Any]] = []  #: as a model's messages show them
        self._tokens: dict[str, int] = {}
        self.latency_ms = 0.0
        self.error: str | None = None  #: of the whole

    def add(
        self, kind: Kind, read: Read, size: Callable[[], int], hook: HookProtocol | None = None
    ) -> None:
        """Take in one span."""
        if kind in _RANKS and self.rate is None and hook is not None:
            self.hook, self.rate = hook, hook.chance(self.trace_id)
            waiting, self._waiting = self._waiting, []
            for earlier in waiting if self.rate else ():
                self._keep(*earlier)
        if self.rate == 0:
            self.chars = 0
            return
        self.chars += size()
        if self.rate:
            self._keep(kind, read)
        elif len(self._waiting) < MOST_SPANS:
            self._waiting.append((kind, read))

    def note(self, span: Span) -> None:
        """Note how long the trace took, and whether it failed as a whole."""
        self.latency_ms = max(self.latency_ms, span.latency_ms or 0.0)
        if span.is_root and span.error:
            self.error = span.error

    def given(self) -> dict[str, Any]:
        """Put together what the hook takes."""
        contexts = list((self._reranked or self._retrieved or self._given).values())
        query = self._answer.get("query")
        # A prompt that quotes the passages is not what the user asked.
        if not query or any(c["text"] in query for c in contexts):
            query = next(iter(self._queries), self._flow_query) or query
        metadata = {
            **({"latency_ms": round(self.latency_ms, 1)} if self.latency_ms else {}),
            **({"error": self.error, "incomplete": True} if self.error else {}),
            **(self._answer.get("metadata") or {}), **self._tokens,
        }  # fmt: skip
        return {
            **self._answer,
            "trace_id": self.trace_id,
            "query": query,
            "contexts": contexts or None,
            "tool_calls": self._calls or self._asked_calls or None,
            "output": self._answer.get("output"),
            "metadata": metadata or None,
        }

    @property
    def answered(self) -> bool:
        """Return whether there is an answer that can be recorded, or none to wait for."""
        return self.rate == 0 or bool(self._answer.get("output") or self.error)

    def _keep(self, kind: Kind, read: Read) -> None:
        fields = read()
        kept = {"flow": self._given, "reranking": self._reranked}.get(kind, self._retrieved)
        for passage in fields.get("contexts", ()):
            if len(kept) >= PASSAGES:
                break
            kept.setdefault((passage.get("id"), passage["text"]), passage)
        if kind in _RANKS:
            calls = fields.pop("tool_calls", [])
            if kind == "flow":
                self._flow_query = fields.get("query") or self._flow_query
            self._asked_calls = max(self._asked_calls, calls[:MOST_SPANS], key=len)
            metadata = dict(fields.get("metadata") or {})
            for name in ("input_tokens", "output_tokens"):
                n = metadata.pop(name, None)
                if isinstance(n, int):
                    self._tokens[name] = self._tokens.get(name, 0) + n
            fields |= {"metadata": metadata} if metadata else {}
            # The whole flow's answer goes before a model's, and the last before earlier ones.
            if fields.get("output") and _RANKS[kind] >= self._rank:
                self._answer = {**self._answer, **fields}
                self._rank = _RANKS[kind]
            else:
                more = {key: value for key, value in fields.items() if key != "output"}
                self._answer = {**more, **self._answer}
        elif kind == "tool":
            self._calls = [*self._calls, *fields["tool_calls"]][:MOST_SPANS]
        else:
            self._queries += [fields["query"]] if fields.get("query") else []


class Traces:
    """
    The open traces, bounded by number and by characters; the oldest end first.

    Without a lock: spans may end on any thread, and below a signal handler.
    """

    def __init__(self, *, wait_s: float, most: int = 1_000, most_chars: int = 32_000_000) -> None:
        self._wait_s = wait_s
        self._most = most
        self._most_chars = most_chars
        self._open: dict[str, Trace] = {}
        self._done: dict[str, None] = {}
        self._sweep_at_s = 0.0
        self._has_logged = False
        sender.register(self)

    def after_fork(self) -> None:
        """Leave the parent's traces to the parent."""
        self._open = {}
        self._done = {}

    def __len__(self) -> int:
        return len(self._open)

    def see(
        self,
        span: Span,
        hook: Callable[[], HookProtocol],
        *,
        now_s: float,
        fields: Mapping[str, Any] | None = None,
    ) -> str | None:
        """
        Take in one span for *hook*; return the reason if it is left out, else None.

        *fields* go on the record, before what the span says.
        """
        kind = kind_of(span.attributes, is_root=span.is_root)
        trace = self._open.get(span.trace_id)
        if trace is not None and kind is None and span.is_root:
            trace.note(span)
        known = kind in _RANKS and span.trace_id not in self._done
        if span.is_root and span.error and (known or trace is not None):
            hook().fail(span.error, counted=known or (trace and trace.rate) is not None)
        if kind is None:
            reason = ignored_because(span.attributes)
            if reason == "span_unknown_kind" and not self._has_logged:
                self._has_logged = True
                shown = [name[:100] for name in sorted(span.attributes)[:_NAMES_SHOWN]]
                logger.warning("span_unknown_kind attributes=%r counted_in=stats", shown)
            return reason

        def fields_of() -> dict[str, Any]:
            found = read(kind, span.attributes, span.events, span.name)
            if kind in _RANKS:
                return {**read_resource(span.resource), **found, **(fields or {})}
            return found

        size = partial(size_of, span.attributes)
        trace = self.add(span.trace_id, kind, fields_of, size, hook=hook(), now_s=now_s)
        if trace is not None:
            trace.note(span)
        return None

    def add(
        self, trace_id: str, kind: Kind, read: Read, size: Callable[[], int],
        *, hook: HookProtocol, now_s: float,
    ) -> Trace | None:  # fmt: skip
        """Take in one span of *size* characters; return its trace, None if it is of none."""
        trace = self._open.get(trace_id)
        if trace is None:
            if trace_id in self._done:
                return None
            trace = self._open.setdefault(trace_id, Trace(trace_id, now_s))
        trace.touched_s = now_s
        trace.add(kind, read, size, hook)
        return trace

    def finish(self, trace_id: str) -> None:
        """Record a trace whose root has ended, unless its answer is still to come."""
        trace = self._open.get(trace_id)
        if trace is not None and trace.answered:
            self._record(trace)

    def sweep(self, now_s: float, *, everything: bool = False) -> None:
        """Record the traces that have been quiet, or are too many; once a second at most."""
        if not everything and now_s < self._sweep_at_s and len(self._open) <= self._most:
            return
        self._sweep_at_s = now_s + _SWEEP_EVERY_S
        traces = list(self._open.values())
        chars = sum(trace.chars for trace in traces)
        for position, trace in enumerate(traces):
            surplus = len(traces) - position > self._most or chars > self._most_chars
            wait_s = self._wait_s * (_PATIENCE if trace.rate is None else 1)
            if everything or surplus or now_s - trace.touched_s > wait_s:
                chars -= trace.chars
                self._record(trace)

    def _record(self, trace: Trace) -> None:
        if self._open.pop(trace.trace_id, None) is trace and trace.rate and trace.hook:
            self._done[trace.trace_id] = None
            if len(self._done) > _MOST_DONE:
                self._done.pop(next(iter(self._done), ""), None)
            given = trace.given()
            if given["output"] or not trace.error:  # else it is counted as failed
                trace.hook.take(given, trace.rate)
