"""Which pass rates moved from one stretch of time to the next, out of many that were compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.models import Tally
from monitor.models.status import Movement
from monitor.rolling.windows import window_stats
from monitor.stats.differences import newcombe_interval
from monitor.stats.multiplicity import benjamini_hochberg

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
