"""
The work of a worker: take samples, score them, commit, and only then acknowledge.

A sliding window of samples is in work at any time; nothing waits for the slowest of a
batch. A worker that dies anywhere in here loses nothing: what it had taken is handed
out again, and what it had committed is not counted twice. One that fails, because the
store is away, gives back what it has, so that no sample is blamed for that.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from monitor.errors import GroundwatchError, JudgeOutageError
from monitor.queue.census import sample_id_of
from monitor.queue.consumer import Consumer, Entry
from monitor.queue.newest_first import NewestFirst
from monitor.scoring.base import ScoresSamples
from monitor.store.engine import Store
from monitor.store.write import Result
from workers.pipeline import Dead, Rules, commit, score_entry

_COMMIT_EVERY = 50
_COMMIT_AFTER_S = 0.25
_KEEP_EVERY_S = 5.0
_ASK_EVERY_S = 1.0
_ABANDONED_EVERY_S = 5.0
#: Where scoring is quick, as many samples may wait for a thread of ours as it does in this time.
_WAITING_S, _MOST_WAITING = 0.5, 128
_BLOCK_MS = 200

log = structlog.get_logger("groundwatch.worker")

Done = tuple[Entry, Result | Dead]


@dataclass(slots=True, kw_only=True)
class ScoringRun:
    """One run of a worker over the queue; ``may_go_on`` is asked about once a second."""

    consumer: Consumer
    newest_first: NewestFirst
    store: Store
    scorer: ScoresSamples
    rules: Rules
    may_go_on: Callable[[], bool]
    abandoned_after_s: float
    idle_after_s: float = 2.0
    tell: Callable[[Sequence[Result]], None] | None = None  #: of what is stored; must not raise
    scored: int = 0
    _in_work: dict[Future[Result | Dead], Entry] = field(default_factory=dict)
    _done: list[Done] = field(default_factory=list)
    _last_s: dict[str, float] = field(default_factory=dict)
    _mean_s: float = 0.0  #: how long scoring one sample takes
    _clock_s: float = 0.0  #: from our monotonic clock to that of the queue
    _away: bool = False  #: the judge answers nobody; what needs it waits in the queue
    _alone: bool = False  #: what is in work may kill us; nothing else is taken meanwhile

    def run(self, *, budget_s: float) -> int:
        """
        Work until the budget is spent, the queue is idle or we are told to stop.

        Raises
        ------
        GroundwatchError
            If Redis or the store is away; what was taken has been given back.
        """
        self.store.check_reachable()
        self._clock_s = self.consumer.now_s() - time.monotonic()
        pool = ThreadPoolExecutor(self.scorer.concurrency, "groundwatch-score")
        try:
            self._work(pool, end_s=time.monotonic() + budget_s)
        except BaseException:
            # Calls that run cannot be stopped; those that have not begun can.
            pool.shutdown(wait=False, cancel_futures=True)
            self._give_back()
            raise
        pool.shutdown()
        return self.scored

    def _work(self, pool: ThreadPoolExecutor, *, end_s: float) -> None:
        taking, busy_s = self.may_go_on(), time.monotonic()
        self._last_s["ask"] = busy_s
        while taking or self._in_work or self._done:
            if taking:
                self._take(pool)
            worked = bool(self._in_work)
            self._collect()
            now_s = time.monotonic()
            busy_s = now_s if worked else busy_s
            taking = taking and now_s < end_s and now_s - busy_s < self.idle_after_s
            if taking and self._away:
                taking = False
                self._hand_back_unbegun()
            # Asked to the end, for asking keeps our place.
            if self._is_due("ask", _ASK_EVERY_S) and not self.may_go_on() and taking:
                taking = False
                self._hand_back_unbegun()

    def _take(self, pool: ThreadPoolExecutor) -> None:
        """Fill the window of samples in work, first with what dead workers left."""
        idle = not self._in_work and not self._done
        room = self._window - len(self._in_work)
        if self._alone and not idle:
            return
        self._alone = False
        entries = self._take_abandoned(room) if idle else []
        if not entries and room > 0:
            entries = self.consumer.take(room, block_ms=_BLOCK_MS if idle else None)
            self._skip_if_behind(entries)
            # What was left out comes when nothing new does.
            entries = entries or self.newest_first.take_later(room)
        for entry in entries:
            self._in_work[pool.submit(self._score, entry)] = entry

    @property
    def _window(self) -> int:
        """Samples in work: two rounds; more where they are over at once, to be written together."""
        rounds = 2 * self.scorer.concurrency
        if not self._mean_s:
            return rounds
        return max(rounds, min(_MOST_WAITING, int(_WAITING_S / self._mean_s)))

    def _skip_if_behind(self, entries: list[Entry]) -> None:
        """Go on with what is new; statuses need that first."""
        edge_s = self._queue_time_s() - self.rules.behind_after_s
        if entries and entries[-1].added_at_s < edge_s and self.newest_first.skip_to(edge_s):
            log.warning("backlog.left_for_later", before_s=round(edge_s))

    def _queue_time_s(self) -> float:
        """Tell the queue's time: ours may jump, and must not make samples old."""
        return self._clock_s + time.monotonic()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._queue_time_s(), UTC)

    def _take_abandoned(self, room: int) -> list[Entry]:
        if not self._is_due("abandoned", _ABANDONED_EVERY_S):
            return []
        idle_ms = int(self.abandoned_after_s * 1000)
        entries = self.consumer.take_abandoned(room, idle_ms=idle_ms)
        self._alone = any(entry.deliveries > 1 for entry in entries)
        if entries:
            log.warning("entries.taken_over", count=len(entries), alone=self._alone)
            self._last_s.pop("abandoned", None)  # there may be more: look again at once
        return entries

    def _score(self, entry: Entry) -> Result | Dead:
        started_s = time.monotonic()
        now = self._now()
        try:
            waited_s = now.timestamp() - entry.added_at_s
            result = score_entry(entry, self.scorer, self.rules, now=now, waited_s=waited_s)
        except GroundwatchError:
            raise
        except Exception as error:  # noqa: BLE001  # told and counted, below
            # A mistake of ours about one text must not stop the others, nor come for ever.
            # Only where: a traceback may show what users wrote.
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error(  # noqa: TRY400
                "entry.broken",
                entry_id=entry.entry_id,
                error=type(error).__name__,
                where=f"{where.name}, line {where.lineno}",
            )
            result = Dead(entry, "internal_error", type(error).__name__, sample_id_of(entry.fields))
        took_s = time.monotonic() - started_s
        self._mean_s += 0.2 * (took_s - self._mean_s) if self._mean_s else took_s
        return result

    def _collect(self) -> None:
        """Gather what is scored, and commit when enough has come together."""
        if self._in_work:
            finished, _ = wait(self._in_work, timeout=_COMMIT_AFTER_S, return_when=FIRST_COMPLETED)
            for future in finished:
                try:
                    self._done.append((self._in_work[future], future.result()))
                except JudgeOutageError as error:
                    self._leave(self._in_work[future], error)
                del self._in_work[future]
        if self._is_due("keep", _KEEP_EVERY_S):
            self.consumer.keep([entry.entry_id for entry in self._held()])
        enough = len(self._done) >= _COMMIT_EVERY or not self._in_work
        if self._done and (enough or self._is_due("commit", _COMMIT_AFTER_S)):
            self._commit(self._done)
            self._done = []

    def _leave(self, entry: Entry, error: JudgeOutageError) -> None:
        """Give a sample back unharmed: nobody can judge it now."""
        if not self._away:
            log.warning("judge.away", message=str(error))
        self._away = True
        self.consumer.give_back([entry])

    def _commit(self, done: list[Done]) -> None:
        self.scored += self._write(done)
        self.consumer.acknowledge([entry.entry_id for entry, _ in done])
        if self.tell is not None:
            self.tell([result for _, result in done if isinstance(result, Result)])
        for item in (result for _, result in done if isinstance(result, Dead)):
            log.error("entry.buried", entry_id=item.entry.entry_id, reason=item.reason)

    def _write(self, done: list[Done]) -> int:
        """Write all of them at once; one that cannot be written is set aside alone."""
        try:
            results = [result for _, result in done]
            return commit(self.store, results, self.rules, now=self._now())
        except Exception as error:
            if getattr(error, "transient", False):
                raise
            if len(done) > 1:
                return sum(self._write([one]) for one in done)
            dead = Dead(done[0][0], "unwritable", type(error).__name__)
            return commit(self.store, [dead], self.rules, now=self._now())

    def _hand_back_unbegun(self) -> None:
        """Told to stop: what nobody has begun to score is for others."""
        unbegun = [future for future in self._in_work if future.cancel()]
        self.consumer.give_back([self._in_work.pop(future) for future in unbegun])

    def _held(self) -> list[Entry]:
        return [*self._in_work.values(), *(entry for entry, _ in self._done)]

    def _give_back(self) -> None:
        with suppress(GroundwatchError):
            self.consumer.give_back(self._held())

    def _is_due(self, what: str, every_s: float) -> bool:
        """Tell, at most once in *every_s* seconds, that *what* is due; the first time at once."""
        now_s = time.monotonic()
        if now_s - self._last_s.get(what, -every_s) < every_s:
            return False
        self._last_s[what] = now_s
        return True
