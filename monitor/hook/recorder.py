"""One process's life of a hook: its gate, its buffer and its counters, without a lock."""

from __future__ import annotations

import _thread
import itertools
import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from monitor.hook.capture import Draft, capture
from monitor.hook.gate import Gate, read
from monitor.hook.options import Options

#: A hook that was replaced has this long to deliver what it holds.
RETIRE_S = 60.0
#: Every reason for which a sample is dropped.
REASONS = (
    "buffer_full",
    "queue_full",
    "no_output",
    "capture_failed",
    "mask_failed",
    "encode_failed",
    "redis_unavailable",
    "shutdown",
)


class Progress(NamedTuple):
    """How far a hook has come; every part only grows."""

    seen: int
    completed: int
    dropped: int

    def covers(self, other: Progress) -> bool:
        """Say whether this is as far as *other* or farther in every part."""
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
        self.hook_id = os.urandom(8).hex()
        self.pid = os.getpid()
        self.started_at_ms = time.time_ns() // 1_000_000
        self.gate = Gate(options.sample_rate)
        self.choose = self.gate.choose if options.enabled else _never
        self.buffer: deque[Draft] = deque()
        self._sequence = itertools.count()
        self._appended = itertools.count()
        self._dropped = {reason: itertools.count() for reason in REASONS}
        self._chars_in = 0
        self._unstarted = [True]
        # written by the sender
        self.chars_out = 0
        self.sent = 0
        self.completed = 0
        self.full = False
        self.connected = False
        self.last_error: str | None = None
        self.reported: Progress | None = None
        self.ended = False
        # written by flush and close
        self.hurry = False
        self.close_by: float | None = None
        self.wake = _thread.allocate_lock()
        self.wake.acquire()

    def record(self, given: Mapping[str, object]) -> None:
        """Copy a chosen interaction into the buffer, or count why not; never waits."""
        sequence = next(self._sequence)
        options = self.options
        if self.full:
            return self.drop("queue_full")
        if len(self.buffer) >= options.buffer_samples:
            return self.drop("buffer_full")
        try:
            draft = capture(given, options.max_text_chars, time.time_ns(), sequence)
        except BaseException as error:
            self.drop("capture_failed")
            if isinstance(error, Exception):
                return None
            raise  # an interrupt of the host's
        if draft is None:
            return self.drop("no_output")
        if self._chars_in - self.chars_out + draft.chars > options.buffer_chars:
            return self.drop("buffer_full")
        self._chars_in += draft.chars  # one step under the interpreter's lock: no call inside
        self.buffer.append(draft)
        next(self._appended)
        return None

    def drop(self, reason: str, n: int = 1) -> None:
        """Count samples that will not arrive."""
        for _ in range(n):
            next(self._dropped[reason])

    def claim(self) -> bool:
        """Take the right to be the one sender."""
        try:
            return self._unstarted.pop()
        except IndexError:
            return False

    def unclaim(self) -> None:
        """Give the right back: the sender did not start or has died."""
        self._unstarted.append(True)

    def nudge(self) -> None:
        """Wake the sender now; never waits."""
        try:
            self.wake.release()
        except RuntimeError:  # it is awake
            return

    def finish(self, deadline: float) -> None:
        """Tell the sender to deliver what it can until *deadline* (monotonic) and end."""
        self.choose = _never
        self.close_by = deadline if self.close_by is None else min(self.close_by, deadline)
        self.nudge()

    def retire(self) -> None:
        """Let the sender deliver what is buffered in its own time and end."""
        self.finish(time.monotonic() + RETIRE_S)

    @property
    def seen(self) -> int:
        """Interactions counted."""
        return self.gate.seen

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
    def idle(self) -> bool:
        """Say whether no sender runs yet."""
        return bool(self._unstarted)

    def progress(self) -> Progress:
        """Say how far the counters have come, buffered samples not included."""
        return Progress(self.seen, self.completed, sum(self.dropped.values()))

    def goal(self) -> Progress:
        """Say how far the counters will have come once everything buffered is done."""
        return Progress(self.seen, read(self._appended), sum(self.dropped.values()))

    def stats(self) -> dict[str, Any]:
        """Tell where everything is; what a caller is just recording counts as buffered."""
        sent, dropped = self.sent, self.dropped  # read first, because they only grow
        sampled = self.sampled
        seen = self.seen
        return {
            "app": self.options.app,
            "hook_id": self.hook_id,
            "enabled": self.options.enabled and self.close_by is None,
            "seen": seen,
            "sampled": sampled,
            "not_sampled": seen - sampled,
            "buffered": sampled - sent - sum(dropped.values()),
            "sent": sent,
            "dropped": dropped,
            "connected": self.connected,
            "last_error": self.last_error,
        }


def _never(_trace_id: object = None) -> bool:
    return False
