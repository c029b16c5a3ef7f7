"""
The store's and the queue's upkeep, each part a job of the scheduler.

`Collector` brings the counters of hooks into the ledger, `FeedbackCollector` what users said into
the store; `Expirer` keeps the queue useful while samples are not scored; `Keeper` deletes what is
older than the settings keep it. `ExperimentJob` sets how hooks split traffic.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import numpy as np
import redis
import structlog
from pydantic import ValidationError
from sqlalchemy import select

from monitor.errors import RecordError
from monitor.models.status import OTHER, segment_name
from monitor.queue import names
from monitor.queue.consumer import Consumer, NewestFirst, translated
from monitor.queue.producer import COUNTERS_KEPT_S
from monitor.queue.wire import decode, text_of
from monitor.rolling.tallies import window_stats
from monitor.settings import Settings
from monitor.settings.tables import HookLimits
from monitor.stats.multiplicity import thompson_shares
from monitor.store.engine import Lease, Store, database_now, fence
from monitor.store.feedback import Feedback, save_feedback
from monitor.store.ledger import Entry, HookCounters, Kind, absorb, book
from monitor.store.query import active_streams, window_tallies
from monitor.store.retention import Retention
from monitor.store.tables import dimensions
from monitor.store.write import Result
from workers.context import Clocks
from workers.scoring_run import TOO_OLD, Dead, ScoringRules, commit, expired

#: How often retention runs, and how long unless it is behind.
EVERY_S, _LEAST_BUDGET_S = 60.0, 2.0
EXPIRE_EVERY_S = 10.0
NO_ROOM = "no_room"
#: A calendar that jumps ahead by so much is believed only after so long.
_JUMP_S, _BELIEVED_S = 3600.0, 86_400.0
#: A queue as full as this is emptied down to the second share; hooks stop at 1.
_FULL, _ROOM = 0.9, 0.8
_AT_ONCE = 250
_FEEDBACK_AT_ONCE, _MOST_ROUNDS = 500, 20
_BUDGET_S = 3.0
_MEGABYTE = 1_000_000
_MOST_CHARS, _MOST_HOST_CHARS = 200, 255
_MOST_PID, _MOST_COUNT = 2**31 - 1, 2**62
_PLAIN = frozenset({"seen", "sampled", "sent", "unseen"})
EXPERIMENTS_EVERY_S: Final = 10.0
#: Scores that count: a variant may be better today than it was a month ago.
_SPAN_S: Final = 7 * 86_400
#: Without a scheduler the split is even again after this time.
_KEPT_S: Final = 3_600
#: A tag with more values is not an experiment.
_MOST_VARIANTS: Final = 20

log = structlog.get_logger("groundwatch.scheduler")


@dataclass(slots=True)
class Collector:
    """
    Absorbs the counters of hooks that reported since the last round.

    Those are the ones whose heartbeat changed, whatever its age: clocks of hosts differ.
    Counters are cumulative and absorbing is idempotent, so a missed or a repeated round
    loses and doubles nothing.
    """

    client: Any  #: a redis.Redis, whose annotations mix in what an asynchronous one returns
    store: Store
    bucket_s: int
    _heartbeats: dict[str, float] = field(default_factory=dict)

    def run(self, lease: Lease) -> int:
        """Do one round; return how many hooks had news."""
        with translated():
            index = self.client.zrange(names.HOOKS, 0, -1, withscores=True)
            scores = {hook_id.decode("utf-8", "replace"): score for hook_id, score in index}
            # Also hooks silent for so long that no heartbeat may be left to read.
            silent_ms = (time.time() - COUNTERS_KEPT_S) * 1000
            changed = {h for h, score in scores.items() if self._heartbeats.get(h) != score}
            asked = [h for h, score in scores.items() if h in changed or score < silent_ms]
            with self.client.pipeline(transaction=False) as pipe:
                for hook_id in asked:
                    pipe.hgetall(names.hook(hook_id))
                hashes = dict(zip(asked, pipe.execute(), strict=True))
            # The hash of a hook that is gone expires by itself; its name is all that is left.
            gone = [hook_id for hook_id, values in hashes.items() if not values]
            if gone:
                self.client.zrem(names.HOOKS, *gone)
        found = [
            read_counters(h, values) for h, values in hashes.items() if values and h in changed
        ]
        news = [counters for counters in found if counters is not None]
        if news:
            with self.store.write() as connection:
                fence(connection, lease)
                now = database_now(connection)
                # A hook that has changed since the last round is alive just now.
                heard = [
                    replace(item, heard_at=now if item.hook_id in self._heartbeats
                            else min(now, item.heartbeat_at))
                    for item in news
                ]  # fmt: skip
                absorb(connection, heard, bucket_s=self.bucket_s)
        self._heartbeats = scores
        return len(news)


def read_counters(hook_id: str, values: Mapping[bytes, bytes]) -> HookCounters | None:
    """Return the counters in the hash of one hook; None for a test's, and for foreign hashes."""
    text = {text_of(name): text_of(value) for name, value in values.items()}
    if text.get("app") == names.DOCTOR_APP:
        return None
    try:
        return HookCounters(
            hook_id=hook_id.replace("\0", "")[:64],
            app=text["app"][:_MOST_CHARS],
            host=text["host"][:_MOST_HOST_CHARS],
            pid=min(max(int(text["pid"]), 0), _MOST_PID),
            heartbeat_at=datetime.fromtimestamp(int(text["heartbeat_at_ms"]) / 1000, UTC),
            counters={
                name[:100]: min(int(value), _MOST_COUNT)
                for name, value in text.items()
                if name in _PLAIN or name.startswith(("dropped:", "errored:", "feedback:"))
            },
        )
    except (KeyError, ValueError, OverflowError, OSError) as error:
        if text:
            log.warning("hook_unreadable", hook_id=hook_id, error=type(error).__name__)
        return None


@dataclass(slots=True)
class Expirer:
    """
    Expires samples: each is stored as expired, without its texts, and only then removed.

    Hooks drop what is new when the queue is full. So that it does not fill with samples of no
    use any more, the oldest make room once they have waited for minutes.
    """

    client: Any  #: a redis.Redis
    store: Store
    rules: ScoringRules
    name: str
    limits: HookLimits  #: how much may wait in Redis

    def run(self, _: Lease) -> int:
        """Do one round; return how many entries it took out of the queue."""
        end_s, done = time.monotonic() + _BUDGET_S, 0
        if not self._waiting():
            return 0
        consumer, oldest = Consumer(self.client, self.name), NewestFirst(self.client, self.name)
        consumer.ensure_group()
        now_s = consumer.now_s()
        if self.rules.expire_after_s:
            before_s = now_s - self.rules.expire_after_s
            while time.monotonic() < end_s:
                if not (n := self._expire(consumer, oldest, _AT_ONCE, before_s, TOO_OLD)):
                    break
                done += n
        # How many must go for the queue to be below its limits again.
        waiting = self._waiting()
        with translated():
            size = int(self.client.memory_usage(names.SAMPLES, samples=5) or 0)
        most, most_mb = self.limits.queue_limit, self.limits.queue_limit_megabytes
        share = max(waiting / most, size / (most_mb * _MEGABYTE))
        excess = 0 if share < _FULL else waiting - int(waiting * _ROOM / share)
        while excess > 0 and time.monotonic() < end_s:
            count = min(_AT_ONCE, excess)
            n = self._expire(consumer, oldest, count, now_s - self.rules.behind_after_s, NO_ROOM)
            if not n:
                break
            done, excess = done + n, excess - n
        if done:
            log.warning("samples_expired", count=done)
        return done

    def _expire(
        self, consumer: Consumer, oldest: NewestFirst, count: int, before_s: float, reason: str
    ) -> int:
        entries = oldest.take_oldest(count, before_s=before_s)
        if entries:
            now = datetime.fromtimestamp(consumer.now_s(), UTC)
            results: list[Result | Dead] = []
            for entry in entries:
                try:
                    sample = decode(entry.fields, entry.entry_id)
                    results.append(expired(sample, self.rules, now=now, reason=reason))
                except RecordError as error:
                    results.append(Dead.unreadable(entry, error))
            commit(self.store, results, self.rules, now=now)
            consumer.acknowledge([entry.entry_id for entry in entries])
        return len(entries)

    def _waiting(self) -> int:
        with translated():
            return int(self.client.xlen(names.SAMPLES))


@dataclass(slots=True)
class Keeper:
    """
    Runs the retention under the scheduler's lease; not by a calendar that has just jumped.

    A run that leaves something undone doubles the time of the next one, up to half of all time.
    """

    store: Store
    settings: Settings
    clocks: Callable[[], Clocks] = Clocks.now
    budget_s: float = _LEAST_BUDGET_S
    _trusted: Clocks | None = None
    _jumped_at: Clocks | None = None

    def run(self, lease: Lease) -> None:
        """Do one run, and log what it deleted."""
        now = self.clocks()
        before = self._trusted = self._trusted or now
        ahead_s = now.calendar_s - before.calendar_s - (now.steady_s - before.steady_s)
        if ahead_s < _JUMP_S:
            self._jumped_at = None
        else:
            if self._jumped_at is None:
                self._jumped_at = now
                log.error("clock_jumped", ahead_s=round(ahead_s), nothing_deleted_for_s=_BELIEVED_S)
            if now.steady_s - self._jumped_at.steady_s < _BELIEVED_S:
                return
            self._trusted, self._jumped_at = now, None
        guard = partial(fence, lease=lease)
        retention = Retention(
            store=self.store, kept=self.settings.retention, budget_s=self.budget_s, guard=guard
        )
        done = retention.run(now.calendar_s)
        next_s = self.budget_s * (2 if retention.is_behind else 0.5)
        self.budget_s = min(max(next_s, _LEAST_BUDGET_S), EVERY_S / 2)
        if done:
            log.info("retention_deleted", **{name.replace(" ", "_"): n for name, n in done.items()})


@dataclass(slots=True)
class FeedbackCollector:
    """
    Takes feedback out of its stream, under the scheduler's lease.

    Killed between the commit and the removal, the next round reads the same entries again, and
    storing them again changes nothing.
    """

    client: Any  #: a redis.Redis
    store: Store
    bucket_s: int

    def run(self, lease: Lease) -> int:
        """Do one round; return how many were new."""
        new = 0
        for _ in range(_MOST_ROUNDS):
            with translated():
                entries = self.client.xrange(names.FEEDBACK, count=_FEEDBACK_AT_ONCE)
            if not entries:
                break
            found, unreadable = [], []
            for _, fields in entries:
                try:
                    body = json.loads(fields[names.FIELD_BODY.encode()])
                    found.append(Feedback.model_validate(body))
                except (KeyError, ValueError, RecursionError, ValidationError):
                    app = fields.get(names.FIELD_APP.encode(), b"unknown")
                    unreadable.append(text_of(app)[:200])
            with self.store.write() as connection:
                fence(connection, lease)
                now = database_now(connection)
                new += save_feedback(
                    connection, found, source="hook", now=now, bucket_s=self.bucket_s
                )
                if unreadable:
                    start_s = int(now.timestamp()) // self.bucket_s * self.bucket_s
                    book(connection, [
                        Entry(app or "unknown", start_s, Kind.FEEDBACK_STORED, "unreadable", 1)
                        for app in unreadable
                    ])  # fmt: skip
                    log.warning("feedback_unreadable", count=len(unreadable))
            with translated(), self.client.pipeline(transaction=True) as pipe:
                pipe.xdel(names.FEEDBACK, *(entry_id for entry_id, _ in entries))
                pipe.incrby(names.FEEDBACK_STORED, len(entries))
                pipe.execute()
            if len(entries) < _FEEDBACK_AT_ONCE:
                break
        return new


class ExperimentJob:
    """The scheduler's part of `groundwatch.choose`: shares from stored scores, into Redis."""

    def __init__(self, client: redis.Redis, store: Store, settings: Settings) -> None:
        self._client, self._store, self._settings = client, store, settings

    def run(self, lease: Lease) -> int:  # noqa: ARG002  # publishing twice does no harm
        """Do one round; return how many apps have experiments."""
        metric, from_s = self._settings.metrics[0], int(time.time()) - _SPAN_S
        query = select(dimensions.c.app, dimensions.c.dimension).where(
            dimensions.c.dimension.in_(self._settings.experiments)
        )
        #: Shares by app, experiment and variant, of experiments with two variants or more.
        found: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        with self._store.read() as connection:
            for app, experiment in connection.execute(query).all():
                prefix = segment_name(experiment, "")
                streams = [
                    stream
                    for stream in active_streams(connection, since_s=from_s, segment=None, app=app)
                    if stream.key.metric == metric and stream.key.segment.startswith(prefix)
                ]
                variants: dict[str, tuple[float, float]] = {}
                for stream in streams if len(streams) <= _MOST_VARIANTS else ():
                    value = stream.key.segment.removeprefix(prefix)
                    tallies = window_tallies(
                        connection, from_s=from_s, app=app, segment=stream.key.segment,
                        histograms=False,
                    )  # fmt: skip
                    if value != OTHER and stream.stream_id in tallies:
                        variants[value] = window_stats(tallies[stream.stream_id]).counts()
                if len(variants) > 1:
                    counts = np.array(list(variants.values()))
                    shares = thompson_shares(counts[:, 0], counts[:, 1])
                    split = zip(variants, shares, strict=True)
                    found[app][experiment] = {name: round(float(part), 4) for name, part in split}
        with translated(), self._client.pipeline(transaction=False) as pipe:
            for app, experiments in found.items():
                pipe.set(names.experiments(app), json.dumps(experiments), ex=_KEPT_S)
            pipe.execute()
        return len(found)
