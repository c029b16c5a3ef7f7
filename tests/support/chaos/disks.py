"""Disks that are full: small file systems in memory, filled and emptied while servers write."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from monitor.errors import GroundwatchError

if TYPE_CHECKING:
    from support.chaos.world import World

_BLOCK = bytes(65_536)
_BEGUN_S, _FULL_FOR_S = 1.0, 3.0


class SmallDisk:
    """A file system of so many megabytes at *folder*; mounting it needs root."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder, self._size = folder, f"{megabytes}m"
        self._filler = folder / "filler"

    def __enter__(self) -> Self:
        """
        Mount it.

        Raises
        ------
        GroundwatchError
            Where that is not allowed.
        """
        self._folder.mkdir()
        found = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={self._size}", "tmpfs", self._folder],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode:
            raise GroundwatchError(f"no file system of a limited size: {found.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        subprocess.run(["umount", "--lazy", self._folder], check=True)

    def fill(self) -> None:
        """Leave not a byte, nor what has been freed since."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(_BLOCK[: 4_096 if file.tell() else len(_BLOCK)])

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)


def redis_disk_is_full(world: World) -> None:
    """Redis cannot write its append-only file, and refuses what would change anything."""
    before = _refusals(world)
    _keep_full(world, "redis")
    if _refusals(world) == before:
        raise RuntimeError("the disk was not full: Redis refused nothing")


def _refusals(world: World) -> int:
    client: Any = world.client
    return int(client.info("errorstats").get("errorstat_MISCONF", {}).get("count", 0))


def postgres_disk_is_full(world: World) -> None:
    """PostgreSQL can make no file longer; where its log cannot go on either, it dies."""
    assert world.postgres is not None
    _keep_full(world, "pg")
    if world.postgres.process is not None and world.postgres.process.poll() is not None:
        world.postgres.start()


def _keep_full(world: World, name: str) -> None:
    """Keep a disk full for a while, whatever its server gives back meanwhile."""
    disk = world.disks[name]
    disk.fill()
    time.sleep(_BEGUN_S)
    ended, end_s = world.ended(), time.monotonic() + _FULL_FOR_S
    while time.monotonic() < end_s:
        disk.fill()
        time.sleep(0.05)
    with suppress(GroundwatchError):  # PostgreSQL may be gone
        if world.ended() != ended:
            raise RuntimeError("the disk was not full: samples were stored meanwhile")
    disk.free()
