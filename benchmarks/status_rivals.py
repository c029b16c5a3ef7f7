"""Rules of other tools, as their defaults have them; each gives the moments its alarm turned."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstwo

from support.status_streams import BEGIN_S, DAY_S, Floats, Stream

_HOUR_S, _EVERY_S = 3600.0, 300.0
_KS_P, _LEAST_N = 0.05, 10
_FAST, _SLOW = 0.30, 0.15
Rule = Callable[[Stream], list[tuple[float, bool]]]


def burn_rate(stream: Stream) -> list[tuple[float, bool]]:
    """
    Alarm when two windows burn the error budget: fast over 1 h and 5 min, slow over 6 h and 30 min.

    After the multi-window rule of the SRE workbook, for an objective of 0.85.
    """
    times = np.maximum.accumulate(stream.times_s)
    failed = np.concatenate([[0.0], np.cumsum(1.0 - stream.passed)])
    here, share = np.arange(1, times.size + 1), {}
    for window_s in (300.0, 1800.0, _HOUR_S, 6 * _HOUR_S):
        first = np.searchsorted(times, times - window_s)
        share[window_s] = (failed[here] - failed[first]) / (here - first)
    fast = (share[_HOUR_S] > _FAST) & (share[300.0] > _FAST)
    slow = (share[6 * _HOUR_S] > _SLOW) & (share[1800.0] > _SLOW)
    return _turns(times, fast | slow)


def ks_of_the_last_hour(stream: Stream) -> list[tuple[float, bool]]:
    """Alarm when the last hour's scores differ at 5 %; tested every five minutes."""
    times = np.maximum.accumulate(stream.times_s)
    looks = np.arange(BEGIN_S + DAY_S, times[-1], _EVERY_S)
    first, last = np.searchsorted(times, [looks - _HOUR_S, looks])
    # Scores have two digits, so counts by score are the whole sample.
    place = np.rint(stream.scores * 100).astype(np.int64)
    known = np.flatnonzero(times < BEGIN_S + DAY_S)[:1000]
    reference = np.cumsum(np.bincount(place[known], minlength=101)) / known.size
    n = last - first
    distance = np.zeros(looks.size)
    for score in range(101):
        upto = np.concatenate([[0], np.cumsum(place <= score)])
        share = (upto[last] - upto[first]) / np.maximum(n, 1)
        distance = np.maximum(distance, np.abs(share - reference[score]))
    size = np.round(n * known.size / (n + known.size))
    p_value = kstwo.sf(distance, np.maximum(size, 1))
    return _turns(looks, (n >= _LEAST_N) & (p_value <= _KS_P))


def _river(name: str, **settings: Any) -> Rule:
    """Return a rule that runs river's detector *name* on failures; of ADWIN's only rises count."""

    def rule(stream: Stream) -> list[tuple[float, bool]]:
        from river import drift

        detector: Any = getattr(drift.binary if name == "DDM" else drift, name)(**settings)
        found: list[tuple[float, bool]] = []
        for time_s, failed in zip(stream.times_s, stream.passed < 1, strict=True):
            before = detector.estimation if name == "ADWIN" else 0.0
            detector.update(failed)
            if detector.drift_detected and (name != "ADWIN" or detector.estimation > before):
                found += [(float(time_s), True), (float(time_s), False)]
        return found

    return rule


def _turns(times: Floats, bad: NDArray[np.bool_]) -> list[tuple[float, bool]]:
    turned = np.flatnonzero(np.diff(bad, prepend=False))
    return [(float(times[look]), bool(bad[look])) for look in turned]


#: What can run here, by name.
RIVALS: dict[str, Rule] = {"burn rate": burn_rate, "KS": ks_of_the_last_hour}
if find_spec("river"):
    RIVALS |= {"ADWIN": _river("ADWIN"), "PageHinkley": _river("PageHinkley", mode="up")}
    RIVALS["DDM"] = _river("DDM")
