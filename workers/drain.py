"""
The work of a worker: take samples, score them, commit, and only then acknowledge.

A sliding window of samples is in work at any time; nothing waits for the slowest of a
batch. A worker that dies anywhere in here loses nothing: what it had taken is handed
out again, and what it had committed is not counted twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from monitor.queue.consumer import Consumer, Entry
from monitor.scoring.scorer import Scorer
from monitor.store.engine import Store
from monitor.store.write import Result
from workers.pipeline import Dead, Rules, commit, score_entry

_COMMIT_EVERY = 50
_COMMIT_AFTER_S = 0.25
_KEEP_EVERY_S = 5.0
_BLOCK_MS = 200

log = structlog.get_logger("groundwatch.worker")


@dataclass(slots=True, kw_only=True)
class Drain:
    """One run of a worker over the queue; ``may_go_on`` is asked about once a second."""

    consumer: Consumer
    store: Store
    scorer: Scorer
    rules: Rules
    may_go_on: Callable[[], bool]
    abandoned_after_s: float
    idle_after_s: float = 2.0
    scored: int = 0
    _in_work: dict[Future[Result | Dead], Entry] = field(default_factory=dict)
    _done: list[tuple[Entry, Result | Dead]] = field(default_factory=list)
    _due: dict[str, float] = field(default_factory=dict)

    def run(self, *, budget_s: float) -> int:
        """Work until the budget is spent, the queue is idle or we are told to stop."""
        end = time.monotonic() + budget_s
        last_work = time.monotonic()
        self._finish_abandoned()
        with ThreadPoolExecutor(self.scorer.concurrency, "groundwatch-score") as pool:
            taking = True
            while taking or self._in_work or self._done:
                if taking and self._take(pool):
                    last_work = time.monotonic()
                self._collect()
                now = time.monotonic()
                taking = taking and now < end and now - last_work < self.idle_after_s
                taking = taking and (not self._is_due("ask", 1.0) or self.may_go_on())
        return self.scored

    def _take(self, pool: ThreadPoolExecutor) -> int:
        """Fill the window of samples in work."""
        room = max(self.scorer.concurrency * 2, 16) - len(self._in_work)
        if room <= 0:
            return 0
        idle = not self._in_work and not self._done
        entries = self.consumer.take(room, block_ms=_BLOCK_MS if idle else None)
        for entry in entries:
            self._in_work[pool.submit(self._score, entry)] = entry
        return len(entries)

    def _collect(self) -> None:
        """Gather what is scored, and commit when enough has come together."""
        if self._in_work:
            finished, _ = wait(self._in_work, timeout=_COMMIT_AFTER_S, return_when=FIRST_COMPLETED)
            self._done += [(self._in_work.pop(future), future.result()) for future in finished]
        if self._is_due("keep", _KEEP_EVERY_S):
            entries = [*self._in_work.values(), *(entry for entry, _ in self._done)]
            self.consumer.keep([entry.entry_id for entry in entries])
        enough = len(self._done) >= _COMMIT_EVERY or not self._in_work
        if self._done and (enough or self._is_due("commit", _COMMIT_AFTER_S)):
            self._commit(self._done)
            self._done = []

    def _finish_abandoned(self) -> None:
        """Finish what a worker left behind, one entry at a time, before anything new."""
        idle_ms = int(self.abandoned_after_s * 1000)
        while (entry := self.consumer.take_abandoned(idle_ms=idle_ms)) and self.may_go_on():
            log.warning("entry.retried", entry_id=entry.entry_id, deliveries=entry.deliveries)
            self._commit([(entry, self._score(entry))])

    def _score(self, entry: Entry) -> Result | Dead:
        return score_entry(entry, self.scorer, self.rules, now=datetime.now(UTC))

    def _commit(self, done: list[tuple[Entry, Result | Dead]]) -> None:
        new = commit(self.store, [result for _, result in done], now=datetime.now(UTC))
        self.consumer.acknowledge([entry.entry_id for entry, _ in done])
        self.scored += new
        for item in (result for _, result in done if isinstance(result, Dead)):
            log.error("entry.buried", entry_id=item.entry.entry_id, reason=item.reason)

    def _is_due(self, what: str, every_s: float) -> bool:
        """Tell, at most once in *every_s* seconds, that *what* is due."""
        now = time.monotonic()
        if now < self._due.setdefault(what, now + every_s):
            return False
        self._due[what] = now + every_s
        return True
