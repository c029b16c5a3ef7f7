"""LlamaIndex: query engines and chat engines, whole and streamed, through its instrumentation."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any, Unpack

from pydantic import PrivateAttr

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
    calls, events = _Calls(), _Events()
    # Private attributes of pydantic's, which the constructors take none of.
    calls._hook = app_hook(hook)  # noqa: SLF001
    calls._runs = events._runs = Runs(calls._hook, fields)  # noqa: SLF001
    dispatcher = get_dispatcher()
    dispatcher.add_span_handler(calls)
    dispatcher.add_event_handler(events)

    def stop() -> None:
        dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not calls]
        dispatcher.event_handlers = [h for h in dispatcher.event_handlers if h is not events]

    return stop


class _Calls(BaseSpanHandler[Any]):
    """Follows the calls of engines from their start to their answer; keeps no spans of its own."""

    _hook: Any = None
    _runs: Any = None
    #: Open calls, sampled or not: of these a failure counts.
    _outermost: dict[str, None] = PrivateAttr(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as the library wants it."""
        return "GroundwatchSpans"

    def span_enter(
        self, id_: str, bound_args: BoundArguments, instance: Any = None,
        parent_id: str | None = None, *_args: Any, **_: Any,
    ) -> None:  # fmt: skip
        """Note the start of an outermost call, or of the writer of a streamed answer."""
        method = id_.partition("-")[0].rpartition(".")[2]
        if parent_id is None and method in _METHODS:
            if len(self._outermost) < MOST_RUNS:
                self._outermost[id_] = None
            run = self._runs.start(id_, None)
            if run is not None:
                first = next(iter(bound_args.arguments.values()), None)
                asked = first if isinstance(first, str) else part_of(first, "query_str")
                run.query = lambda: asked
                # Now: the engine's own memory goes on with the call.
                given = bound_args.arguments.get("chat_history")
                said = part_of(instance, "chat_history") if given is None else given
                turns = self._runs.guard(earlier_turns, [*as_list(said), _ASKED])
                run.history = lambda: turns
        elif method in _WRITERS and self._runs.get(parent_id) is not None:
            self._runs.start(id_, parent_id)

    def span_exit(self, id_: str, *_args: Any, result: Any = None, **_: Any) -> None:
        """Record the answer, or follow it while it is streamed."""
        self._outermost.pop(id_, None)
        run = self._runs.get(id_)
        if run is None or run.root != id_:
            return
        names = {"text": "text", "id": "node_id", "score": "score", "metadata": "metadata"}
        nodes = as_list(part_of(result, "source_nodes"))
        run.found([{field: part_of(n, name) for field, name in names.items()} for n in nodes])
        if hasattr(result, "chat_stream"):  # its writer tells, from another thread
            run.returned_to_caller = True
            _end_streamed(self._runs, run)
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
            self._runs.forget(id_)
        else:
            self._runs.end(id_, lambda: answer)

    def span_drop(self, id_: str, *_args: Any, err: BaseException | None = None, **_: Any) -> None:
        """Forget a call that failed."""
        is_root = self._outermost.pop(id_, False) is None
        self._runs.fail(id_, err or "error", is_root=is_root)

    def new_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Make none."""

    def prepare_to_exit_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep none."""

    def prepare_to_drop_span(self, *_args: Any, **_kwargs: Any) -> None:
        """Keep none."""


class _Events(BaseEventHandler):
    """Keeps the pieces of streamed chat answers."""

    _runs: Any = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as the library wants it."""
        return "GroundwatchEvents"

    def handle(self, event: Any, **_: Any) -> None:
        """Take a piece, or the end."""
        name = type(event).__name__
        run = self._runs.get(event.span_id)
        if run is not None and name == "StreamChatDeltaReceivedEvent":
            if len(run.texts) < _MOST_PIECES:
                run.texts.append(event.delta)
        elif run is not None and name == "StreamChatEndEvent":
            run.streamed = True
            _end_streamed(self._runs, run)


def _end_streamed(runs: Runs, run: Run) -> None:
    """Record a streamed answer that is whole and has been returned to the caller."""
    if run.streamed and run.returned_to_caller:
        runs.end(run.root, lambda: "".join(run.texts))
