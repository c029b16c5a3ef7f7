"""Watch a worker for deafness: samples wait, it is woken, and nothing begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a worker sees of itself at one moment, while Redis answers."""

    waits: bool  #: samples wait
    busy: bool  #: a process of this worker has a drain, however slow
    taken: int  #: drains that its processes have begun, ever
    runs: bool  #: a drain that this worker woke runs, here or in another worker
    heard: float | None  #: when a drain that it woke last began anywhere; any clock
    left: bool  #: wake-ups lie in the broker


@dataclass(slots=True)
class StallWatch:
    """
    Says when a worker is to be replaced, because it has made no progress for *after_s*.

    Two things show that. Nobody begins what this worker is woken for. Or wake-ups lie in
    the broker and none of its idle processes takes one, though others may: a worker that
    is deaf beside some that hear. A drain that runs is progress, and so is one that ends
    at once because the judge is away.
    """

    after_s: float
    _unheard_s: float | None = None  #: since when, by a clock that only goes forward
    _untaken_s: float | None = None
    _last: Look | None = None

    def look(self, now: Look, now_s: float) -> str | None:
        """Say in a sentence why the worker has to be replaced; None while it has not."""
        before, self._last = self._last, now
        if before is None or not now.waits or now.busy:
            self.reset()
            self._last = now
            return None
        unheard = not now.runs and now.heard == before.heard
        untaken = now.left and now.taken == before.taken
        self._unheard_s = _since(self._unheard_s, now_s) if unheard else None
        self._untaken_s = _since(self._untaken_s, now_s) if untaken else None
        if self._is_over(self._unheard_s, now_s):
            return f"samples wait, and no wake-up was heard for {self.after_s:g} s"
        if self._is_over(self._untaken_s, now_s):
            return f"wake-ups wait, and no idle process took one for {self.after_s:g} s"
        return None

    def reset(self) -> None:
        """Begin anew, as when Redis was away: that is no fault of the worker."""
        self._unheard_s = self._untaken_s = self._last = None

    def _is_over(self, since_s: float | None, now_s: float) -> bool:
        return since_s is not None and now_s - since_s >= self.after_s


def _since(before_s: float | None, now_s: float) -> float:
    return now_s if before_s is None else before_s
