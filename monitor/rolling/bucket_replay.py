"""What an evidence policy would have said of a stream of which only sums by bucket are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.anytime import advance, idle, learn_due_s, relearn
from monitor.rolling.baseline import History
from monitor.rolling.budget import Rules
from monitor.rolling.evidence_state import EvidenceState, Looks

Floats = NDArray[np.float64]
_DAY_S = 86_400
_HISTORY_S = 9 * _DAY_S


class BucketSums(NamedTuple):
    """
    The sums of a stream's buckets, oldest first, each of shape (t,).

    ``start_s`` and ``end_s`` in epoch seconds; ``n`` samples, and the sums of their weights w,
    their squares, and with the passes y: ``sum_wy``, ``sum_w2y``, ``sum_w2yy``.
    """

    start_s: Floats
    end_s: Floats
    n: Floats
    sum_w: Floats
    sum_w2: Floats
    sum_wy: Floats
    sum_w2y: Floats
    sum_w2yy: Floats


def backtest_buckets(sums: BucketSums, rules: Rules, *, end_s: float) -> list[tuple[float, Status]]:
    """
    Replay a stream through an ``anytime`` policy, bucket by bucket.

    Causal: a bucket is looked at when it is over, so an alarm comes up to a bucket's width
    later than it did live; where only hours are kept, up to an hour later. The stream begins
    fresh, as in `monitor.rolling.backtest`.

    Parameters
    ----------
    sums
        The buckets; those without samples may be left out.
    rules
        What the stream is judged by, and the width of a bucket.
    end_s
        When to stop, in epoch seconds: a silent stream becomes unknown.

    Returns
    -------
    list of (float, Status)
        Epoch seconds at which a status began, and the status.
    """
    if not sums.n.size:
        return []
    memory = EvidenceState.fresh(float(sums.start_s[0]))
    changes = [(float(sums.start_s[0]), memory.status)]
    # The last moment of a bucket belongs to it, not to the next one.
    look_s = np.maximum.accumulate(sums.end_s - 0.001)
    start = 0
    while start < look_s.size:
        due_s = learn_due_s(memory, rules)
        if look_s[start] >= due_s:
            now_s = float(look_s[start])
            memory, silent = idle(memory, now_s, rules)
            changes += [(change.time_s, change.status) for change in silent]
            memory = relearn(memory, _history(sums, now_s, rules), now_s, rules)
            due_s = learn_due_s(memory, rules)
        end = max(start + 1, int(np.searchsorted(look_s, due_s)))
        looks = _looks(sums, look_s, slice(start, end), memory)
        memory, turned = advance(memory, looks, rules)
        changes += [(change.time_s, change.status) for change in turned]
        start = end
    _, silent = idle(memory, max(end_s, float(look_s[-1])), rules)
    return changes + [(change.time_s, change.status) for change in silent]


def _looks(sums: BucketSums, look_s: Floats, part: slice, memory: EvidenceState) -> Looks:
    """Temper weighted sums to what they are worth; no sample counts for more than one."""
    n, sum_w, sum_w2, sum_wy = (column[part] for column in sums[2:6])
    kish = np.divide(sum_w, sum_w2, out=np.ones_like(sum_w), where=sum_w2 > 0)
    worth = kish if memory.baseline.worth is None else np.full(n.shape, memory.baseline.worth)
    size = np.minimum(np.maximum(sum_w, 0.0) * worth, n)
    rate = np.divide(sum_wy, sum_w, out=np.zeros_like(sum_w), where=sum_w > 0)
    return Looks(look_s[part], n, size, np.clip(rate, 0.0, 1.0) * size)


def _history(sums: BucketSums, now_s: float, rules: Rules) -> History:
    first, last = np.searchsorted(sums.end_s, [now_s - _HISTORY_S, now_s], side="left")
    known: Sequence[Floats] = [column[first:last] for column in sums[2:]]
    bucket = (sums.start_s[first:last] // rules.bucket_s).astype(np.int64)
    return History(bucket, *known)
