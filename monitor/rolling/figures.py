"""Tallies to the aggregate figures and to the trend of a metric."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.models import Tally
from monitor.models.insight import CategoryFigures, Figures, HistogramBin, Trend
from monitor.rolling.windows import window_stats
from monitor.stats.intervals import wilson_interval
from monitor.stats.summary import normal_interval, summarise_bins
from monitor.stats.trend import robust_trend


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
