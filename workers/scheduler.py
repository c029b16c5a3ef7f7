"""
The scheduler: what happens every few seconds, wherever the lease is.

Any number of schedulers may run; one holds the lease, and everything it writes begins
by checking that it still does. It needs the store, not Redis: an alert about a Redis
that is down still goes out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property, partial
from random import Random
from typing import NamedTuple

import structlog

from alerts.dispatch import Dispatcher
from alerts.outbox import oldest_waiting
from monitor.errors import GroundwatchError
from monitor.store.engine import Lease, Store, acquire, database_now, new_owner, release
from workers.context import Components, ErrorThrottle
from workers.digest import DigestJob
from workers.evaluate import Evaluator
from workers.insights import Explainer
from workers.judge_recheck import EVERY_S as RECHECK_EVERY_S
from workers.judge_recheck import JudgeRecheck, hold_for_judge
from workers.maintenance import (
    EVERY_S,
    EXPERIMENTS_EVERY_S,
    EXPIRE_EVERY_S,
    Collector,
    ExperimentJob,
    Expirer,
    FeedbackCollector,
    Keeper,
)
from workers.proof import EVERY_S as PROOFS_EVERY_S
from workers.proof import ProofJob
from workers.self_monitoring import (
    BLIND_AFTER_S,
    DeadMansSwitch,
    JudgeWatch,
    QueueWatch,
    VitalsReader,
    broken_link,
)
from workers.tuning import TUNE_EVERY_S, RateTuner

TTL_S = 15.0
RENEW_EVERY_S = 1.0
#: A job that takes longer hangs: another scheduler may take over.
LONGEST_JOB_S = 600.0
_TICK_S = 0.25
_DELIVER_EVERY_S = 0.5
_DIGEST_EVERY_S = 10.0
#: A link of the chain that did nothing for so long is not fresh; a send may take a while.
_FRESH_S = 120.0

log = structlog.get_logger("groundwatch.scheduler")


class Scheduler:
    """Runs the jobs while it holds the lease, and deliveries always: those have leases each."""

    def __init__(self, context: Components) -> None:
        settings = context.settings
        self._context = context
        self._holder = LeaseHolder(context.store)
        self._throttle = ErrorThrottle()
        self._queue = QueueWatch(context.impatient_redis)
        self._judge = JudgeWatch.make(settings, context.impatient_redis)
        self._evaluator = Evaluator(
            store=context.store,
            settings=settings,
            recipients=context.wiring.plan,
            hold=hold_for_judge if settings.asks_judge else None,
            conditions=VitalsReader(
                store=context.store, settings=settings, queue=self._queue, judge=self._judge.look
            ),
        )
        self._evaluated_at: datetime | None = None
        self._dispatched_at: datetime | None = None

    @cached_property
    def jobs(self) -> list[Job]:
        """What happens every so often, and what is slow and has a thread of its own."""
        context, settings = self._context, self._context.settings
        redis, store, bucket_s = context.impatient_redis, context.store, settings.windows.bucket_s
        quick_s = min(1.0, settings.evaluate_every_s)
        # Several times before what was new has become old.
        expire_every_s = min(EXPIRE_EVERY_S, context.rules.behind_after_s / 4)
        expirer = Expirer(redis, store, context.rules, context.name, settings.hook_limits)
        experiments = ExperimentJob(redis, store, settings)
        explainer = Explainer(store=store, settings=settings)
        proofs = ProofJob(store=store, settings=settings)
        jobs = [
            Job("collect", quick_s, Collector(redis, store, bucket_s).run),
            Job("feedback", quick_s, FeedbackCollector(redis, store, bucket_s).run),
            Job("evaluate", settings.evaluate_every_s, self.evaluate),
            Job("insights", explainer.every_s, partial(self.explain, explainer), slow=True),
            Job("expire", expire_every_s, expirer.run),
            Job("sample_rates", TUNE_EVERY_S, RateTuner(redis, store, settings).run),
            Job("experiments", EXPERIMENTS_EVERY_S, experiments.run, slow=True),
            Job("proofs", PROOFS_EVERY_S, partial(self.prove, proofs), slow=True),
            Job("retention", EVERY_S, Keeper(store, settings).run, slow=True),
        ]
        if settings.asks_judge:
            recheck = JudgeRecheck(store, settings, redis)
            jobs.append(Job("judge_recheck", RECHECK_EVERY_S, recheck.run, slow=True))
        if settings.digest_schedule.digest != "off":
            digest = DigestJob(store, settings, context.wiring.channels)
            run = lambda lease: digest.run(lease, now=self._now())  # noqa: E731
            jobs.append(Job("digest", _DIGEST_EVERY_S, run, slow=True))
        url = settings.dead_mans_switch.dead_mans_switch_url
        if url is not None:
            switch = DeadMansSwitch(url)
            every_s = settings.dead_mans_switch.dead_mans_switch_every_s
            call = lambda _: switch.call(self.broken_link())  # noqa: E731
            jobs.append(Job("dead_mans_switch", every_s, call))
        return jobs

    def run(self, stop: threading.Event) -> None:
        """Work until *stop* is set; then give the lease back."""
        quick = [job for job in self.jobs if not job.slow]
        slow = [job for job in self.jobs if job.slow]
        beside = [
            threading.Thread(target=target, args=args, name=f"groundwatch-{name}")
            for name, target, args in (
                ("deliver", self.deliver_until, (stop,)),
                ("lease", self._holder.renew_until, (stop, self._throttle)),
                ("slow-jobs", run_jobs, (slow, self._holder, self._throttle, stop)),
            )
        ]
        for thread in beside:
            thread.start()
        try:
            run_jobs(quick, self._holder, self._throttle, stop)
        finally:
            stop.set()
            for thread in beside:
                thread.join()
            with suppress(GroundwatchError):
                self._holder.release()

    def _now(self) -> datetime:
        """Return the time by the database's clock, which all schedulers share; ours may jump."""
        with self._context.store.read() as connection:
            return database_now(connection)

    def evaluate(self, lease: Lease) -> None:
        """Judge every stream, and log each change of status."""
        now = self._now()
        judge = self._judge.look()
        trouble = judge.trouble or self._queue.trouble(now)
        changes = self._evaluator.run(lease, now=now, trouble=trouble, note=judge.note)
        self._evaluated_at = now
        for change in changes:
            verdict, before = change.verdict, change.before.value if change.before else None
            log.info(
                "status_changed", app=change.app, metric=change.metric, window_s=change.window_s,
                before=before, after=change.after.value, n=verdict.n, pass_rate=verdict.pass_rate,
            )  # fmt: skip

    def explain(self, explainer: Explainer, lease: Lease) -> None:
        """Explain what moved, and log each drift that was found."""
        for found in explainer.run(lease, now=self._now()):
            names = {"app", "metric", "segment", "test", "mean_before", "mean_after", "n"}
            log.info("drift_found", **found.model_dump(include=names))

    def prove(self, proofs: ProofJob, lease: Lease) -> None:
        """Test the detection objectives that are due, and log the results."""
        for proof in proofs.run(lease, now=self._now()):
            names = {"app", "metric", "objective", "met", "planted", "found", "median_s"}
            log.info("objective_tested", **proof.model_dump(include=names))

    def broken_link(self) -> str | None:
        """Return which part of the monitor is not at work; None while all are."""
        with self._context.store.read() as connection:
            waiting = oldest_waiting(connection)
        found = self._queue.last
        links = {
            "the evaluator": self._evaluated_at,
            "the queue": self._evaluated_at if found is not None else None,
            "the dispatcher": self._dispatched_at,
        }
        return broken_link(
            self._now(),
            links,
            oldest_sample_s=None if found is None else found.oldest_age_s,
            oldest_message_at=min(waiting.values(), default=None),
            fresh_s=max(_FRESH_S, 3 * self._context.settings.evaluate_every_s),
            patience_s=BLIND_AFTER_S,
        )

    def deliver_until(self, stop: threading.Event) -> None:
        """Deliver what waits in the outbox until *stop* is set."""
        dispatcher = Dispatcher(self._context.store, self._context.wiring.channels, Random())  # noqa: S311

        def deliver() -> None:
            dispatcher.run_once(lambda: not stop.is_set())
            self._dispatched_at = self._now()

        while not stop.wait(_DELIVER_EVERY_S):
            self._throttle.guard("deliver", deliver)


class Job(NamedTuple):
    """Something to do regularly, by whoever holds the lease."""

    name: str
    every_s: float
    run: Callable[[Lease], object]
    slow: bool = False  #: runs beside the others, so that no status waits for it


def run_jobs(
    jobs: Sequence[Job], holder: LeaseHolder, throttle: ErrorThrottle, stop: threading.Event
) -> None:
    """Run these jobs in turn, each when it is due, while the lease lasts and until *stop*."""
    due_s = dict.fromkeys((job.name for job in jobs), 0.0)
    try:
        while not stop.wait(_TICK_S):
            now_s = time.monotonic()
            for job in jobs:
                lease = holder.lease
                if lease is not None and now_s >= due_s[job.name]:
                    due_s[job.name] = now_s + job.every_s
                    with holder.noting(job.name):
                        throttle.guard(job.name, partial(job.run, lease))
    finally:
        # What ends one thread of the scheduler ends it; its supervisor starts another.
        stop.set()


class LeaseHolder:
    """
    Takes the scheduler's lease and keeps it, on a thread of its own.

    Jobs read and compute before the one transaction that the lease fences, and may take
    longer than the lease lasts; renewed beside them, it does not change hands meanwhile. A
    job that began longer than ``LONGEST_JOB_S`` ago hangs, and the lease is given up.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = new_owner()
        self._began_s: dict[str, float] = {}
        self.lease: Lease | None = None  #: None while another scheduler has it

    def renew(self) -> None:
        """Take the lease or keep it; call it every ``RENEW_EVERY_S``."""
        now_s = time.monotonic()
        if any(now_s - began_s > LONGEST_JOB_S for began_s in list(self._began_s.values())):
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

    def renew_until(self, stop: threading.Event, throttle: ErrorThrottle) -> None:
        """Renew it until *stop* is set."""
        throttle.guard("lease", self.renew)
        while not stop.wait(RENEW_EVERY_S):
            throttle.guard("lease", self.renew)

    @contextmanager
    def noting(self, job: str) -> Iterator[None]:
        """Note when a job began, for as long as it runs."""
        self._began_s[job] = time.monotonic()
        yield
        del self._began_s[job]

    def release(self) -> None:
        """Give the lease back, so that no scheduler has to wait for it to expire."""
        if self.lease is not None:
            release(self._store, self.lease)
            self.lease = None
