"""
How large the store gets: per million samples, and over a simulated year with retention.

    python benchmarks/store_size.py [--days 365] [--per-day 200] [--store URL]

A sample has three passages and 2,000 characters in all, two metrics and six dimensions of
segments, as by default. Each simulated day its samples are written, summed and let go of
as the scheduler would, by the ages of the settings.
"""

import random
import time
from datetime import UTC, datetime, timedelta

from common import count_rows, new_store, script
from made import LONG, Maker, write

from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.retention import Retention, free_space, size_bytes
from monitor.store.rollup import compact_inputs, roll_up
from monitor.store.tables import evaluations, samples
from workers.maintenance import ages_from

_MANY = 10_000
_START = datetime(2026, 1, 1, tzinfo=UTC)


def write_day(store: Store, maker: Maker, day: datetime, n: int) -> None:
    """Write samples of all times of a day."""
    chance = random.Random(day.timestamp())
    moments = sorted(day + timedelta(seconds=chance.randrange(86_400)) for _ in range(n))
    week = f"v{day.timetuple().tm_yday // 7}"
    write(store, [maker.result(at, week) for at in moments])


def size_of(store: Store) -> int:
    """Return the bytes of a store."""
    with store.read() as connection:
        return size_bytes(connection)


def year(store: Store, days: int, per_day: int) -> None:
    """Print a line a simulated month."""
    settings, maker = Settings(), Maker(LONG)
    keeper = Retention(store=store, ages=ages_from(settings), budget_s=60.0)
    for number in range(days):
        day = _START + timedelta(days=number)
        write_day(store, maker, day, per_day)
        now_s = (day + timedelta(days=1)).timestamp()
        roll_up(store, now_s=now_s, settle_s=600)
        compact_inputs(store, ["app-0"], now_s=now_s)
        began_s = time.perf_counter()
        keeper.run(now_s)
        took_s = time.perf_counter() - began_s
        if number % 30 == 29 or number == days - 1:
            n_samples, n_evaluations = count_rows(store, (samples, evaluations))
            print(
                f"day {number + 1:3}: {size_of(store) / 1e6:7.1f} MB, {n_samples:,} samples,"
                f" {n_evaluations:,} evaluations; deleting took {took_s:.2f} s",
                flush=True,
            )


def million(store: Store) -> None:
    """Print the size of a million samples as they grow old."""
    empty = size_of(store)
    write_day(store, Maker(LONG, seed=2), _START, _MANY)
    keeper = Retention(store=store, ages=ages_from(Settings()), budget_s=600.0)
    for days, what in ((1, "on their day"), (4, "without minutes"), (35, "without texts")):
        now_s = (_START + timedelta(days=days, hours=2)).timestamp()
        roll_up(store, now_s=now_s, settle_s=600)
        keeper.run(now_s)
        free_space(store, end_s=time.monotonic() + 60)
        print(f"a million samples {what}: {(size_of(store) - empty) / _MANY * 1e6 / 1e9:.2f} GB")


@script
def main(*, days: int = 365, per_day: int = 200, store: str = "") -> None:
    """Measure a year, then a million."""
    with new_store(store) as filled:
        year(filled, days, per_day)
    with new_store(store) as fresh:
        million(fresh)
