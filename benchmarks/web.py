"""
Time and size of the first page with many apps and metrics and a week of buckets.

Run: python benchmarks/web.py [--keys 200] [--days 7]. Builds a store, serves it in a process of its
own as `groundwatch web` does, and asks over HTTP with gzip as a browser would. Before each renewal
every key gets a new sample and a new verdict, as it would in production.
"""

import random
import re
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from common import new_store, print_head, print_row, process_cpu_s, script

from monitor.models import Status
from monitor.models.status import TALLY_SUMS
from monitor.settings import Settings
from monitor.store.engine import Store, add
from monitor.store.rollup import roll_up
from monitor.store.tables import buckets, streams
from monitor.store.verdicts import read_verdicts, save_verdicts
from monitor.testing import make_verdict
from support.page import Page, served_page

_MINUTE, _DAY_S = 60, 86_400
_METRICS = ("groundedness", "relevance", "completeness", "safety")
_SNAPSHOT_S = 2.2  # a little longer than a snapshot is served


def _name(key: int) -> dict[str, str]:
    return {"app": f"app-{key // len(_METRICS):03}", "metric": _METRICS[key % len(_METRICS)]}


def _bucket(key: int, start_s: int, n: int, passed: int, score: float) -> dict[str, Any]:
    sums = {"n": n, "sum_w": n, "sum_w2": n, "sum_wx": n * score, "sum_wxx": n * score**2}
    good = dict.fromkeys(("passed", "sum_wy", "sum_w2y", "sum_w2yy"), passed)
    place = {"stream_id": key + 1, "start_s": start_s}
    return dict.fromkeys(TALLY_SUMS, 0) | sums | good | place


def feed(store: Store, keys: int) -> None:
    """Give every key one more sample and a new verdict."""
    now, chance = datetime.now(UTC), random.Random(7)
    start_s = int(now.timestamp()) // _MINUTE * _MINUTE
    statuses = [Status.HEALTHY] * 8 + [Status.WARNING, Status.CRITICAL]
    verdicts = [make_verdict(chance.choice(statuses), now, **_name(key)) for key in range(keys)]
    with store.write() as connection:
        rows = [_bucket(key, start_s, 1, 1, 1.0) for key in range(keys)]
        add(connection, buckets, rows, sums=TALLY_SUMS)
        counted = {"n_total": streams.c.n_total + 1, "last_bucket_s": start_s}
        connection.execute(streams.update().values(counted))
        save_verdicts(connection, verdicts, read_verdicts(connection))


def build(store: Store, keys: int, days: int) -> None:
    """Fill a store with minutes of all keys, one in twenty of them empty."""
    now_s, chance = time.time(), random.Random(7)
    last_s = int(now_s) // _MINUTE * _MINUTE
    for key in range(keys):
        row = {"stream_id": key + 1, **_name(key), "segment": "*", "evaluator_version": "local-1",
               "n_total": 1, "last_bucket_s": last_s}  # fmt: skip
        minutes = [
            _bucket(key, start_s, 5, sum(chance.random() < 0.9 for _ in range(5)), 0.88)
            for start_s in range(last_s - days * _DAY_S, last_s + 1, _MINUTE)
            if chance.random() >= 0.05
        ]
        with store.write() as connection:
            connection.execute(streams.insert(), [row])
            connection.execute(buckets.insert(), minutes)
    roll_up(store, now_s=now_s, settle_s=600)  # as the scheduler does once a minute


def ask(page: Page, store: Store, keys: int, requests: int) -> dict[str, float]:
    """Ask for the first page with snapshots that are new, and with one that is shared."""
    with httpx.Client(base_url=page.url, timeout=60) as client:
        client.get("/healthz")
        cpu_ms = []
        for number in range(1 + max(3, requests // 5)):
            if number:
                time.sleep(_SNAPSHOT_S)
            feed(store, keys)
            before_s = process_cpu_s(page.pid)
            answer = client.get("/").raise_for_status()
            cpu_ms.append(1000 * (process_cpu_s(page.pid) - before_s))
        before_s = process_cpu_s(page.pid)
        for _ in range(requests):
            client.get("/").raise_for_status()
        shared_cpu_ms = 1000 * (process_cpu_s(page.pid) - before_s) / requests
        paths = ["/", *re.findall(r'(?:href|src)="(/(?:static|favicon)/[^"]+)"', answer.text)]
        sizes = [int(client.get(path).headers["content-length"]) for path in paths]
    status = Path(f"/proc/{page.pid}/status").read_text(encoding="utf-8")
    return {
        "first snapshot, ms of CPU": cpu_ms[0], "a snapshot, ms": statistics.median(cpu_ms[1:]),
        "page of a snapshot, ms": shared_cpu_ms, "page, kB": sizes[0] / 1000,
        "page with scripts and styles, kB": sum(sizes) / 1000,
        "memory, MB": int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1000,
    }  # fmt: skip


@script
def main(*, keys: int = 200, days: int = 7, requests: int = 30) -> None:
    """Measure once."""
    with tempfile.TemporaryDirectory() as folder:
        url = Settings.from_env({"GROUNDWATCH_HOME": folder}).sql_url
        with new_store(url) as store, served_page(folder) as page:
            build(store, keys, days)
            print_head(f"{keys} metrics, {days} days", "")
            for name, figure in ask(page, store, keys, requests).items():
                print_row(name, f"{figure:,.1f}")
