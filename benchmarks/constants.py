"""
Measure what a sample costs Redis and PostgreSQL: python benchmarks/constants.py [--samples 4000].

Samples are those of `made.py`: 2.5 kB, two metrics, six dimensions. They are
written as workers write them, 400 to a transaction, by one writer and by two, to a PostgreSQL
that waits for its disk; CPU of writers and database. The figures are for the model of `scale.py`.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import count_rows, keep_figures, script
from made import LONG, Maker, write
from samples import cpu_s

from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.queue.wire import encode
from monitor.store.engine import Store
from monitor.store.retention import size_bytes
from monitor.store.schema import migrate
from monitor.store.tables import evaluations
from monitor.store.tables import samples as sample_rows
from monitor.store.write import Result
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer

_FULL = 4_000


def made(n: int, seed: int) -> list[Result]:
    """Make samples of now, with their scores."""
    maker = Maker(LONG, seed)
    return [maker.result(datetime.now(UTC)) for _ in range(n)]


def in_redis(folder: Path, results: list[Result]) -> dict[str, float]:
    """Put samples into a stream; say how large they are on the way, and there."""
    entries = [encode(result.scored.sample) for result in results]
    with RedisServer(folder, durable=False) as server:
        client: Any = connect(server.url)
        before = client.info("memory")["used_memory_dataset"]
        for entry in entries:
            client.xadd(names.SAMPLES, entry)
        used = client.info("memory")["used_memory_dataset"] - before
        client.close()
    sent = sum(len(part) for entry in entries for item in entry.items() for part in item)
    return {"sample_bytes": sent / len(entries), "redis_over_sent_ratio": used / sent}


def in_postgres(folder: Path, n: int, sent_bytes: float) -> dict[str, float]:
    """Write samples with one writer and with two; say how fast, how many rows, how large."""
    folder.mkdir()
    found = {}
    with PostgresServer(folder) as server:
        store = Store(server.url)
        migrate(store)
        write(store, made(200, 0), 200)
        for writers in (1, 2):
            parts = [made(n // writers, 10 * writers + each) for each in range(writers)]
            began_rows, began_bytes = _size(store)
            began_s, used_s = time.monotonic(), cpu_s(store)
            with ThreadPoolExecutor(writers) as pool:
                list(pool.map(lambda part: write(store, part, 400), parts))
            found[f"postgres_{writers}_samples_per_s"] = n / (time.monotonic() - began_s)
            found[f"postgres_{writers}_cpu_ms"] = (cpu_s(store) - used_s) / n * 1000
        rows, size = _size(store)
        store.close()
    return found | {
        "rows_per_sample": (rows - began_rows) / n,
        "stored_over_sent_ratio": (size - began_bytes) / n / sent_bytes,
    }


def _size(store: Store) -> tuple[int, int]:
    with store.read() as connection:
        return sum(count_rows(store, (sample_rows, evaluations))), size_bytes(connection)


@script
def main(*, samples: int = _FULL) -> None:
    """Print the figures; keep them if no option made the run shorter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        found = in_redis(Path(folder) / "redis", made(samples, 1))
        found |= in_postgres(Path(folder) / "pg", samples, found["sample_bytes"])
    keep_figures("constants", found, full=samples >= _FULL)
