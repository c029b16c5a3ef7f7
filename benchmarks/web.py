"""
Time and size of the first page with many apps and metrics and a week of buckets.

Run: python benchmarks/web.py [--keys 200] [--days 7] [--home FOLDER]. Builds a store of its own, or
takes the one it left in FOLDER; serves it in a process of its own as `groundwatch web` does, and
asks over HTTP with gzip as a browser would. Before each renewal every key gets a new sample and a
new verdict, as it would in production. Prints one JSON line.
"""

import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from common import make_parser
from sqlalchemy import select

from monitor.models import Status
from monitor.models.status import TALLY_SUMS, Drift, Verdict
from monitor.settings import Settings
from monitor.store.engine import Store, add, migrate
from monitor.store.rollup import roll_up
from monitor.store.tables import buckets, streams
from monitor.store.verdicts import read_verdicts, save_verdicts
from support.page import served_page

_MINUTE, _DAY_S = 60, 86_400
_METRICS = ("groundedness", "relevance", "completeness", "safety")
_SNAPSHOT_S = 2.2  # a little longer than a snapshot is served


def main() -> None:
    """Measure once."""
    asked = make_parser(__doc__, keys=200, days=7, requests=30, home="").parse_args()
    with tempfile.TemporaryDirectory() as passing:
        home = asked.home or passing
        store = Store(Settings.from_env({"GROUNDWATCH_HOME": home}).sql_url)
        migrate(store)
        with store.read() as connection:
            is_new = connection.execute(select(streams.c.stream_id)).first() is None
        if is_new:
            _build(store, asked.keys, asked.days)
        with served_page(home) as page:
            found = _ask(page.url, asked.requests, page.pid, partial(_feed, store, asked.keys))
            status = Path(f"/proc/{page.pid}/status").read_text(encoding="utf-8")
            found["memory_mb"] = int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) // 1000
        print(json.dumps({"keys": asked.keys, "days": asked.days} | found))
        store.close()


def _names(keys: int) -> list[tuple[str, str]]:
    return [(f"app-{i // len(_METRICS):03}", _METRICS[i % len(_METRICS)]) for i in range(keys)]


def _bucket(stream_id: int, start_s: int, n: int, passed: int, score: float) -> dict[str, Any]:
    sums = {"n": n, "sum_w": n, "sum_w2": n, "sum_wx": n * score, "sum_wxx": n * score**2}
    good = dict.fromkeys(("passed", "sum_wy", "sum_w2y", "sum_w2yy"), passed)
    place = {"stream_id": stream_id, "start_s": start_s}
    return dict.fromkeys(TALLY_SUMS, 0) | sums | good | place


def _feed(store: Store, keys: int) -> None:
    """Give every key one more sample and a new verdict."""
    now = datetime.now(UTC)
    start_s = int(now.timestamp()) // _MINUTE * _MINUTE
    rows = [_bucket(key, start_s, 1, 1, 1.0) for key in range(1, keys + 1)]
    with store.write() as connection:
        add(connection, buckets, rows, sums=TALLY_SUMS)
        counted = {"n_total": streams.c.n_total + 1, "last_bucket_s": start_s}
        connection.execute(streams.update().values(counted))
        save_verdicts(connection, _verdicts(keys, now), read_verdicts(connection))


def _build(store: Store, keys: int, days: int) -> None:
    now, chance = datetime.now(UTC), random.Random(7)
    last_s = int(now.timestamp()) // _MINUTE * _MINUTE
    for stream_id, (app, metric) in enumerate(_names(keys), 1):
        row = {"stream_id": stream_id, "app": app, "metric": metric, "segment": "*",
               "evaluator_version": "bench", "n_total": 1, "last_bucket_s": last_s}  # fmt: skip
        values = [
            _bucket(stream_id, start_s, 5, sum(chance.random() < 0.9 for _ in range(5)), 0.88)
            for start_s in range(last_s - days * _DAY_S, last_s + 1, _MINUTE)
            if chance.random() >= 0.05  # else a gap
        ]
        with store.write() as connection:
            connection.execute(streams.insert(), [row])
            connection.execute(buckets.insert(), values)
    with store.write() as connection:
        save_verdicts(connection, _verdicts(keys, now), {})
    # As the scheduler does once a minute.
    roll_up(store, now_s=now.timestamp(), settle_s=600)


def _verdicts(keys: int, now: datetime) -> list[Verdict]:
    chance = random.Random(7)
    found = []
    for app, metric in _names(keys):
        status = chance.choice([Status.HEALTHY] * 8 + [Status.WARNING, Status.CRITICAL])
        found.append(Verdict(
            app=app, metric=metric, window_s=3600, policy="bench", status=status,
            point_status=status, reason="pass rate 0.9 is at or above the warning line 0.85",
            pass_rate=0.9, low=0.85, high=0.95, n=300, evaluated_at=now,
            drift=Drift(reference_pass_rate=0.91, reference_n=50_000),
            since=now - timedelta(hours=5),
        ))  # fmt: skip
    return found


def _ask(url: str, requests: int, pid: int, feed: Callable[[], None]) -> dict[str, Any]:
    with httpx.Client(base_url=url, timeout=60, headers={"Accept-Encoding": "gzip"}) as client:

        def get() -> tuple[float, float, httpx.Response]:  # milliseconds, the server's CPU, page
            before_ms, began = _cpu_ms(pid), time.perf_counter()
            answer = client.get("/").raise_for_status()
            return (time.perf_counter() - began) * 1000, _cpu_ms(pid) - before_ms, answer

        client.get("/healthz")
        feed()
        first_ms, first_cpu_ms, page = get()
        renewed_cpu_ms = []
        for _ in range(max(3, requests // 5)):
            time.sleep(_SNAPSHOT_S)
            feed()
            renewed_cpu_ms.append(get()[1])
        before_ms = _cpu_ms(pid)
        for _ in range(requests):
            get()
        shared_cpu_ms = (_cpu_ms(pid) - before_ms) / requests
        newest = client.get("/").headers["etag"]
        same = client.get("/", headers={"If-None-Match": newest}).status_code
        files = re.findall(r'(?:href|src)="(/(?:static|favicon)/[^"]+)"', page.text)
        sizes = [int(client.get(path).headers["content-length"]) for path in files]
    packed = int(page.headers["content-length"])
    return {
        "rows": page.text.count('class="spark"'), "unchanged": same,
        "first_ms": round(first_ms), "first_cpu_ms": round(first_cpu_ms),
        "renewed_cpu_ms": round(statistics.median(renewed_cpu_ms)),
        "shared_cpu_ms": round(shared_cpu_ms, 1),
        "page_kb": round(len(page.content) / 1000, 1), "packed_kb": round(packed / 1000, 1),
        "all_transferred_kb": round((packed + sum(sizes)) / 1000, 1),
    }  # fmt: skip


def _cpu_ms(pid: int) -> float:
    """Return what the server has used of a core so far; a busy machine does not change that."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
