"""
Faults, one after the other, with traffic: what was lost, what was counted twice.

    python benchmarks/chaos.py [--store sqlite|postgresql] [--fault NAME ...] [--json]
    python benchmarks/chaos.py [--store sqlite|postgresql] --kills 40

A real app samples through the real hook while a real worker, scheduler and page run. A
fault happens in the middle; when the queue is empty again, the app's own counters are
held against the ledger, and the reconciliation looks at every sum. With ``--kills``, so many
processes of the worker are killed instead, each at any point of its work.
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
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from chaos_app import APP, clean_environment, start_app, told
from chaos_clock import FAULTS as CLOCK_FAULTS
from chaos_clock import WHOSE, Clocks
from chaos_disk import SmallDisk, postgres_disk_is_full, redis_disk_is_full
from chaos_kills import kill, paused, postgres_dies, random_kills, redis_dies
from chaos_proxy import DrippingProxy
from servers import PostgresServer
from sqlalchemy import select

from monitor.errors import GroundwatchError
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.settings import Settings
from monitor.store.alert_tables import incidents
from monitor.store.engine import Store, migrate
from monitor.store.ledger import Kind, read_totals
from monitor.store.reconcile import ENDED
from workers.reconcile import reconcile
from workers.stack import plan_stack
from workers.supervise import RedisServer, Service, Supervisor

SETTLED_WITHIN_S = 90.0
_BACKLOG_WITHIN_S = 400.0
_FULL_AT_BYTES = 8_192
#: What kills the metric in `deadly/`, a folder of its own: others here would hide packages.
_DEADLY = "this text kills"
#: Where a disk is full, and what it holds: an empty PostgreSQL, and some of its log.
_DISKS = {"redis-disk-full": ("redis", 64), "postgres-disk-full": ("pg", 600)}
_METRICS = Path(__file__).parent / "deadly"


@dataclass
class World:
    """All processes of one installation, each of which can be harmed."""

    folder: Path
    store_kind: str
    rate: int
    seconds: float
    settings_of_ours: dict[str, str] = field(default_factory=dict)  #: instead of those for faults
    stack: ExitStack = field(default_factory=ExitStack)
    proxy: DrippingProxy | None = None
    faults: Sequence[str] = ()  #: those that will happen, where they need something prepared
    disks: dict[str, SmallDisk] = field(default_factory=dict)
    clocks: Clocks | None = None
    impossible: dict[str, str] = field(default_factory=dict)  #: faults that cannot be, and why

    def __enter__(self) -> Self:
        """Start everything."""
        self._mount()
        self._find_clocks()
        self.redis = RedisServer(self.folder / "redis")
        self.redis.start()
        self.stack.callback(self.redis.stop)
        self.postgres: PostgresServer | None = None
        if self.store_kind == "postgresql":
            (self.folder / "pg").mkdir(exist_ok=True)
            self.postgres = PostgresServer(self.folder / "pg")
            self.stack.enter_context(self.postgres)
        url = self.postgres.url if self.postgres else f"sqlite:///{self.folder / 'store.db'}"
        self.environment = {
            **clean_environment(),
            "OPENBLAS_NUM_THREADS": "1",
            "GROUNDWATCH_HOME": str(self.folder / "home"),
            "GROUNDWATCH_REDIS_URL": self.redis.url,
            "GROUNDWATCH_DATABASE_URL": url,
            "GROUNDWATCH_ABANDONED_AFTER_S": "2",
            "GROUNDWATCH_EVALUATE_EVERY_S": "1",
            "GROUNDWATCH_WARNING_FOR_S": "0",
            "GROUNDWATCH_CRITICAL_FOR_S": "0",
            "GROUNDWATCH_WEB_PORT": "0",
            "GROUNDWATCH_METRICS": "groundedness,relevance,deadly",
            "GROUNDWATCH_METRICS_FILE": str(self._metrics_file()),
            "PYTHONPATH": str(_METRICS),
            **self.settings_of_ours,
        }
        self.settings = Settings.from_env(self.environment)
        self.store = Store(url)
        migrate(self.store)
        self.client = connect(self.redis.url, timeout_s=5.0)
        plan = plan_stack(self.settings, self.environment, with_page=True)
        self.page = plan.page_url or ""
        services = [replace(each, environment=self._clocked(each)) for each in plan.services]
        self.supervisor = Supervisor(services, listener=lambda *_: None)
        self.supervisor.start()
        self.stack.callback(self.supervisor.stop)
        stop = threading.Event()
        watch = threading.Thread(target=self.supervisor.watch, args=(stop,))
        watch.start()
        self.stack.callback(watch.join)
        self.stack.callback(stop.set)
        return self

    def _mount(self) -> None:
        """Give servers small disks of their own where these are to be full."""
        for fault, (name, megabytes) in _DISKS.items():
            if fault in self.faults:
                disk = SmallDisk(self.folder / name, megabytes)
                try:
                    self.disks[name] = self.stack.enter_context(disk)
                except GroundwatchError as error:
                    self.impossible[fault] = str(error)

    def _find_clocks(self) -> None:
        """Give processes clocks of their own where these are to jump."""
        wanted = [fault for fault in self.faults if fault in CLOCK_FAULTS]
        if wanted:
            try:
                self.clocks = Clocks(self.folder)
            except GroundwatchError as error:
                self.impossible |= dict.fromkeys(wanted, str(error))

    def _clocked(self, service: Service) -> dict[str, str]:
        return {**service.environment, **self.clock_of(service.name)}

    def clock_of(self, name: str) -> dict[str, str]:
        """Say what makes a process go by the clock of its name; nothing where clocks stay."""
        return self.clocks.environment(name) if self.clocks and name in WHOSE else {}

    def _metrics_file(self) -> Path:
        """Declare the metric that a certain text makes deadly."""
        file = self.folder / "metrics.toml"
        file.write_text('[deadly]\nfunction = "chaos_metric:deadly"\nrequires = ["output"]\n')
        return file

    def __exit__(self, *_: object) -> None:
        """Stop everything."""
        self.stack.close()
        self.store.close()

    def pid(self, name: str) -> int:
        """Give the process of a service."""
        return self.supervisor.pids[name]

    def children(self, name: str) -> list[int]:
        """List the processes that a service has forked, by the group it leads."""
        leader = self.pid(name)
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[2]) == leader:
                    found.append(int(entry.name))
        return [pid for pid in found if pid != leader]

    def ended(self) -> int:
        """Count the samples of the app that have ended, by the ledger."""
        return sum(self._booked(kind) for kind in ENDED)

    def failed(self) -> int:
        """Count those that ended as failed, as when a fault met the same sample twice."""
        return self._booked(Kind.FAILED)

    def _booked(self, wanted: Kind) -> int:
        with self.store.read() as connection:
            bookings = read_totals(connection, APP).get(APP, {})
        return sum(n for (kind, _), n in bookings.items() if kind is wanted)

    def alerts(self) -> set[str]:
        """List what people were alerted of so far."""
        with self.store.read() as connection:
            return set(connection.execute(select(incidents.c.metric)).scalars())

    def settle(self, within_s: float = SETTLED_WITHIN_S) -> bool:
        """Wait until nothing waits and the counters have come."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with suppress(Exception):
                done = self.client.xlen(names.SAMPLES) == 0 and self.look().holds
                if done:
                    return True
            time.sleep(0.3)
        return False

    def look(self) -> Any:
        """Reconcile."""
        return reconcile(
            self.client, self.store, now_s=time.time(), window_s=3600,
            bucket_s=self.settings.windows.bucket_s,
        )  # fmt: skip


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
    other.wait(timeout=60)


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


def reckon(
    world: World, name: str, sampled: int, dropped: Mapping[str, int], before: int, failed: int
) -> dict[str, Any]:
    """Wait until all is in place, and hold what the apps counted against what has ended."""
    began_s = time.monotonic()
    settled = world.settle()
    found = world.look()
    ended = world.ended() - before
    missing = sampled - sum(dropped.values()) - ended
    return {
        "fault": name,
        "sampled": sampled,
        "dropped": dropped,
        "ended": ended,
        "failed": world.failed() - failed,
        "lost": max(0, missing),
        "doubled": max(0, -missing),
        "reconciled": found.holds,
        "wrong": sorted({item.check for item in found.sums if not item.holds}),
        "settled_s": round(time.monotonic() - began_s, 1) if settled else None,
    }


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
