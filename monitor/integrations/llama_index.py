"""LlamaIndex: query engines and chat engines, whole and streamed, through its instrumentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments
from typing import Any, Unpack

from ..errors import MissingExtraError
from ..hook.interaction import HookProtocol, RecordFields
from ..hook.watch import AsyncChunks, Chunks, Following
from . import app_hook
from .messages import as_list, earlier_turns, part_of
from .runs import MOST_RUNS, Run, Runs

try:
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
except ModuleNotFoundError:
    raise MissingExtraError("the LlamaIndex integration", "llama-index") from None

#: Outermost calls of these methods are interactions.
_METHODS = frozenset({"query", "aquery", "chat", "achat", "stream_chat", "astream_chat"})
_MOST_PIECES = 100_000
#: Stands for the question, which follows the earlier turns.
_ASKED = {"role": "user", "content": "?"}
#: Where a chat engine passes its streamed answer on, below the call.
_WRITERS = frozenset({"write_response_to_history", "awrite_response_to_history"})


def watch_llama_index(
    *, hook: HookProtocol | None = None, **fields: Unpack[RecordFields]
) -> Callable[[], None]:
    """
    Record what query engines and chat engines answer in this process; returns how to stop.

    Contexts are the answer's source nodes: what was left after reranking.

    *hook* and *fields* are as in `monitor.integrations.openai.watch_openai`.
    """
    engines = _Engines(app_hook(hook), fields)
    spans, events = _Spans(), _Events()
    spans._engines = events._engines = engines  # noqa: SLF001  # pydantic's private attributes
    dispatcher = get_dispatcher()
    dispatcher.add_span_handler(spans)
    dispatcher.add_event_handler(events)

    def stop() -> None:
        dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not spans]
        dispatcher.event_handlers = [h for h in dispatcher.event_handlers if h is not events]

    return stop


class _Engines:
    """Follows the calls of engines from their start to the last word of the answer."""

    def __init__(self, hook: HookProtocol, fields: Mapping[str, Any]) -> None:
        self._hook = hook
        self._runs = Runs(hook, fields)
        #: Open calls, sampled or not: of these a failure counts.
        self._outermost: dict[str, None] = {}

    def enter(
        self, span_id: str, arguments: BoundArguments, parent_id: str | None, engine: object
    ) -> None:
        """Note the start of an outermost call, or of the writer of a streamed answer."""
        method = span_id.partition("-")[0].rpartition(".")[2]
        if parent_id is None and method in _METHODS:
            if len(self._outermost) < MOST_RUNS:
                self._outermost[span_id] = None
            run = self._runs.start(span_id, None)
            if run is not None:
                first = next(iter(arguments.arguments.values()), None)
                asked = first if isinstance(first, str) else part_of(first, "query_str")
                run.query = lambda: asked
                # Now: the engine's own memory goes on with the call.
                given = arguments.arguments.get("chat_history")
                said = part_of(engine, "chat_history") if given is None else given
                turns = self._runs.guard(earlier_turns, [*as_list(said), _ASKED])
                run.history = lambda: turns
        elif method in _WRITERS and self._runs.get(parent_id) is not None:
            self._runs.start(span_id, parent_id)

    def leave(self, span_id: str, result: Any) -> None:
        """Record the answer, or follow it while it is streamed."""
        self._outermost.pop(span_id, None)
        run = self._runs.get(span_id)
        if run is None or run.root != span_id:
            return
        names = {"text": "text", "id": "node_id", "score": "score"}
        nodes = as_list(part_of(result, "source_nodes"))
        run.found([{field: part_of(n, name) for field, name in names.items()} for n in nodes])
        if hasattr(result, "chat_stream"):  # its writer tells, from another thread
            run.returned_to_caller = True
            self._end_streamed(run)
            return
        answer = part_of(result, "response")
        if answer is None and hasattr(result, "response_gen"):
            following = Following(
                chance=lambda: run.rate,
                piece=lambda chunk: chunk if isinstance(chunk, str) else None,
                asked=lambda: run.given(None),
                take=lambda given, said, _, rate: self._hook.take({**given, "output": said}, rate),
                fail=lambda error, **_: self._hook.fail(error, counted=True),
            )
            wrap = AsyncChunks if hasattr(result.response_gen, "__anext__") else Chunks
            result.response_gen = wrap(result.response_gen, following)
            self._runs.forget(span_id)
        else:
            self._runs.end(span_id, lambda: answer)

    def drop(self, span_id: str, error: object) -> None:
        """Forget a call that failed."""
        is_root = self._outermost.pop(span_id, False) is None
        self._runs.fail(span_id, error or "error", is_root=is_root)

    def delta(self, span_id: str | None, text: str) -> None:
        """Keep a piece of a chat engine's streamed answer."""
        run = self._runs.get(span_id)
        if run is not None and len(run.texts) < _MOST_PIECES:
            run.texts.append(text)

    def ended(self, span_id: str | None) -> None:
        """Record a chat engine's streamed answer."""
        run = self._runs.get(span_id)
        if run is not None:
            run.streamed = True
            self._end_streamed(run)

    def _end_streamed(self, run: Run) -> None:
        if run.streamed and run.returned_to_caller:
            self._runs.end(run.root, lambda: "".join(run.texts))


class _Spans(BaseSpanHandler[Any]):
    """Hears of calls; keeps no spans of its own."""

    _engines: Any = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as the library wants it."""
        return "GroundwatchSpans"

    def span_enter(
        self, id_: str, bound_args: BoundArguments, instance: Any = None,
        parent_id: str | None = None, *_args: Any, **_: Any,
    ) -> None:  # fmt: skip
        """Hear of a call's start."""
        self._engines.enter(id_, bound_args, parent_id, instance)

    def span_exit(self, id_: str, *_args: Any, result: Any = None, **_: Any) -> None:
        """Hear of a call's result."""
        self._engines.leave(id_, result)

    def span_drop(self, id_: str, *_args: Any, err: BaseException | None = None, **_: Any) -> None:
        """Hear of a call that failed."""
        self._engines.drop(id_, err)

    def new_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Make none."""

    def prepare_to_exit_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep none."""

    def prepare_to_drop_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep none."""


class _Events(BaseEventHandler):
    """Hears the pieces of streamed chat answers."""

    _engines: Any = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as the library wants it."""
        return "GroundwatchEvents"

    def handle(self, event: Any, **_: Any) -> None:
        """Take a piece, or the end."""
        name = type(event).__name__
        if name == "StreamChatDeltaReceivedEvent":
            self._engines.delta(event.span_id, event.delta)
        elif name == "StreamChatEndEvent":
            self._engines.ended(event.span_id)
