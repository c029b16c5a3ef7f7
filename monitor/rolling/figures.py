"""Figures that people read: distribution, trend, and what moved between two stretches of time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.models import Tally
from monitor.models.insight import CategoryFigures, Figures, HistogramBin, Trend
from monitor.models.status import Movement
from monitor.rolling.tallies import window_stats
from monitor.stats.intervals import newcombe_interval, wilson_interval
from monitor.stats.multiplicity import benjamini_hochberg
from monitor.stats.summary import normal_interval, robust_trend, summarise_bins


def figures_of(tally: Tally, per_category: Mapping[str, Tally] | None = None) -> Figures | None:
    """
    Return the aggregate figures of a tally; None when nothing was scored.

    The mean and the pass rate are weighted by the inverse sample rates; median,
    percentile and histogram are of the scores as they were sampled, right to 0.005.
    """
    window = window_stats(tally)
    if window.pass_rate is None or window.average_score is None or not tally.histogram:
        return None
    plain = summarise_bins(tally.histogram)
    passed, n = window.counts()
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
    """Return the trend of a course: tallies by the start of their step, in epoch seconds."""
    points: list[tuple[float, float, float]] = []
    for start_s, tally in sorted(steps.items()):
        window = window_stats(tally)
        if window.pass_rate is not None:
            points.append((start_s / 86_400, *window.counts()))
    found = robust_trend(*zip(*points, strict=True)) if points else None
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
    compared = []
    for pair in pairs:
        if min(pair.before.n, pair.after.n) >= min_n:
            before, after = (
                window_stats(side).counts(pair.design_effect) for side in (pair.before, pair.after)
            )
            compared.append((pair, before, after))
    p_values = [_p_value(before, after) for _, before, after in compared]
    chosen = benjamini_hochberg(p_values, false_share)
    share_chosen = sum(chosen) / len(chosen) if chosen else 0.0
    found = []
    for (pair, before, after), p_value, certain in zip(compared, p_values, chosen, strict=True):
        alpha = false_share * share_chosen if certain else false_share
        low, high = newcombe_interval(before, after, alpha=alpha)
        move = Movement(
            app=pair.app, metric=pair.metric, before=before[0] / before[1],
            after=after[0] / after[1], n_before=before[1], n_after=after[1],
            low=low, high=high, p_value=p_value, certain=certain,
        )  # fmt: skip
        found.append(move)
    return sorted(found, key=lambda item: (-abs(item.difference), item.app, item.metric))


def _p_value(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Test whether two rates are one, two-sided, by the pooled normal approximation."""
    (passed, n), (passed_after, n_after) = before, after
    pooled = (passed + passed_after) / (n + n_after)
    variance = pooled * (1 - pooled) * (1 / n + 1 / n_after)
    if variance <= 0:
        return 1.0
    z = (passed_after / n_after - passed / n) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
