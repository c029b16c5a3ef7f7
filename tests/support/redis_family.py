"""A primary, a replica and three sentinels on loopback: what a fail-over needs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from support.redis_server import RedisServer
from workers.supervise import find_binary, free_port, wait_until_ready

MASTER = "groundwatch"
_SENTINELS, _QUORUM = 3, 2


class RedisFamily:
    """
    Real servers; use it in a ``with``. ``url`` is the address that survives a fail-over.

    *down_after_ms* is the silence after which sentinels take the primary for dead.
    """

    def __init__(self, folder: Path, *, down_after_ms: int = 500) -> None:
        self._folder, self._down_after_ms = folder, down_after_ms
        self.primary = RedisServer(folder / "primary")
        self.replica = RedisServer(folder / "replica")
        self.ports = [free_port() for _ in range(_SENTINELS)]
        self._running = ExitStack()

    @property
    def url(self) -> str:
        """The address of whoever is the master."""
        nodes = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"redis+sentinel://{nodes}/{MASTER}/0"

    def __enter__(self) -> Self:
        for server in (self.primary, self.replica):
            self._running.enter_context(server)
        with redis.Redis(port=self.replica.port) as client:
            client.replicaof("127.0.0.1", self.primary.port)
        for port in self.ports:
            self._start_sentinel(port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def master_port(self) -> int:
        """Ask a sentinel who the master is."""
        with redis.Redis(port=self.ports[0]) as sentinel:
            found: Any = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
            return int(found[1])

    def knows_replica(self) -> bool:
        """Say whether every sentinel knows the others and a replica that is in step."""
        for port in self.ports:
            with redis.Redis(port=port, decode_responses=True) as sentinel:
                found: Any = sentinel.execute_command("SENTINEL", "MASTER", MASTER)
            known = (
                dict(zip(found[::2], found[1::2], strict=True))
                if isinstance(found, list)
                else found
            )
            if int(known["num-slaves"]) < 1 or int(known["num-other-sentinels"]) < _SENTINELS - 1:
                return False
        with redis.Redis(port=self.replica.port) as replica:
            info: Any = replica.info("replication")
            return bool(info["master_link_status"] == "up")

    def _start_sentinel(self, port: int) -> None:
        lines: Sequence[str] = (
            "bind 127.0.0.1",
            f"port {port}",
            f"dir {self._folder}",
            f"sentinel monitor {MASTER} 127.0.0.1 {self.primary.port} {_QUORUM}",
            f"sentinel down-after-milliseconds {MASTER} {self._down_after_ms}",
            f"sentinel failover-timeout {MASTER} 3000",
            f"sentinel parallel-syncs {MASTER} 1",
        )
        file = self._folder / f"sentinel-{port}.conf"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        process = subprocess.Popen(
            [str(find_binary()), str(file), "--sentinel"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running.callback(process.wait)
        self._running.callback(process.kill)
        wait_until_ready(f"redis://127.0.0.1:{port}/0", process)
