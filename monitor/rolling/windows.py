"""Figures that people read: rate, interval, trend, and what moved between two windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from monitor.models import Drift, Tally
from monitor.models.insight import CategoryFigures, Figures, HistogramBin, Trend
from monitor.models.status import BINS, Movement
from monitor.stats.distance import Histogram, kolmogorov_smirnov, population_stability_index
from monitor.stats.intervals import Interval, newcombe_interval, wilson_interval
from monitor.stats.multiplicity import benjamini_hochberg
from monitor.stats.prediction_powered import effective_size
from monitor.stats.summary import normal_interval, robust_trend, summarise_bins


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


def figures_of(tally: Tally, per_category: Mapping[str, Tally] | None = None) -> Figures | None:
    """
    Give the aggregate figures of a tally; None when nothing was scored.

    The mean and the pass rate are weighted by the inverse sample rates; median,
    percentile and histogram are of the scores as they were sampled, right to 0.005.
    """
    window = window_stats(tally)
    if window.pass_rate is None or window.average_score is None or not tally.histogram:
        return None
    plain = summarise_bins(tally.histogram)
    passed, n = window.pass_rate * window.n_effective, window.n_effective
    return Figures(
        count=tally.n,
        mean=window.average_score,
        median=plain.median,
        std_dev=plain.std_dev,
        min=plain.min,
        max=plain.max,
        percentile_95=plain.percentile_95,
        histogram=[HistogramBin(bin=name, count=count) for name, count in plain.histogram],
        pass_rate=window.pass_rate,
        wilson=wilson_interval(passed, n),
        normal=normal_interval(passed, n),
        per_category={
            name: CategoryFigures(
                count=part.n, mean=found.average_score or 0.0, pass_rate=found.pass_rate
            )
            for name, part in (per_category or {}).items()
            if (found := window_stats(part)).pass_rate is not None
        },
    )


def trend_of(steps: Mapping[int, Tally]) -> Trend | None:
    """Give the trend of a course: tallies by the start of their step, in epoch seconds."""
    days, passed, n = [], [], []
    for start_s, tally in sorted(steps.items()):
        window = window_stats(tally)
        if window.pass_rate is not None:
            days.append(start_s / 86_400)
            passed.append(window.pass_rate * window.n_effective)
            n.append(window.n_effective)
    found = robust_trend(days, passed, n)
    return None if found is None else Trend.model_validate(found._asdict())


#: The share of those called certain that may be chance.
FALSE_SHARE: Final = 0.05


class Pair(NamedTuple):
    """The sums of one stream in two stretches of time."""

    app: str
    metric: str
    before: Tally
    after: Tally
    design_effect: float = 1.0  #: at least 1; by how much correlation inflates the variance


def movements(
    pairs: Sequence[Pair], *, min_n: int, false_share: float = FALSE_SHARE
) -> list[Movement]:
    """
    Compare each pair that has at least *min_n* scores on both sides, the largest move first.

    Those called certain are chosen by Benjamini and Hochberg's rule on pooled two-sample
    tests: of those chosen, at most a share *false_share* is chance on average, for keys that
    are independent or positively dependent. Their intervals are widened to the level
    1 - R q / m (R chosen of m), so that of the intervals told the same share at most misses;
    the others have the level 1 - q. Right for one look at two stretches fixed beforehand, as
    a digest's are; not for a figure that is renewed every few seconds.

    References
    ----------
    .. [1] Y. Benjamini, D. Yekutieli, "False discovery rate-adjusted multiple confidence
       intervals for selected parameters", JASA 100 (2005), 71-81.
    """
    compared = [(pair, *_sides(pair)) for pair in pairs if _enough(pair, min_n)]
    p_values = [_p_value(before, after) for _, before, after in compared]
    chosen = benjamini_hochberg(p_values, false_share)
    share_chosen = sum(chosen) / len(chosen) if chosen else 0.0
    found = []
    for (pair, before, after), p_value, certain in zip(compared, p_values, chosen, strict=True):
        alpha = false_share * share_chosen if certain else false_share
        bounds = newcombe_interval(before, after, alpha=alpha)
        found.append(
            Movement(
                app=pair.app,
                metric=pair.metric,
                before=before[0] / before[1],
                after=after[0] / after[1],
                n_before=before[1],
                n_after=after[1],
                low=bounds.low,
                high=bounds.high,
                p_value=p_value,
                certain=certain,
            )
        )
    return sorted(found, key=lambda item: (-abs(item.difference), item.app, item.metric))


def _enough(pair: Pair, min_n: int) -> bool:
    return pair.before.n >= min_n and pair.after.n >= min_n


def _sides(pair: Pair) -> tuple[tuple[float, float], tuple[float, float]]:
    return _counts(pair.before, pair.design_effect), _counts(pair.after, pair.design_effect)


def _counts(tally: Tally, design_effect: float) -> tuple[float, float]:
    found = window_stats(tally)
    assert found.pass_rate is not None
    n = found.n_effective / design_effect
    return found.pass_rate * n, n


def _p_value(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Test whether two rates are one, two-sided, by the pooled normal approximation."""
    (passed, n), (passed_after, n_after) = before, after
    pooled = (passed + passed_after) / (n + n_after)
    variance = pooled * (1 - pooled) * (1 / n + 1 / n_after)
    if variance <= 0:
        return 1.0
    z = (passed_after / n_after - passed / n) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
