"""Measure scores against labels: ranking, decisions at the pass line, calibration, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from fitting import PRIOR
from labelled import Row, auroc, document
from numpy.typing import NDArray

PASS_SCORE = 0.7
DRAWS = 300
BINS = 10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Decided:
    """What the pass line decides of records; ``f1`` is that of finding the bad ones."""

    balanced_accuracy: float
    f1: float
    passing_good: float
    passing_bad: float


def decided(good: Sequence[int], scores: Sequence[float]) -> Decided:
    """Compare scores with the pass line; NaN where a class is missing."""
    truth, passes = np.asarray(good) == 1, np.asarray(scores) >= PASS_SCORE
    right, wrong = _mean(passes[truth]), _mean(passes[~truth])
    caught = int((~passes & ~truth).sum())
    missed, blamed = int((passes & ~truth).sum()), int((~passes & truth).sum())
    found = 2 * caught + missed + blamed
    return Decided((right + 1 - wrong) / 2, 2 * caught / found if found else np.nan, right, wrong)


def calibration_error(good: Sequence[int], scores: Sequence[float]) -> float:
    """
    Expected calibration error in ten bins, for traffic with the share ``PRIOR`` of good answers.

    Records are weighted to that share; NaN where a class is missing.
    """
    truth, values = np.asarray(good, dtype=float), np.asarray(scores)
    positive = truth.sum()
    if not 0 < positive < len(truth):
        return float("nan")
    weight = np.where(truth == 1, PRIOR / positive, (1 - PRIOR) / (len(truth) - positive))
    bins = np.minimum((values * BINS).astype(int), BINS - 1)
    gaps = [abs((weight * (truth - values))[bins == each].sum()) for each in range(BINS)]
    return float(sum(gaps))


def drawn(rows: Sequence[Row], good: Sequence[int], scores: Sequence[Sequence[float]]) -> Array:
    """AUROC of every score on documents drawn again: one row a draw, one column a score."""
    random = np.random.default_rng(7)
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(document(row), []).append(index)
    members = [np.array(places) for places in groups.values()]
    truth, values = np.asarray(good), [np.asarray(each) for each in scores]
    found = []
    for _ in range(DRAWS):
        chosen = [members[g] for g in random.integers(0, len(members), len(members))]
        places = np.concatenate(chosen)
        found.append([auroc(truth[places].tolist(), each[places].tolist()) for each in values])
    return np.array(found)


def interval(values: Array) -> tuple[float, float]:
    """95 % interval of drawn figures."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")
