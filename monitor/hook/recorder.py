"""What a hook holds in one process: its sampler, its buffer and its counters, without a lock."""

from __future__ import annotations

import _thread
import contextlib
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from time import time_ns
from typing import Any, NamedTuple

from .capture import NO_REST, NOTHING_CUT, PASSAGES, UNREADABLE, Plain, capture
from .experiments import Shares
from .options import Options

#: Errors of the app are counted under so many names; further ones share one.
_MOST_ERRORS, _LONGEST_NAME = 20, 60
#: A hook that was replaced has this long to deliver what it holds.
RETIRE_S = 60.0
#: Every reason for which a sample is dropped.
REASONS = (
    "buffer_full", "queue_full", "no_output", "capture_failed", "mask_failed", "encode_failed",
    "sender_failed", "redis_unavailable", "shutdown",
)  # fmt: skip
_TRACE_ID_DIGITS = 32
#: Feedback that waits at most; each is small.
MOST_WAITING, _MOST_COMMENT_CHARS, _LONGEST_ID = 1_000, 2_000, 200

logger = logging.getLogger("groundwatch.hook")


class Sampler:
    """
    Chooses with probability *rate*, in [0, 1], independently for each call, and counts every call.

    Without a lock: to count and to draw are single steps in C, so that threads, signal handlers
    and ``__del__`` may come in between.
    """

    __slots__ = ("closed", "counter", "draw", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        # Our own generator: the host's seeded stream stays untouched, forked workers differ.
        self.draw = Random().random  # noqa: S311
        self.counter = itertools.count()
        self.closed = False  #: whether nothing is chosen and counted any more

    def choose(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is sampled, 0 if not."""
        if self.closed:
            return 0.0
        next(self.counter)
        rate = self.rate
        if trace_id is not None and is_trace_id(trace_id):
            return rate if belongs(trace_id, rate) else 0.0
        return rate if self.draw() < rate else 0.0

    @property
    def seen(self) -> int:
        """How many interactions were counted."""
        return read(self.counter)


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
            self.sampler.closed = True
        self.buffer: deque[tuple[Any, ...]] = deque()  #: the fields of a `Draft` each
        self.feedback = FeedbackBuffer()
        self._sequence = itertools.count()
        self._appended = itertools.count()
        self._dropped = Counters((reason, itertools.count()) for reason in REASONS)
        self._errored = Counters()
        self.unreadable = Counters()  #: samples with a field that could not be read, by field
        self._unseen = itertools.count()
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
        self.experiments: Shares = {}
        self.chooses = False  #: whether the app asks for variants
        self.last_error: str | None = None
        self.encode_error = ""  #: class of the last error while encoding a sample
        self.reported: Progress | None = None
        self.ended = False
        self.masking: int | None = None  #: the thread that runs a mask now
        # written by flush and close
        self.hurry = False
        self.close_by: float | None = None
        self.wake = _thread.allocate_lock()
        self.wake.acquire()

    def record_texts(self, query: object, contexts: object, output: object, rate: float) -> None:
        """Record as `record` does, at half the price, what is most often given: texts alone."""
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
                    # A plain tuple, which is not made again each time, unlike an instance.
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
        unreadable: dict[str, Plain] = {}
        try:
            draft = capture(given, self._most_text, time_ns(), sequence, rate, unreadable)
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
            for field, what in unreadable.items():
                self._note_unreadable(field, what)

    def _note_unreadable(self, field: str, what: Plain) -> None:
        """Count that *field* could not be read, and log it once."""
        name = f"unreadable_{field}"
        is_new = name not in self.unreadable
        self.unreadable.add(name)  # first: a handler of the host's may sample what is logged
        if is_new:
            logger.warning("%s got=%s hint=%r", name, what, UNREADABLE[field])

    def thinned(self, given: Mapping[str, object], chosen_with: float) -> float:
        """
        Decide again with the rate of this very interaction; return it, or 0.

        Chosen at the highest rate of all, it is kept in proportion to its own, so that
        its own is the probability in the end.
        """
        failed = self._predicates_failed.__next__
        rate = min(self.sampling.rate_of(given, self.rate, failed), chosen_with)
        trace_id = given.get("trace_id")
        if is_trace_id(trace_id):
            return rate if belongs(trace_id, rate) else 0.0
        kept = rate >= chosen_with or self.sampler.draw() < rate / chosen_with
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
            self._dropped.add(reason)

    def fail(self, name: str, *, counted: bool) -> None:
        """Count a request that failed with the error *name*; *counted*: it is among those seen."""
        if self.sampler.closed:
            return
        if not counted:
            next(self._unseen)
        name = name[:_LONGEST_NAME]
        if name not in self._errored and len(self._errored) >= _MOST_ERRORS:
            name = "other"
        self._errored.add(name)

    @property
    def errored(self) -> dict[str, int]:
        """Requests that failed, by the name of their error."""
        return self._errored.so_far()

    @property
    def unseen(self) -> int:
        """Requests that failed before there was an interaction to see."""
        return read(self._unseen)

    def claim(self) -> bool:
        """Take the right to be the one sender."""
        with contextlib.suppress(IndexError):
            return self.unstarted.pop()
        return False

    def nudge(self) -> None:
        """Wake the sender now; never waits."""
        with contextlib.suppress(RuntimeError):  # it is awake
            self.wake.release()

    def finish(self, deadline: float) -> None:
        """Have the sender deliver what it can until *deadline* (monotonic) and end."""
        self.sampler.closed = True
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
        return self._dropped.so_far()

    @property
    def encoding_error(self) -> str:
        """Why a sample could not be encoded last; empty when all could."""
        return f"encode_failed: {self.encode_error}" if self.encode_error else ""

    def progress(self) -> Progress:
        """Return how far the counters have come, buffered samples not included."""
        dropped = sum(self.dropped.values()) + sum(self.errored.values())
        return Progress(self.seen, self.completed, dropped, self.feedback.settled)

    def goal(self) -> Progress:
        """Return how far the counters will have come once everything buffered is done."""
        done = self.progress()
        return done._replace(completed=read(self._appended), feedback=self.feedback.given)

    def has_reported(self, goal: Progress) -> bool:
        """Return whether Redis has confirmed everything up to *goal*."""
        return self.reported is not None and self.reported.covers(goal)

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
            "errored": self.errored,
            "buffered": sampled - sent - sum(dropped.values()),
            "sent": sent,
            "dropped": dropped,
            "feedback": self.feedback.stats(),
            "predicates_failed": read(self._predicates_failed),
            "connected": self.connected,
            "last_error": self.last_error or self.encoding_error or None,
        }

    def _abandon(self) -> None:
        """Give up what was recorded after the sender had ended."""
        self.feedback.abandon()
        with contextlib.suppress(IndexError):  # another thread is at it
            while self.buffer:
                self.buffer.popleft()
                self.drop("shutdown")


def is_trace_id(value: object) -> bool:
    """Return whether this is a trace id as W3C and OpenTelemetry write it."""
    if type(value) is not str or len(value) != _TRACE_ID_DIGITS:
        return False
    try:
        int(value, 16)
    except ValueError:
        return False
    return value.isascii() and value.isalnum()  # not what `int` accepts beside: + - _ and spaces


def belongs(trace_id: object, rate: float) -> bool:
    """
    Return whether a trace is in the sample of *rate*; smaller samples are part of larger ones.

    OpenTelemetry's rule (TraceIdRatioBased), so that a trace is sampled whole across services.
    """
    return int(str(trace_id)[16:], 16) < round(rate * 2**64)


def read(counter: itertools.count[int]) -> int:
    """Return what a counter will give next without moving it; only its repr tells: ``count(5)``."""
    return int(repr(counter)[6:-1])


class Counters(dict[str, "itertools.count[int]"]):
    """Counters by name. To count is a single step in C, as in `Sampler`."""

    def add(self, name: str) -> None:
        """Count one more."""
        next(self.get(name) or self.setdefault(name, itertools.count()))

    def so_far(self) -> dict[str, int]:
        """Return how many there were of each; names that did not occur are left out."""
        counted = {name: read(counter) for name, counter in list(self.items())}
        return {name: n for name, n in counted.items() if n}


class Progress(NamedTuple):
    """How far a hook has come; every part only grows."""

    seen: int
    completed: int
    dropped: int  #: samples, and requests that failed
    feedback: int = 0

    def covers(self, other: Progress) -> bool:
        """Return whether this is as far as *other* or farther in every part."""
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))


class FeedbackDraft(NamedTuple):
    """One user's word on one answer."""

    at_ns: int
    trace_id: str
    good: bool
    comment: str


class FeedbackBuffer:
    """What callers and the sender share of feedback; ``given = sent + dropped + waiting``."""

    def __init__(self) -> None:
        self.waiting: deque[FeedbackDraft] = deque()  #: the sender alone takes out
        self._given = itertools.count()
        self._dropped = Counters()
        self.sent = 0  #: written by the sender

    def give(self, trace_id: object, good: object, comment: object) -> None:
        """Keep one for the sender, or count why not; never waits."""
        next(self._given)
        if (
            not isinstance(trace_id, str)
            or not trace_id
            or not (isinstance(good, (bool, int)) and good in {0, 1})
            or not (comment is None or isinstance(comment, str))
        ):
            self._dropped.add("invalid")
        elif len(self.waiting) >= MOST_WAITING:
            self._dropped.add("buffer_full")
        else:
            text = (comment or "")[:_MOST_COMMENT_CHARS]
            self.waiting.append(FeedbackDraft(time_ns(), trace_id[:_LONGEST_ID], bool(good), text))

    def drop(self, reason: str, n: int = 1) -> None:
        """Count feedback that will not arrive."""
        for _ in range(n):
            self._dropped.add(reason)

    def abandon(self) -> None:
        """Give up what waits: nobody sends it any more."""
        with contextlib.suppress(IndexError):  # another thread is at it
            while self.waiting:
                self.waiting.popleft()
                self._dropped.add("shutdown")

    @property
    def given(self) -> int:
        """How many were handed over."""
        return read(self._given)

    @property
    def settled(self) -> int:
        """How many were sent or dropped."""
        return self.sent + sum(self._dropped.so_far().values())

    def counters(self, sent: int) -> dict[str, int]:
        """Return the counters as Redis keeps them, *sent* of all counted as sent."""
        if not self.given:
            return {}
        dropped = {f"feedback:{reason}": n for reason, n in self._dropped.so_far().items()}
        return {"feedback:given": self.given, "feedback:sent": sent, **dropped}

    def stats(self) -> dict[str, Any]:
        """Return where all feedback is."""
        sent, dropped = self.sent, self._dropped.so_far()  # first, because they only grow
        given = self.given
        waiting = given - sent - sum(dropped.values())
        return {"given": given, "sent": sent, "dropped": dropped, "waiting": waiting}
