"""What users said of answers, as it waits in the app's memory: bounded, counted, without a lock."""

from __future__ import annotations

import itertools
from collections import deque
from time import time_ns
from typing import Any, NamedTuple

from .options import read

#: So many wait at most; each is small.
MOST_WAITING = 1_000
MOST_COMMENT_CHARS = 2_000
_MOST_NAME_CHARS = 200
#: Every reason for which feedback is dropped.
REASONS = ("invalid", "buffer_full", "mask_failed", "shutdown")


class FeedbackDraft(NamedTuple):
    """One user's word on one answer."""

    at_ns: int
    trace_id: str
    good: bool
    comment: str


class FeedbackBuffer:
    """
    What callers and the sender share of feedback; ``given = sent + dropped + waiting``.

    Counters are single steps in C, as those of the recorder; the sender alone takes out and counts
    what was sent.
    """

    def __init__(self) -> None:
        self.waiting: deque[FeedbackDraft] = deque()
        self._given = itertools.count()
        self._dropped = {reason: itertools.count() for reason in REASONS}
        self.sent = 0  #: written by the sender

    def give(self, trace_id: object, good: object, comment: object) -> None:
        """Keep one for the sender, or count why not; never waits."""
        next(self._given)
        if (
            not isinstance(trace_id, str)
            or not trace_id
            or not (isinstance(good, bool) or (isinstance(good, int) and good in {0, 1}))
            or not (comment is None or isinstance(comment, str))
        ):
            self.drop("invalid")
        elif len(self.waiting) >= MOST_WAITING:
            self.drop("buffer_full")
        else:
            text = (comment or "")[:MOST_COMMENT_CHARS]
            self.waiting.append(
                FeedbackDraft(time_ns(), trace_id[:_MOST_NAME_CHARS], bool(good), text)
            )

    def drop(self, reason: str, n: int = 1) -> None:
        """Count feedback that will not arrive."""
        for _ in range(n):
            next(self._dropped[reason])

    def abandon(self) -> None:
        """Give up what waits: nobody sends it any more."""
        while self.waiting:
            try:
                self.waiting.popleft()
            except IndexError:  # another thread is at it
                return
            self.drop("shutdown")

    @property
    def given(self) -> int:
        """How many were handed over."""
        return read(self._given)

    @property
    def dropped(self) -> dict[str, int]:
        """How many will not arrive, by reason; reasons that did not occur are left out."""
        counts = {reason: read(counter) for reason, counter in self._dropped.items()}
        return {reason: n for reason, n in counts.items() if n}

    @property
    def settled(self) -> int:
        """How many were sent or dropped."""
        return self.sent + sum(self.dropped.values())

    def counters(self, sending: int) -> dict[str, int]:
        """Return the counters as Redis keeps them, *sending* more counted as sent."""
        if not self.given:
            return {}
        dropped = {f"feedback:{reason}": n for reason, n in self.dropped.items()}
        return {"feedback:given": self.given, "feedback:sent": self.sent + sending, **dropped}

    def stats(self) -> dict[str, Any]:
        """Return where all feedback is."""
        sent, dropped = self.sent, self.dropped  # first, because they only grow
        given = self.given
        waiting = given - sent - sum(dropped.values())
        return {"given": given, "sent": sent, "dropped": dropped, "waiting": waiting}
