"""
All of groundwatch on one machine: which processes there are, and where they keep their data.

`plan_stack` decides what runs, `announced` tells hooks and commands where; the ``wait_for``
functions say when a process of ours is ready.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import redis

from monitor.errors import GroundwatchError, ServerStartError
from monitor.queue.consumer import connect, live_workers
from monitor.settings import Settings, masked_url, redis_url_file, variable
from monitor.store.engine import Store, current_owner, process_name
from workers import supervise
from workers.supervise import Service, ServiceProcess

#: A worker finishes the calls it has begun before it leaves, and commits.
_WORKER_STOP_S = 15.0
_PAGE_STOP_S = 8.0
_READY_TIMEOUT_S = 60.0
_READY_EVERY_S = 0.05
_HARMLESS = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The services, with what people want to know about them."""

    services: list[Service]
    redis_url: str
    redis_kind: str
    logs: Path
    page_url: str | None = None
    page_note: str = ""  #: why the page is not at its usual port


def page_url_file(home: Path) -> Path:
    """Return the file in which `groundwatch up` leaves the address of its page."""
    return home / "page.url"


def plan_stack(
    settings: Settings, environment: Mapping[str, str], *, with_page: bool = False,
    main: Callable[[], object] | None = None,
) -> Stack:  # fmt: skip
    """
    Decide what to run: Redis unless one is given by URL, a worker, a scheduler, the page.

    With *main*, the command line, our processes are forks of this one where that is safe. Raise
    ServerStartError if there is no Redis to run, or the one given does not answer.
    """
    logs = settings.home / "logs"
    services = []
    if settings.redis_url:
        url, kind = settings.redis_url, "yours, by GROUNDWATCH_REDIS_URL"
        try:
            with closing(connect(url)) as client:
                client.ping()
        except (GroundwatchError, redis.RedisError) as error:
            raise ServerStartError(
                f"Redis at {masked_url(url)} does not answer ({type(error).__name__}); start it,"
                " or correct GROUNDWATCH_REDIS_URL, or unset it to have one run for you"
            ) from None
    else:
        port = settings.redis_port or 0
        if not port:
            # That of the last run while it is free, so that apps find Redis where it was.
            with suppress(OSError, IndexError, ValueError):
                before = redis_url_file(settings.home).read_text(encoding="utf-8")
                port = int(before.rsplit(":", 1)[1].split("/")[0])
            port = port if port and _is_free(port) else supervise.free_port()
        url = f"redis://127.0.0.1:{port}/0"
        kind = supervise.find_binary().name
        services.append(
            Service(
                name="redis",
                command=supervise.command(settings.home / "redis", port),
                # None of our secrets.
                environment={key: environment[key] for key in _HARMLESS if key in environment},
                log_file=logs / "redis.log",
                wait_until_ready=partial(supervise.wait_until_ready, url),
            )
        )
    ours = {
        **environment,
        variable("redis_url"): url,
        variable("home"): str(settings.home),
        # Our own judge's calls are no traffic of the app.
        variable("enabled"): "false",
    }
    page_url, page_note, port = None, "", settings.web_port
    # The address at which this machine reaches what listens on all of them.
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared with
    host = everywhere.get(settings.web_host, settings.web_host)
    if with_page:
        # The port that is set; the usual one only where nothing else has it.
        if port and not _is_free(port):
            ours_there = _page_at(host, port) is not None
            page_note = f"{'another groundwatch' if ours_there else 'another program'} has {port}"
            if "web_port" in settings.model_fields_set:
                raise ServerStartError(
                    f"{page_note}; stop it, or choose another port with {variable('web_port')}"
                )
        if not port or page_note:
            port = supervise.free_port()
        page_url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    if page_url is not None and settings.report_url is None:
        ours[variable("report_url")] = page_url  # alerts link to the page that runs here
    # A delivery that hangs is waited for: killed, it might be sent twice.
    stop_s = settings.delivery_timeout_s + 10.0
    worker_stop_s = settings.judge_limits.judge_timeout_s + _WORKER_STOP_S
    services += [
        _process("worker", ours, logs, main, partial(wait_for_worker, url), worker_stop_s),
        _process("scheduler", ours, logs, main, partial(wait_for_scheduler, settings), stop_s),
    ]
    if page_url is not None:
        ours_web = {**ours, variable("web_port"): str(port)}
        ready = partial(wait_for_page, host, port)
        services.append(_process("web", ours_web, logs, main, ready, _PAGE_STOP_S))
    return Stack(
        services=services, redis_url=url, redis_kind=kind, logs=logs, page_url=page_url,
        page_note=page_note,
    )  # fmt: skip


def _process(
    name: str, environment: Mapping[str, str], logs: Path, main: Callable[[], object] | None,
    wait: Callable[[Path, ServiceProcess], str | None], stop_timeout_s: float,
) -> Service:  # fmt: skip
    """Return a process of ours: it needs Redis, and not the others; together they start sooner."""
    log = logs / f"{name}.log"
    return Service(
        name=name,
        command=[sys.executable, "-P", "-m", "groundwatch", name],
        environment=environment,
        log_file=log,
        main=main,
        wait_until_ready=partial(wait, log),
        stop_timeout_s=stop_timeout_s,
        beside_next=True,
    )


@contextmanager
def announced(settings: Settings, stack: Stack) -> Iterator[None]:
    """
    Leave the address of Redis in the home folder, for hooks, commands and the next run.

    Raise ServerStartError if another stack runs on this folder.
    """
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    address = redis_url_file(settings.home)
    with (settings.home / "up.lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServerStartError(
                f"another groundwatch already runs on {settings.home};"
                " stop it, or choose another folder with GROUNDWATCH_HOME"
            ) from None
        address.touch(mode=0o600)
        address.write_text(stack.redis_url + "\n", encoding="utf-8")
        page_url_file(settings.home).write_text(f"{stack.page_url or ''}\n", encoding="utf-8")
        yield


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def worker_name(pid: int) -> str:
    """Return the name of a worker with this process id; Celery adds the host for %h."""
    return f"groundwatch-{pid}@%h"


def wait_for_worker(redis_url: str, log: Path, process: ServiceProcess) -> None:
    """
    Wait until the worker of this process takes work.

    Raise ServerStartError if it ends, or is not there within a minute.
    """
    prefix = worker_name(process.pid).removesuffix("%h")
    with closing(connect(redis_url)) as client:
        _wait(
            lambda: any(n.startswith(prefix) for n in live_workers(client, now_s=time.time())),
            process,
            log,
        )


def wait_for_scheduler(settings: Settings, log: Path, process: ServiceProcess) -> str | None:
    """
    Wait until a scheduler holds the lease; return a remark if it is not this process.

    Raise ServerStartError if it ends, or nobody holds the lease within a minute.
    """
    owners: list[str] = []

    def at_work() -> bool:
        with store.read() as connection:
            owner = current_owner(connection, "scheduler")
        owners.extend([owner] if owner is not None else [])
        return bool(owners)

    with closing(Store(settings.sql_url)) as store:
        _wait(at_work, process, log)
    if owners[0].startswith(process_name(process.pid)):
        return None
    return f"another scheduler holds the lease ({owners[0]}); this one waits for it"


def wait_for_page(host: str, port: int, log: Path, process: ServiceProcess) -> None:
    """
    Wait until the page of this process answers.

    Raise ServerStartError if it ends, or does not answer within a minute.
    """
    # Another groundwatch may have the port: its page is not this one's.
    _wait(lambda: _page_at(host, port) == str(process.pid), process, log)


def _page_at(host: str, port: int) -> str | None:
    """Return the process whose page answers at an address; None if none of ours does."""
    connection = HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    is_ready = response.status == HTTPStatus.OK
    return response.getheader("Groundwatch-Process") if is_ready else None


def _wait(ready: Callable[[], bool], process: ServiceProcess, log: Path) -> None:
    deadline_s = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = lines[-1] if lines else "it logged nothing"
            raise ServerStartError(f"{log.stem} ended at its start: {why}; see {log}")
        with suppress(GroundwatchError):
            if ready():
                return
        time.sleep(_READY_EVERY_S)
    raise ServerStartError(f"{log.stem} was not ready within {_READY_TIMEOUT_S:.0f} s; see {log}")
