"""
What finding samples costs: first page, a thousandth page, each filter alone and together.

    python benchmarks/samples.py [SAMPLES] [DATABASE_URL]

A million samples of 20 apps in SQLite unless said otherwise (about 5 GB, deleted afterwards; a
PostgreSQL database on this machine should be empty, and is left as it is). They are written as
workers write them, which takes about an hour. CPU of this process and of the server's.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from common import new_store, script
from made import SHORT, Maker, write
from sqlalchemy import text

from monitor.store import Sort
from monitor.store.engine import Store
from monitor.store.sample_filter import SampleFilter
from monitor.store.search import find_samples

_BATCH = 500
_BEGAN, _EVERY = datetime(2026, 1, 1, tzinfo=UTC), timedelta(milliseconds=500)


def filters(count: int) -> Iterator[tuple[str, dict[str, Any], Sort]]:
    """Yield what is looked for in *count* samples: its name, the filter, the order."""
    middle = _BEGAN + _EVERY * (count // 2)
    hour = {"since": middle, "until": middle + timedelta(hours=1)}
    scored, app = {"metric": "groundedness"}, {"app": "app-3"}
    failed, french = scored | {"outcome": "failed"}, {"segment": ("language=fr",)}
    for name, wanted in {
        "nothing": {}, "app": app, "failed": failed, "app, failed": app | failed,
        "unscored (none)": scored | {"outcome": "unscored"},
        "score 0.30 to 0.35": scored | {"min_score": 0.3, "max_score": 0.35},
        "rare segment": french, "segment, failed": french | failed,
        "old release": {"release": "v0"}, "old release, failed": {"release": "v0"} | failed,
        "user": {"user": "user-77"}, "session": {"session": "session-100"},
        "an hour": hour, "an hour, failed": hour | failed,
        "frequent word": {"text": "word1"}, "rare word": {"text": "word15000"},
        "phrase": {"text": '"word20 word30"'},
        "word, old release": {"text": "word5", "release": "v0"},
    }.items():  # fmt: skip
        yield name, wanted, Sort.NEWEST
    yield "lowest scores", scored, Sort.LOWEST
    yield "app, lowest scores", app | scored, Sort.LOWEST
    yield "failed, highest scores", failed, Sort.HIGHEST
    yield "labelled (none)", {"label": "any"}, Sort.NEWEST


def cpu_s(store: Store) -> float:
    """Return the CPU time that this process and the database's connections have used."""
    if not store.is_postgresql:
        return time.process_time()
    asked = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with store.read() as connection:
        pids = connection.execute(text(asked)).scalars().all()
    used = [int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) for pid in pids]
    return time.process_time() + sum(used) / 1e9


def measure(store: Store, wanted: SampleFilter, sort: Sort, *, far: bool) -> tuple[float, int]:
    """Return the fewest milliseconds of three tries, and how many samples the page has."""
    taken_ms, cursor = [], ""
    with store.read() as connection:
        for _ in range(10 if far else 0):  # 49,950 samples, or as many as there are
            page = find_samples(connection, wanted, sort=sort, cursor=cursor, limit=4_995)
            if page.next is None:
                break
            cursor = page.next
        for _ in range(3):
            began_s = cpu_s(store)
            page = find_samples(connection, wanted, sort=sort, cursor=cursor)
            taken_ms.append(1000 * (cpu_s(store) - began_s))
    return min(taken_ms), len(page.items)


@script
def main(
    samples: Annotated[int, typer.Argument()] = 1_000_000,
    database_url: Annotated[str, typer.Argument()] = "",
) -> None:
    """Fill a store and measure."""
    maker, began = Maker(replace(SHORT, users=100_000)), time.perf_counter()
    with new_store(database_url) as store:
        for start in range(0, samples, _BATCH):
            numbers = range(start, min(samples, start + _BATCH))
            made = [maker.result(_BEGAN + n * _EVERY, f"v{n // 100_000}") for n in numbers]
            write(store, made, _BATCH)
        print(f"{samples:,} samples stored in {time.perf_counter() - began:,.0f} s")
        if store.is_postgresql:
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as plain:
                plain.execute(text("VACUUM ANALYZE"))
        print(f"{'milliseconds for':26} first page   page 1,000   samples")
        for name, wanted, sort in filters(samples):
            first, n = measure(store, SampleFilter(**wanted), sort, far=False)
            thousandth, _ = measure(store, SampleFilter(**wanted), sort, far=True)
            print(f"{name:26} {first:10.1f}   {thousandth:10.1f}   {n:7}")
