"""Keep a few processes running: start in order, restart what dies, stop in reverse order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_CHECK_EVERY_S = 0.2
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_HEALTHY_AFTER_S = 30.0
_LARGE_LOG_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process to keep running."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log_file: Path
    #: Waits until the process is of use; raises ServerStartError when it never will be.
    wait_until_ready: Callable[[subprocess.Popen[bytes]], None] | None = None
    stop_timeout_s: float = 10.0


class Listener(Protocol):
    """Hears what happens to the processes."""

    def __call__(self, name: str, what: str, /) -> None:
        """Take note of what happened to the service *name*."""


@dataclass(slots=True)
class _Running:
    service: Service
    process: subprocess.Popen[bytes]
    started_s: float = field(default_factory=time.monotonic)
    pause_s: float = _FIRST_PAUSE_S
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
        """Start all services, each when the one before is ready; stop them if one is not."""
        try:
            for service in self._services:
                running = _Running(service, _spawn(service))
                self._running.append(running)
                if service.wait_until_ready is not None:
                    service.wait_until_ready(running.process)
                self._tell(service.name, "ready")
        except BaseException:
            self.stop()
            raise

    def watch(self, stop: threading.Event) -> None:
        """Restart what dies, until *stop* is set."""
        while not stop.wait(_CHECK_EVERY_S):
            self.check()

    def check(self) -> None:
        """Look at every service once; restart those that died, with growing pauses."""
        now_s = time.monotonic()
        for running in self._running:
            code = running.process.poll()
            if code is None:
                if now_s - running.started_s > _HEALTHY_AFTER_S:
                    running.pause_s = _FIRST_PAUSE_S
            elif running.restart_at_s is None:
                running.restart_at_s = now_s + running.pause_s
                pause = f"{running.pause_s:.1f} s"
                self._tell(running.service.name, f"ended with code {code}; restart in {pause}")
                running.pause_s = min(_LONGEST_PAUSE_S, running.pause_s * 2)
            elif now_s >= running.restart_at_s:
                running.process = _spawn(running.service)
                running.started_s, running.restart_at_s = now_s, None
                self._tell(running.service.name, "restarted")

    def stop(self) -> None:
        """Stop all services, the last one first; kill what does not leave in its time."""
        for running in reversed(self._running):
            _stop(running)
        self._running.clear()

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each service."""
        return {running.service.name: running.process.pid for running in self._running}


def _spawn(service: Service) -> subprocess.Popen[bytes]:
    service.log_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _rotate(service.log_file)
    with service.log_file.open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", "workers.launch", str(os.getpid()), *service.command],
            env=dict(service.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _rotate(log: Path) -> None:
    """Put a log that has grown large aside, in place of the one before."""
    if log.exists() and log.stat().st_size > _LARGE_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _stop(running: _Running) -> None:
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


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
