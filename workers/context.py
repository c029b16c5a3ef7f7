"""
The composition root: everything a process of ours needs, built once from the settings.

`worker_context` gives the one `Components` of this process; `configure_logs` sets up its logs, and
`ErrorThrottle` keeps repeated failures out of them.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import structlog
from redis import Redis

from alerts.dispatch import Wiring, wiring_from
from monitor.errors import GroundwatchError, QueueUnavailableError
from monitor.queue.consumer import Consumer, NewestFirst, connect
from monitor.queue.snapshot import add_events
from monitor.rolling.policies import policies_of
from monitor.scoring.base import Scorer
from monitor.scoring.limits.limiter import endpoint_name
from monitor.scoring.limits.rate import CircuitBreaker
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.schema import check_schema
from workers.scoring_run import JudgeShare, ScoringRules, ScoringRun

if TYPE_CHECKING:
    from monitor.contrib.evaluation_events import EvaluationEvents

#: These print addresses, which for a webhook are secrets.
_TALKATIVE_LOGGERS = (
    *("httpx", "httpx2", "httpcore", "httpcore2", "openai", "urllib3"),
    *("kombu", "amqp", "alembic", "apprise"),
)
_LOG_AGAIN_S = 600.0

log = structlog.get_logger("groundwatch.scheduler")


class Components:
    """What the settings describe, made when first asked for; one a process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = f"{socket.gethostname()}-{os.getpid()}"
        policies_of(settings)  # one that does not exist is refused before anything starts

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
    def scorer(self) -> Scorer:
        """The scorer with the metrics that the settings name."""
        share_of = (
            JudgeShare(self.store, self.settings.judge_share)
            if self.settings.scorer == "cascade"
            else None
        )
        return make_scorer(self.settings, client=self.redis, share_of=share_of)

    @cached_property
    def events(self) -> EvaluationEvents | None:
        """The export of evaluations as OpenTelemetry events; None unless that is configured."""
        url = self.settings.evaluation_events.evaluation_events_url
        if url is None:
            return None
        from monitor.contrib.evaluation_events import EvaluationEvents  # noqa: PLC0415  # an extra

        return EvaluationEvents(
            url, explanations=self.settings.evaluation_events.evaluation_events_explanations
        )

    @cached_property
    def wiring(self) -> Wiring:
        """The channels, and who is notified of what."""
        return wiring_from(self.settings)

    @property
    def rules(self) -> ScoringRules:
        """What makes a pass, and how wide a bucket is."""
        windows, timers = self.settings.windows, self.settings.worker_timers
        return ScoringRules(
            pass_score=self.settings.pass_score, dimensions=self.settings.dimensions,
            bucket_s=windows.bucket_s, settle_s=windows.settle_s, news_s=windows.status_window_s,
            behind_after_s=timers.behind_after_s, expire_after_s=timers.expire_after_s,
        )  # fmt: skip

    def judge_unavailable(self) -> bool:
        """Return whether samples must wait because the judge that they need is unavailable."""
        if not self.settings.asks_judge:
            return False
        return CircuitBreaker(self.redis, endpoint_name(self.settings)).outage() is not None

    def scoring_run(self, may_go_on: Callable[[], bool]) -> ScoringRun:
        """Return one run of a worker over the queue."""
        consumer = Consumer(self.redis, self.name)
        consumer.ensure_group()
        return ScoringRun(
            consumer=consumer,
            newest_first=NewestFirst(self.redis, self.name),
            store=self.store,
            scorer=self.scorer,
            rules=self.rules,
            may_go_on=may_go_on,
            abandoned_after_s=self.settings.worker_timers.abandoned_after_s,
            on_stored=None if self.events is None else self.events.send,
        )

    def report_events(self) -> None:
        """Add to the counters in Redis how many events were sent, failed or dropped here."""
        events = vars(self).get("events")
        if events is not None and (news := events.news()):
            with suppress(QueueUnavailableError):
                add_events(self.redis, news)

    def check(self) -> None:
        """
        Check that this process can work at all: scorer, channels and tables.

        Raise GroundwatchError with one clear line for what is wrong.
        """
        _ = self.scorer, self.wiring
        check_schema(self.store)

    def close(self) -> None:
        """Close what was opened."""
        opened = vars(self)
        if opened.get("events") is not None:
            opened["events"].close()
            self.report_events()
        for name in ("scorer", "redis", "impatient_redis", "store"):
            if name in opened:
                opened[name].close()


_of_process: dict[str, Components] = {}


def worker_context() -> Components:
    """Return the context of this process, made from the environment at the first call."""
    if "context" not in _of_process:
        _of_process["context"] = Components(Settings.from_env())
    return _of_process["context"]


def forget_inherited() -> None:
    """Drop a context inherited by a fork, without touching the parent's connections."""
    inherited = _of_process.pop("context", None)
    if inherited is not None and "store" in vars(inherited):
        inherited.store.engine.dispose(close=False)


def leave() -> None:
    """Sign off from the queue and close what was opened, at the end of a worker's process."""
    here = _of_process.pop("context", None)
    if here is not None:
        with suppress(GroundwatchError):
            Consumer(here.redis, here.name).leave()
        here.close()


def configure_logs(settings: Settings) -> None:
    """
    Send structlog and the standard library's logging through one formatter to stderr.

    One structured line a unit of work: ``event_name key=value``, ids and lengths, never text.
    """
    json = settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=True)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in _TALKATIVE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class Clocks(NamedTuple):
    """What two clocks say at one moment, in seconds: the calendar's, and one that never jumps."""

    calendar_s: float
    steady_s: float

    @classmethod
    def now(cls) -> Self:
        """Read both; the steady one goes on while the machine sleeps, where there is such a one."""
        steady = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return cls(time.time(), time.clock_gettime(steady))


class ErrorThrottle:
    """
    Runs work by name and logs its failures; safe for threads that run different names.

    A failure is logged when it begins, when another one takes its place, and every ten
    minutes as long as it lasts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[tuple[str, str], float]] = {}

    def guard(self, name: str, work: Callable[[], object]) -> Exception | None:
        """Run *work*; return the exception that ended it, if any."""
        try:
            work()
        except Exception as error:
            code = error.code if isinstance(error, GroundwatchError) else ""
            kind, now_s = (type(error).__name__, code), self._clock()
            known, logged_s = self._failures.get(name, (None, 0.0))
            if known == kind and now_s - logged_s < _LOG_AGAIN_S:
                return error
            self._failures[name] = kind, now_s
            if isinstance(error, GroundwatchError):
                log.error("job_failed", job=name, code=code, message=str(error))  # noqa: TRY400
            else:
                log.error("job_broken", job=name, exc_info=error)  # noqa: TRY400
            return error
        if self._failures.pop(name, None):
            log.info("job_recovered", job=name)
        return None
