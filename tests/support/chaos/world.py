"""One installation under chaos: its processes, what each can suffer, and the final sums."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from sqlalchemy import select

from monitor.errors import GroundwatchError
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.settings import Settings
from monitor.store.alert_tables import incidents
from monitor.store.engine import Store
from monitor.store.ledger import Kind, read_totals
from monitor.store.reconcile import ENDED
from monitor.store.schema import migrate
from support.chaos.app import APP, clean_environment
from support.chaos.clocks import CLOCKS, Clocks
from support.chaos.disks import SmallDisk
from support.chaos.proxy import DrippingProxy
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from workers.operations import reconcile
from workers.stack import plan_stack
from workers.supervise import Service, Supervisor

SETTLED_WITHIN_S = 150.0
#: Faults that need a small disk, by the folder on it and its size: an empty PostgreSQL, some log.
_DISKS = {"redis-disk-full": ("redis", 64), "postgres-disk-full": ("pg", 600)}
#: What kills the worker is alone in its folder: other files there would hide packages.
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
        wanted = [fault for fault in self.faults if fault.removeprefix("clock-") in CLOCKS]
        if wanted:
            try:
                self.clocks = Clocks(self.folder)
            except GroundwatchError as error:
                self.impossible |= dict.fromkeys(wanted, str(error))

    def _clocked(self, service: Service) -> dict[str, str]:
        return {**service.environment, **self.clock_of(service.name)}

    def clock_of(self, name: str) -> dict[str, str]:
        """Say what makes a process go by the clock of its name; nothing where clocks stay."""
        return self.clocks.environment(name) if self.clocks and name in CLOCKS else {}

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
