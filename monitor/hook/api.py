"""
The hook as the app sees it: a few calls that never raise and never wait.

One ``sample()`` goes this way: the sampler of ``recorder`` decides, the recorder counts it and has
``capture`` copy it into a buffer; on the hook's own thread (``sender``) ``delivery`` takes it out,
``encoding`` masks it and shapes the entry, and `monitor.queue.producer` writes the batch to Redis.
"""

from __future__ import annotations

import _thread
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import getpid
from typing import Any, TypeVar, Unpack, overload

from . import sender
from .experiments import chosen, pick, take_chosen
from .interaction import FIELDS, OpenInteraction, RecordFields
from .options import HookArguments, Mask, Options, check, resolve
from .recorder import Counters, Recorder
from .watch import watched

F = TypeVar("F", bound=Callable[..., Any])

_TEXTS = frozenset({"query", "contexts", "output"})
#: Misspelt arguments that are logged, each once; the others are only counted.
_MOST_LOGGED = 20
#: With these, graphs pause, end or move on.
_NO_FAILURES = frozenset({"GraphInterrupt", "NodeInterrupt", "ParentCommand", "StopIteration",
                          "StopAsyncIteration"})  # fmt: skip

#: Marks a function that `groundwatch rerun` may call; its module may be imported for that alone.
REPLAYABLE = "__groundwatch_replayable__"

logger = logging.getLogger("groundwatch.hook")


class Hook:
    """
    Samples the interactions of one app; several hooks may live in one process.

    Arguments that are left out come from the ``GROUNDWATCH_`` environment variables, else from
    ``groundwatch.toml``, which are read at the first use.

    Raises
    ------
    ValueError
        If an argument is wrong. Nothing else here raises.
    """

    _recorder: Recorder | None
    _options: Options | None
    _mistake: str | None
    _experiments: bool = False  #: whether `choose` was ever called

    def __init__(self, **arguments: Unpack[HookArguments]) -> None:
        self._set_up(arguments)
        sender.register(self)

    def init(self, **arguments: Unpack[HookArguments]) -> None:
        """
        Start afresh with other arguments; what was sampled before is still delivered.

        Raises
        ------
        ValueError
            If an argument is wrong; the hook goes on as it was.
        """
        former = self._recorder
        self._set_up(arguments)
        if former is not None:
            former.retire()

    def sample(  # noqa: PLR0913  # the record's fields, by name
        self,
        *unnamed: object,
        output: object = None,
        query: str | None = None,
        contexts: object = None,
        history: object = None,
        tool_calls: object = None,
        expected: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        release: str | None = None,
        environment: str | None = None,
        tags: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
        id: str | None = None,  # noqa: A002  # the record's field
        label: int | None = None,
        **unknown: Any,
    ) -> None:
        """
        Record one interaction, if it is sampled.

        Parameters
        ----------
        output
            The answer: a text, or an object or dict with ``output``, ``answer``, ``text`` or
            ``content``.
        query
            What was asked.
        contexts
            The passages that the answer should be based on: a text, or a list of texts, dicts with
            ``text``, ``content`` or ``page_content`` (and ``id``, ``score``), or of such objects.
            Iterators are not consumed. What cannot be read is not recorded, counted as
            ``unreadable_contexts`` in ``stats()["ignored"]``, and logged once.
        history
            Earlier turns of the conversation, the oldest first: a list of ``{"role", "content"}``
            or of messages with these attributes; the latest 20, and 20,000 characters, are kept.
        tool_calls, expected, tags, metadata
            Copied in plain form, within bounds; a tool call is a dict with ``name``, ``arguments``
            and ``result``.
        id, session_id, user_id, release, environment, label
            Recorded as they are; a ``label`` is a person's verdict, 0 or 1.
        trace_id
            With 32 hexadecimal digits it decides whether to sample, as OpenTelemetry does.
        mask
            Called with each text on the sender's thread, in place of the hook's own mask.
        unnamed, unknown
            ``model`` becomes a tag. Any other name, and what has no name, is counted as
            ``unknown_argument`` in ``stats()["ignored"]``, logged once, and kept in ``metadata``
            of what is sampled.
        """
        try:
            recorder = self._recorder or self._begin()
            if unknown or unnamed:
                unknown |= {f"unnamed_{n}": value for n, value in enumerate(unnamed, 1)}
                tags, metadata = self._sort_unknown(unknown, tags, metadata)
            rate = recorder.choose(trace_id)
            if self._experiments:
                tags = take_chosen(tags)  # type: ignore[assignment]  # what is not a mapping stays
            if not rate:
                return
            if (
                tool_calls is expected is history  # type: ignore[comparison-overlap]
                is trace_id is session_id is user_id is release is environment is tags
                is metadata is mask is id is label is None
                and not recorder.unstarted and not recorder.thins and recorder.pid == getpid()
            ):  # fmt: skip
                recorder.record_texts(query, contexts, output, rate)
                return
            given = {
                "query": query, "contexts": contexts, "output": output, "history": history,
                "tool_calls": tool_calls, "expected": expected, "trace_id": trace_id,
                "session_id": session_id, "user_id": user_id, "release": release,
                "environment": environment, "tags": tags, "metadata": metadata,
                "mask": mask, "id": id, "label": label,
            }  # fmt: skip
            self._record(recorder, given, rate)
        except Exception as error:  # noqa: BLE001  # a mistake of ours must not reach the host
            self._mistake = f"{type(error).__name__} in sample()"

    @overload
    def watch(self, function: F, /) -> F: ...
    @overload
    def watch(
        self,
        function: None = None,
        /,
        *,
        query: str | None = None,
        contexts: str | None = None,
        output: str | None = None,
        **fields: Unpack[RecordFields],
    ) -> Callable[[F], F]: ...
    def watch(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        query: str | None = None,
        contexts: str | None = None,
        output: str | None = None,
        **fields: Any,
    ) -> Any:
        """
        Record the calls of a sync, async, generator or async-generator function.

        Parameters
        ----------
        function
            What to watch; left out when arguments are given.
        query
            Name of the parameter that holds the question; else ``query``, ``question``,
            ``prompt``, ``input``, ``message``, or the first text among the arguments.
        contexts
            Name of the parameter, or of the result's key or attribute, that holds the passages;
            else ``contexts``, ``documents`` or ``passages``.
        output
            Name of the result's key or attribute that holds the answer; else the result itself,
            or its ``output``, ``answer``, ``text`` or ``content``. Streamed chunks are joined.
        fields
            Put on every record: ``tags``, ``release``, ``environment``, ``metadata``, ``mask``.
        """

        def decorate(target: Callable[..., Any]) -> Callable[..., Any]:
            names = {"query": query, "contexts": contexts, "output": output}
            return watched(target, self, names, fields)

        return decorate if function is None else decorate(function)

    def interaction(
        self, *, query: str | None = None, **fields: Unpack[RecordFields]
    ) -> OpenInteraction:
        """Open an interaction whose pieces come one by one: ``with hook.interaction() as it``."""
        return OpenInteraction(self, {"query": query, **fields})

    def feedback(
        self, *, trace_id: str, good: bool, comment: str | None = None, **unknown: Any
    ) -> None:
        """
        Record what a user said of one answer; sampled or not, before or after it.

        The *trace_id* is the interaction's and joins the two; the *comment*, in the user's words,
        is masked as all texts are and cut at 2,000 characters. Other arguments are counted as
        ``unknown_argument`` in ``stats()["ignored"]`` and left out.
        """
        try:
            recorder = self._own_recorder()
            for _ in unknown:
                self.ignore("unknown_argument")
            if not recorder.options.enabled or recorder.masking == _thread.get_ident():
                return
            recorder.feedback.give(trace_id, good, comment)
            if recorder.ended:
                recorder.feedback.abandon()
            elif recorder.unstarted:
                sender.start(recorder)
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in feedback()"

    def choose(
        self, experiment: str, key: object = None, *, variants: Sequence[str] = ("A", "B")
    ) -> str:
        """
        Choose the variant that a request gets; the better ones more and more often.

        The next interaction that this thread or task records has the variant as its tag
        *experiment*. The scheduler learns from the pass rates of the tags that
        ``GROUNDWATCH_EXPERIMENTS`` names; until then, and when it cannot be reached, the split is
        even. Takes a few microseconds and never waits.

        Parameters
        ----------
        experiment
            Name of the experiment, and of the tag: ``variant`` unless the setting names others.
        key
            Whose choice it is, such as a user's id: the same key gets the same variant as long as
            the shares do not change. None chooses again each time.
        variants
            What there is to choose from; at least one.

        If an argument is wrong, the first variant is returned and ``stats()`` shows the mistake.
        """
        try:
            recorder = self._recorder or self._begin()
            found = pick(recorder.experiments.get(experiment), experiment, key, variants)
            chosen.set({**chosen.get(), experiment: found})
            self._experiments = recorder.chooses = True
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in choose()"
            return next(iter(variants), "")
        return found

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until all that was recorded has reached Redis, the counters as well; True if so."""
        recorder = self._recorder
        if recorder is None or not recorder.options.enabled:
            return True
        return sender.reported([recorder], time.monotonic() + timeout)

    def stats(self) -> dict[str, Any]:
        """
        Return what has happened in this process, as plain values.

        ``seen = sampled + not_sampled`` and ``sampled = sent + dropped + buffered``, always.
        ``errored`` counts the requests that failed, by their error.
        ``ignored`` counts what was left out before it could be sampled, by reason, and samples
        with a field that could not be read. In ``feedback``, ``given = sent + dropped + waiting``.
        """
        recorder = self._recorder or self._begin(start=False)
        stats = recorder.stats()
        ignored = self._ignored.so_far() | recorder.unreadable.so_far()
        return stats | {"ignored": ignored, "last_error": self._mistake or stats["last_error"]}

    def close(self, timeout: float = 2.0) -> bool:
        """Deliver what can be delivered within *timeout* and stop for good; True when all was."""
        recorder = self._recorder or self._begin(start=False)
        self._options = replace(recorder.options, enabled=False)
        if not recorder.options.enabled or (recorder.unstarted and not recorder.seen):
            recorder.retire()
            return True
        return sender.finish(recorder, timeout)

    # --- for integrations: ask first, read the interaction only if it was chosen ---

    def chance(self, trace_id: object = None) -> float:
        """
        Count one interaction and decide whether to record it.

        Return the probability with which it was chosen, for `take`; 0 if it was not. The fields
        that `take` gets later should have the same *trace_id*.
        """
        try:
            rate = (self._recorder or self._begin()).choose(trace_id)
            if not rate and self._experiments:
                take_chosen(None)
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in chance()"
            return 0.0
        return rate

    def chosen(self, trace_id: object = None) -> bool:
        """Count one interaction and return whether to record it now; else see `chance`."""
        return self.chance(trace_id) > 0

    def take(self, given: Mapping[str, object], rate: float | None = None) -> None:
        """Record an interaction that was chosen, with *rate* or the one that is in force."""
        try:
            recorder = self._recorder or self._begin()
            if self._experiments and (tags := take_chosen(given.get("tags"))) is not None:
                given = {**given, "tags": tags}
            self._record(recorder, given, recorder.sampler.rate if rate is None else rate)
        except Exception as error:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(error).__name__} in take()"

    def ignore(self, reason: str) -> None:
        """Count something that was left out, by *reason*, for ``stats()["ignored"]``."""
        self._ignored.add(reason)

    def fail(self, error: object, *, counted: bool = False) -> None:
        """
        Count a request that failed, by the name of its *error* or of its class, sampled or not.

        Interrupts, exits and cancellations are no failures. *counted* says that `chance` has
        counted it among the interactions seen.
        """
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            return
        name = error if isinstance(error, str) else type(error).__name__
        if name in _NO_FAILURES:
            return
        try:
            recorder = self._own_recorder()
            recorder.fail(name, counted=counted)
            if recorder.unstarted and recorder.options.enabled:
                sender.start(recorder)
        except Exception as mistake:  # noqa: BLE001  # as in sample
            self._mistake = f"{type(mistake).__name__} in fail()"

    # --- the recorder of this process, which is made at its first use ---

    def after_fork(self) -> None:
        """Start empty: in a forked child nothing of the parent's is kept but the options."""
        self._recorder = None
        self._ignored = Counters()
        self._logged: set[str] = set()
        # Holds the recorder too: `setdefault` gives all threads the same one without a lock.
        self._only: dict[str, Recorder] = {}

    def _set_up(self, arguments: Mapping[str, object]) -> None:
        self._given = check(arguments)
        self._options = self._mistake = None
        self.after_fork()

    def _begin(self, *, start: bool = True) -> Recorder:
        only = self._only
        recorder = only.get("recorder")
        if recorder is None:
            if self._options is None:
                try:
                    self._options = resolve(self._given)
                except ValueError as error:
                    self._options, self._mistake = Options(enabled=False), str(error)
                    logger.warning("hook_switched_off error=%s", error)
            recorder = only.setdefault("recorder", Recorder(self._options))
        self._recorder = recorder
        if start and recorder.options.enabled:
            sender.start(recorder)
        return recorder

    def _own_recorder(self) -> Recorder:
        """Return the recorder of this very process, which C code may have forked."""
        recorder = self._recorder or self._begin()
        if recorder.pid != getpid():  # without our handlers
            self.after_fork()
            recorder = self._begin()
        return recorder

    def _record(self, recorder: Recorder, given: Mapping[str, object], rate: float) -> None:
        if recorder.pid != getpid():
            recorder = self._own_recorder()
            next(recorder.sampler.counter)
        if recorder.thins:
            rate = recorder.thinned(given, rate)
            if not rate:
                return
        if given.keys() == _TEXTS:
            recorder.record_texts(given["query"], given["contexts"], given["output"], rate)
        else:
            recorder.record(given, rate)
        if recorder.unstarted:
            sender.start(recorder)

    def _sort_unknown(
        self,
        unknown: dict[str, Any],
        tags: Mapping[str, str] | None,
        metadata: Mapping[str, Any] | None,
    ) -> tuple[Mapping[str, str] | None, Mapping[str, Any] | None]:
        """Put ``model`` into the tags, count and log other names, and put them into metadata."""
        model = unknown.pop("model", None)
        if model is not None and (tags is None or isinstance(tags, Mapping)):
            tags = {"model": model, **(tags or {})}
        for name in unknown:
            self.ignore("unknown_argument")
            if name not in self._logged and len(self._logged) < _MOST_LOGGED:
                import difflib  # noqa: PLC0415  # most apps make no such mistake

                self._logged.add(name)
                close = difflib.get_close_matches(name, FIELDS, n=1)
                hint = f"did you mean {close[0]}?" if close else "kept in metadata"
                if name.startswith("unnamed_"):
                    hint = "give each argument by its name, as in query=..."
                elif name == "app":
                    hint = "set it with init(app=...) or GROUNDWATCH_APP"
                logger.warning("unknown_argument name=%r hint=%r", name[:100], hint)
        if unknown and (metadata is None or isinstance(metadata, Mapping)):
            metadata = {**unknown, **(metadata or {})}
        return tags, metadata

    # --- copies: a watched function may be copied, or sent to a worker ---

    def __copy__(self) -> Hook:
        return self

    def __deepcopy__(self, memo: object) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Hook], tuple[object, ...]]:
        """Go to another process as the arguments it was made of."""
        return _remade, (self is _own_of_app(), self._given)

    def __del__(self) -> None:
        try:
            recorder = self._recorder
            if recorder is not None:
                recorder.retire()
        except Exception:  # noqa: BLE001, S110  # half made, or the interpreter is going down
            pass


def replayable(reply: F) -> F:
    """
    Register the function that answers a question, so that ``groundwatch rerun`` finds it.

    It takes the question first, and the components that may be exchanged as keyword arguments:
    ``reply(question, retriever="v11")``. It returns the answer, (answer, passages) or
    ``{"output": ..., "contexts": [...]}``; it may be async. Nothing else about it changes.

    Raises
    ------
    TypeError
        If it is not a function.
    """
    if not hasattr(reply, "__dict__"):
        raise TypeError("replayable: should be a function that takes a question")
    setattr(reply, REPLAYABLE, True)
    return reply


def _own_of_app() -> object:
    # Below `groundwatch`, where the host has a `monitor` of its own.
    return getattr(sys.modules.get(__name__.partition(".")[0]), "_hook", None)


def _remade(own: bool, arguments: HookArguments) -> Hook:
    here = _own_of_app() if own else None
    return here if isinstance(here, Hook) else Hook(**arguments)
