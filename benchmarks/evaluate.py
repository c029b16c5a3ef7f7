"""
What one evaluation costs: 1,000 apps, 10 metrics, 24 hours of minutes, every stream with news.

    python benchmarks/evaluate.py

In state, on one core: summing four windows from the minutes, their bounds at all looks, the
evidence and verdict of every stream. Without the database, without finding what is new in its
sums, and without making and storing verdicts as records. Then the bytes of a key and day in SQLite,
of minutes only: samples and evaluations are rows of their own.
"""

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import make_parser

from monitor.models import Status, Tally
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, to_json
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, stream_budget
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import evidence_finding
from monitor.store.engine import Store, migrate
from monitor.store.tables import bucket_bins, buckets

STREAMS, MINUTES = 10_000, 1440
KEYS = 5  #: over so many the bytes of a key are averaged
WINDOWS = (5, 60, 360, 1440)


def main() -> None:
    """Measure and print."""
    make_parser(__doc__).parse_args()
    rng = np.random.default_rng(1)
    n = rng.poisson(1.0, (STREAMS, MINUTES)).astype(np.int32)
    passed = rng.binomial(n, 0.92).astype(np.int32)
    baseline = Baseline((0.90,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)
    states = [
        EvidenceState.fresh(0.0).but(status=Status.HEALTHY, n_day=1440.0, baseline=baseline)
        for _ in range(STREAMS)
    ]
    rules = Rules(false_alarms_per_month=stream_budget(1.0, roots=STREAMS))
    sums = timed(
        "sums of four windows",
        lambda: [
            [each[:, -width:].sum(axis=1, dtype=np.float64) for each in (n, passed)]
            for width in WINDOWS
        ],
    )
    hour = [
        window_stats(Tally(n=int(size), passed=int(good), sum_w=size, sum_w2=size, sum_wy=good))
        for size, good in zip(*sums[1], strict=True)
    ]
    news = [
        Looks(np.array([5.0]), *np.array([[size], [size], [good]], dtype=float))
        for size, good in zip(n[:, -1], passed[:, -1], strict=True)
    ]

    def look() -> None:
        found = advance_all(states, news, rules)
        states[:] = [state for state, _ in found]
        for state, window in zip(states, hour, strict=True):
            evidence_finding(state, window, rules)

    timed("evidence and verdicts, 10,000 with news", look)
    print_bytes()
    print(f"state of a stream: {len(json.dumps(to_json(states[0]))):,} bytes of JSON")


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Return what *work* returns, and print its CPU."""
    began_s = time.process_time()
    found = work()
    print(f"{what}: {time.process_time() - began_s:.2f} s of CPU")
    return found


def print_bytes() -> None:
    """Measure what a key leaves in SQLite in a day: 1,440 minutes of 20 samples."""
    rng = np.random.default_rng(1)
    minutes, histograms = [], []
    for key in range(KEYS):
        for minute in range(MINUTES):
            place = {"stream_id": key + 1, "start_s": 60 * (2_000_000 + minute)}
            passed = rng.random(20) < 0.92
            score = np.where(passed, 0.7 + 0.3 * rng.beta(5, 2, 20), 0.69 * rng.beta(2, 2, 20))
            good, x, xx = int(passed.sum()), float(score.sum()), float((score**2).sum())
            minutes.append(place | {
                "n": 20, "passed": good, "failed": 0, "skipped": 0, "cost_microusd": 0,
                "sum_w": 20.0, "sum_w2": 20.0, "sum_wy": good, "sum_w2y": good, "sum_w2yy": good,
                "sum_x": x, "sum_x2": xx, "sum_wx": x, "sum_wxx": xx,
            })  # fmt: skip
            bins = np.unique(np.rint(score * 100).astype(int), return_counts=True)
            histograms += [
                place | {"bin": int(value), "count": int(count)}
                for value, count in zip(*bins, strict=True)
            ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "day.db"
        store = Store(f"sqlite:///{path}")
        migrate(store)
        before = _vacuumed(path)
        for what, table, rows in (
            ("minutes", buckets, minutes), ("their histograms", bucket_bins, histograms),
        ):  # fmt: skip
            with store.write() as connection:
                connection.execute(table.insert(), rows)
            size = _vacuumed(path)
            print(f"{what}: {(size - before) / KEYS:,.0f} bytes a key and day")
            before = size


def _vacuumed(path: Path) -> int:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("VACUUM")
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


if __name__ == "__main__":
    main()
