"""The composition root: everything a process of ours needs, built once from the settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from redis import Redis

from alerts.channels.base import Channel
from alerts.plan import RoutingConfig
from alerts.routes_file import Wiring, wiring_from
from monitor.errors import QueueUnavailableError
from monitor.queue.consumer import Consumer, connect
from monitor.queue.newest_first import NewestFirst
from monitor.queue.told_events import add_events
from monitor.rolling.choice import PolicyChoice
from monitor.rolling.policies import Thresholds
from monitor.scoring.base import ScoresSamples
from monitor.scoring.registry import make_scorer
from monitor.scoring.shared_limits import endpoint_name
from monitor.scoring.spending.limiter import CircuitBreaker
from monitor.settings import Settings
from monitor.store.engine import Store
from workers.pipeline import Rules
from workers.scoring_run import ScoringRun

if TYPE_CHECKING:
    from workers.evaluation_events import EvaluationEvents


class Context:
    """What the settings describe, made when first asked for; one a process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        self.policies = PolicyChoice.parse(settings.status_policy, settings.status_policies)

    @cached_property
    def store(self) -> Store:
        """The database."""
        return Store(self.settings.sql_url)

    @cached_property
    def redis(self) -> Redis:
        """The client of the queue."""
        return connect(self.settings.broker_url)

    @cached_property
    def impatient_redis(self) -> Redis:
        """A client that gives up soon: the schedule must not wait for a Redis that hangs."""
        return connect(self.settings.broker_url, timeout_s=2.0)

    @cached_property
    def scorer(self) -> ScoresSamples:
        """The judge with the metrics that are asked of it."""
        return make_scorer(self.settings, client=self.redis)

    @cached_property
    def absence(self) -> CircuitBreaker:
        """Whether the judge answers nobody; looked at before a drain begins."""
        return CircuitBreaker(self.redis, endpoint_name(self.settings))

    @cached_property
    def events(self) -> EvaluationEvents | None:
        """Where evaluations are told as OpenTelemetry events; None unless that is wanted."""
        url = self.settings.evaluation_events_url
        if url is None:
            return None
        from workers.evaluation_events import EvaluationEvents  # noqa: PLC0415  # an extra

        return EvaluationEvents(url, explanations=self.settings.evaluation_events_explanations)

    @cached_property
    def wiring(self) -> Wiring:
        """The ways to reach people, and who is told of what."""
        return wiring_from(self.settings)

    @property
    def channels(self) -> dict[str, Channel]:
        """The ways to reach people."""
        return self.wiring.channels

    @property
    def recipients(self) -> RoutingConfig:
        """Who is told of what."""
        return self.wiring.plan

    @property
    def lines(self) -> Thresholds:
        """The lines that a pass rate must not fall below."""
        return Thresholds(
            warning_rate=self.settings.warning_rate,
            critical_rate=self.settings.critical_rate,
            min_n=self.settings.min_n,
        )

    @property
    def rules(self) -> Rules:
        """What makes a pass, and how wide a bucket is."""
        return Rules(
            pass_score=self.settings.pass_score,
            bucket_s=self.settings.bucket_s,
            dimensions=self.settings.segments,
            settle_s=self.settings.settle_s,
            news_s=self.settings.status_window_s,
            behind_after_s=self.settings.behind_after_s,
            expire_after_s=self.settings.expire_after_s,
        )

    def judge_is_away(self) -> bool:
        """Say whether samples must wait because the judge that they need answers nobody."""
        return self.settings.scorer in ("judge", "cascade") and self.absence.look() is not None

    def drain(self, may_go_on: Callable[[], bool]) -> ScoringRun:
        """Make one run of a worker over the queue."""
        consumer = Consumer(self.redis, self.name)
        consumer.ensure_group()
        return ScoringRun(
            consumer=consumer,
            newest_first=NewestFirst(self.redis, self.name),
            store=self.store,
            scorer=self.scorer,
            rules=self.rules,
            may_go_on=may_go_on,
            abandoned_after_s=self.settings.abandoned_after_s,
            tell=None if self.events is None else self.events.tell,
        )

    def tell_events(self) -> None:
        """Tell all how many evaluation events were sent, failed or dropped here."""
        events = vars(self).get("events")
        news = {} if events is None else events.news()
        if news:
            with suppress(QueueUnavailableError):
                add_events(self.redis, news)

    def close(self) -> None:
        """Close what was opened."""
        opened = vars(self)
        if opened.get("events") is not None:
            opened["events"].close()
            self.tell_events()
        if "scorer" in opened:
            self.scorer.close()
        for client in ("redis", "impatient_redis"):
            if client in opened:
                opened[client].close()
        if "store" in opened:
            self.store.close()
