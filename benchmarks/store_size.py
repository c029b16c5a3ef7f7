"""
How large the store gets per million samples: python benchmarks/store_size.py [--store URL].

A sample has three passages and 2,000 characters in all, two metrics and six dimensions of segments.
They are summed and let go of as the scheduler would, by the ages of the settings.
"""

import random
import time
from datetime import UTC, datetime, timedelta

from common import new_store, script
from made import LONG, Maker, write

from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.retention import Retention, free_space, size_bytes
from monitor.store.rollup import roll_up

_MANY = 10_000
_START = datetime(2026, 1, 1, tzinfo=UTC)


def write_day(store: Store, maker: Maker, day: datetime, n: int) -> None:
    """Write samples of all times of a day."""
    chance = random.Random(day.timestamp())
    moments = sorted(day + timedelta(seconds=chance.randrange(86_400)) for _ in range(n))
    write(store, [maker.result(at) for at in moments])


def size_of(store: Store) -> int:
    """Return the bytes of a store."""
    with store.read() as connection:
        return size_bytes(connection)


def million(store: Store) -> None:
    """Print the size of a million samples as they grow old."""
    empty = size_of(store)
    write_day(store, Maker(LONG, seed=2), _START, _MANY)
    keeper = Retention(store=store, kept=Settings().retention, budget_s=600.0)
    for days, what in ((1, "on their day"), (4, "without minutes"), (35, "without texts")):
        now_s = (_START + timedelta(days=days, hours=2)).timestamp()
        roll_up(store, now_s=now_s, settle_s=600)
        keeper.run(now_s)
        free_space(store, end_s=time.monotonic() + 60)
        print(f"a million samples {what}: {(size_of(store) - empty) / _MANY * 1e6 / 1e9:.2f} GB")


@script
def main(*, store: str = "") -> None:
    """Measure a day, and what remains later."""
    with new_store(store) as fresh:
        million(fresh)
