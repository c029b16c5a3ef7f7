"""
The Celery application: ``celery -A workers worker``.

Messages carry no data: each is an empty wake-up for one scoring run, sent by the
`Waker` of a worker and sent again when it is lost. Run this as a module of the package,
never as a script: a file of this name would hide the library of the same name.
"""

from __future__ import annotations

import contextlib
import gc
import ssl
import sys
import time
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
from monitor.queue.producer import place_of
from monitor.scoring.registry import small_budgets
from monitor.settings import Settings
from workers.context import configure_logs, forget_inherited, leave, worker_context
from workers.waker import RUN_FOR_S, RunLease, Waker

#: Redis may restart under us: never block for ever on a frozen one.
_TRANSPORT = {
    "global_keyprefix": names.CELERY_PREFIX,
    "socket_timeout": 15,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": True,
}

log = structlog.get_logger("groundwatch.worker")


@shared_task(name=names.TASK_SCORE)
def score(worker: str, number: int) -> None:
    """Score what waits in the queue, for as long as this worker keeps its lease."""
    context = worker_context()
    lease = RunLease(context.redis, worker, number)
    try:
        if not lease.begin(time.time()):
            return  # late: the run is no longer wanted
    except GroundwatchError as error:
        log.warning("scoring_run_not_begun", code=error.code, message=str(error))
        return
    try:
        if context.judge_unavailable():
            return
        scored = context.scoring_run(lease.keep).run(budget_s=RUN_FOR_S)
    except GroundwatchError as error:
        # Nothing was acknowledged, so nothing is lost; the waker wakes us again.
        log.error("scoring_run_failed", code=error.code, message=str(error))  # noqa: TRY400
    else:
        if scored:
            log.info("scoring_run_finished", scored=scored)
    finally:
        context.report_events()
        with contextlib.suppress(GroundwatchError):
            lease.give_back()


def make_app(settings: Settings) -> Celery:
    """Build the application for one set of settings."""
    use_transport()
    app = Celery("groundwatch", include=["workers.celery"])
    app.conf.update(
        # Messages carry no data, only a wake-up; so JSON, no results, no copies of arguments.
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_default_queue=names.CELERY_QUEUE,
        task_create_missing_queues=True,
        worker_send_task_events=False,
        # No message may stop or change a worker: whoever writes to Redis could send one.
        worker_enable_remote_control=False,
        # A run is woken again within a second, so it is acknowledged at once; the samples
        # themselves are acknowledged in the stream after the commit.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        # A run ends by itself: after its budget, and the two rounds of calls it may hold.
        task_soft_time_limit=RUN_FOR_S + 45 + 2 * settings.judge_limits.judge_timeout_s,
        task_time_limit=RUN_FOR_S + 75 + 2 * settings.judge_limits.judge_timeout_s,
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
    app.steps["worker"].add(Waker)
    return app


@setup_logging.connect
def _logs(**_: Any) -> None:
    configure_logs(worker_context().settings)


@worker_init.connect
def _check_before_work(**_: Any) -> None:
    """Refuse to start with a clear line rather than to fail on each sample."""
    try:
        worker_context().check()
    except GroundwatchError as error:
        sys.exit(f"groundwatch: {error}")
    for words in small_budgets(worker_context().settings):
        log.warning("judge_budget_small", message=words)


@worker_process_init.connect
def _fresh_process(**_: Any) -> None:
    """Sockets and connections of the parent are not ours: make our own."""
    forget_inherited()
    # What the parent loaded stays; to search it for garbage took a sixth of a sample's time.
    gc.freeze()


@worker_process_shutdown.connect
def _leave(**_: Any) -> None:
    leave()


def broker_conf(url: str) -> dict[str, Any]:
    """
    Return Celery's settings for the Redis at *url*: TLS, user and password, sentinels.

    kombu leaves the certificate of a ``rediss://`` unchecked where no option names a
    check, so what redis-py does by default is spelled out here.
    """
    place = place_of(url)
    options = place.options
    login = ":".join(quote(options.get(key, ""), safe="") for key in ("username", "password"))
    login = "" if login == ":" else f"{login}@"
    db = options.get("db", 0)
    transport = dict(_TRANSPORT)
    conf: dict[str, Any] = {"broker_transport_options": transport}
    if place.tls:
        given = {key: value for key, value in options.items() if key.startswith("ssl_")}
        conf["broker_use_ssl"] = {
            "ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True, **given
        }  # fmt: skip
    if place.sentinels:
        asked = dict(place.sentinel_options) | ({"ssl": True} if place.tls else {})
        transport |= {
            "master_name": place.master_name,
            "sentinel_kwargs": {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, **asked},
        }
        nodes = (f"sentinel://{login}{_bracketed(h)}:{port}/{db}" for h, port in place.sentinels)
        conf["broker_url"] = ";".join(nodes)
    elif options.get("connection_class") is redis.UnixDomainSocketConnection:
        conf["broker_url"] = f"redis+socket://{login}{options['path']}?virtual_host={db}"
    else:
        host = _bracketed(options.get("host", "localhost"))
        conf["broker_url"] = f"redis://{login}{host}:{options.get('port', 6379)}/{db}"
    return conf


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class WakeUps(virtual.QoS):
    """
    Messages that were delivered and not yet begun, known to this process alone.

    Our messages are empty wake-ups, sent again when nothing acts on them. Noting each in
    Redis until it is acknowledged gains nothing and costs messages: when Redis is away at the
    moment of an acknowledgement, kombu (5.7) logs the error and counts the message as in work
    for ever. A worker with as many of those as processes takes no message any more, and does
    not notice that its connection is gone either.
    """

    #: A wake-up that dies with us is sent again.
    restore_at_shutdown = False

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: ARG002  # kombu's
        """Forget it."""
        self.ack(delivery_tag)


class WorkerChannel(redis_transport.Channel):
    """A channel to one server."""

    QoS: Any = WakeUps


class Transport(redis_transport.Transport):
    """The transport to one server."""

    Channel = WorkerChannel


class SentinelChannel(redis_transport.SentinelChannel):
    """A channel to the master that sentinels name."""

    QoS: Any = WakeUps


class SentinelTransport(redis_transport.SentinelTransport):
    """The transport to the master that sentinels name."""

    Channel = SentinelChannel


def use_transport() -> None:
    """Use our transports for all addresses; kombu chooses again at each change of node."""
    ours = {"redis": "Transport", "rediss": "Transport", "sentinel": "SentinelTransport"}
    TRANSPORT_ALIASES.update({name: f"{__name__}:{kind}" for name, kind in ours.items()})


try:
    app = make_app(Settings.from_env())
except GroundwatchError as problem:
    sys.exit(f"groundwatch: {problem}")
