"""Replay of a stream through a policy that looks at windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status, Tally
from monitor.rolling.policies import Policy, Thresholds
from monitor.rolling.windows import window_stats

Floats = NDArray[np.float64]


def replay_windows(
    times: Floats,
    passed: Floats,
    policy: Policy,
    *,
    lines: Thresholds,
    bucket_s: int,
    window_s: int,
) -> list[tuple[float, Status]]:
    """
    List how a status went, looked at after every sample and whenever a bucket leaves the window.

    *times* in order of arrival, *passed* of 0 and 1, both of shape (n,), n > 0; the policy is
    asked once for each different window.
    """
    look_s, arrivals = _look_times(times, bucket_s, window_s)
    begins = np.floor(times / bucket_s)
    # A sample counts from its own look until the first at which its bucket has left the window.
    leaves = np.searchsorted(np.floor(look_s / bucket_s), begins + window_s // bucket_s)
    stays = leaves > arrivals
    n, s = (
        _present(arrivals[stays], leaves[stays], weights[stays], look_s.size)
        for weights in (np.ones_like(passed), passed)
    )
    pairs, place = np.unique(np.stack([n, s]), axis=1, return_inverse=True)
    found = np.array([_status(policy, lines, int(a), int(b)) for a, b in pairs.T])[place]
    turns = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    return [(float(look_s[look]), Status(found[look])) for look in turns]


def _look_times(times: Floats, bucket_s: int, window_s: int) -> tuple[Floats, NDArray[np.int64]]:
    """Give the times of all looks, and which of them are those of the samples."""
    clock = np.maximum.accumulate(times)
    leaving = (np.unique(np.floor(times / bucket_s)) + window_s // bucket_s) * bucket_s
    leaving = leaving[(leaving > clock[0]) & (leaving <= clock[-1])]
    look_s = np.concatenate([leaving, clock])
    order = np.argsort(look_s, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return look_s[order], place[leaving.size :]


def _present(
    start: NDArray[np.int64], end: NDArray[np.int64], weights: Floats, size: int
) -> NDArray[np.int64]:
    moves = np.bincount(start, weights, size + 1) - np.bincount(end, weights, size + 1)
    return np.asarray(np.rint(np.cumsum(moves)[:size]), dtype=np.int64)


def _status(policy: Policy, lines: Thresholds, n: int, passed: int) -> str:
    tally = Tally(
        n=n,
        passed=passed,
        sum_w=float(n),
        sum_w2=float(n),
        sum_wy=float(passed),
        sum_w2y=float(passed),
        sum_w2yy=float(passed),
    )
    return policy(window_stats(tally), lines).status.value
