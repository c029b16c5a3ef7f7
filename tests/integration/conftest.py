"""What tests of the queue share: all that Redis was told, and a way to it that loses an answer."""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
import redis

from monitor.queue import names, wire


@dataclass
class Told:
    """The counters of every hook that Redis heard of, and the samples that arrived."""

    seen: int = 0
    sampled: int = 0
    sent: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0

    @property
    def balanced(self) -> bool:
        """Every sample is in the stream or was dropped for a reason, to the unit."""
        return (
            self.sampled == self.sent + self.dropped.total()
            and self.sent == self.outputs.total()
            and not self.duplicates
        )


def _told(redis_url: str) -> Told:
    told, ids = Told(), set()
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        for hook_id in client.zrange(names.HOOKS, 0, -1):
            counters = client.hgetall(names.hook(hook_id))
            told.seen += int(counters["seen"])
            told.sampled += int(counters["sampled"])
            told.sent += int(counters["sent"])
            for name, value in counters.items():
                if name.startswith("dropped:"):
                    told.dropped[name.removeprefix("dropped:")] += int(value)
    with redis.Redis.from_url(redis_url) as client:
        for _, fields in client.xrange(names.SAMPLES):
            sample = wire.decode(fields)
            ids.add(sample.sample_id)
            told.outputs[sample.interaction.output] += 1
    told.duplicates = told.outputs.total() - len(ids)
    return told


@pytest.fixture
def fresh_now(request, monkeypatch) -> None:
    """Take the module's NOW when each test begins: it was imported long before."""
    monkeypatch.setattr(request.module, "NOW", datetime.now(UTC))


@pytest.fixture
def told(redis_url: str) -> Callable[[], Told]:
    """Ask what Redis was told so far."""
    return lambda: _told(redis_url)


@pytest.fixture
def run(redis_url: str, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of its own that has REDIS_URL; it must end well, soon and silently."""

    def run_(code: str, *, timeout_s: float = 200.0) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "program.py"
        file.write_text(f"REDIS_URL = {redis_url!r}\n{code}")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", file],
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done

    return run_


def _pass_on(client: socket.socket, server: socket.socket, lost: bytes | None) -> None:
    with client, server, contextlib.suppress(OSError):
        while data := client.recv(1 << 20):
            server.sendall(data)
            answer = server.recv(1 << 20)
            if lost is not None and lost in data:
                return
            client.sendall(answer)


@pytest.fixture
def forgetful() -> Iterator[Callable[[str, bytes], str]]:
    """Make a way to a Redis that loses its first answer to what holds a word, and breaks off."""
    with contextlib.ExitStack() as opened:

        def way(redis_url: str, lost: bytes) -> str:
            found = urlsplit(redis_url)
            listener = socket.create_server(("127.0.0.1", 0))
            opened.callback(listener.close)
            opened.callback(listener.shutdown, socket.SHUT_RDWR)

            def accept() -> None:
                with contextlib.suppress(OSError):
                    for number in itertools.count():
                        client, _ = listener.accept()
                        server = socket.create_connection(("127.0.0.1", found.port or 6379))
                        ends = (client, server, None if number else lost)
                        threading.Thread(target=_pass_on, args=ends, daemon=True).start()

            threading.Thread(target=accept, daemon=True).start()
            return f"redis://127.0.0.1:{listener.getsockname()[1]}{found.path}"

        yield way
