"""
One process's life of a hook: its buffer and counters, without a lock, and its one thread.

The thread is started by the first interaction and ended within a deadline.
"""

from __future__ import annotations

import _thread
import atexit
import concurrent.futures.thread  # noqa: F401  # redis-py wants it, and it cannot be loaded at exit
import contextlib
import itertools
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from time import time_ns
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from .capture import NO_REST, NOTHING_CUT, PASSAGES, capture
from .options import Options, Sampler, belongs, is_trace_id, read

#: A hook that was replaced has this long to deliver what it holds.
RETIRE_S = 60.0
#: Every reason for which a sample is dropped.
REASONS = (
    "buffer_full", "queue_full", "no_output", "capture_failed", "mask_failed", "encode_failed",
    "sender_failed", "redis_unavailable", "shutdown",
)  # fmt: skip


class Progress(NamedTuple):
    """How far a hook has come; every part only grows."""

    seen: int
    completed: int
    dropped: int

    def covers(self, other: Progress) -> bool:
        """Return whether this is as far as *other* or farther in every part."""
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))


class Recorder:
    """
    What the caller and the sender share.

    The caller appends to a deque and moves counters made of ``itertools.count``,
    each a single step in C: threads, signal handlers and ``__del__`` may enter at
    any point, and a forked child throws the whole away. All else has one writer.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sampling = options.sampling
        self.thins = not self.sampling.plain
        self.rate: float = options.sample_rate  #: of the interactions that fit no rule
        self.hook_id = os.urandom(8).hex()
        self.pid = os.getpid()
        self.started_at_ms = time_ns() // 1_000_000
        self.sampler = Sampler(self.sampling.ceiling(self.rate))
        self.choose = self.sampler.choose
        if not options.enabled:
            self.sampler.close()
        self.buffer: deque[tuple[Any, ...]] = deque()  #: the fields of a `Draft` each
        self._sequence = itertools.count()
        self._appended = itertools.count()
        self._dropped = {reason: itertools.count() for reason in REASONS}
        self._predicates_failed = itertools.count()
        self._most_samples = options.buffer_samples
        self._most_chars = options.buffer_chars
        self._most_text = options.max_text_chars
        self._chars_in = 0
        self.unstarted = [True]  #: holds the right to be the one sender
        # written by the sender
        self.loaded = False
        self.chars_out = 0
        self.sent = 0
        self.completed = 0
        self.full = False
        self.connected = False
        self.last_error: str | None = None
        self.encode_error: str | None = None  #: class of the last error while encoding a sample
        self.reported: Progress | None = None
        self.ended = False
        self.masking: int | None = None  #: the thread that runs a mask now
        # written by flush and close
        self.hurry = False
        self.close_by: float | None = None
        self.wake = _thread.allocate_lock()
        self.wake.acquire()

    def record_texts(self, query: object, contexts: object, output: object, rate: float) -> None:
        """Record as `record` does; for what is most often handed over it is half the price."""
        # A mask that samples would recurse. Looked up now: gevent may have replaced it.
        if self.masking == _thread.get_ident():
            return
        buffer = self.buffer
        if (
            type(contexts) is list
            and type(query) is type(output) is str
            and len(contexts) <= PASSAGES
            and len(buffer) < self._most_samples
            and not self.full
        ):
            texts = tuple(contexts)
            chars = len(query) + len(output)
            for text in texts:
                if type(text) is not str:
                    break
                chars += len(text)
            else:
                held = self._chars_in - self.chars_out
                if chars <= self._most_text and held + chars <= self._most_chars:
                    self._chars_in += chars  # as below
                    # A plain tuple, which is not made anew each time, unlike an instance.
                    buffer.append((
                        time_ns(), next(self._sequence), rate, query, texts, output,
                        NO_REST, None, NOTHING_CUT, chars,
                    ))  # fmt: skip
                    next(self._appended)
                    if self.ended:
                        self._abandon()
                    return
        self.record({"query": query, "contexts": contexts, "output": output}, rate)

    def record(self, given: Mapping[str, object], rate: float) -> None:
        """Copy an interaction that was chosen with *rate*, or count why not; never waits."""
        if self.masking == _thread.get_ident():
            return
        sequence = next(self._sequence)
        # Counted without a call of ours, which would fail at the end of the host's stack.
        buffer, dropped = self.buffer, self._dropped
        if self.full or len(buffer) >= self._most_samples:
            next(dropped["queue_full" if self.full else "buffer_full"])
            return
        try:
            draft = capture(given, self._most_text, time_ns(), sequence, rate)
        except BaseException as error:
            next(dropped["capture_failed"])
            if isinstance(error, Exception):
                return
            raise  # an interrupt of the host's
        if draft is None:
            next(dropped["no_output"])
        elif self._chars_in - self.chars_out + draft.chars > self._most_chars:
            next(dropped["buffer_full"])
        else:
            self._chars_in += draft.chars  # one step under the interpreter's lock: no call inside
            buffer.append(draft)
            next(self._appended)
            if self.ended:
                self._abandon()

    def thinned(self, given: Mapping[str, object], chosen_with: float) -> float:
        """
        Decide anew with the rate of this very interaction; return it, or 0.

        Chosen at the highest rate of all, it is kept in proportion to its own, so that
        its own is the probability in the end.
        """
        failed = self._predicates_failed.__next__
        rate = min(self.sampling.rate_of(given, self.rate, failed), chosen_with)
        trace_id = given.get("trace_id")
        if is_trace_id(trace_id):
            return rate if belongs(trace_id, rate) else 0.0
        kept = rate >= chosen_with or self.sampler.coin(rate / chosen_with)
        return rate if kept else 0.0

    def set_rate(self, rate: float) -> float:
        """
        Sample with another probability from now on, within the limits of the options.

        Rules keep their own rates, and a hook whose own rate is 0 goes on sampling nothing.

        Returns
        -------
        float
            The rate in force; each record carries the one with which it was chosen.
        """
        if self.options.sample_rate > 0 and 0 <= rate <= 1:
            self.rate = self.sampling.within(float(rate))
            self.sampler.rate = self.sampling.ceiling(self.rate)
        return self.rate

    def drop(self, reason: str, n: int = 1) -> None:
        """Count samples that will not arrive."""
        for _ in range(n):
            next(self._dropped[reason])

    def claim(self) -> bool:
        """Take the right to be the one sender."""
        try:
            return self.unstarted.pop()
        except IndexError:
            return False

    def unclaim(self) -> None:
        """Return the right back: the sender did not start or has died."""
        self.unstarted.append(True)

    def nudge(self) -> None:
        """Wake the sender now; never waits."""
        try:
            self.wake.release()
        except RuntimeError:  # it is awake
            return

    def finish(self, deadline: float) -> None:
        """Have the sender deliver what it can until *deadline* (monotonic) and end."""
        self.sampler.close()
        self.close_by = deadline if self.close_by is None else min(self.close_by, deadline)
        self.nudge()

    def retire(self) -> None:
        """Let the sender deliver what is buffered in its own time and end."""
        self.finish(time.monotonic() + RETIRE_S)

    @property
    def seen(self) -> int:
        """Interactions counted."""
        return self.sampler.seen

    @property
    def sampled(self) -> int:
        """Interactions chosen."""
        return read(self._sequence)

    @property
    def dropped(self) -> dict[str, int]:
        """Samples that will not arrive, by reason; reasons that did not occur are left out."""
        counts = {reason: read(counter) for reason, counter in self._dropped.items()}
        return {reason: n for reason, n in counts.items() if n}

    @property
    def error(self) -> str | None:
        """What went wrong last: with Redis now, else with any sample that could not be encoded."""
        encoding = f"encode_failed: {self.encode_error}" if self.encode_error else None
        return self.last_error or encoding

    @property
    def idle(self) -> bool:
        """Return whether no sender runs yet."""
        return bool(self.unstarted)

    @property
    def loading(self) -> bool:
        """Return whether the sender is there and does not run yet."""
        return not self.idle and not self.loaded

    def progress(self) -> Progress:
        """Return how far the counters have come, buffered samples not included."""
        return Progress(self.seen, self.completed, sum(self.dropped.values()))

    def has_reported(self, goal: Progress) -> bool:
        """Return whether Redis has confirmed everything up to *goal*."""
        return self.reported is not None and self.reported.covers(goal)

    def goal(self) -> Progress:
        """Return how far the counters will have come once everything buffered is done."""
        return Progress(self.seen, read(self._appended), sum(self.dropped.values()))

    def stats(self) -> dict[str, Any]:
        """Return where everything is; what a caller is just recording counts as buffered."""
        if self.ended:
            self._abandon()
        sent, dropped = self.sent, self.dropped  # read first, because they only grow
        sampled = self.sampled
        seen = self.seen
        return {
            "app": self.options.app,
            "hook_id": self.hook_id,
            "enabled": self.options.enabled and self.close_by is None,
            "sample_rate": self.rate,
            "seen": seen,
            "sampled": sampled,
            "not_sampled": seen - sampled,
            "buffered": sampled - sent - sum(dropped.values()),
            "sent": sent,
            "dropped": dropped,
            "predicates_failed": read(self._predicates_failed),
            "connected": self.connected,
            "last_error": self.error,
        }

    def _abandon(self) -> None:
        """Give up what was recorded after the sender had ended."""
        while self.buffer:
            try:
                self.buffer.popleft()
            except IndexError:  # another thread is at it
                return
            self.drop("shutdown")


# --- the thread: how it starts, delivers at an exit, and ends ---

EXIT_S = 2.0
#: A machine may be so slow that the sender is still loading the Redis client when the process
#: ends: it gets this long to load, and then as long again to deliver, up to the second figure.
_LOADED_WITHIN_S, _ONCE_LOADED_S = 4.0, 2.0
#: Redis is known to be away: it gets this long to come back.
_EXIT_WHEN_DOWN_S = 0.5
_POLL_S = 0.002
#: A sender that broke is not started again at once.
_RESTART_AFTER_S = 10.0
#: These end a child by ``os._exit``, which skips atexit.
_FORKING_LIBRARIES = ("multiprocessing.util", "billiard.util")

logger = logging.getLogger("groundwatch.hook")
logger.addHandler(logging.NullHandler())

_running: set[Recorder] = set()
#: When a hook whose sender broke may start another, in monotonic seconds.
_not_before: dict[str, float] = {}
_finalizers: set[str] = set()


def start(recorder: Recorder, *, again: bool = False) -> None:
    """
    Start the sender's thread, once; where no thread can be had, the next call tries again.

    A sender that broke is replaced after a while, with *again* at once.
    """
    too_early = _not_before and time.monotonic() < _not_before.get(recorder.hook_id, 0.0)
    if (too_early and not again) or not recorder.claim():
        return
    _running.add(recorder)
    for name in _FORKING_LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and name not in _finalizers:
            _finalizers.add(name)
            module.Finalize(None, finish_all, exitpriority=10)
    # A lock of the same kind as the thread: gevent may have replaced both since the last start.
    recorder.wake = _thread.allocate_lock()
    recorder.wake.acquire()
    try:
        # threading.Thread.start() would wait until the new thread has run.
        _thread.start_new_thread(serve, (recorder,))
    except RuntimeError as error:
        recorder.last_error = f"RuntimeError: {error}"
        recorder.unclaim()


def serve(recorder: Recorder) -> None:
    """Deliver until the recorder is finished; the body of the thread."""
    delivery = None
    try:
        # Redis and pydantic are loaded here, on our thread, and not by `import monitor`.
        with _state.importing:
            from .delivery import SenderLoop  # noqa: PLC0415
        delivery = SenderLoop(recorder)
        recorder.loaded = True
        while (pause_s := delivery.step(time.monotonic())) is not None:
            recorder.wake.acquire(timeout=pause_s)
        recorder.ended = True
        _running.discard(recorder)
    except BaseException as error:  # noqa: BLE001  # the host's console is not ours
        recorder.last_error = f"{type(error).__name__} in the sender"
        recorder.connected = False
        if delivery is not None:
            delivery.abandon()
        with contextlib.suppress(Exception):
            logger.warning("sender_failed error=%s", type(error).__name__)
        _not_before[recorder.hook_id] = time.monotonic() + _RESTART_AFTER_S
        recorder.unclaim()


def flush(recorder: Recorder, timeout_s: float) -> bool:
    """Wait until everything recorded so far, and the counters, have reached Redis; True if so."""
    return _reported([recorder], time.monotonic() + timeout_s)


def flush_all(timeout_s: float = EXIT_S) -> None:
    """
    Deliver what every hook of this process holds, as `finish_all` does, but go on afterwards.

    For a server that is about to end without running exit handlers. It takes *timeout_s* at most,
    half a second where Redis is away, and longer only while the Redis client is being loaded.
    """
    recorders = _recorders()
    _reported(recorders, _loaded_deadline(recorders, timeout_s), down_s=_EXIT_WHEN_DOWN_S)


def _reported(recorders: list[Recorder], deadline: float, *, down_s: float | None = None) -> bool:
    """Have all senders report; give up at *deadline*, or *down_s* after Redis was found away."""
    goals = [(recorder, recorder.goal()) for recorder in recorders]
    while missing := [recorder for recorder, goal in goals if not recorder.has_reported(goal)]:
        if time.monotonic() >= deadline:
            return False
        for recorder in missing:
            if down_s is not None and recorder.last_error and not recorder.connected:
                deadline = min(deadline, time.monotonic() + down_s)
            start(recorder, again=True)
            recorder.hurry = True
            recorder.nudge()
        time.sleep(_POLL_S)
    return True


def finish(recorder: Recorder, timeout_s: float) -> bool:
    """Deliver what can be delivered within the time-out and end the thread; True when all was."""
    deadline = time.monotonic() + timeout_s
    recorder.finish(deadline)
    _await_end(recorder, deadline)
    return recorder.ended and not recorder.dropped.get("shutdown")


def finish_all(timeout_s: float = EXIT_S) -> None:
    """Finish every recorder of this process, all within one time-out, which loading may extend."""
    recorders = _recorders()
    for recorder in recorders:
        recorder.sampler.close()
    deadline = _loaded_deadline(recorders, timeout_s)
    for recorder in recorders:
        recorder.finish(deadline)
    for recorder in recorders:
        _await_end(recorder, deadline, hopeless_s=_EXIT_WHEN_DOWN_S)


def _recorders() -> list[Recorder]:
    # Not those of a parent that forked without our handlers: their threads are not here.
    pid = os.getpid()
    return [recorder for recorder in list(_running) if recorder.pid == pid]


def _loaded_deadline(recorders: list[Recorder], timeout_s: float) -> float:
    """Wait until the Redis client is loaded; return when to stop delivering (monotonic)."""
    started = now = time.monotonic()
    while any(recorder.loading for recorder in recorders):
        if now >= started + _LOADED_WITHIN_S:
            return max(started + timeout_s, now)
        time.sleep(_POLL_S)
        now = time.monotonic()
    return max(started + timeout_s, now + min(now - started, _ONCE_LOADED_S))


def _await_end(recorder: Recorder, deadline: float, *, hopeless_s: float | None = None) -> None:
    while not recorder.ended and time.monotonic() < deadline:
        if recorder.claim():  # no thread could be had, or it broke: deliver on this one
            serve(recorder)
        if hopeless_s is not None and recorder.last_error and not recorder.connected:
            deadline, hopeless_s = min(deadline, time.monotonic() + hopeless_s), None
            recorder.finish(deadline)
        recorder.nudge()
        time.sleep(_POLL_S)


# --- when the host forks: the child replaces everything and acquires nothing ---

#: A fork waits this long for our thread's imports, which take a third of a second of CPU; a child
#: forked amid them could never import. Long enough for a machine that is very busy.
_IMPORTS_WAIT_S = 15.0


class Forked(Protocol):
    """Something that must start afresh in a forked child."""

    def after_fork(self) -> None:
        """Forget the parent's state; runs in the child, before anything else does."""


class _State:
    """Module state, in one place that the child can replace."""

    def __init__(self) -> None:
        self.importing = _thread.allocate_lock()
        #: Threads that took the lock for a fork of theirs; several may fork at once.
        self.held: set[int] = set()


_state = _State()
#: What must start afresh in a child; one hook in the interpreter however many come and go.
_forked: WeakSet[Forked] = WeakSet()


def register(forked: Forked) -> None:
    """Call ``after_fork`` of *forked* in each child, for as long as it lives."""
    _forked.add(forked)


def _before_fork() -> None:
    if _state.importing.acquire(timeout=_IMPORTS_WAIT_S):
        _state.held.add(_thread.get_ident())


def _after_fork_in_parent() -> None:
    thread = _thread.get_ident()
    if thread in _state.held:
        _state.held.discard(thread)
        _state.importing.release()


def _after_fork_in_child() -> None:
    _state.__init__()  # type: ignore[misc]
    for collection in (_running, _finalizers, _not_before):
        collection.clear()
    for forked in list(_forked):
        forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
atexit.register(finish_all)
