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
from contextlib import closing

import numpy as np
from common import new_store, script

from monitor.models import Status, Tally
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, to_json
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, stream_budget
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import evidence_finding
from monitor.store.retention import size_bytes
from monitor.store.tables import bucket_bins, buckets

STREAMS, MINUTES = 10_000, 1440
KEYS = 5  #: over so many the bytes of a key are averaged
WINDOWS = (5, 60, 360, 1440)


def print_cost() -> None:
    """Measure the CPU of one evaluation, and the size of a stream's state."""
    rng = np.random.default_rng(1)
    n = rng.poisson(1.0, (STREAMS, MINUTES)).astype(np.int32)
    passed = rng.binomial(n, 0.92).astype(np.int32)
    baseline = Baseline((0.90,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)
    state = EvidenceState.fresh(0.0).but(status=Status.HEALTHY, n_day=1440.0, baseline=baseline)
    rules = Rules(false_alarms_per_month=stream_budget(1.0, roots=STREAMS))
    began_s = time.process_time()
    sums = [[x[:, -width:].sum(axis=1, dtype=np.float64) for x in (n, passed)] for width in WINDOWS]
    print(f"sums of four windows: {time.process_time() - began_s:.2f} s of CPU")
    hour = [
        window_stats(Tally(n=int(size), passed=int(good), sum_w=size, sum_w2=size, sum_wy=good))
        for size, good in zip(*sums[1], strict=True)
    ]
    news = [
        Looks(np.array([5.0]), *np.array([[size], [size], [good]], dtype=float))
        for size, good in zip(n[:, -1], passed[:, -1], strict=True)
    ]
    began_s = time.process_time()
    found = [state for state, _ in advance_all([state] * STREAMS, news, rules)]
    for state, window in zip(found, hour, strict=True):
        evidence_finding(state, window, rules)
    took_s = time.process_time() - began_s
    print(f"evidence and verdicts, 10,000 with news: {took_s:.2f} s of CPU")
    print(f"state of a stream: {len(json.dumps(to_json(found[0]))):,} bytes of JSON")


def print_bytes() -> None:
    """Measure what a key leaves in SQLite in a day: 1,440 minutes of 20 samples."""
    rng = np.random.default_rng(1)
    minutes, histograms = [], []
    for key in range(KEYS):
        for minute in range(MINUTES):
            place = {"stream_id": key + 1, "start_s": 60 * (2_000_000 + minute)}
            passed = rng.random(20) < 0.92
            score = np.where(passed, 0.7 + 0.3 * rng.beta(5, 2, 20), 0.69 * rng.beta(2, 2, 20))
            x, xx = float(score.sum()), float((score**2).sum())
            good = dict.fromkeys(("passed", "sum_wy", "sum_w2y", "sum_w2yy"), int(passed.sum()))
            minutes.append(place | good | {
                "n": 20, "failed": 0, "skipped": 0, "cost_microusd": 0, "sum_w": 20.0,
                "sum_w2": 20.0, "sum_x": x, "sum_x2": xx, "sum_wx": x, "sum_wxx": xx,
            })  # fmt: skip
            bins = np.unique(np.rint(score * 100).astype(int), return_counts=True)
            histograms += [
                place | {"bin": value, "count": count}
                for value, count in zip(*(column.tolist() for column in bins), strict=True)
            ]
    with new_store() as store:
        with store.read() as connection:
            before = size_bytes(connection)
        for what, table, rows in (
            ("minutes", buckets, minutes), ("their histograms", bucket_bins, histograms),
        ):  # fmt: skip
            with store.write() as connection:
                connection.execute(table.insert(), rows)
            with closing(sqlite3.connect(str(store.engine.url.database))) as plain:
                plain.execute("VACUUM")
            with store.read() as connection:
                size = size_bytes(connection)
            print(f"{what}: {(size - before) / KEYS:,.0f} bytes a key and day")
            before = size


@script
def main() -> None:
    """Measure and print."""
    print_cost()
    print_bytes()
