"""A window's sums to the figures that people read: rate, interval, average, distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.models import Drift, Tally
from monitor.models.status import BINS
from monitor.stats.distance import Histogram, kolmogorov_smirnov, population_stability_index
from monitor.stats.intervals import Interval, wilson_interval
from monitor.stats.prediction_powered import effective_size


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStats:
    """
    What a window says about the traffic behind it.

    ``pass_rate`` and ``average_score`` are weighted by the inverse sample rate
    (Hájek), so that a sample rate that changes within the window biases nothing, and
    rest on unbiased estimates where a judge was asked about some samples only.
    ``n_effective`` is what all that is worth in plain samples. The figures are None
    when nothing was scored. ``judged`` counts the samples that the judge of a cascade
    was asked about, ``agreed`` those on which the local score came to the same.
    """

    n: int
    passed: int
    failed: int
    skipped: int
    judged: int = 0
    agreed: int = 0
    n_effective: float = 0.0
    pass_rate: float | None = None
    interval: Interval | None = None
    average_score: float | None = None
    cost_usd: float = 0.0


def window_stats(tally: Tally) -> WindowStats:
    """
    Turn the sums of a window into figures.

    The interval is Wilson's at 95 %, at the size that the variance found is worth:
    right for one look at independent samples, too narrow for a judgement that is
    repeated every few seconds. For estimates it is an approximation that wants about
    thirty judged samples in the window.

    References
    ----------
    .. [1] J. Hájek, comment in "Foundations of Statistical Inference" (1971), p. 236.
    .. [2] A. N. Angelopoulos et al., "Prediction-powered inference", Science 382
       (2023), 669-674.
    """
    counts = {
        "n": tally.n,
        "passed": tally.passed,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "judged": tally.judged,
        "agreed": tally.agreed,
        "cost_usd": tally.cost_microusd / 1e6,
    }
    if tally.n == 0:
        return WindowStats(**counts)  # type: ignore[arg-type]
    found = tally.sum_wy / tally.sum_w
    size = effective_size(tally.n, tally.sum_w, tally.sum_w2, tally.sum_w2y, tally.sum_w2yy, found)
    rate = min(1.0, max(0.0, found))
    return WindowStats(
        **counts,  # type: ignore[arg-type]
        n_effective=size,
        pass_rate=rate,
        interval=wilson_interval(rate * size, size),
        average_score=min(1.0, max(0.0, tally.sum_wx / tally.sum_w)),
    )


def drift(reference: Tally, current: Tally, *, min_n: int) -> Drift | None:
    """
    Compare a window with the reference before it; None when either has under *min_n* scores.

    The distances are shown, not alerted on: they say how much moved, not whether
    that is more than chance.
    """
    if reference.n < min_n or current.n < min_n:
        return None
    before, now = window_stats(reference), histogram(current)
    return Drift(
        reference_pass_rate=before.pass_rate,
        reference_average_score=before.average_score,
        reference_n=before.n,
        psi=max(0.0, population_stability_index(histogram(reference), now)),
        ks=kolmogorov_smirnov(histogram(reference), now),
    )


def histogram(tally: Tally) -> Histogram:
    """Spread the sparse histogram of a tally over an array of shape (101,)."""
    counts = np.zeros(BINS)
    for position, count in tally.histogram.items():
        counts[position] = count
    return counts
