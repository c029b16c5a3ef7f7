"""Whether the scores moved: a window against its reference, by every usual distance."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from monitor.models import Tally
from monitor.models.insight import DriftComparison, DriftFigure
from monitor.rolling.score_drift import ScoreReference
from monitor.rolling.windows import histogram, window_stats
from monitor.stats.distance import merge_equal_mass
from monitor.stats.divergence import Divergence, g_test, jensen_shannon, psi_test, wasserstein
from monitor.stats.effect import Moments, standardized_difference
from monitor.stats.ks import ks_test
from monitor.stats.ranks import mann_whitney

#: Beyond chance in one look; what is found in many looks has its own, far smaller level.
_ONE_LOOK = 0.01
#: Where small, medium and large begin; the chi-square forms do not decide below so many scores.
_STEPS: dict[str, tuple[float, float, float]] = {
    "ks": (0.10, 0.20, 0.35),
    "mann_whitney": (0.06, 0.14, 0.21),
    "psi": (0.10, 0.25, 0.50),
    "jensen_shannon": (0.10, 0.20, 0.30),
    "wasserstein": (0.10, 0.30, 0.60),
    "cohens_d": (0.20, 0.50, 0.80),
}
_LEAST_FOR_CHI2 = 200
#: Over the root of mn/(m+n): the mean of the KS distance, 1.64 standard errors of the ranks.
_KS_NOISE, _RANK_NOISE = 0.87, 0.473

Size = Literal["none", "small", "medium", "large"]


class ChunkTest(NamedTuple):
    """A test of one closed chunk: its p-value, and whether the effect is worth a finding."""

    test: str
    value: float
    p_value: float
    worth_it: bool


def compare(
    reference: Tally,
    current: Tally,
    *,
    described: str,
    min_n: int,
    design_effect: float = 1.0,
) -> DriftComparison | None:
    """
    Compare a window with its reference; None when either has under *min_n* scores.

    The p-values are each for one look at one window; a table that is drawn every few
    seconds will show a chance finding now and then. Findings are made elsewhere, within a
    budget. Distances and ranks count scores as sampled; mean and d are weighted.
    """
    if reference.n < max(2, min_n) or current.n < max(2, min_n):
        return None
    before, now = histogram(reference), histogram(current)
    worth: dict[str, float] = {"design_effect": design_effect}
    effect = standardized_difference(
        _worth(moments(reference), design_effect), _worth(moments(current), design_effect)
    )
    ks, ranks = ks_test(before, now, exact_below=0.05, **worth), mann_whitney(before, now, **worth)
    psi, shannon = psi_test(before, now, **worth), jensen_shannon(before, now, **worth)
    merged = merge_equal_mass(before, now)
    exact = g_test(merged[0], merged[1], design_effect=design_effect).p_value
    small = min(reference.n, current.n) < _LEAST_FOR_CHI2
    figures = [
        _figure("ks", ks.distance, None, ks.p_value, ks.distance),
        _figure(
            "mann_whitney",
            ranks.superiority,
            None,
            ranks.p_value,
            abs(ranks.superiority - 0.5),
        ),
        _divergence("psi", psi, exact if small else psi.p_value),
        _divergence("jensen_shannon", shannon, exact if small else shannon.p_value),
        _divergence("wasserstein", wasserstein(before, now, **worth), None),
        _figure("cohens_d", effect.d, None, effect.p_value, abs(effect.d)),
    ]
    return DriftComparison(
        reference=described,
        reference_n=reference.n,
        reference_mean=moments(reference).mean,
        n=current.n,
        mean=moments(current).mean,
        figures=figures,
    )


def chunk_tests(
    reference: Tally, chunk: Tally, *, alpha: float, design_effect: float = 1.0
) -> list[ChunkTest]:
    """
    Test the shape of a closed chunk against the reference, each test at level *alpha*.

    An effect is worth a finding when it is one without the noise of samples of these sizes:
    less the mean distance of two samples that agree, and at the lower end of the interval of
    the ranks.
    """
    before, now = histogram(reference), histogram(chunk)
    ks = ks_test(before, now, exact_below=20 * alpha, design_effect=design_effect)
    ranks = mann_whitney(before, now, design_effect=design_effect)
    size = reference.n * chunk.n / (reference.n + chunk.n) / design_effect
    gap = ks.distance - _KS_NOISE / math.sqrt(size)
    lead = abs(ranks.superiority - 0.5) - _RANK_NOISE / math.sqrt(size)
    return [
        ChunkTest("ks", ks.distance, ks.p_value, gap >= _STEPS["ks"][0]),
        ChunkTest(
            "mann_whitney",
            ranks.superiority,
            ranks.p_value,
            lead >= _STEPS["mann_whitney"][0],
        ),
    ]


def moments(tally: Tally) -> Moments:
    """Give size, mean and variance of a tally's scores, weighted by the sample rates."""
    window = window_stats(tally)
    if tally.n == 0 or tally.sum_w <= 0:
        return Moments(0.0, 0.0, 0.0)
    mean = tally.sum_wx / tally.sum_w
    variance = max(0.0, tally.sum_wxx / tally.sum_w - mean * mean)
    size = window.n_effective
    return Moments(size, mean, variance * size / (size - 1) if size > 1 else variance)


def _worth(sample: Moments, design_effect: float) -> Moments:
    """Make a sample as small as it is worth; never so small that it has no spread."""
    return sample._replace(n=max(1.5, sample.n / design_effect))


def score_reference(tally: Tally) -> ScoreReference:
    """Give the reference of the sequential detector, from the scores as they were sampled."""
    if tally.n == 0:
        return ScoreReference(0.0, 0.0, 0)
    mean = tally.sum_x / tally.n
    variance = max(0.0, tally.sum_x2 / tally.n - mean * mean)
    return ScoreReference(mean, math.sqrt(variance), tally.n)


def _divergence(name: str, found: Divergence, p_value: float | None) -> DriftFigure:
    return _figure(name, found.value, found.excess, p_value, found.excess)


def _figure(
    name: str, value: float, excess: float | None, p_value: float | None, effect: float
) -> DriftFigure:
    size = _size(name, effect)
    return DriftFigure(
        test=name,
        value=value if math.isfinite(value) else math.copysign(99.0, value),
        excess=excess,
        p_value=p_value,
        effect=size,
        significant=size != "none" and p_value is not None and p_value < _ONE_LOOK,
    )


def _size(name: str, effect: float) -> Size:
    small, medium, large = _STEPS[name]
    if effect >= large:
        return "large"
    if effect >= medium:
        return "medium"
    return "small" if effect >= small else "none"
