"""
What one evaluation costs: 1,000 apps, 10 metrics, 24 hours of minutes, every stream with news.

    python benchmarks/evaluate.py

In state, on one core: summing four windows from the minutes, their bounds at all looks, the
evidence and evidence of every stream. Without the database, without finding what is new in its
sums, and without making and storing verdicts as records. Then the bytes of a key and day in SQLite,
of minutes only: samples and evaluations are rows of their own.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

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

_STREAMS = 10_000
_MINUTES = 1440
#: Over so many the bytes of a key are averaged.
_KEYS = 5
_WINDOWS = (5, 60, 360, 1440)


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(1)
    n = rng.poisson(1.0, (_STREAMS, _MINUTES)).astype(np.int32)
    passed = rng.binomial(n, 0.92).astype(np.int32)
    baseline = Baseline((0.90,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)
    states = [
        EvidenceState.fresh(0.0).but(status=Status.HEALTHY, n_day=1440.0, baseline=baseline)
        for _ in range(_STREAMS)
    ]
    rules = Rules(false_alarms_per_month=stream_budget(1.0, roots=_STREAMS))
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    _timed("sums of four windows", lambda: sums.extend(_windows(n, passed)))
    hour = [_stats(int(size), int(s)) for size, s in zip(*sums[1], strict=True)]

    news = [
        Looks(np.array([5.0]), *np.array([[size], [size], [good]], dtype=float))
        for size, good in zip(n[:, -1], passed[:, -1], strict=True)
    ]

    def look() -> None:
        found = advance_all(states, news, rules)
        states[:] = [state for state, _ in found]
        for state, window in zip(states, hour, strict=True):
            evidence_finding(state, window, rules)

    _timed("evidence and evidence, 10,000 with news", look)
    for line in _bytes():
        print(line)
    print(f"state of a stream: {len(json.dumps(to_json(states[0]))):,} bytes of JSON")


def _bytes() -> Iterator[str]:
    """Measure what a key leaves in SQLite in a day: 1,440 minutes of 20 samples."""
    rng = np.random.default_rng(1)
    minutes = [60 * (2_000_000 + minute) for minute in range(_MINUTES)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "day.db"
        store = Store(f"sqlite:///{path}")
        migrate(store)
        before = _vacuumed(path)
        for what, table in (("minutes", buckets), ("their histograms", bucket_bins)):
            with store.write() as connection:
                connection.execute(table.insert(), _day(table is bucket_bins, minutes, rng))
            size = _vacuumed(path)
            yield f"{what}: {(size - before) / _KEYS:,.0f} bytes a key and day"
            before = size


def _vacuumed(path: Path) -> int:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("VACUUM")
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _day(
    with_bins: bool,
    minutes: list[int],
    rng: np.random.Generator,
) -> list[dict[str, float | int]]:
    rows: list[dict[str, float | int]] = []
    for key in range(_KEYS):
        for start_s in minutes:
            passed = rng.random(20) < 0.92  # noqa: PLR2004 - the usual rate
            score = np.where(passed, 0.7 + 0.3 * rng.beta(5, 2, 20), 0.69 * rng.beta(2, 2, 20))
            place = {"stream_id": key + 1, "start_s": start_s}
            if with_bins:
                values, counts = np.unique(np.rint(score * 100).astype(int), return_counts=True)
                rows += [
                    place | {"bin": int(value), "count": int(count)}
                    for value, count in zip(values, counts, strict=True)
                ]
                continue
            rows.append(place | _bucket(passed, score))
    return rows


def _bucket(passed: np.ndarray, score: np.ndarray) -> dict[str, float | int]:
    n, good, x, xx = passed.size, int(passed.sum()), float(score.sum()), float((score**2).sum())
    whole = {"n": n, "passed": good, "failed": 0, "skipped": 0, "cost_microusd": 0}
    sums = dict.fromkeys(("sum_w", "sum_w2"), float(n))
    sums |= dict.fromkeys(("sum_wy", "sum_w2y", "sum_w2yy"), float(good))
    return whole | sums | {"sum_x": x, "sum_x2": xx, "sum_wx": x, "sum_wxx": xx}


def _windows(n: np.ndarray, passed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (
            n[:, -width:].sum(axis=1, dtype=np.float64),
            passed[:, -width:].sum(axis=1, dtype=np.float64),
        )
        for width in _WINDOWS
    ]


def _stats(n: int, passed: int):  # noqa: ANN202 - a window's figures
    sums = {"sum_w": float(n), "sum_w2": float(n), "sum_wy": float(passed)}
    return window_stats(Tally(n=n, passed=passed, **sums))


def _timed(what: str, work: Callable[[], object]) -> None:
    began_s = time.process_time()
    work()
    print(f"{what}: {time.process_time() - began_s:.2f} s of CPU")


if __name__ == "__main__":
    main()
