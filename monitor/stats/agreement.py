"""How evaluators and people agree: confusion, Cohen's and Fleiss' kappa, Krippendorff's alpha."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        proportion, as nothing is known of it.

        >>> Confusion(20, 5, 10, 15).at_pass_rate(0.9).agreement
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
