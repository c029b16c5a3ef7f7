"""
The Celery application: ``celery -A workers worker``.

Run it as a module of the package, never as a script: a file of this name would hide
the library of the same name.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import sys
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import redis
import structlog
from celery import Celery, shared_task
from celery.signals import setup_logging, worker_init, worker_process_init, worker_process_shutdown
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport import redis as redis_transport

from monitor.errors import GroundwatchError
from monitor.queue import names
from monitor.queue.address import Place, place_of
from monitor.queue.consumer import Consumer
from monitor.settings import Settings
from monitor.store.migrate import check_schema
from workers.context import Context
from workers.waker import DRAIN_FOR_S, Pump, RunLease


def _settings() -> Settings:
    try:
        return Settings.from_env()
    except GroundwatchError as error:
        sys.exit(f"groundwatch: {error}")


def make_app(settings: Settings) -> Celery:
    """Build the application for one set of settings."""
    use_here()
    app = Celery("groundwatch", include=["workers.celery"])
    app.conf.update(
        # Messages carry no data, only a wake-up; so JSON, no results, no copies of arguments.
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_default_queue=names.CELERY_QUEUE,
        task_create_missing_queues=True,
        worker_send_task_events=False,
        # Nobody may stop or change a worker by a message: whoever writes to Redis could.
        worker_enable_remote_control=False,
        # A drain is woken again within a second, so it is acknowledged at once; the samples
        # themselves are acknowledged in the stream after the commit.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        # A drain ends by itself: after its budget, and the two rounds of calls it may hold.
        task_soft_time_limit=DRAIN_FOR_S + 45 + 2 * settings.judge_timeout_s,
        task_time_limit=DRAIN_FOR_S + 75 + 2 * settings.judge_timeout_s,
        # A stray QUIT gets a bounded warm stop before the cold one.
        worker_soft_shutdown_timeout=20.0,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # Children are replaced now and then, so that no leak of any library can grow for ever.
        worker_max_tasks_per_child=500,
        worker_max_memory_per_child=600_000,
        # Redis may restart under us: never give up.
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # Nor when it refuses to write, as while its disk is full.
        broker_channel_error_retry=True,
        **broker_conf(settings.broker_url),
    )
    app.steps["worker"].add(Pump)
    return app


@setup_logging.connect
def _logs(**_: Any) -> None:
    configure_logs(settings())


@worker_init.connect
def _check_before_work(**_: Any) -> None:
    """Refuse to start with a clear line rather than to fail on each sample."""
    try:
        check()
    except GroundwatchError as error:
        sys.exit(f"groundwatch: {error}")


@worker_process_shutdown.connect
def _leave(**_: Any) -> None:
    leave()


@worker_process_init.connect
def _fresh_process(**_: Any) -> None:
    """Sockets and connections of the parent are not ours: make our own."""
    forget()


# --- broker ---
# Celery's words for the address of Redis, so that its messages go where the samples are.


#: Redis may restart under us: never block for ever on a frozen one.
_TRANSPORT = {
    "global_keyprefix": names.CELERY_PREFIX,
    "socket_timeout": 15,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
}


def broker_conf(url: str) -> dict[str, Any]:
    """
    Say in Celery's settings what *url* says: TLS, user and password, sentinels.

    kombu leaves the certificate of a ``rediss://`` unchecked where nobody speaks of it, so
    what redis-py does by default is spelled out here.
    """
    place = place_of(url)
    conf: dict[str, Any] = {"broker_transport_options": dict(_TRANSPORT)}
    if place.tls:
        given = {key: value for key, value in place.options.items() if key.startswith("ssl_")}
        conf["broker_use_ssl"] = {
            "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True, **given
        }  # fmt: skip
    if place.sentinels:
        asked = dict(place.sentinel_options) | ({"ssl": True} if place.tls else {})
        conf["broker_transport_options"] |= {
            "master_name": place.master_name,
            "sentinel_kwargs": {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, **asked},
        }
    return {"broker_url": _broker_url(place), **conf}


def _broker_url(place: Place) -> str:
    options = place.options
    login = ":".join(quote(options.get(key, ""), safe="") for key in ("username", "password"))
    login = "" if login == ":" else f"{login}@"
    db = options.get("db", 0)
    if place.sentinels:
        nodes = (f"sentinel://{login}{_bracketed(h)}:{port}/{db}" for h, port in place.sentinels)
        return ";".join(nodes)
    if options.get("connection_class") is redis.UnixDomainSocketConnection:
        return f"redis+socket://{login}{options['path']}?virtual_host={db}"
    host = _bracketed(options.get("host", "localhost"))
    return f"redis://{login}{host}:{options.get('port', 6379)}/{db}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# --- processes ---
# The one context of this process: made when first needed, forgotten in a fork.


_state: dict[str, Context] = {}


def settings() -> Settings:
    """Give the settings of this process."""
    return worker_context().settings


def worker_context() -> Context:
    """Give the context of this process, made from the environment at the first call."""
    if "context" not in _state:
        _state["context"] = Context(Settings.from_env())
    return _state["context"]


def forget() -> None:
    """Drop a context inherited by a fork, without touching the parent's connections."""
    inherited = _state.pop("context", None)
    if inherited is not None and "store" in vars(inherited):
        inherited.store.engine.dispose(close=False)


def leave() -> None:
    """Sign off from the queue and close what was opened, at the end of a worker's process."""
    here = _state.pop("context", None)
    if here is not None:
        with suppress(GroundwatchError):
            Consumer(here.redis, here.name).leave()
        here.close()


def check() -> None:
    """
    Check that this process can work at all: scorer, channels and tables.

    Raises
    ------
    GroundwatchError
        With one clear line for what is wrong.
    """
    here = worker_context()
    _ = here.scorer, here.channels, here.recipients
    check_schema(here.store)


# --- transport ---
# Celery's transport over Redis, without its notes about what is not yet acknowledged.
#
# Our messages are empty wake-ups, sent again when nobody acts on them. Noting each in Redis
# until it is acknowledged buys nothing and costs hearing: when Redis is away at the moment
# of an acknowledgement, kombu (5.7) logs the error and counts the message as in work for
# ever. A worker with as many of those as processes takes no message any more, and does not
# notice that its connection is gone either.


_HERE = {"redis": "Transport", "rediss": "Transport", "sentinel": "SentinelTransport"}


class WakeUps(virtual.QoS):
    """Messages that were delivered and not yet begun, known to this process alone."""

    #: A wake-up that dies with us is sent again.
    restore_at_shutdown = False

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: ARG002  # kombu's
        """Forget it."""
        self.ack(delivery_tag)


class Channel(redis_transport.Channel):
    """A channel to one server."""

    QoS: Any = WakeUps


class Transport(redis_transport.Transport):
    """The transport to one server."""

    Channel = Channel


class SentinelChannel(redis_transport.SentinelChannel):
    """A channel to the master that sentinels name."""

    QoS: Any = WakeUps


class SentinelTransport(redis_transport.SentinelTransport):
    """The transport to the master that sentinels name."""

    Channel = SentinelChannel


def use_here() -> None:
    """Have this process use it for all addresses; kombu chooses anew at each change of node."""
    TRANSPORT_ALIASES.update({name: f"{__name__}:{kind}" for name, kind in _HERE.items()})


app = make_app(_settings())


# --- logs ---
# Logs of the processes we own: one structured line a unit of work, ids and lengths, never text.


#: These print addresses, which for a webhook are secrets.
_TALKATIVE = (
    *("httpx", "httpx2", "httpcore", "httpcore2", "openai", "urllib3"),
    *("kombu", "amqp", "alembic", "apprise"),
)


def configure_logs(settings: Settings) -> None:
    """Send structlog and the standard library's logging through one formatter to stderr."""
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
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)


# --- tasks ---
# The Celery tasks; each loads what it needs and calls the domain.


log = structlog.get_logger("groundwatch.worker")


@shared_task(name=names.TASK_SCORE)
def score(worker: str, number: int) -> None:
    """Score what waits in the queue, for as long as this worker keeps its slot."""
    context = worker_context()
    slot = RunLease(context.redis, worker, number)
    try:
        if not slot.begin(time.time()):
            return  # late: we are no longer wanted
    except GroundwatchError as error:
        log.warning("drain.not_begun", code=error.code, message=str(error))
        return
    try:
        if context.judge_is_away():
            return
        scored = context.drain(slot.keep).run(budget_s=DRAIN_FOR_S)
    except GroundwatchError as error:
        # Nothing was acknowledged, so nothing is lost; the pump wakes us again.
        log.error("drain.failed", code=error.code, message=str(error))  # noqa: TRY400
    else:
        if scored:
            log.info("drain.finished", scored=scored)
    finally:
        context.tell_events()
        with contextlib.suppress(GroundwatchError):
            slot.give_back()
