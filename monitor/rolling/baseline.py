"""What is normal for a stream: the baseline that is learned from its own past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtrc, chdtri

from monitor.stats.intervals import (
    USUAL_EFFECT,
    DesignEffect,
    block_sums,
    design_effect,
    effective_size,
    wilson_interval,
)

Floats = NDArray[np.float64]

#: In buckets: how long the reference is, and how much of the newest past it leaves out.
REFERENCE_BUCKETS: Final = 7 * 1440
GAP_BUCKETS: Final = 1440
#: In buckets: how far back dependence between samples is looked for.
_EFFECT_BUCKETS: Final = 2 * 1440
#: Scores from which a reference is one.
LEAST_N: Final = 500.0
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
# When a difference between the hours of the day counts as seasonal.
_SEASON_P: Final = 0.001
_SEASON_RANGE: Final = 0.03
_PRIOR_N: Final = 200.0
_SEASON_BUCKETS: Final = 2 * 1440


class ReferenceSpan(NamedTuple):
    """A time range, in epoch seconds; the end is exclusive."""

    from_s: int
    to_s: int


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

    def by_bucket(self) -> History:
        """Return one row a bucket, where several items may have stood in one."""
        bucket, place = np.unique(self.bucket, return_inverse=True)
        sums = (np.bincount(place, column, bucket.size) for column in self[1:])
        return History(bucket, *(np.asarray(column, dtype=np.float64) for column in sums))


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
    Learn what is normal from the last seven days but the newest, incidents left out.

    Predictable: only buckets before *now_bucket* are used, so that what is learned is fixed
    before the samples that are compared with it. While a stream is younger than two days, the
    newest half of its past stays out instead of the newest day. The true rate of the reference is
    above its lower limits in 98 of 100 cases (Wilson), less the slack that the wandering of the
    rate asks for.

    *history*: buckets of the stream; at least those of the last eight days. *now_bucket* and
    *begun_bucket*: numbers of the present bucket and of the first that ever counted.
    *bucket_s*: width of a bucket in seconds. *warning_rate*: a reference that is not above it
    tells nothing that the line does not. *incidents*: stretches, in bucket numbers, that are
    left out. *before*: what was learned the last time. The dependence that was measured then
    holds until it can be measured again: after a long incident little of the last two days is
    left.
    """
    kept = (history.bucket < now_bucket) & (history.sum_w > 0)
    for span in incidents:
        kept &= (history.bucket < span.from_s) | (history.bucket >= span.to_s)
    history = history.at(kept)
    if not history.bucket.size:
        return Baseline()
    gap = min(GAP_BUCKETS, (now_bucket - begun_bucket) // 2)
    end = now_bucket - gap
    reference = history.at(
        (history.bucket >= end - REFERENCE_BUCKETS + GAP_BUCKETS) & (history.bucket < end)
    )
    known = reference if reference.bucket.size else history
    total, sum_w, sum_w2, sum_wy, sum_w2y, sum_w2yy = (float(column.sum()) for column in known[1:])
    size = effective_size(total, sum_w, sum_w2, sum_w2y, sum_w2yy, sum_wy / sum_w)
    worth = size / sum_w
    recent = history.at(history.bucket >= now_bucket - _EFFECT_BUCKETS)
    effect = design_effect(recent.bucket, recent.sum_wy * worth, recent.sum_w * worth)
    if not effect.known and before is not None and before.effect_known:
        effect = DesignEffect(before.effect, known=True)
    rate = min(1.0, max(0.0, sum_wy / sum_w))
    n = sum_w * worth / effect.factor if reference.bucket.size else 0.0
    heavy = float((known.sum_w2 / known.sum_w).max())
    plain = Baseline((), rate, n, worth, *effect, sum_w / total, heavy)
    if n < LEAST_N:
        return plain
    limits = _ReferenceLimits(reference, worth / effect.factor, rate, bucket_s).by_hour()
    if max(limits) <= warning_rate:
        return plain
    return plain._replace(fallen_below=tuple(max(limit, warning_rate) for limit in limits))


class _ReferenceLimits:
    """Lower limits of the rate of a reference: over the day, and beyond sampling noise."""

    def __init__(self, reference: History, counted: float, rate: float, bucket_s: int) -> None:
        self._bucket = reference.bucket
        self._n = reference.sum_w * counted
        self._passed = reference.sum_wy * counted
        self._rate = rate
        seconds = reference.bucket * bucket_s
        self._hour = (seconds % _DAY_S * _HOURS // _DAY_S).astype(np.int64)

    def by_hour(self) -> list[float]:
        """Return the lower limit, or one for each hour where the day has a seasonal pattern."""
        rate = self._rate
        if self._bucket[-1] - self._bucket[0] >= _SEASON_BUCKETS and 0.0 < rate < 1.0:
            n = np.bincount(self._hour, self._n, _HOURS)
            passed = np.clip(np.bincount(self._hour, self._passed, _HOURS), 0.0, n)
            shrunk = (passed + _PRIOR_N * rate) / (n + _PRIOR_N)
            chi2 = np.sum((passed - n * rate) ** 2 / np.maximum(n, 1e-9)) / (rate * (1.0 - rate))
            differs = chdtrc(np.count_nonzero(n) - 1, chi2) < _SEASON_P
            # The hours certainly differ, and by enough.
            if differs and np.ptp(shrunk[n > 0]) > _SEASON_RANGE:
                slack = max(_USUAL_SLACK, self._slack(shrunk[self._hour]))
                alike = passed + _PRIOR_N * rate, n - passed + _PRIOR_N * (1.0 - rate)
                return [float(value) - slack for value in betaincinv(*alike, _HOUR_ALPHA)]
        total = float(self._n.sum())
        limit = wilson_interval(rate * total, total, alpha=2 * _ALPHA).low
        return [limit - self._slack(np.full(self._n.shape, rate))]

    def _slack(self, expected: Floats) -> float:
        """
        Return how far the rate may wander: an upper limit of its spread between quarters of a day.

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
