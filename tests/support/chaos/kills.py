"""Processes that are killed or paused: one when told to, or many at any point of their work."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from monitor.errors import QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import translated
from support.chaos.app import start_app, told

if TYPE_CHECKING:
    from support.chaos.world import World

#: An app runs for so long, then the next one; kills go on from one to the other.
_ROUND_S = 10.0
#: A kill comes so long after a process was seen at work, at most: some batches later.
_MOST_LATER_S = 1.5
_SEED = 20261122
_LOST_AT_LEAST = 20


def kill(*pids: int) -> None:
    """Kill processes, as the kernel does when memory is short."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Stop processes meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def paused(pids: list[int], for_s: float) -> None:
    """Stop processes for a while, as a machine that swaps or a network that stalls."""
    with stopped(pids):
        time.sleep(for_s)


def redis_loses(world: World) -> None:
    """Redis dies while its disk is behind: samples that it confirmed and nobody took are gone."""
    with stopped([world.pid("worker"), *world.children("worker")]):
        with world.redis.losing():
            waiting = world.client.xlen(names.SAMPLES)
            while world.client.xlen(names.SAMPLES) < waiting + _LOST_AT_LEAST:
                time.sleep(0.05)
        world.redis.start()


def redis_dies(world: World) -> None:
    """Kill Redis, and start it again on its files."""
    world.redis.kill()
    time.sleep(1.0)
    world.redis.start()


def postgres_dies(world: World) -> None:
    """Kill PostgreSQL with all its children, and start it again on its files."""
    assert world.postgres is not None
    world.postgres.kill()
    time.sleep(1.0)
    world.postgres.start()


def random_kills(world: World, kills: int) -> tuple[int, Counter[str], int]:
    """
    Kill so many processes under traffic.

    Returns
    -------
    tuple
        How many samples the hooks of all apps took, how many they dropped by reason, and how
        many the victims had in work.
    """
    chance = random.Random(_SEED)
    dropped: Counter[str] = Counter()
    sampled = done = in_work = 0
    while done < kills:
        app = start_app(world.environment, world.rate, _ROUND_S)
        end_s = time.monotonic() + _ROUND_S
        while done < kills and time.monotonic() < end_s:
            had = _kill_one(world, chance, until_s=end_s)
            done, in_work = done + (had is not None), in_work + (had or 0)
        found = told(app)
        sampled += found["sampled"]
        dropped.update(found["dropped"])
    return sampled, dropped, in_work


def _kill_one(world: World, chance: random.Random, *, until_s: float) -> int | None:
    """Kill a process that has samples in work; give how many, or None where none had any."""
    while time.monotonic() < until_s:
        at_work = _at_work(world)
        if at_work:
            pid = chance.choice(sorted(at_work))
            time.sleep(chance.uniform(0.0, _MOST_LATER_S))
            kill(pid)
            return at_work[pid]
        time.sleep(0.02)
    return None


def _at_work(world: World) -> dict[int, int]:
    """Give how many samples each process of the worker has in work; those without left out."""
    children = set(world.children("worker"))
    client: Any = world.client
    with suppress(QueueUnavailableError), translated():
        consumers = client.xinfo_consumers(names.SAMPLES, names.GROUP)
        pids = {int(c["name"].decode().rsplit("-", 1)[1]): int(c["pending"]) for c in consumers}
        return {pid: pending for pid, pending in pids.items() if pending and pid in children}
    return {}
