"""When a stream changed: the buckets around it, located against its reference."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from monitor.models import Tally
from monitor.rolling.windows import window_stats
from monitor.stats.changepoint import locate_change
from monitor.stats.design import DesignEffect, design_effect
from monitor.store.query import Stream, series

#: So strong must the evidence be before a time is given.
_EVIDENCE = 3.0


class Onset(NamedTuple):
    """When a change began, the range that holds it with 95 %, and all that was scored since."""

    at: datetime
    low: datetime
    high: datetime
    since: Tally


def locate_onset(
    connection: Connection,
    stream: Stream,
    *,
    reference: Tally,
    from_s: int,
    to_s: int,
    bucket_s: int,
    effect: float = 1.0,
) -> Onset | None:
    """Locate one change of the pass rate in [from_s, to_s); None without strong evidence."""
    steps = series(connection, [stream.stream_id], from_s=from_s, step_s=bucket_s)
    buckets = steps.get(stream.stream_id, {})
    starts = [start_s for start_s in sorted(buckets) if from_s <= start_s < to_s]
    if not starts:
        return None
    counts = [_counts(buckets[start_s]) for start_s in starts]
    passed, n = (np.array(column) / effect for column in zip(*counts, strict=True))
    old_passed, old_n = (count / effect for count in _counts(reference))
    found = locate_change(passed, n, reference_passed=old_passed, reference_n=old_n)
    if found is None or found.evidence < _EVIDENCE:
        return None
    at, low, high = (
        datetime.fromtimestamp(starts[k], UTC) for k in (found.bucket, found.low, found.high)
    )
    since = sum((buckets[start_s] for start_s in starts[found.bucket :]), start=Tally())
    return Onset(at, low, high, since)


def measure_design_effect(
    connection: Connection, stream: Stream, *, from_s: int, bucket_s: int
) -> float:
    """Measure by how much correlation within sessions inflates the variance of the passes."""
    steps = series(connection, [stream.stream_id], from_s=from_s, step_s=bucket_s)
    buckets = steps.get(stream.stream_id, {})
    starts = [start_s for start_s in sorted(buckets) if buckets[start_s].n > 0]
    if not starts:
        return DesignEffect().factor
    counts = [_counts(buckets[start_s]) for start_s in starts]
    passed, n = (np.array(column) for column in zip(*counts, strict=True))
    return design_effect(np.array(starts) // bucket_s, passed, n).factor


def _counts(tally: Tally) -> tuple[float, float]:
    window = window_stats(tally)
    if window.pass_rate is None:
        return 0.0, 0.0
    return window.pass_rate * window.n_effective, window.n_effective
