"""
One run of a worker over the queue: take samples, score them, commit, and only then acknowledge.

A sliding window of samples is in work at any time; nothing waits for the slowest of a
batch. A worker that dies anywhere in here loses nothing: what it had taken is handed
out again, and what it had committed is not counted twice. One that fails, because the
store is unreachable, gives back what it has, so that no sample is blamed for that.

Read from the top: `ScoringRun` moves entries through the window, `score_entry` makes a
result of one entry, `commit` writes results.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from monitor.errors import GroundwatchError, JudgeOutageError, RecordError
from monitor.models import Evaluation, Sample, ScoredSample
from monitor.models.evaluation import OWN, OWN_LEARNT_AT, PassRule
from monitor.models.interaction import places_of, without_texts
from monitor.queue import names
from monitor.queue.consumer import Consumer, NewestFirst, StreamEntry
from monitor.queue.snapshot import sample_id_of
from monitor.queue.wire import decode, text_of
from monitor.rolling.looks import CASCADE
from monitor.rolling.tallies import bucket_start, fingerprint, stream_key, tally_of
from monitor.scoring.base import Judgement, KeepsJudgements, Scorer
from monitor.store.engine import Store, batched
from monitor.store.ledger import DeadLetter
from monitor.store.query import LineKey, PassLine, read_pass_lines
from monitor.store.verdicts import apps_with_rising_evidence
from monitor.store.write import Contribution, Result, record

_COMMIT_EVERY = 400
_COMMIT_AFTER_S = 0.25
#: Samples that end within this time are gathered and replaced together.
_GATHER_S = 0.01
_KEEP_EVERY_S = 5.0
_ASK_EVERY_S = 1.0
_ABANDONED_EVERY_S = 5.0
_BLOCK_MS = 200
#: Of samples whose judgement is kept so many are scored in one go.
_KEPT_AT_ONCE = 50
#: Where scoring is quick, as many samples may wait for a thread of ours as it does in this time.
_WAITING_S, _MOST_WAITING = 0.5, 400
#: The first time an entry is in work with others, any of which may have killed the worker; after
#: that it is alone. So one that never came back from so many hands killed its worker twice.
MAX_DELIVERIES = 3
#: Why samples expire.
TOO_OLD = "too_old"

log = structlog.get_logger("groundwatch.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRules:
    """What turns evaluations into contributions, and when a waiting sample is too old."""

    pass_score: float
    bucket_s: int
    dimensions: tuple[str, ...] = ()
    settle_s: int = 600
    news_s: int = 3600  #: what is older than the status window does not count as current
    behind_after_s: float = 300.0  #: samples that wait for longer make way for new ones
    expire_after_s: float = 0.0  #: samples that waited for longer expire unscored; 0: never


class ReadAhead(NamedTuple):
    """A sample that was read before its thread began, with the judgement kept of its texts."""

    sample: Sample
    kept: Judgement | None


@dataclass(frozen=True, slots=True)
class Dead:
    """An entry that can never be scored, and why."""

    entry: StreamEntry
    reason: str
    detail: str
    sample_id: str | None = None  #: where it can be read at all

    @classmethod
    def unreadable(cls, entry: StreamEntry, error: RecordError) -> Self:
        """Return the reason why an entry cannot be read."""
        return cls(entry, error.code, str(error), sample_id_of(entry.fields))


@dataclass(slots=True, kw_only=True)
class ScoringRun:
    """One run of a worker over the queue; it calls ``may_go_on`` about once a second."""

    consumer: Consumer
    newest_first: NewestFirst
    store: Store
    scorer: Scorer
    rules: ScoringRules
    may_go_on: Callable[[], bool]
    abandoned_after_s: float
    idle_after_s: float = 2.0
    on_stored: Callable[[Sequence[Result]], None] | None = None  #: must not raise
    scored: int = 0
    _in_work: dict[Future[list[Result | Dead]], list[StreamEntry]] = field(default_factory=dict)
    _finished: SimpleQueue[Future[list[Result | Dead]]] = field(default_factory=SimpleQueue)
    _done: list[tuple[StreamEntry, Result | Dead]] = field(default_factory=list)
    _last_s: dict[str, float] = field(default_factory=dict)
    _mean_s: float = 0.0  #: how long scoring one sample takes
    _clock_s: float = 0.0  #: from our monotonic clock to that of the queue
    _lines: Mapping[LineKey, PassLine] = field(default_factory=dict)  #: apps' own pass lines
    _judge_away: bool = False  #: samples that need the judge stay in the queue
    _alone: bool = False  #: what is in work may kill us; nothing else is taken meanwhile

    def run(self, *, budget_s: float) -> int:
        """
        Work until the budget is spent, the queue is idle or ``may_go_on`` returns False.

        Return how many samples were stored that were not stored before. Raise GroundwatchError if
        Redis or the store is unreachable; what was taken has been given back.
        """
        with self.store.read() as connection:  # raises what cannot be reached
            self._lines = read_pass_lines(connection)
        self._clock_s = self.consumer.now_s() - time.monotonic()
        pool = ThreadPoolExecutor(self.scorer.concurrency, "groundwatch-score")
        # What only takes time of this processor: more threads would wait for each other.
        at_hand = ThreadPoolExecutor(1, "groundwatch-kept")
        try:
            taking, busy_s = self.may_go_on(), time.monotonic()
            self._last_s["ask"], end_s = busy_s, busy_s + budget_s
            while taking or self._in_work or self._done:
                if taking:
                    entries = self._take()
                    aheads = self._read_ahead(entries)
                    kept = [(e, a) for e, a in zip(entries, aheads, strict=True) if a and a.kept]
                    jobs = [(at_hand, some) for some in batched(kept, _KEPT_AT_ONCE)]
                    jobs += [
                        (pool, [(entry, ahead)])
                        for entry, ahead in zip(entries, aheads, strict=True)
                        if ahead is None or not ahead.kept
                    ]
                    for place, job in jobs:
                        future = place.submit(self._score_all, job)
                        self._in_work[future] = [entry for entry, _ in job]
                        future.add_done_callback(self._finished.put)
                worked = bool(self._in_work)
                self._collect()
                self._store()
                now_s = time.monotonic()
                busy_s = now_s if worked else busy_s
                taking = taking and now_s < end_s and now_s - busy_s < self.idle_after_s
                # Asked to the end, for asking keeps our lease.
                stopped = self._is_due("ask", _ASK_EVERY_S) and not self.may_go_on()
                if taking and (stopped or self._judge_away):
                    taking = False
                    # What nobody has begun to score is for others.
                    unbegun = [future for future in self._in_work if future.cancel()]
                    self.consumer.give_back([*chain.from_iterable(map(self._in_work.pop, unbegun))])
        except BaseException:
            # Calls that run cannot be stopped; those that have not begun can.
            for place in (pool, at_hand):
                place.shutdown(wait=False, cancel_futures=True)
            with suppress(GroundwatchError):
                self.consumer.give_back(self._held())
            raise
        pool.shutdown()
        at_hand.shutdown()
        return self.scored

    def _read_ahead(self, entries: Sequence[StreamEntry]) -> list[ReadAhead | None]:
        """Read samples, and at once what is kept of their judgements; None where that fails."""
        found: list[ReadAhead | None] = [None] * len(entries)
        if not isinstance(self.scorer, KeepsJudgements):
            return found
        samples = {}
        for number, entry in enumerate(entries):
            with suppress(Exception):  # it is scored alone, where it becomes a dead letter
                samples[number] = decode(entry.fields, entry.entry_id)
        try:
            judgements = self.scorer.kept([sample.interaction for sample in samples.values()])
        except Exception as error:  # noqa: BLE001  # of one of many: each is scored alone
            log.warning("kept_judgements_not_read", error=type(error).__name__)
            return found
        for (number, sample), judgement in zip(samples.items(), judgements, strict=True):
            found[number] = ReadAhead(sample, judgement)
        return found

    def _take(self) -> list[StreamEntry]:
        """Fill the window of samples in work, first with what dead workers left."""
        idle = not self._in_work and not self._done
        if self._alone and not idle:
            return []
        # Two rounds; more where they are over at once, to be written together.
        window = 2 * self.scorer.concurrency
        if self._mean_s:
            per_s = self.scorer.concurrency / self._mean_s
            window = max(window, min(_MOST_WAITING, int(_WAITING_S * per_s)))
        room = window - sum(map(len, self._in_work.values()))
        self._alone = False
        if idle and self._is_due("abandoned", _ABANDONED_EVERY_S):
            idle_ms = int(self.abandoned_after_s * 1000)
            if entries := self.consumer.take_abandoned(room, idle_ms=idle_ms):
                self._alone = any(entry.deliveries > 1 for entry in entries)
                log.warning("entries_taken_over", count=len(entries), alone=self._alone)
                self._last_s.pop("abandoned", None)  # there may be more: look again at once
                return entries
        if room <= 0:
            return []
        entries = self.consumer.take(room, block_ms=_BLOCK_MS if idle else None)
        # Far behind, go on with what is new: statuses need that first.
        edge_s = self._now_s() - self.rules.behind_after_s
        if entries and entries[-1].added_at_s < edge_s and self.newest_first.skip_to(edge_s):
            log.warning("backlog_left_for_later", before_s=round(edge_s))
        # What was left for later comes when nothing new does.
        return entries or self.newest_first.take_later(room)

    def _now_s(self) -> float:
        """Return the time by the queue's clock: ours may jump, and must not make samples old."""
        return self._clock_s + time.monotonic()

    def _score_all(
        self, entries: Sequence[tuple[StreamEntry, ReadAhead | None]]
    ) -> list[Result | Dead]:
        """Score entries on a thread of ours, and pack those whose judgement was kept."""
        found = [self._score(entry, ahead) for entry, ahead in entries]
        # One after the other: what compressing needs of memory is then near.
        for number, (result, (_, ahead)) in enumerate(zip(found, entries, strict=True)):
            if ahead is not None and ahead.kept and isinstance(result, Result):
                with suppress(Exception):  # it fails when it is written, alone
                    found[number] = replace(result, packed=result.pack(result.likely_segments))
        return found

    def _score(self, entry: StreamEntry, ahead: ReadAhead | None) -> Result | Dead:
        """Score one entry; a mistake of ours makes it a dead letter."""
        started_s, now_s = time.monotonic(), self._now_s()
        try:
            now = datetime.fromtimestamp(now_s, UTC)
            waited_s = now_s - entry.added_at_s
            result = score_entry(
                entry, self.scorer, self.rules, now=now, waited_s=waited_s, lines=self._lines,
                ahead=ahead,
            )  # fmt: skip
        except GroundwatchError:
            raise
        except Exception as error:  # noqa: BLE001  # logged and counted, below
            # A mistake of ours about one text must not stop the others, nor come for ever.
            # Only where: a traceback may show what users wrote.
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind, at = type(error).__name__, f"{where.name}, line {where.lineno}"
            log.error("entry_broken", entry_id=entry.entry_id, error=kind, where=at)  # noqa: TRY400
            result = Dead(entry, "internal_error", kind, sample_id_of(entry.fields))
        took_s = time.monotonic() - started_s
        self._mean_s += 0.2 * (took_s - self._mean_s) if self._mean_s else took_s
        return result

    def _collect(self) -> None:
        """Gather what is scored."""
        if self._in_work:
            finished = list[Future[list[Result | Dead]]]()
            with suppress(Empty):
                finished.append(self._finished.get(timeout=_COMMIT_AFTER_S))
                if len(self._in_work) > 1:
                    time.sleep(_GATHER_S)
                while True:
                    finished.append(self._finished.get_nowait())
            for future in finished:
                entries = self._in_work.get(future)
                if entries is None:  # given back, as nobody had begun to score it
                    continue
                try:
                    self._done += zip(entries, future.result(), strict=True)
                except JudgeOutageError as error:
                    if not self._judge_away:
                        log.warning("judge_away", message=str(error))
                    self._judge_away = True
                    self.consumer.give_back(entries)
                del self._in_work[future]

    def _store(self) -> None:
        """Keep what is in work ours; commit and acknowledge when enough has come together."""
        if self._is_due("keep", _KEEP_EVERY_S):
            self.consumer.keep([entry.entry_id for entry in self._held()])
        enough = len(self._done) >= _COMMIT_EVERY or not self._in_work
        if self._done and (enough or self._is_due("commit", _COMMIT_AFTER_S)):
            self.scored += self._write(self._done)
            self.consumer.acknowledge([entry.entry_id for entry, _ in self._done])
            results = [result for _, result in self._done if isinstance(result, Result)]
            own = {
                (item.stream.app, item.stream.metric, item.stream.evaluator_version)
                for result in results
                for item in result.contributions
                if item.stream.evaluator_version.endswith(OWN)
            }
            known = (self._lines.get(key) for key in own)
            if any(line is None or line.n < OWN_LEARNT_AT[-1] for line in known):
                with self.store.read() as connection:  # these results may have moved one
                    self._lines = read_pass_lines(connection)
            if self.on_stored is not None:
                self.on_stored(results)
            for dead in (item for _, item in self._done if isinstance(item, Dead)):
                log.error("dead_letter", entry_id=dead.entry.entry_id, reason=dead.reason)
            self._done = []

    def _write(self, done: list[tuple[StreamEntry, Result | Dead]]) -> int:
        """Write all results at once; one that cannot be written becomes a dead letter alone."""
        now = datetime.fromtimestamp(self._now_s(), UTC)
        try:
            return commit(self.store, [result for _, result in done], self.rules, now=now)
        except Exception as error:
            if getattr(error, "transient", False):
                raise
            if len(done) > 1:
                return sum(self._write([one]) for one in done)
            dead = Dead(done[0][0], "unwritable", type(error).__name__)
            return commit(self.store, [dead], self.rules, now=now)

    def _held(self) -> list[StreamEntry]:
        return [*chain.from_iterable(self._in_work.values()), *(entry for entry, _ in self._done)]

    def _is_due(self, what: str, every_s: float) -> bool:
        """Return True at most once in *every_s* seconds for each *what*; the first time at once."""
        now_s = time.monotonic()
        if now_s - self._last_s.get(what, -every_s) < every_s:
            return False
        self._last_s[what] = now_s
        return True


def score_entry(
    entry: StreamEntry,
    scorer: Scorer,
    rules: ScoringRules,
    *,
    now: datetime,
    waited_s: float = 0.0,
    lines: Mapping[LineKey, PassLine] = MappingProxyType({}),
    ahead: ReadAhead | None = None,
) -> Result | Dead:
    """
    Read and score one entry; whatever is wrong with it becomes a result, not an exception.

    *waited_s* is how long it was in the queue, by the queue's own clock; *lines* are the pass
    lines that apps have of their own, as far as they are learnt; *ahead* is what was read before.

    Raise JudgeOutageError or QueueUnavailableError if it cannot be scored now, which is not the
    fault of the entry.
    """
    try:
        sample = decode(entry.fields, entry.entry_id) if ahead is None else ahead.sample
    except RecordError as error:
        return Dead.unreadable(entry, error)
    if entry.deliveries > MAX_DELIVERIES:
        detail = f"handed out {entry.deliveries - 1} times and never finished"
        return Dead(entry, "worker_died", detail, sample.sample_id)
    if 0 < rules.expire_after_s < waited_s:
        return expired(sample, rules, now=now)
    is_test = sample.interaction.app == names.DOCTOR_APP
    more: dict[str, Any] = {"kept": ahead.kept} if ahead is not None and ahead.kept else {}
    evaluations = () if is_test else scorer.score(sample.interaction, key=sample.sample_id, **more)
    app = sample.interaction.app
    found = []
    for evaluation in evaluations:
        if lines and (rule := PassRule.of(evaluation, rules.pass_score)).own:
            stream = stream_key(app, evaluation, pass_score=rules.pass_score)
            known = lines.get((app, stream.metric, stream.evaluator_version))
            if known is not None and known.line != rule.line:  # it has a line of its own by now
                criteria = (evaluation.criteria or {}) | rule._replace(line=known.line).criteria()
                evaluation = evaluation.model_copy(update={"criteria": criteria})  # noqa: PLW2901
        found.append(evaluation)
    return result_of(sample, found, rules, now=now)


def expired(sample: Sample, rules: ScoringRules, *, now: datetime, reason: str = TOO_OLD) -> Result:
    """Return the result of a sample that expired: counted, without evaluations or texts."""
    bare = ScoredSample(sample=without_texts(sample, reason), evaluations=(), expired_by=reason)
    return replace(result_of(sample, (), rules, now=now), scored=bare)


def result_of(
    sample: Sample, evaluations: Sequence[Evaluation], rules: ScoringRules, *, now: datetime
) -> Result:
    """Return what the evaluations of one sample add to which buckets."""
    interaction = sample.interaction
    # A clock that runs ahead must not fill buckets that are still to come.
    occurred_at_ms = math.floor(
        min(interaction.timestamp or sample.sampled_at, now).timestamp() * 1000
    )
    start_s = bucket_start(occurred_at_ms / 1000, rules.bucket_s)
    late = now.timestamp() > start_s + rules.bucket_s + rules.settle_s
    contributions = []
    for evaluation in evaluations:
        stream = stream_key(interaction.app, evaluation, pass_score=rules.pass_score)
        tally = tally_of(evaluation, sample_rate=sample.sample_rate, pass_score=rules.pass_score)
        if late:
            tally = replace(tally, late=1)
        contributions.append(
            Contribution(evaluation=evaluation, stream=stream, start_s=start_s, tally=tally)
        )
    return Result(
        scored=ScoredSample(sample=sample, evaluations=tuple(evaluations)),
        start_s=start_s,
        occurred_at_ms=occurred_at_ms,
        past=now.timestamp() - start_s > rules.news_s + rules.bucket_s,
        places=places_of(interaction, rules.dimensions) if evaluations else (),
        inputs=fingerprint(interaction) if evaluations else {},
        contributions=tuple(contributions),
    )


def commit(
    store: Store, results: Sequence[Result | Dead], rules: ScoringRules, *, now: datetime
) -> int:
    """Write results in one transaction; return how many samples were new."""
    scored = [item for item in results if isinstance(item, Result)]
    dead = [
        DeadLetter(
            entry_id=item.entry.entry_id,
            sample_id=item.sample_id,
            app=text_of(item.entry.fields.get(names.FIELD_APP.encode(), b"unknown"))[:200],
            at=now,
            reason=item.reason,
            detail=item.detail,
            body=item.entry.fields.get(names.FIELD_BODY.encode(), b""),
            version=text_of(item.entry.fields.get(names.FIELD_VERSION.encode(), b"")),
        )
        for item in results
        if isinstance(item, Dead)
    ]
    with store.write() as connection:
        return record(connection, scored, dead, now=now, bucket_s=rules.bucket_s)


#: The share of samples to ask a judge about while evidence of a fall builds up.
_RISING_SHARE: Final = 0.5
#: In seconds: so long a share holds in one process.
_SHARE_FOR_S: Final = 5.0


class JudgeShare:
    """
    The share of an app's samples that a cascade's judge is asked about.

    More while evidence of a fall builds up: read from what the last evaluation stored, before the
    sample is drawn, so that the evidence stays valid.
    """

    def __init__(self, store: Store, usual: float) -> None:
        self._store, self._usual = store, usual
        self._rising: frozenset[str] = frozenset()
        self._read_s = -math.inf

    def __call__(self, app: str) -> float:
        """Return the share, in (0, 1]; the usual one where the store cannot be read."""
        now_s = time.monotonic()
        if now_s - self._read_s > _SHARE_FOR_S:
            self._read_s = now_s
            try:
                with self._store.read() as connection:
                    self._rising = apps_with_rising_evidence(connection, version_prefix=CASCADE)
            except (GroundwatchError, SQLAlchemyError):
                self._rising = frozenset()
        return max(self._usual, _RISING_SHARE) if app in self._rising else self._usual
