"""
How evaluators and people agree, and what that makes of a pass rate.

`Confusion`, Cohen's and Fleiss' kappa and Krippendorff's alpha measure agreement. `learn` finds the
level of an app, which is its share of good answers, from an evaluator and a few labels.

An evaluator is a test with two error rates: it passes a share ``hit`` of the good answers and a
share ``miss`` of the bad ones, so that ::

    pass rate = miss + level (hit - miss)

The rates belong to the evaluator and to the writer of the answers, and carry over from week to
week; neither the level nor "how likely is good at this score", which contains the level, does.
Labels, drawn at random among passes and among fails, teach the two rates (`learn`), or among bands
of scores, where several lines tell more than one (`learn_lines`). The level of any window of the
same writer, and thresholds in the evaluator's own units, are read off them. The same holds for a
local scorer, for a judge whose bias against people is to be corrected, and for people against each
other.

References
----------
.. [1] W. J. Rogan, B. Gladen, "Estimating prevalence from the results of a screening test",
   American Journal of Epidemiology 107 (1978), 71-76.
.. [2] L. Joseph, T. W. Gyorkos, L. Coupal, "Bayesian estimation of disease prevalence and the
   parameters of diagnostic tests in the absence of a gold standard", American Journal of
   Epidemiology 141 (1995), 263-272.
.. [3] J. Neyman, "On the two different aspects of the representative method", Journal of the
   Royal Statistical Society 97 (1934), 558-625.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from monitor.stats.intervals import Interval


class Confusion(NamedTuple):
    """
    How often an evaluator and people pass the same samples: counts, or shares once reweighted.

    People's verdict is taken for the truth, so the evaluator is a test with two error rates. All
    figures are None where there is nothing to divide by.
    """

    passed_good: float = 0
    passed_bad: float = 0
    failed_good: float = 0
    failed_bad: float = 0

    @property
    def n(self) -> float:
        """Return the number of samples."""
        return sum(self)

    @property
    def agreement(self) -> float | None:
        """Return the share of samples with the same verdict, in [0, 1]."""
        return (self.passed_good + self.failed_bad) / self.n if self.n else None

    @property
    def kappa(self) -> float | None:
        """
        Return Cohen's kappa: agreement beyond chance, in [-1, 1].

        None where both sides give one and the same verdict throughout: chance explains it all.

        Source: J. Cohen, "A coefficient of agreement for nominal scales", Educational and
        Psychological Measurement 20 (1960), 37-46.

        >>> round(Confusion(passed_good=20, passed_bad=5, failed_good=10, failed_bad=15).kappa, 3)
        0.4
        """
        if self.agreement is None:
            return None
        passed = (self.passed_good + self.passed_bad) / self.n
        good = (self.passed_good + self.failed_good) / self.n
        return _beyond_chance(self.agreement, passed * good + (1 - passed) * (1 - good))

    @property
    def true_pass_rate(self) -> float | None:
        """Return the share of good samples that pass, in [0, 1]."""
        good = self.passed_good + self.failed_good
        return self.passed_good / good if good else None

    @property
    def false_pass_rate(self) -> float | None:
        """Return the share of bad samples that pass, in [0, 1]."""
        bad = self.passed_bad + self.failed_bad
        return self.passed_bad / bad if bad else None

    def at_pass_rate(self, pass_rate: float) -> Confusion:
        """
        Return the shares that all samples would show, of which *pass_rate* pass.

        Valid for samples drawn at random among those that pass, and among those that fail, in
        any proportion (stratified sampling). A half without samples keeps the counts' own
        proportion, as nothing is known about it.

        >>> round(Confusion(20, 5, 10, 15).at_pass_rate(0.9).agreement, 3)
        0.78
        """
        passed, failed = self.passed_good + self.passed_bad, self.failed_good + self.failed_bad
        if not passed or not failed:
            return Confusion(*(count / self.n for count in self)) if self.n else self
        scales = (pass_rate / passed,) * 2 + ((1 - pass_rate) / failed,) * 2
        return Confusion(*(count * scale for count, scale in zip(self, scales, strict=True)))


def _beyond_chance(agreed: float, chance: float) -> float | None:
    return (agreed - chance) / (1 - chance) if chance < 1 else None


def confusion(
    pairs: Iterable[tuple[bool, bool]], weights: Iterable[float] | None = None
) -> Confusion:
    """
    Count pairs of (passed by the evaluator, good by people).

    Samples of unequal *weights*, above 0, count what equal ones would that tell as much (Kish): so
    do those that pass, and those that fail, each among themselves.

    >>> confusion([(True, True), (True, False), (False, False)])
    Confusion(passed_good=1, passed_bad=1, failed_good=0, failed_bad=1)
    """
    if weights is None:
        counts = Counter((bool(passed), bool(good)) for passed, good in pairs)
        return Confusion(*(counts[p, g] for p in (True, False) for g in (True, False)))
    table = np.array([(*pair, w) for pair, w in zip(pairs, weights, strict=True)]).reshape(-1, 3)
    cells: list[float] = []
    for passed in (True, False):
        good, weight = table[table[:, 0] == passed, 1:].T
        scale = weight.sum() / (weight @ weight) if weight.size else 0.0
        cells += [float(good @ weight * scale), float((1 - good) @ weight * scale)]
    return Confusion(*cells)


def majority(passes: int, fails: int) -> bool | None:
    """Return whether most annotators pass a sample; None for a tie, which settles nothing."""
    return None if passes == fails else passes > fails


def pairwise_agreement(votes: Sequence[tuple[int, int]]) -> float | None:
    """
    Return the share of pairs of annotators that agree, in [0, 1]; None without any pair.

    *votes* holds passes and fails of each sample. No evaluator can be shown to agree with people
    more often than they agree with each other.

    >>> pairwise_agreement([(2, 0), (1, 1), (2, 1), (1, 0)])
    0.4
    """
    pairs = sum((p + f) * (p + f - 1) / 2 for p, f in votes)
    agreeing = sum((p * (p - 1) + f * (f - 1)) / 2 for p, f in votes)
    return agreeing / pairs if pairs else None


def fleiss_kappa(counts: NDArray[np.float64]) -> float | None:
    """
    Return Fleiss' kappa: agreement of several annotators beyond chance, at most 1.

    *counts* says how many annotators chose each category, shape (samples, categories). None where
    one category was chosen throughout. Raise ValueError if samples have different numbers of
    annotators, or fewer than two: see `krippendorff_alpha`.

    Source: J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological
    Bulletin 76 (1971), 378-382.

    >>> fleiss_kappa(np.array([[3.0, 0.0], [0.0, 3.0]]))
    1.0
    """
    n = counts.sum(axis=1)
    if not n.size or n[0] < 2 or (n != n[0]).any():  # noqa: PLR2004  # a pair
        raise ValueError("need the same number of annotators, at least two, for every sample")
    agreed = float(((counts**2).sum(axis=1) - n).mean() / (n[0] * (n[0] - 1)))
    return _beyond_chance(agreed, float(((counts.sum(axis=0) / counts.sum()) ** 2).sum()))


def krippendorff_alpha(
    counts: NDArray[np.float64], values: Sequence[float] | None = None
) -> float | None:
    """
    Return Krippendorff's alpha: agreement of any annotators, not all of whom judged every sample.

    At most 1, and 0 where annotators agree as by chance; above 0.8 is reliable, below 0.667 is
    not, by convention. None where no sample has two annotators or all say the same throughout.

    *counts*: how many annotators gave each value, shape (samples, values); samples with fewer
    than two annotators say nothing and are left out. *values*: the values themselves where they
    lie on an interval scale; else they are categories.

    Source: K. Krippendorff, "Content Analysis: An Introduction to Its Methodology" (2004), ch.
    11.

    >>> round(krippendorff_alpha(np.array([[2.0, 0.0], [2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])), 3)
    0.533
    """
    paired = counts[counts.sum(axis=1) >= 2]  # noqa: PLR2004  # a pair
    distance = 1.0 - np.eye(paired.shape[1])
    if values is not None:
        distance = np.subtract.outer(np.asarray(values, float), np.asarray(values, float)) ** 2
    totals = paired.sum(axis=0)
    expected = float(totals @ distance @ totals)
    if expected <= 0:
        return None
    within = np.einsum("ui,ij,uj->u", paired, distance, paired) / (paired.sum(axis=1) - 1)
    return float(1 - (totals.sum() - 1) * within.sum() / expected)


Floats = NDArray[np.float64]

#: What part of the 5 % doubt of an interval is spent at each number of labels where it is renewed.
#: In between it holds as it was, so it covers at every look in at least 95 of 100 apps. 30 labels
#: are what a new release needs.
SPENT: Final[Mapping[int, float]] = {
    30: 0.15, 50: 0.45, 100: 0.10, 200: 0.10, 500: 0.10, 1_000: 0.05, 2_000: 0.05,
}  # fmt: skip
_DOUBT: Final = 0.05
#: What part of the doubt lies above an interval: a status is read from its upper bound.
_DOUBT_ABOVE: Final = 2 / 3
#: Thresholds and bounds doubt hit and miss by so much: no alarm is based on what is not known.
THRESHOLD_DOUBT: Final = 0.10
_DRAWS: Final = 4_000
_SEED: Final = 20_261_122
_LEAST_APART: Final = 0.05
_TINY: Final = 1e-9
_TELLS_APART, _TELLS_DOUBT, _UNFIT = 0.25, 0.05, 0.5
#: So much of an app's own scores lies below each line by which labels teach a local scorer.
_LEVEL_SHARES: Final = (0.25, 0.50)
#: Every band of scores has so many labels before it matters how good its answers are.
_LEAST_IN_BAND: Final = 5
# Parameters of Beta distributions before any label; weak, set by hand, not fitted. Of a judge: that
# an answer is good if it passed, if it failed; of a local scorer: in the band of the lowest scores,
# in one between lines, in that of the highest; a label and a half each.
_GOOD_IF_PASSED, _GOOD_IF_FAILED, _HIT, _MISS = (1.9, 0.1), (0.6, 1.0), (6.0, 1.2), (1.5, 4.0)
_LOWEST, _BETWEEN, _HIGHEST = (0.75, 0.75), (1.05, 0.45), (1.35, 0.15)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """
    Draws from what is known of an evaluator, each array of shape (draws,), in [0, 1].

    ``hit`` and ``miss`` are the shares of good and of bad answers that pass; ``labelled`` is the
    level of the labelled period; ``mass`` is what an interval covers at this number of labels.
    """

    hit: Floats
    miss: Floats
    labelled: Floats
    mass: float = 0.95

    def labelled_level(self) -> tuple[float, Interval]:
        """Return mean and interval of the level of the labelled period itself."""
        return _summary(self.labelled, self.mass)

    def level(self, passed: float, scored: float) -> tuple[float, Interval]:
        """
        Return mean and interval, in [0, 1], of the level of another window of the same writer.

        *passed* of *scored* are effective counts of its verdicts.
        """
        rng = np.random.default_rng(_SEED)
        rate = rng.beta(1.0 + passed, 1.0 + max(scored - passed, 0.0), self.hit.size)
        return _summary(self._of_rate(rate), self.mass)

    def threshold(self, level: float) -> float:
        """
        Return the pass rate that stands for *level*: rather too low than too high.

        Of the draws of ``miss + level (hit - miss)`` a tenth lies below it.
        """
        found = self.miss + level * self._apart()
        return float(np.partition(found, self._tenth())[self._tenth()])

    def highest_level(self, rate: float) -> float:
        """
        Return the level that *rate*, an upper bound of a pass rate, leaves possible.

        The inverse of `threshold`: ``highest_level(rate) < level`` is true exactly where ``rate <
        threshold(level)`` is, so a status that is read from the one agrees with the other.
        """
        found = (rate - self.miss) / self._apart()
        place = found.size - 1 - self._tenth()
        return float(np.clip(np.partition(found, place)[place], 0.0, 1.0))

    def lowest_level(self, rate: float) -> float:
        """Return the level that *rate*, a lower bound of a pass rate, leaves possible."""
        found = self._of_rate(np.full(self.hit.size, rate))
        return float(np.quantile(found, THRESHOLD_DOUBT))

    def tells(self) -> bool | None:
        """
        Return whether the evaluator tells good answers from bad ones in this app.

        True where ``hit - miss`` is above 0.25 in 19 of 20 draws, False where it is so in fewer
        than half of them; None while that is not known.
        """
        certain = float(np.mean(self.hit - self.miss > _TELLS_APART))
        return True if certain > 1.0 - _TELLS_DOUBT else None if certain >= _UNFIT else False

    def _tenth(self) -> int:
        return int(THRESHOLD_DOUBT * (self.hit.size - 1))

    def _apart(self) -> Floats:
        return np.maximum(self.hit - self.miss, _LEAST_APART)

    def _of_rate(self, rate: Floats) -> Floats:
        return np.clip((rate - self.miss) / self._apart(), 0.0, 1.0)


def learn(
    labels: Confusion, *, passed: float, scored: float, n_labels: int | None = None
) -> ErrorRates:
    """
    Learn a judge's two error rates from labels.

    Valid if labels were drawn at random among passes and among fails, in any proportion, and if
    people's verdicts are the truth. They hold for the writer of the answers, which is the release,
    and for the version of the evaluator. Not valid for labels of samples that were chosen by their
    score, or because a user complained.

    *labels*: the evaluator's verdicts beside people's. *passed* and *scored*: how many passed
    of how many verdicts of the labelled period, as effective counts. *n_labels*: their number where
    they are weighted.

    >>> rates = learn(Confusion(24, 1, 5, 20), passed=380, scored=400)
    >>> 0.88 < rates.labelled_level()[0] < 0.97
    True
    """
    rng = np.random.default_rng(_SEED)
    rate = rng.beta(1.0 + passed, 1.0 + max(scored - passed, 0.0), _DRAWS)
    (a, b), (c, d) = _GOOD_IF_PASSED, _GOOD_IF_FAILED
    if_passed = rng.beta(a + labels.passed_good, b + labels.passed_bad, _DRAWS)
    if_failed = rng.beta(c + labels.failed_good, d + labels.failed_bad, _DRAWS)
    level = rate * if_passed + (1.0 - rate) * if_failed
    hit = rate * if_passed / np.maximum(level, _TINY)
    miss = rate * (1.0 - if_passed) / np.maximum(1.0 - level, _TINY)
    log_weight = np.zeros(_DRAWS)
    for drawn, (more, less) in ((hit, _HIT), (miss, _MISS)):
        inside = np.clip(drawn, 1e-4, 1.0 - 1e-4)  # kept away from the ends of the density
        log_weight += xlogy(more - 1.0, inside) + xlog1py(less - 1.0, -inside)
    weight = np.exp(log_weight - log_weight.max())
    kept = rng.choice(_DRAWS, _DRAWS, p=weight / weight.sum())
    return ErrorRates(hit[kept], miss[kept], level[kept], _mass(n_labels or labels.n))


class ScoreBand(NamedTuple):
    """Scores between two lines: how many there were, and how many good and bad ones by labels."""

    scored: float = 0
    good: float = 0
    bad: float = 0


def learn_lines(bands: Sequence[ScoreBand]) -> list[ErrorRates]:
    """
    Learn a local scorer's error rates at each line between two bands of scores, the lowest first.

    Bands tell more than passes and fails do: the level is a sum over strata. Valid as `learn` is,
    where labels were drawn at random within each band, in any proportion, also in one that depends
    on earlier labels (`bands_to_label`).

    >>> bands = [ScoreBand(100, 9, 8), ScoreBand(100, 15, 2), ScoreBand(200, 16, 0)]
    >>> low, high = learn_lines(bands)
    >>> low.labelled_level() == high.labelled_level()
    True
    """
    rng = np.random.default_rng(_SEED)
    share = rng.dirichlet([band.scored + 1.0 for band in bands], _DRAWS)
    beliefs = [_LOWEST, *[_BETWEEN] * (len(bands) - 2), _HIGHEST]
    is_good = np.stack(
        [
            rng.beta(a + band.good, b + band.bad, _DRAWS)
            for band, (a, b) in zip(bands, beliefs, strict=True)
        ],
        axis=1,
    )
    # The shares of all answers that are good, or bad, and score in this band or in one above it.
    good, bad = (
        np.cumsum((share * of)[:, ::-1], axis=1)[:, ::-1] for of in (is_good, 1.0 - is_good)
    )
    hit, miss = (of / np.maximum(of[:, :1], _TINY) for of in (good, bad))
    mass = _mass(sum(band.good + band.bad for band in bands))
    return [ErrorRates(hit[:, i], miss[:, i], good[:, 0], mass) for i in range(1, len(bands))]


def bands_to_label(bands: Sequence[ScoreBand]) -> list[int]:
    """
    Return the bands in the order in which the next label tells most of the level.

    First those with fewer than five labels, then the one where the share of the scores times the
    spread of the verdicts is largest for its number of labels: Neyman's allocation [3]_.

    >>> bands_to_label([ScoreBand(100, 9, 8), ScoreBand(100, 15, 2), ScoreBand(200, 16, 0)])
    [0, 2, 1]
    """

    def worth(band: ScoreBand) -> tuple[float, float]:
        n = band.good + band.bad
        rate = (band.good + 1.0) / (n + 2.0)
        spread = band.scored * (rate * (1.0 - rate)) ** 0.5
        return (-n, 0.0) if n < _LEAST_IN_BAND else (-_LEAST_IN_BAND, spread / n)

    return sorted(range(len(bands)), key=lambda i: worth(bands[i]), reverse=True)


def _mass(n_labels: float) -> float:
    return 1.0 - _DOUBT * SPENT.get(renewed_at(n_labels), SPENT[30])


def renewed_at(n_labels: float) -> int:
    """
    Return how many of the first labels count: estimates are renewed at set numbers of them only.

    >>> [renewed_at(n) for n in (29, 49, 50, 130)]
    [0, 30, 50, 100]
    """
    return max((count for count in SPENT if count <= n_labels), default=0)


def level_lines(bins: Mapping[int, int]) -> tuple[int, ...]:
    """
    Return the hundredths that part local scores into bands, where labels teach: one line or two.

    A quarter of an app's own first scores, *bins* by hundredths, lies below the first, half below
    the second. They tell more of the level than the pass line does, below which hardly any lie.

    >>> level_lines({40: 20, 60: 20, 90: 60})
    (60, 90)
    """
    below = np.cumsum([bins[position] for position in sorted(bins)])
    at = np.searchsorted(below, np.multiply(_LEVEL_SHARES, below[-1]), side="right")
    return tuple(sorted({sorted(bins)[i] for i in at}))


def count_bands(
    lines: Sequence[int], scored: Mapping[int, float], labels: Iterable[tuple[int, bool]] = ()
) -> list[ScoreBand]:
    """Count *scored* verdicts by hundredths, and *labels* as (hundredth, good), in bands."""
    table = np.zeros((len(lines) + 1, 3))
    for position, n in scored.items():
        table[bisect(lines, position), 0] += n
    for position, good in labels:
        table[bisect(lines, position), 1 if good else 2] += 1
    return [ScoreBand(*row) for row in table.tolist()]


def _summary(level: Floats, mass: float) -> tuple[float, Interval]:
    above = (1.0 - mass) * _DOUBT_ABOVE
    low, high = np.quantile(level, [1.0 - mass - above, 1.0 - above])
    return float(level.mean()), Interval(float(low), float(high))
