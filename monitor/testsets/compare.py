"""
Compare the scores of two variants: of two runs on one test set, or of two parts of the traffic.

A variant is deployed when a test is significant (p < .05, by Holm over all metrics) and the effect
is more than negligible (Cohen's d beyond .1). These are tests for one look. In production, where
people look until they like what they see, `sequential_winner` decides: valid at every look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from pydantic import BaseModel, Field
from scipy.special import ndtri

from monitor.models import ABComparison, ABTestEvaluation, Tally
from monitor.models.evaluation import Direction
from monitor.rolling.drift import moments
from monitor.rolling.tallies import histogram, window_stats
from monitor.stats.distance import Histogram, Moments, mann_whitney, standardized_difference
from monitor.stats.multiplicity import holm
from monitor.stats.two_rates import Blocks, drop_evidence

#: Below this p-value, and beyond this effect in either direction, a variant is chosen.
ALPHA: Final = 0.05
LEAST_EFFECT: Final = 0.1
#: Drops of the pass rate that the sequential test bets on.
_BETS: Final = (0.03, 0.08, 0.2)
_LEAST_N: Final = 2
_Z: Final = float(ndtri(1 - ALPHA / 2))


class Variant(BaseModel, frozen=True, extra="forbid"):
    """What one metric says of one variant; ``n`` counts scores, failed and skipped ones apart."""

    name: str
    n: int = Field(ge=0)
    unscored: int = Field(0, ge=0, description="Failed or skipped evaluations; in no figure.")
    mean: float | None = None
    std_dev: float | None = None
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)


class Comparison(BaseModel, frozen=True, extra="forbid"):
    """
    One metric of variants A and B; differences are B - A.

    ``cohens_d`` is None when neither variant has any spread. ``superiority`` is the probability
    that a score of B is above one of A, ties counted half. Intervals are at 95 %, for one look.
    """

    metric: str
    a: Variant
    b: Variant
    direction: Direction = Direction.HIGHER
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    cohens_d: float | None = None
    cohens_d_interval: tuple[float, float] | None = None
    welch_p: float | None = Field(None, ge=0.0, le=1.0)
    mann_whitney_p: float | None = Field(None, ge=0.0, le=1.0)
    superiority: float | None = Field(None, ge=0.0, le=1.0)
    superiority_interval: tuple[float, float] | None = None
    holm_p: float | None = Field(
        None, ge=0.0, le=1.0, description="Welch's p-value, adjusted for all metrics compared."
    )
    winner: str | None = Field(None, description="The better variant, where one is shown.")
    sequential_winner: str | None = Field(
        None, description="The better one by pass rate, shown at whatever look; production only."
    )
    reason: str = Field("", description="Why nothing was compared, or ''.")

    def ab_test(self) -> ABTestEvaluation:
        """Return the comparison as an A/B test record, with the preference for A."""
        if self.superiority is None or self.superiority_interval is None:
            return ABTestEvaluation.skipped(
                reason=self.reason or "too_few_scores",
                evaluator_name=f"ab_test_{self.metric}",
                target_event_id=f"{self.a.name}:{self.b.name}",
                comparison_data=self._preference(0.5, (0.0, 1.0)),
            )
        low, high = self.superiority_interval
        preferred = 1 - self.superiority
        return ABTestEvaluation(
            evaluator_name=f"ab_test_{self.metric}",
            target_event_id=f"{self.a.name}:{self.b.name}",
            score=preferred,
            explanation=f"{self.a.name} scores higher in {100 * preferred:.0f} % of pairs",
            comparison_data=self._preference(preferred, (1 - high, 1 - low)),
        )

    def _preference(self, preferred: float, bounds: tuple[float, float]) -> ABComparison:
        return ABComparison(
            variant_a_event_id=self.a.name,
            variant_b_event_id=self.b.name,
            preference_score=preferred,
            confidence_interval=bounds,
            sample_size=self.a.n + self.b.n,
            statistical_significance=self.holm_p is not None and self.holm_p < ALPHA,
        )


class Arm(NamedTuple):
    """One variant's part of a comparison: what is shown, size and spread, and the scores' ranks."""

    variant: Variant
    moments: Moments
    counts: Histogram  #: over values that both arms share


def arms_of_scores(
    scores: Mapping[str, Sequence[float]],
    passes: Callable[[float], bool] | None = None,
    *,
    unscored: Mapping[str, int] | None = None,
) -> list[Arm]:
    """Return the arms of any variants, from their scores by name, on any scale."""
    # Ranks need the order of the scores alone: a histogram over the values that occur.
    values = np.unique(np.concatenate([np.asarray(one, dtype=float) for one in scores.values()]))
    arms = []
    for name, some in scores.items():
        x = np.asarray(some, dtype=float)
        found = Moments(
            len(x), float(x.mean()) if len(x) else 0.0, float(x.var(ddof=1)) if len(x) > 1 else 0.0
        )
        counts = np.bincount(np.searchsorted(values, x), minlength=len(values)).astype(float)
        rate = float(np.mean([passes(score) for score in some])) if passes and some else None
        missing = (unscored or {}).get(name, 0)
        arms.append(_arm(name, found, counts, n=len(x), pass_rate=rate, unscored=missing))
    return arms


def arm_of_tally(name: str, tally: Tally, *, design_effect: float = 1.0) -> Arm:
    """Return one arm from the sums of a stream, worth less by *design_effect*, at least 1."""
    window, found = window_stats(tally), moments(tally)
    worth = found._replace(n=found.n / design_effect)
    return _arm(
        name, worth, histogram(tally) / design_effect,
        n=tally.n, pass_rate=window.pass_rate, unscored=tally.failed + tally.skipped,
    )  # fmt: skip


def _arm(
    name: str, found: Moments, counts: Histogram, *, n: int, pass_rate: float | None, unscored: int
) -> Arm:
    spread = math.sqrt(found.variance) if n >= _LEAST_N else None
    mean = found.mean if n else None
    variant = Variant(
        name=name, n=n, unscored=unscored, mean=mean, std_dev=spread, pass_rate=pass_rate
    )
    return Arm(variant, found, counts)


def compare(
    metric: str,
    a: Arm,
    b: Arm,
    *,
    direction: Direction = Direction.HIGHER,
    blocks: Blocks | None = None,
) -> Comparison:
    """
    Compare two arms; `decide` names winners.

    Parameters
    ----------
    metric
        Its name.
    a, b
        With counts over the same values.
    direction
        Which end of the scale is better.
    blocks
        Passes of A (before) and B (after) in their order, where people look again and again.

    References
    ----------
    .. [1] J. Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988), ch. 2.
    .. [2] L. V. Hedges, I. Olkin, "Statistical Methods for Meta-Analysis" (1985), p. 86: the
       variance of d, (m + n) / (m n) + d^2 / (2 (m + n)).
    .. [3] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
       correlated receiver operating characteristic curves", Biometrics 44 (1988), 837-845.

    Examples
    --------
    >>> found = compare("quality", *arms_of_scores({"A": [0.7, 0.8, 0.9], "B": [0.5, 0.6, 0.7]}))
    >>> round(found.cohens_d, 2), round(found.welch_p, 3)
    (-2.0, 0.07)
    """
    made = Comparison(metric=metric, a=a.variant, b=b.variant, direction=direction)
    m, n = a.moments.n, b.moments.n
    if min(m, n) < _LEAST_N:
        fewer = (a if m <= n else b).variant
        reason = f"{fewer.name} has {fewer.n} scores: two a side are the least"
        return made.model_copy(update={"reason": reason})
    effect = standardized_difference(a.moments, b.moments)
    ranks = mann_whitney(a.counts, b.counts)
    pooled = ((m - 1) * a.moments.variance + (n - 1) * b.moments.variance) / (m + n - 2)
    found: dict[str, object] = {
        "difference": effect.difference,
        "difference_interval": tuple(effect.interval),
        "welch_p": effect.p_value,
        "mann_whitney_p": ranks.p_value,
        "superiority": ranks.superiority,
    }
    if pooled > 0:
        d = effect.difference / math.sqrt(pooled)
        half = _Z * math.sqrt((m + n) / (m * n) + d * d / (2 * (m + n)))
        found |= {"cohens_d": d, "cohens_d_interval": (d - half, d + half)}
    # How often a score of the other arm is above each value, ties counted half.
    shares = a.counts / a.counts.sum(), b.counts / b.counts.sum()
    above_a = 1 - np.cumsum(shares[1]) + shares[1] / 2
    below_b = np.cumsum(shares[0]) - shares[0] / 2
    spread = sum(
        float(np.sum(share * (part - np.sum(share * part)) ** 2)) / (size - 1)
        for share, part, size in ((shares[0], above_a, m), (shares[1], below_b, n))
    )
    half = _Z * math.sqrt(max(0.0, spread))
    low, high = max(0.0, ranks.superiority - half), min(1.0, ranks.superiority + half)
    found["superiority_interval"] = low, high
    if blocks is not None:
        found["sequential_winner"] = sequential_winner(blocks, (a.variant.name, b.variant.name))
    return made.model_copy(update=found)


def sequential_winner(blocks: Blocks, names: tuple[str, str]) -> str | None:
    """
    Return the variant whose pass rate is higher, None while that is not shown.

    Over all looks together, two variants with one rate ever get a winner with a probability of at
    most 5 %. Which one passes more is better, whatever the direction of the scores.
    """
    swapped = Blocks(blocks.passed_after, blocks.n_after, blocks.passed_before, blocks.n_before)
    crossed = [
        int(np.argmax(reached)) if reached.any() else None
        for side in (blocks, swapped)
        for reached in (drop_evidence(side, above=0.0, bets=_BETS) >= math.log(2 / ALPHA),)
    ]
    first = [at for at in crossed if at is not None]
    return names[crossed.index(min(first))] if first else None


def decide(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with p-values adjusted for all of them, and with their winners."""
    tested = [one for one in comparisons if one.welch_p is not None]
    adjusted = iter(holm([one.welch_p or 0.0 for one in tested]))
    decided = []
    for one in comparisons:
        if one.welch_p is None:
            decided.append(one)
            continue
        p_value = next(adjusted)
        d = math.inf if one.cohens_d is None else abs(one.cohens_d)
        winner = None
        if p_value < ALPHA and d > LEAST_EFFECT and one.difference:
            b_is_better = (one.difference > 0) == (one.direction is Direction.HIGHER)
            winner = one.b.name if b_is_better else one.a.name
        decided.append(one.model_copy(update={"holm_p": p_value, "winner": winner}))
    return decided


def decision(comparisons: Sequence[Comparison]) -> str:
    """
    Return what to do with comparisons of the same two variants, in a sentence.

    B is deployed where it is better in a metric and worse in none.
    """
    a, b = comparisons[0].a.name, comparisons[0].b.name
    better = [one.metric for one in comparisons if one.winner == b]
    worse = [one.metric for one in comparisons if one.winner == a]
    if worse:
        return f"keep {a}: {b} is worse in {', '.join(worse)}"
    if better:
        return f"deploy {b}: better in {', '.join(better)}, worse in none"
    return f"keep {a}: no difference is shown"
