"""
A day without workers, compressed.

In the folder ``tests``: ``python -m support.away [--day 60] [--rate 400] [--json]``.

A real app samples through the real hook into a Redis with little memory; the scheduler
runs, no worker does. A few old samples wait until they are of no use any more; then full
traffic, of bad answers, fills the queue; then answers are good again, and a worker comes.
What is printed: Redis' memory over time, what expired and why, how soon the rest was
scored and in which order, and the alerts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sqlalchemy import select

from alerts.conditions import CONDITIONS
from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from monitor.store.alert_tables import incidents
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.schema import migrate
from monitor.store.tables import samples
from support.chaos.app import APP, clean_environment
from support.redis_server import RedisServer
from workers.operations import reconcile

_PATIENCE_S = 200.0
_LOOK_EVERY_S = 0.1
_PAD_CHARS = 4_000  #: a sample is about so large, without being dear to score
#: What the worker takes before it can know that it is behind.
_FIRST_WINDOW = 128
_GOOD = "Refunds are paid back within five working days."
_BAD = "Koalas inspect every parcel beneath glowing lighthouse staircases."

#: Reads "samples a second, text" from its input until a line is empty.
_APP_CODE = """
import json, select, sys, time
import monitor
rate, text, began, n = 0.0, "", time.monotonic(), 0
calls = raised = 0
while True:
    if select.select([sys.stdin], [], [], 0.005)[0]:
        line = sys.stdin.readline().strip()
        if not line:
            break
        rate, text = json.loads(line)
        began, n = time.monotonic(), 0
    while n < (time.monotonic() - began) * rate:
        n += 1
        calls += 1
        try:
            monitor.sample(
                query="How long does a refund take?",
                contexts=["Refunds are paid back within five working days."],
                output=text, metadata={"pad": "x" * PAD},
            )
        except BaseException:
            raised += 1
for _ in range(30):
    if monitor.flush(timeout=2.0):
        break
print(json.dumps({"calls": calls, "raised": raised, **monitor.stats()}, default=str))
""".replace("PAD", str(_PAD_CHARS))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a day is here, and what the queue may hold."""

    day_s: int  #: what waits for longer is of no use
    rate: float
    queue_megabytes: int
    redis_megabytes: int

    @property
    def window_s(self) -> int:
        """Length of the status window."""
        return max(2, self.day_s // 6)

    def settings(self) -> dict[str, str]:
        """Shrink the ages of a day to those of this one."""
        return {
            "GROUNDWATCH_EXPIRE_AFTER_S": str(self.day_s),
            "GROUNDWATCH_BEHIND_AFTER_S": str(self.day_s / 9),
            "GROUNDWATCH_QUEUE_LIMIT_MEGABYTES": str(self.queue_megabytes),
            "GROUNDWATCH_BUCKET_S": "1",
            "GROUNDWATCH_STATUS_WINDOW_S": str(self.window_s),
            "GROUNDWATCH_WINDOWS_S": str(self.window_s),
            "GROUNDWATCH_EVALUATE_EVERY_S": "0.5",
            "GROUNDWATCH_WARNING_FOR_S": "0",
            "GROUNDWATCH_CRITICAL_FOR_S": "0",
        }


@dataclass
class Place:
    """A Redis with little memory, a store, and what is seen of both while time passes."""

    folder: Path
    scale: Scale
    stack: ExitStack
    seen: list[tuple[float, float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        server = self.stack.enter_context(RedisServer(self.folder / "redis"))
        self.client: Any = connect(server.url)
        self.stack.callback(self.client.close)
        self.client.config_set("maxmemory", f"{self.scale.redis_megabytes}mb")
        url = f"sqlite:///{self.folder / 'store.db'}"
        self.store = Store(url)
        self.stack.callback(self.store.close)
        migrate(self.store)
        self.environment = {
            **clean_environment(),
            **self.scale.settings(),
            "OPENBLAS_NUM_THREADS": "1",
            "GROUNDWATCH_HOME": str(self.folder / "home"),
            "GROUNDWATCH_REDIS_URL": server.url,
            "GROUNDWATCH_DATABASE_URL": url,
            "GROUNDWATCH_APP": APP,
            "GROUNDWATCH_SAMPLE_RATE": "1",
            "GROUNDWATCH_LOG_LEVEL": "error",
        }
        self.began_s = time.monotonic()

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """Run a Python of ours meanwhile."""
        process = subprocess.Popen(
            [sys.executable, *command], env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its children too
            process.wait()

    def until(self, happened: Callable[[], bool]) -> float:
        """Wait for something, and write down what is in Redis meanwhile; say how long it took."""
        began_s = time.monotonic()
        while not happened():
            if time.monotonic() - began_s > _PATIENCE_S:
                sys.exit("it did not happen in time")
            self.look()
            time.sleep(_LOOK_EVERY_S)
        return time.monotonic() - began_s

    def pause(self, for_s: float) -> None:
        """Let time pass."""
        end_s = time.monotonic() + for_s
        self.until(lambda: time.monotonic() > end_s)

    def look(self) -> None:
        """Write down what is in Redis."""
        used = self.client.info("memory")["used_memory"] / 2**20
        waiting = self.client.xlen(names.SAMPLES)
        ended = sum(n for booking, n in self.ledger().items() if booking.kind is Kind.EXPIRED)
        self.seen.append((time.monotonic() - self.began_s, used, waiting, ended))

    def ledger(self) -> Counter[Booking]:
        """Read what became of the app's samples."""
        with self.store.read() as connection:
            return Counter(read_totals(connection, APP).get(APP, {}))

    def expired(self, reason: str) -> int:
        """Count the samples that expired for a reason."""
        return self.ledger()[Booking(Kind.EXPIRED, reason)]

    def reconciled(self) -> bool:
        """Tell whether every sum agrees."""
        return reconcile(
            self.client, self.store, now_s=time.time(), window_s=3600, bucket_s=1
        ).holds


def a_day(place: Place) -> dict[str, Any]:
    """Let the day pass; give what was found."""
    scale, client = place.scale, place.client
    with ExitStack() as stack:
        app = stack.enter_context(place.running("-c", _APP_CODE))

        def traffic(*rate_and_text: float | str) -> None:
            assert app.stdin is not None
            print(json.dumps(rate_and_text) if rate_and_text else "", file=app.stdin, flush=True)

        traffic(5.0, _BAD)
        stack.enter_context(place.running("-m", "monitor", "scheduler"))
        place.until(lambda: place.expired("too_old") > 0)
        traffic(scale.rate, _BAD)
        place.until(lambda: place.expired("no_room") > 0)
        place.pause(scale.day_s / 9)
        traffic(scale.rate / 20, _GOOD)
        # So that the bad answers have left the window, however soon the worker is there.
        place.pause(1.5 * scale.window_s + 2)
        stack.enter_context(place.running("-m", "monitor", "worker", "--processes", "1"))
        place.until(lambda: bool(live_workers(client, now_s=time.time())))
        waited = client.xlen(names.SAMPLES)
        drained_s = place.until(lambda: client.xlen(names.SAMPLES) < scale.rate / 10)
        traffic()
        told = json.loads(app.communicate(timeout=200)[0].splitlines()[-1])
        place.until(lambda: not client.xlen(names.SAMPLES) and place.reconciled())
        # Verdicts of what came last, and whatever alert they lead to.
        place.pause(1.5)
    return {
        "calls": told["calls"],
        "raised": told["raised"],
        "seen": told["seen"],
        "sampled": told["sampled"],
        "dropped": told["dropped"],
        "ended": {f"{b.kind}:{b.reason}": n for b, n in place.ledger().items() if b.kind in _ENDED},
        "refused_by_redis": sum(
            of["count"] for name, of in client.info("errorstats").items() if name.endswith("OOM")
        ),
        "peak_mb": round(client.info("memory")["used_memory_peak"] / 2**20, 2),
        "limit_mb": scale.redis_megabytes,
        "waited": waited,
        "drained_s": round(drained_s, 1),
        **order_of_scoring(place, scale),
        "incidents": incidents_of(place.store),
        "reconciled": place.reconciled(),
    }


_ENDED = (Kind.SCORED, Kind.FAILED, Kind.SKIPPED, Kind.EXPIRED)


def order_of_scoring(place: Place, scale: Scale) -> dict[str, Any]:
    """Say in which order the store got what waited when the worker came back."""
    columns = samples.c.occurred_at_ms, samples.c.received_at_ms
    with place.store.read() as connection:
        query = select(*columns).where(samples.c.outcome == "scored").order_by(columns[1])
        rows = connection.execute(query).all()
    # Not when the worker was seen: a busy machine lets it begin many seconds later.
    back_ms = rows[0][1]
    rows = [row for row in rows if row[0] < back_ms]
    edge_ms = back_ms - scale.day_s / 9 * 1000
    left = np.array([row for row in rows[_FIRST_WINDOW:] if row[0] < edge_ms])
    news_ms = back_ms - scale.day_s / 18 * 1000
    new = [received for occurred, received in rows if occurred >= news_ms]
    old_first = int((left[:, 1] < np.median(new)).sum()) if len(left) and new else 0
    # What is taken at once has one time and no order: batches are compared, whatever their sizes.
    order = None
    if len(left) and len({*left[:, 1]}) > 1:
        oldest_first = stats.spearmanr(*np.sort(left, axis=0).T).statistic
        order = float(stats.spearmanr(left).statistic / oldest_first)
    return {
        "new_scored": len(new),
        "old_scored": len(left),
        "old_before_new": old_first,
        # Minus 1: each batch of the rest is older than the one before it. None: it is one batch.
        "order_of_old": order,
    }


def incidents_of(store: Store) -> dict[str, list[str]]:
    """List what was alerted: about answers, and about the monitor itself."""
    with store.read() as connection:
        metrics = connection.execute(select(incidents.c.metric)).scalars().all()
    return {
        "answers": sorted(m for m in metrics if m not in CONDITIONS),
        "monitor": sorted(m for m in metrics if m in CONDITIONS),
    }


def table(place: Place) -> str:
    """Write what was seen, in about twenty lines, as Markdown."""
    lines = ["| s | Redis MB | waiting | expired |", "|--:|--:|--:|--:|"]
    lines += [
        f"| {at_s:.0f} | {used:.1f} | {waiting:,} | {ended:,} |"
        for at_s, used, waiting, ended in place.seen[:: max(1, len(place.seen) // 20)]
    ]
    return "\n".join(lines)


def main() -> None:
    """Let a day pass and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n\n")[0])
    parser.add_argument("--day", type=int, default=60, help="Seconds of a day.")
    parser.add_argument("--rate", type=float, default=400.0)
    parser.add_argument("--queue-megabytes", type=int, default=24)
    parser.add_argument("--redis-megabytes", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    scale = Scale(
        day_s=asked.day,
        rate=asked.rate,
        queue_megabytes=asked.queue_megabytes,
        redis_megabytes=asked.redis_megabytes,
    )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Place(Path(folder), scale, stack)
        found = a_day(place)
    if asked.json:
        print(json.dumps(found))
        return
    print(table(place), "\n")
    for name, value in found.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
