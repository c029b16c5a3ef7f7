"""When a process of ours is of use: the worker listens, the scheduler is at work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from monitor.errors import GroundwatchError, ServerStartError
from monitor.queue.consumer import connect, live_workers
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.lease import current_owner

_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05


def worker_name(pid: int) -> str:
    """Name a worker so that its process can be told from others; Celery adds the host for %h."""
    return f"groundwatch-{pid}@%h"


def wait_for_worker(redis_url: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    """
    Wait until the worker of this process takes work.

    Raises
    ------
    ServerStartError
        If it ends, or is not there within a minute.
    """
    prefix = worker_name(process.pid).removesuffix("%h")
    with closing(connect(redis_url)) as client:
        _wait(
            lambda: any(n.startswith(prefix) for n in live_workers(client, now_s=time.time())),
            process,
            log,
        )


def wait_for_scheduler(settings: Settings, log: Path, process: subprocess.Popen[bytes]) -> None:
    """
    Wait until a scheduler, this one or another, holds the lease.

    Raises
    ------
    ServerStartError
        If it ends, or nobody holds the lease within a minute.
    """

    def at_work() -> bool:
        with store.read() as connection:
            return current_owner(connection, "scheduler") is not None

    with closing(Store(settings.sql_url)) as store:
        _wait(at_work, process, log)


def wait_for_page(host: str, port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
    """
    Wait until the page answers.

    Raises
    ------
    ServerStartError
        If it ends, or does not answer within a minute.
    """
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared with

    def answers() -> bool:
        connection = HTTPConnection(address, port, timeout=1.0)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    _wait(answers, process, log)


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise ServerStartError(f"{log.stem} ended at its start: {_last_line(log)}; see {log}")
        try:
            if ready():
                return
        except GroundwatchError:
            pass
        time.sleep(_LOOK_EVERY_S)
    raise ServerStartError(f"{log.stem} was not ready within {_TIMEOUT_S:.0f} s; see {log}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
