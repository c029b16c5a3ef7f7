"""Trees of runs: what happens below a root is collected there; only chosen roots are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ..hook import sender
from ..hook.interaction import HookProtocol
from . import active_trace_id
from .messages import as_list, tool_call

#: Runs of chosen roots that are open at once; the oldest is forgotten for the next.
MOST_RUNS = 2_000
#: Passages and tool calls kept of one root.
MOST_ITEMS = 500

logger = logging.getLogger("groundwatch.integrations")


class Run:
    """What is known of one root run."""

    def __init__(self, root: Hashable, rate: float, fields: Mapping[str, Any]) -> None:
        self.root = root
        self.rate = rate  #: with which it was chosen
        self.fields = dict(fields)
        self.query: Callable[[], object] | None = None
        self.history: Callable[[], object] | None = None
        self.texts: list[str] = []  #: pieces of a streamed answer
        self.returned_to_caller = self.streamed = False  #: which may happen in either order
        self.below: dict[Hashable, None] = {}  #: runs that are open below the root
        self.retrievers: set[Hashable] = set()
        self.inner: set[Hashable] = set()  #: retrievers below retrievers
        self._passages: list[object] = []
        self._calls: dict[Hashable, tuple[object, object]] = {}
        self._results: dict[Hashable, object] = {}

    def found(self, passages: object) -> None:
        """Keep passages; the list itself may change later."""
        room = MOST_ITEMS - len(self._passages)
        self._passages.extend(as_list(passages)[:room])

    def called(self, key: Hashable, name: object, arguments: object) -> None:
        """Keep the call of a tool."""
        if len(self._calls) < MOST_ITEMS:
            self._calls[key] = (name, arguments)

    def returned(self, key: Hashable, result: object) -> None:
        """Keep what a tool gave back."""
        if key in self._calls:
            self._results[key] = result

    def given(self, output: object) -> dict[str, Any]:
        """Put together what the hook takes."""
        calls = [
            tool_call(name, arguments, self._results.get(key))
            for key, (name, arguments) in list(self._calls.items())
        ]
        return {
            **self.fields,
            "query": self.query() if self.query else None,
            "history": self.history() if self.history else None,
            "contexts": list(self._passages) or None,
            "tool_calls": calls or None,
            "output": output,
        }


class Runs:
    """
    The open runs of chosen roots.

    Without a lock: each step is one operation on a dict, so that a callback may come from any
    thread, or in the middle of another.
    """

    def __init__(self, hook: HookProtocol, fields: Mapping[str, Any]) -> None:
        self._hook = hook
        self._fields = fields
        self._open: dict[Hashable, Run] = {}
        sender.register(self)

    def after_fork(self) -> None:
        """Leave the parent's runs to the parent."""
        self._open = {}

    def __len__(self) -> int:
        return len(self._open)

    def start(self, run_id: Hashable, parent_id: Hashable | None) -> Run | None:
        """Note a run; None when its root was not chosen."""
        if parent_id is not None:
            run = self._open.get(parent_id)
        else:
            trace_id = self._fields.get("trace_id") or active_trace_id()
            rate = self._hook.chance(trace_id)
            run = Run(run_id, rate, {"trace_id": trace_id, **self._fields}) if rate else None
        if run is not None:
            if len(self._open) >= MOST_RUNS:
                oldest = next(iter(list(self._open)), None)
                forgotten = self._open.pop(oldest, None)
                if forgotten is not None and forgotten.root == oldest:
                    # Counted as one without an output.
                    self._hook.take(self._fields, forgotten.rate)
            self._open[run_id] = run
            if run_id != run.root:
                run.below[run_id] = None
        return run

    def get(self, run_id: Hashable) -> Run | None:
        """Find the root's run above *run_id*; None when it was not chosen."""
        return self._open.get(run_id)

    def end(self, run_id: Hashable, answer: Callable[[], object]) -> None:
        """Let go of a run, and record the interaction if it is a root; never raises."""
        run = self.forget(run_id)
        if run is not None and run.root == run_id:
            given = self.guard(lambda: run.given(answer()))
            self._hook.take(given or self._fields, run.rate)

    def fail(self, run_id: Hashable, error: object, *, is_root: bool) -> None:
        """Let go of a run that failed; a root's failure is the request's, sampled or not."""
        self.forget(run_id)
        if is_root:
            self._hook.fail(error, counted=True)

    def forget(self, run_id: Hashable) -> Run | None:
        """Let go of a run and, if it is a root, of all below it; None when it was let go before."""
        run = self._open.pop(run_id, None)
        if run is not None and run.root == run_id:
            for member in list(run.below):
                self._open.pop(member, None)
        elif run is not None:
            run.below.pop(run_id, None)
        return run

    def guard(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that reads the host's objects; None when it raises."""
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001  # they may do anything
            logger.debug("run_failed error=%s", type(error).__name__)
            return None
