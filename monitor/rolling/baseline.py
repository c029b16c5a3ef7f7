"""What a stream is judged by: its own past, thresholds, and the evidence that an alarm needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtrc, chdtri

from monitor.models import Status
from monitor.rolling.drift import ReferenceSpan
from monitor.stats.design import (
    USUAL_EFFECT,
    DesignEffect,
    block_sums,
    design_effect,
    effective_size,
)
from monitor.stats.intervals import wilson_lower

Floats = NDArray[np.float64]

#: In buckets: how long the reference is, and what of the newest past stays out of it.
REFERENCE_BUCKETS: Final = 7 * 1440
GAP_BUCKETS: Final = 1440
#: In buckets: how far back dependence between samples is looked for.
_EFFECT_BUCKETS: Final = 2 * 1440
_LEAST_N: Final = 500.0
_ALPHA: Final = 0.02
_HOUR_ALPHA: Final = 0.01
_DAY_S: Final = 86_400
_HOURS: Final = 24
# How far a healthy rate may wander: what its own past cannot rule out, within limits.
_WOBBLE_BUCKETS: Final = 360
_LEAST_BLOCKS: Final = 8
_LEAST_SLACK, _USUAL_SLACK, _MOST_SLACK = 0.006, 0.012, 0.04
_SLACK_PER_SPREAD: Final = 1.5
#: While less than a day is known, its hours may be its best ones.
_SLACK_OF_PART_DAY: Final = 0.03
# When a course of the day counts as one.
_SEASON_P: Final = 0.001
_SEASON_RANGE: Final = 0.03
_PRIOR_N: Final = 200.0
_SEASON_BUCKETS: Final = 2 * 1440


class History(NamedTuple):
    """
    A stream's buckets: their numbers, rising, and their sums, each of shape (t,).

    A bucket's number is its start divided by its width; buckets without samples are left out.
    """

    bucket: NDArray[np.int64]
    n: Floats
    sum_w: Floats
    sum_w2: Floats
    sum_wy: Floats
    sum_w2y: Floats
    sum_w2yy: Floats

    def at(self, chosen: NDArray[np.bool_] | slice) -> History:
        """Choose some of the buckets."""
        return History(self.bucket[chosen], *(column[chosen] for column in self[1:]))


class Baseline(NamedTuple):
    """
    What a stream is compared with until the next one is learned.

    ``fallen_below`` holds the pass rates, one or one an hour of the day in UTC, below which the
    stream has certainly fallen; empty when that is unknown or not above the warning line.
    ``worth`` is what a unit of weight counts for, None when nothing was counted yet; ``effect`` by
    what counts are divided as samples depend on each other, and ``effect_known`` says whether
    that is measured. ``mean_weight`` is of the samples, ``most_weight`` of the heaviest bucket.
    """

    fallen_below: tuple[float, ...] = ()
    rate: float | None = None
    n: float = 0.0
    worth: float | None = None
    effect: float = USUAL_EFFECT
    effect_known: bool = False
    mean_weight: float = 1.0
    most_weight: float = 1.0

    @property
    def is_seasonal(self) -> bool:
        """Say whether every hour of the day has a rate of its own."""
        return len(self.fallen_below) > 1


def learn(
    history: History,
    *,
    now_bucket: int,
    begun_bucket: int,
    bucket_s: int,
    warning_rate: float,
    incidents: Sequence[ReferenceSpan] = (),
    before: Baseline | None = None,
) -> Baseline:
    """
    Learn what is normal from the seven days that end a day ago, incidents left out.

    Predictable: only buckets before *now_bucket* are used, so that what is learned is fixed
    before the samples that are compared with it. While a stream is younger than two days, the
    newest half of its past stays out instead of the newest day.

    Parameters
    ----------
    history
        Buckets of the stream; at least those of the last eight days.
    now_bucket, begun_bucket
        Numbers of the present bucket and of the first that ever counted.
    bucket_s
        Width of a bucket in seconds.
    warning_rate
        A reference that is not above it tells nothing that the line does not.
    incidents
        Stretches, in bucket numbers, that are left out.
    before
        What was learned the last time. The dependence that was measured then holds until it can
        be measured anew: after a long incident little of the last two days is left.

    Returns
    -------
    Baseline
        With lower limits such that the true rate of the reference is above them in 98 of 100
        cases (Wilson), less the slack that the course of the rate asks for.
    """
    history = _before(history, now_bucket, incidents)
    if not history.bucket.size:
        return Baseline()
    gap = min(GAP_BUCKETS, (now_bucket - begun_bucket) // 2)
    end = now_bucket - gap
    reference = history.at(
        (history.bucket >= end - REFERENCE_BUCKETS + GAP_BUCKETS) & (history.bucket < end)
    )
    known = reference if reference.bucket.size else history
    sums = {name: float(column.sum()) for name, column in known._asdict().items()}
    del sums["bucket"]
    if sums["sum_w"] <= 0:
        return Baseline()
    worth = effective_size(**sums) / sums["sum_w"]
    recent = history.at(history.bucket >= now_bucket - _EFFECT_BUCKETS)
    effect = design_effect(recent.bucket, recent.sum_wy * worth, recent.sum_w * worth)
    if not effect.known and before is not None and before.effect_known:
        effect = DesignEffect(before.effect, known=True)
    rate = min(1.0, max(0.0, sums["sum_wy"] / sums["sum_w"]))
    n = sums["sum_w"] * worth / effect.factor if reference.bucket.size else 0.0
    heavy = float((known.sum_w2 / known.sum_w).max())
    plain = Baseline((), rate, n, worth, *effect, sums["sum_w"] / sums["n"], heavy)
    if n < _LEAST_N:
        return plain
    course = _Course(reference, worth / effect.factor, rate, bucket_s)
    limits = course.limits()
    if max(limits) <= warning_rate:
        return plain
    return plain._replace(fallen_below=tuple(max(limit, warning_rate) for limit in limits))


def _before(history: History, now_bucket: int, incidents: Sequence[ReferenceSpan]) -> History:
    kept = history.bucket < now_bucket
    for span in incidents:
        kept &= (history.bucket < span.from_s) | (history.bucket >= span.to_s)
    return history.at(kept & (history.sum_w > 0))


class _Course:
    """How the rate of a reference goes: over the day, and beyond sampling noise."""

    def __init__(self, reference: History, counted: float, rate: float, bucket_s: int) -> None:
        self._bucket = reference.bucket
        self._n = reference.sum_w * counted
        self._passed = reference.sum_wy * counted
        self._rate = rate
        seconds = reference.bucket * bucket_s
        self._hour = (seconds % _DAY_S * _HOURS // _DAY_S).astype(np.int64)

    def limits(self) -> list[float]:
        """Give the lower limit, or one for each hour of the day when the day has a course."""
        hourly = self._hourly()
        if hourly is not None:
            n, passed, shrunk = hourly
            slack = max(_USUAL_SLACK, self._slack(shrunk[self._hour]))
            low = betaincinv(
                passed + _PRIOR_N * self._rate,
                n - passed + _PRIOR_N * (1.0 - self._rate),
                _HOUR_ALPHA,
            )
            return [float(value) - slack for value in low]
        total = float(self._n.sum())
        limit = wilson_lower(self._rate * total, total, alpha=_ALPHA)
        return [limit - self._slack(np.full(self._n.shape, self._rate))]

    def _hourly(self) -> tuple[Floats, Floats, Floats] | None:
        """Sum by hour of the day; None unless the hours certainly differ, and by enough."""
        spans_days = self._bucket[-1] - self._bucket[0] >= _SEASON_BUCKETS
        if not spans_days or not 0.0 < self._rate < 1.0:
            return None
        n = np.asarray(np.bincount(self._hour, self._n, _HOURS), dtype=np.float64)
        passed = np.asarray(np.bincount(self._hour, self._passed, _HOURS), dtype=np.float64)
        passed = np.minimum(np.maximum(passed, 0.0), n)
        shrunk = (passed + _PRIOR_N * self._rate) / (n + _PRIOR_N)
        variance = self._rate * (1.0 - self._rate)
        chi2 = np.sum((passed - n * self._rate) ** 2 / np.maximum(n, 1e-9)) / variance
        differs = chdtrc(np.count_nonzero(n) - 1, chi2) < _SEASON_P
        if not differs or np.ptp(shrunk[n > 0]) <= _SEASON_RANGE:
            return None
        return n, passed, np.asarray(shrunk)

    def _slack(self, expected: Floats) -> float:
        """
        Tell how far the rate may wander: an upper limit of its spread between quarters of a day.

        A homogeneity test turned round: the largest spread, beyond sampling noise, at which the
        blocks would differ as little as they do in only 5 of 100 cases.
        """
        if self._bucket[-1] - self._bucket[0] < GAP_BUCKETS - _WOBBLE_BUCKETS:
            return _SLACK_OF_PART_DAY
        block = self._bucket // _WOBBLE_BUCKETS
        n = block_sums(block, self._n)
        if n.size < _LEAST_BLOCKS:
            return _USUAL_SLACK
        variance = max(self._rate * (1.0 - self._rate), 1e-4)
        apart = (block_sums(block, self._passed) - block_sums(block, self._n * expected)) ** 2 / n
        distance = float(apart.sum()) / variance
        ratio = distance / float(chdtri(n.size - 1, 0.95))
        spread = np.sqrt(max(0.0, ratio - 1.0) * variance / n.mean())
        certain = distance > float(chdtri(n.size - 1, 0.05))
        most = _MOST_SLACK if certain else _USUAL_SLACK
        return float(np.clip(_SLACK_PER_SPREAD * spread, _LEAST_SLACK, most))


_MONTH_S: Final = 30 * 86_400
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
