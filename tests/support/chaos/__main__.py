"""
Faults, one after the other, under traffic: what was lost, what was counted twice.

In the folder ``tests``::

    python -m support.chaos [--store sqlite|postgresql] [--fault NAME ...] [--json]
    python -m support.chaos [--store sqlite|postgresql] --kills 40

A real app samples through the real hook while a real worker, scheduler and page run. A
fault happens in the middle; when the queue is empty again, the app's own counters are
compared with the ledger, and every sum is reconciled. With ``--kills``, so many processes of
the worker are killed instead, each at any point of its work.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from monitor.queue import names
from support.chaos.app import start_app, told
from support.chaos.clocks import FAULTS as CLOCK_FAULTS
from support.chaos.disks import postgres_disk_is_full, redis_disk_is_full
from support.chaos.kills import (
    kill,
    paused,
    postgres_dies,
    random_kills,
    redis_dies,
    redis_loses,
)
from support.chaos.proxy import DrippingProxy
from support.chaos.world import World, reckon

_BACKLOG_WITHIN_S = 400.0
_FULL_AT_BYTES = 8_192
#: The text that kills whoever scores it, by the metric in `deadly/`.
_DEADLY = "this text kills"


def disk_is_full(world: World) -> None:
    """No file of worker and scheduler may grow, as on a disk without room."""
    pids = [
        pid for name in ("worker", "scheduler") for pid in (world.pid(name), *world.children(name))
    ]
    before = resource.prlimit(pids[0], resource.RLIMIT_FSIZE)
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FULL_AT_BYTES, before[1]))
    time.sleep(1.0)
    ended = world.ended()
    time.sleep(3.0)
    if world.ended() != ended:
        raise RuntimeError("the disk was not full: samples were stored meanwhile")
    for pid in {*pids, *world.children("worker")}:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def redelivered(world: World) -> None:
    """Every entry comes once more, as from a hook that got no answer."""
    seen: set[bytes] = set()
    for _ in range(40):
        for entry_id, fields in world.client.xrange(names.SAMPLES, count=50):
            if entry_id not in seen:
                seen.add(entry_id)
                seen.add(world.client.xadd(names.SAMPLES, fields))
        time.sleep(0.05)


def second_scheduler(world: World) -> None:
    """Two schedulers at once; the one with the lease is frozen until the other has it."""
    other = subprocess.Popen(
        [sys.executable, "-P", "-m", "monitor", "scheduler"],
        env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    paused([world.pid("scheduler")], 20.0)
    time.sleep(2.0)
    other.terminate()
    other.wait(timeout=200)


def drip(world: World) -> None:
    """Let bytes between app and Redis drip, and no more when the app says what it counted."""
    assert world.proxy is not None
    world.proxy.slow.set()
    time.sleep(min(3.0, world.seconds / 2))
    world.proxy.slow.clear()


FAULTS: dict[str, Callable[[World], None]] = {
    "none": lambda _: None,
    "worker-child": lambda w: kill(*w.children("worker")),
    "worker-parent": lambda w: kill(w.pid("worker")),
    "worker-all": lambda w: kill(w.pid("worker"), *w.children("worker")),
    "worker-term": lambda w: os.kill(w.pid("worker"), signal.SIGTERM),
    "scheduler": lambda w: kill(w.pid("scheduler")),
    "page": lambda w: kill(w.pid("web")),
    "redis": redis_dies,
    "redis-loses": redis_loses,
    "redis-stalls": lambda w: paused([w.redis.process.pid], 6.0),  # type: ignore[union-attr]
    "worker-stalls": lambda w: paused([w.pid("worker"), *w.children("worker")], 8.0),
    "network-drips": drip,
    "disk-full": disk_is_full,
    "redelivery": redelivered,
    "deadly-record": lambda _: None,
    "two-schedulers": second_scheduler,
    "redis-disk-full": redis_disk_is_full,
    "postgres-disk-full": postgres_disk_is_full,
    **CLOCK_FAULTS,
    "postgres": postgres_dies,
    "postgres-stalls": lambda w: paused([w.postgres.process.pid], 5.0),  # type: ignore[union-attr]
}
ONLY = {
    "disk-full": "sqlite",
    "postgres": "postgresql",
    "postgres-stalls": "postgresql",
    "postgres-disk-full": "postgresql",
}


def one(world: World, name: str) -> dict[str, Any]:
    """Let one fault happen in the middle of traffic; say what became of every sample."""
    before, failed, alerts = world.ended(), world.failed(), world.alerts()
    with ExitStack() as stack:
        url = world.redis.url
        if name == "network-drips":
            world.proxy = stack.enter_context(DrippingProxy(world.redis.port))
            url = world.proxy.url
        of_app = {**world.environment, **world.clock_of("app"), "GROUNDWATCH_REDIS_URL": url}
        deadly = _DEADLY if name == "deadly-record" else ""
        app = start_app(of_app, world.rate, world.seconds, deadly)
        time.sleep(world.seconds / 3)
        FAULTS[name](world)
        counted = told(app)
    line = reckon(world, name, counted["sampled"], counted["dropped"], before, failed)
    return line | {"alerts": sorted(world.alerts() - alerts)}


def many_kills(world: World, kills: int) -> dict[str, Any]:
    """Kill so many processes of the worker at random; say what became of every sample."""
    sampled, dropped, in_work = random_kills(world, kills)
    world.settle(_BACKLOG_WITHIN_S)
    line = reckon(world, f"{kills} kills", sampled, dropped, 0, 0)
    return line | {"in_work": in_work}


def results(world: World, faults: list[str], kills: int) -> Iterator[dict[str, Any]]:
    """Give one line after the other."""
    if kills:
        yield many_kills(world, kills)
        return
    for name in faults:
        if name in world.impossible:
            print(f"{name:16} left out: {world.impossible[name]}", file=sys.stderr)
        else:
            yield one(world, name)


def show(line: dict[str, Any]) -> None:
    """Print a line."""
    in_work = f"  in work {line['in_work']:,}" if "in_work" in line else ""
    alerts = f"  alerts of {', '.join(line['alerts'])}" if line.get("alerts") else ""
    print(
        f"{line['fault']:16} sampled {line['sampled']:6,}{in_work}  ended {line['ended']:6,}"
        f"  failed {line['failed']:3}  lost {line['lost']:3}  doubled {line['doubled']:3}"
        f"  dropped {line['dropped'] or 0}  reconciled {line['reconciled']}"
        f" {line['wrong'] or ''}  after {line['settled_s']} s{alerts}",
        flush=True,
    )


def main() -> int:
    """Run the faults and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--fault", nargs="*", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        faults = [name for name in given.fault if ONLY.get(name, given.store) == given.store]
        of_world = (Path(folder), given.store, given.rate, given.seconds)
        with World(*of_world, faults=faults) as world:
            lines = []
            for line in results(world, faults, given.kills):
                lines.append(line)
                if not given.json:
                    show(line)
    if given.json:
        print(json.dumps(lines))
    return 0 if all(x["reconciled"] and not x["lost"] + x["doubled"] for x in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
