"""
The scheduler: what happens every few seconds, wherever the lease is.

Any number of schedulers may run; one holds the lease, and everything it writes begins
by checking that it still does. It needs the store, not Redis: an alert about a Redis
that is down still goes out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from random import Random
from typing import NamedTuple

import structlog

from alerts.dead_mans_switch import Chain, DeadMansSwitch, broken_link
from alerts.dispatch import Dispatcher
from alerts.queries import oldest_waiting
from monitor.errors import GroundwatchError
from monitor.store.engine import Store
from monitor.store.lease import Lease, acquire, database_now, new_owner, release
from workers.context import Context
from workers.error_throttle import ErrorThrottle
from workers.evaluate import Evaluator
from workers.facts import DigestJob
from workers.insights import Explainer
from workers.maintenance import EVERY_S, EXPIRE_EVERY_S, Collector, Expirer, Keeper, Limits
from workers.self_monitoring import BLIND_AFTER_S, JudgeWatch, QueueWatch, VitalsReader

_TICK_S = 0.25
_DELIVER_EVERY_S = 0.5
_DIGEST_EVERY_S = 10.0
#: A link of the chain that did nothing for so long is not fresh; a send may take a while.
_FRESH_S = 120.0

log = structlog.get_logger("groundwatch.scheduler")


class Job(NamedTuple):
    """Something to do regularly, by whoever holds the lease."""

    name: str
    every_s: float
    run: Callable[[Lease], object]


class Scheduler:
    """Runs the jobs while it holds the lease, and deliveries always: those have leases each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._holder = LeaseHolder(context.store)
        self._queue = QueueWatch(context.impatient_redis)
        self._judge = JudgeWatch.make(context.settings, context.impatient_redis)
        self._failing = ErrorThrottle()
        self._evaluator = Evaluator(
            store=context.store,
            settings=context.settings,
            lines=context.lines,
            recipients=context.recipients,
            policies=context.policies,
            conditions=VitalsReader(
                store=context.store,
                settings=context.settings,
                queue=self._queue,
                judge=self._judge.look,
            ),
        )
        self._evaluated_at: datetime | None = None
        self._dispatched_at: datetime | None = None
        collector = Collector(
            context.impatient_redis, context.store, context.settings.windows.bucket_s
        )
        explainer = Explainer(store=context.store, settings=context.settings)
        self._explainer = explainer
        self.jobs: tuple[Job, ...] = (
            Job("collect", min(1.0, context.settings.evaluate_every_s), collector.run),
            Job("evaluate", context.settings.evaluate_every_s, self._evaluate),
            Job("insights", explainer.every_s, self._explain),
            *self._digest(),
            Job("expire", self._expire_every_s, self._expirer().run),
            Job("retention", EVERY_S, Keeper(context.store, context.settings).run),
            *self._dead_mans_switch(),
        )

    def _now(self) -> datetime:
        """Tell the time by the database's clock, which all schedulers share; ours may jump."""
        with self._context.store.read() as connection:
            return database_now(connection)

    def run(self, stop: threading.Event) -> None:
        """Work until *stop* is set; then give the lease back."""
        beside = [
            threading.Thread(target=self._deliver_until, args=(stop,), name="groundwatch-deliver"),
            threading.Thread(target=self._hold_until, args=(stop,), name="groundwatch-lease"),
        ]
        for thread in beside:
            thread.start()
        due = dict.fromkeys((job.name for job in self.jobs), 0.0)
        try:
            while not stop.wait(_TICK_S):
                self._tick(due, time.monotonic())
        finally:
            stop.set()
            for thread in beside:
                thread.join()
            with suppress(GroundwatchError):
                self._holder.release()

    def _tick(self, due: dict[str, float], now_s: float) -> None:
        for job in self.jobs:
            lease = self._holder.lease
            if lease is not None and now_s >= due[job.name]:
                due[job.name] = now_s + job.every_s
                self._holder.begin()
                self._failing.guard(job.name, partial(job.run, lease))
                self._holder.end()

    def _hold_until(self, stop: threading.Event) -> None:
        self._failing.guard("lease", self._holder.renew)
        while not stop.wait(RENEW_EVERY_S):
            self._failing.guard("lease", self._holder.renew)

    def _digest(self) -> Iterator[Job]:
        if self._context.settings.digest_schedule.digest != "off":
            context = self._context
            job = DigestJob(context.store, context.settings, context.channels)
            yield Job("digest", _DIGEST_EVERY_S, lambda lease: job.run(lease, now=self._now()))

    @property
    def _expire_every_s(self) -> float:
        """Look several times before what was new has become old."""
        return min(EXPIRE_EVERY_S, self._context.settings.worker_timers.behind_after_s / 4)

    def _expirer(self) -> Expirer:
        settings = self._context.settings
        return Expirer(
            client=self._context.impatient_redis,
            store=self._context.store,
            rules=self._context.rules,
            name=self._context.name,
            limits=Limits(
                samples=settings.hook_limits.queue_limit,
                megabytes=settings.hook_limits.queue_limit_megabytes,
            ),
        )

    def _dead_mans_switch(self) -> Iterator[Job]:
        url = self._context.settings.dead_mans_switch.dead_mans_switch_url
        if url is not None:
            switch = DeadMansSwitch(url)
            every_s = self._context.settings.dead_mans_switch.dead_mans_switch_every_s
            yield Job("dead_mans_switch", every_s, lambda _: switch.call(self._broken_link()))

    def _broken_link(self) -> str | None:
        with self._context.store.read() as connection:
            waiting = oldest_waiting(connection)
        found = self._queue.last
        chain = Chain(
            evaluated_at=self._evaluated_at,
            queue_read_at=self._evaluated_at if found is not None else None,
            oldest_sample_s=None if found is None else found.oldest_age_s,
            dispatched_at=self._dispatched_at,
            oldest_message_at=min(waiting.values(), default=None),
        )
        fresh_s = max(_FRESH_S, 3 * self._context.settings.evaluate_every_s)
        return broken_link(chain, self._now(), fresh_s=fresh_s, patience_s=BLIND_AFTER_S)

    def _evaluate(self, lease: Lease) -> None:
        now = self._now()
        judge = self._judge.look()
        trouble = judge.trouble or self._queue.trouble(now)
        changes = self._evaluator.run(lease, now=now, trouble=trouble, note=judge.note)
        self._evaluated_at = now
        for change in changes:
            log.info(
                "status_changed",
                app=change.app,
                metric=change.metric,
                window_s=change.window_s,
                before=change.before.value if change.before else None,
                after=change.after.value,
                n=change.verdict.n,
                pass_rate=change.verdict.pass_rate,
            )

    def _explain(self, lease: Lease) -> None:
        for found in self._explainer.run(lease, now=self._now()):
            log.info(
                "drift.found",
                app=found.app,
                metric=found.metric,
                segment=found.segment,
                test=found.test,
                mean_before=found.mean_before,
                mean_after=found.mean_after,
                n=found.n,
            )

    def _deliver_until(self, stop: threading.Event) -> None:
        dispatcher = Dispatcher(
            self._context.store,
            self._context.channels,
            rng=Random(),  # noqa: S311
        )

        def deliver() -> None:
            dispatcher.run_once(lambda: not stop.is_set())
            self._dispatched_at = self._now()

        while not stop.wait(_DELIVER_EVERY_S):
            self._failing.guard("deliver", deliver)


# --- lease holder ---
# Who holds the scheduler's lease, and for how long: renewed while its jobs get on.


TTL_S = 15.0
RENEW_EVERY_S = 1.0
#: A job that takes longer hangs: another scheduler may take over.
LONGEST_JOB_S = 600.0


class LeaseHolder:
    """
    Takes the scheduler's lease and keeps it, on a thread of its own.

    Jobs read and compute before the one transaction that the lease fences, and may take
    longer than the lease lasts; renewed beside them, it does not change hands meanwhile. A
    job that began longer than ``LONGEST_JOB_S`` ago hangs, and the lease is let go.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = new_owner()
        self._began_s: float | None = None
        self.lease: Lease | None = None  #: None while another scheduler has it

    def renew(self) -> None:
        """Take the lease or keep it; call it every ``RENEW_EVERY_S``."""
        began_s = self._began_s
        if began_s is not None and time.monotonic() - began_s > LONGEST_JOB_S:
            self.lease = None
            return
        before = self.lease
        try:
            self.lease = acquire(self._store, "scheduler", self._owner, ttl_s=TTL_S)
        except BaseException:
            self.lease = None
            raise
        if self.lease is not None and before is None:
            log.info("lease_taken", owner=self._owner, token=self.lease.token)

    def begin(self) -> None:
        """Note that a job begins."""
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Note that no job is under way."""
        self._began_s = None

    def release(self) -> None:
        """Give the lease back, so that nobody has to wait for it to expire."""
        if self.lease is not None:
            release(self._store, self.lease)
            self.lease = None
