"""What a stream is judged by: thresholds, how much evidence an alarm needs, how many samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status

_MONTH_S: Final = 30 * 86_400
_DAY_S: Final = 86_400
#: Part of a stream's budget that pays for alarms about a fall from its own reference.
FALL_SHARE: Final = 0.85
#: One stream never gets more than this part of the project's budget, however few there are.
_MOST_OF_PROJECT: Final = 0.1
#: Streams of segments together get this part, when there are any.
_SEGMENTS_SHARE: Final = 0.5


#: A status of too little data needs this part of the usual number to go on.
_KEEPS: Final = 2 / 3
#: In standard errors: so far below the threshold the rate since the last alarm, or the first
#: sample, may lie where a stream becomes healthy, and where it stays so; the latter is 95 %.
_DOUBT_NEW: Final = 1.28
_DOUBT: Final = 1.96
#: Part of the stakes placed when a bucket begins; the rest is placed as time goes by.
_STAKE_AT_BUCKET: Final = 0.5

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """
    What a stream is judged by.

    ``false_alarms_per_month`` is the budget of this one stream: the mean number of false alarms
    in 30 days, above 0. Rates are in [0, 1]; ``bucket_s`` is the width of a bucket in seconds.
    ``use_reference`` switches the evidence of a fall from the stream's own reference.
    """

    warning_rate: float = 0.85
    critical_rate: float = 0.70
    min_n: int = 30
    bucket_s: int = 60
    false_alarms_per_month: float = 0.1
    use_reference: bool = True

    def log_threshold(self, share: float = 1.0) -> float:
        """Give the log evidence, counted in buckets, that *share* of the budget pays for."""
        return math.log(_MONTH_S / self.bucket_s / (self.false_alarms_per_month * share))

    @property
    def log_clear(self) -> float:
        """Give the log evidence of a recovery: a false one in a day, on average, at most."""
        return math.log(_DAY_S / self.bucket_s)


def stream_budget(
    false_alarms_per_month: float, *, roots: int, segments: int = 0, is_root: bool = True
) -> float:
    """
    Share a project's budget among its streams (weighted e-Bonferroni).

    Half is for segments when there are any; within each half all get the same, but no stream
    more than a tenth of the whole. The mean number of false alarms of all streams together
    keeps to the budget whatever the dependence between them, as means add up.

    Parameters
    ----------
    false_alarms_per_month
        Of the whole project in 30 days, above 0.
    roots, segments
        How many streams there are of each sort.
    is_root
        Of which sort this stream is.

    Returns
    -------
    float
        The stream's own false alarms in 30 days.

    References
    ----------
    .. [1] S. Dandapanthula, A. Ramdas, "Multiple testing in multi-stream sequential change
       detection" (2025), arXiv 2501.04130.

    Examples
    --------
    >>> stream_budget(1.0, roots=1000)
    0.001
    """
    part = 1.0 if not segments else (1.0 - _SEGMENTS_SHARE if is_root else _SEGMENTS_SHARE)
    weight = part / max(1, roots if is_root else segments)
    return false_alarms_per_month * min(_MOST_OF_PROJECT, weight)


def read_status(high: float, rules: Rules) -> Status:
    """Return the status that an upper bound of the pass rate stands for."""
    if high < rules.critical_rate:
        return Status.CRITICAL
    return Status.WARNING if high < rules.warning_rate else Status.HEALTHY


def is_known(n_day: Floats, rules: Rules, *, healthy: Bools) -> Bools:
    """Return whether so many samples a day suffice; a healthy stream needs fewer to stay so."""
    return np.where(healthy, n_day >= rules.min_n * _KEEPS, n_day > rules.min_n - 1)


def is_doubtful(size: Floats, passed: Floats, rules: Rules, *, healthy: Bools) -> Bools:
    """
    Return whether all that is known lies below the threshold, though not beyond chance.

    Such a stream is not well and not certainly ill: the Wilson interval of all its samples since
    its last alarm is below the threshold. A long healthy past makes that impossible for long.
    """
    line = rules.warning_rate
    error = np.sqrt(size * line * (1.0 - line))
    below = size * line - passed > np.where(healthy, _DOUBT, _DOUBT_NEW) * error
    return np.asarray(below & (size >= rules.min_n))


def stakes_of(before_s: Floats, time_s: Floats, bucket_s: int) -> Floats:
    """Return the new bets of looks at *time_s*, in buckets that went by since *before_s*."""
    before, now = before_s / bucket_s, time_s / bucket_s
    buckets = np.floor(now) - np.floor(before)
    gone = np.maximum(now - before, 0.0)
    return np.asarray(_STAKE_AT_BUCKET * buckets + (1.0 - _STAKE_AT_BUCKET) * gone)
