"""
The scheduler: what happens every few seconds, wherever the lease is.

Any number of schedulers may run; one holds the lease, and everything it writes begins
by checking that it still does. It needs the store, not Redis: an alert about a Redis
that is down still goes out.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime
from random import Random

import structlog

from alerts.dispatch import Dispatcher
from alerts.queries import oldest_waiting
from monitor.errors import GroundwatchError
from monitor.store.lease import Lease, database_now
from workers.context import Components
from workers.evaluate import Evaluator
from workers.experiments import EVERY_S as EXPERIMENTS_EVERY_S
from workers.experiments import ExperimentJob
from workers.insights import Explainer
from workers.jobs import ErrorThrottle, Job, LeaseHolder, run_jobs
from workers.judge_recheck import EVERY_S as RECHECK_EVERY_S
from workers.judge_recheck import JudgeRecheck, hold_for_judge
from workers.maintenance import (
    EVERY_S,
    EXPIRE_EVERY_S,
    Collector,
    Expirer,
    FeedbackCollector,
    Keeper,
    Limits,
)
from workers.reports import DigestJob
from workers.self_monitoring import (
    BLIND_AFTER_S,
    Chain,
    DeadMansSwitch,
    JudgeWatch,
    QueueWatch,
    VitalsReader,
    broken_link,
)

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
            thresholds=context.thresholds,
            recipients=context.recipients,
            policies=context.policies,
            hold=hold_for_judge if JudgeRecheck.is_wanted(settings) else None,
            conditions=VitalsReader(
                store=context.store,
                settings=settings,
                queue=self._queue,
                judge=self._judge.look,
            ),
        )
        self._explainer = Explainer(store=context.store, settings=settings)
        self._evaluated_at: datetime | None = None
        self._dispatched_at: datetime | None = None
        collector = Collector(context.impatient_redis, context.store, settings.windows.bucket_s)
        expirer = Expirer(
            client=context.impatient_redis,
            store=context.store,
            rules=context.rules,
            name=context.name,
            limits=Limits(
                samples=settings.hook_limits.queue_limit,
                megabytes=settings.hook_limits.queue_limit_megabytes,
            ),
        )
        feedback = FeedbackCollector(
            context.impatient_redis, context.store, settings.windows.bucket_s
        )
        experiments = ExperimentJob(context.impatient_redis, context.store, settings)
        # Several times before what was new has become old.
        expire_every_s = min(EXPIRE_EVERY_S, context.rules.behind_after_s / 4)
        self.jobs = [
            Job("collect", min(1.0, settings.evaluate_every_s), collector.run),
            Job("feedback", min(1.0, settings.evaluate_every_s), feedback.run),
            Job("evaluate", settings.evaluate_every_s, self.evaluate),
            Job("insights", self._explainer.every_s, self.explain, slow=True),
            Job("expire", expire_every_s, expirer.run),
            Job("experiments", EXPERIMENTS_EVERY_S, experiments.run, slow=True),
            Job("retention", EVERY_S, Keeper(context.store, settings).run, slow=True),
        ]
        if JudgeRecheck.is_wanted(settings):
            recheck = JudgeRecheck(context.store, settings, context.impatient_redis)
            self.jobs.append(Job("judge_recheck", RECHECK_EVERY_S, recheck.run, slow=True))
        if settings.digest_schedule.digest != "off":
            digest = DigestJob(context.store, settings, context.channels)
            run = lambda lease: digest.run(lease, now=self._now())  # noqa: E731
            self.jobs.append(Job("digest", _DIGEST_EVERY_S, run, slow=True))
        url = settings.dead_mans_switch.dead_mans_switch_url
        if url is not None:
            switch = DeadMansSwitch(url)
            every_s = settings.dead_mans_switch.dead_mans_switch_every_s
            call = lambda _: switch.call(self._broken_link())  # noqa: E731
            self.jobs.append(Job("dead_mans_switch", every_s, call))

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

    def explain(self, lease: Lease) -> None:
        """Explain what moved, and log each drift that was found."""
        for found in self._explainer.run(lease, now=self._now()):
            log.info(
                "drift_found",
                app=found.app,
                metric=found.metric,
                segment=found.segment,
                test=found.test,
                mean_before=found.mean_before,
                mean_after=found.mean_after,
                n=found.n,
            )

    def _broken_link(self) -> str | None:
        """Return which part of the monitor is not at work; None while all are."""
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

    def deliver_until(self, stop: threading.Event) -> None:
        """Deliver what waits in the outbox until *stop* is set."""
        dispatcher = Dispatcher(
            self._context.store,
            self._context.channels,
            rng=Random(),  # noqa: S311
        )

        def deliver() -> None:
            dispatcher.run_once(lambda: not stop.is_set())
            self._dispatched_at = self._now()

        while not stop.wait(_DELIVER_EVERY_S):
            self._throttle.guard("deliver", deliver)
