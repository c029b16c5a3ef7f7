"""
The Celery application: ``celery -A workers worker``.

Run it as a module of the package, never as a script: a file of this name would hide
the library of the same name.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_init, worker_process_init, worker_process_shutdown

from monitor.errors import GroundwatchError
from monitor.queue import names
from monitor.settings import Settings
from workers import processes, transport
from workers.broker import broker_conf
from workers.logs import configure_logs
from workers.pump import Pump
from workers.slots import DRAIN_FOR_S


def _settings() -> Settings:
    try:
        return Settings.from_env()
    except GroundwatchError as error:
        sys.exit(f"groundwatch: {error}")


def make_app(settings: Settings) -> Celery:
    """Build the application for one set of settings."""
    transport.use_here()
    app = Celery("groundwatch", include=["workers.tasks"])
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
    configure_logs(processes.settings())


@worker_init.connect
def _check_before_work(**_: Any) -> None:
    """Refuse to start with a clear line rather than to fail on each sample."""
    try:
        processes.check()
    except GroundwatchError as error:
        sys.exit(f"groundwatch: {error}")


@worker_process_shutdown.connect
def _leave(**_: Any) -> None:
    processes.leave()


@worker_process_init.connect
def _fresh_process(**_: Any) -> None:
    """Sockets and connections of the parent are not ours: make our own."""
    processes.forget()


app = make_app(_settings())
