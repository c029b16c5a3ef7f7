"""What the judge is expected to say of a sample: a curve fitted to what it said of others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models.passing import Direction, PassRule
from monitor.stats.ridge_logistic import ridge_logistic

_EDGE = 0.02  # never quite certain: what is expected stays this far from 0 and 1
_WIDEST = 5.0  # log odds of a local score beyond which more says nothing
_FIRM = (0.5, 4.0)  # how firmly level and slope are believed in before a verdict, as 1 / variance
_FIRM_PLACE = 2.0  # and that places are alike
_FEWEST_HERE = 5  # verdicts; fewer say nothing of a place
_MOST_PLACES = 32


class Verdict(NamedTuple):
    """One verdict of the judge, what the local score was and in which places the sample lay."""

    local_score: float
    passed: bool
    score: float
    places: tuple[int, ...] = ()


class Expected(NamedTuple):
    """The judge's expected pass, as a probability, and its expected score, both in [0, 1]."""

    passes: float
    score: float

    @property
    def spread(self) -> float:
        """How undecided a pass is: the standard deviation of one that happens so often."""
        return math.sqrt(self.passes * (1 - self.passes))


class Weights(NamedTuple):
    """Log odds: a level, a slope on the local score's own log odds, and steps by place."""

    level: float
    slope: float
    steps: Mapping[int, float]

    def at(self, log_odds: float, places: Sequence[int]) -> float:
        """Give the probability, kept away from 0 and 1."""
        found = self.level + self.slope * log_odds
        found += sum(self.steps.get(place, 0.0) for place in places)
        return min(1 - _EDGE, max(_EDGE, 1 / (1 + math.exp(-found))))


@dataclass(frozen=True, slots=True)
class Curve:
    """
    The judge's expected pass and score, logistic in the local score.

    Estimates that rest on it stay unbiased whatever it says, as long as it was learnt from
    other samples.
    """

    passes: Weights
    score: Weights = field(default_factory=lambda: Weights(0.0, 1.0, {}))

    def expect(self, local_score: float, places: Sequence[int] = ()) -> Expected:
        """Say what the judge is expected to say at *local_score* in *places*."""
        x = _log_odds(local_score)
        return Expected(self.passes.at(x, places), self.score.at(x, places))


def fit_curve(verdicts: Sequence[Verdict], rule: PassRule) -> Curve:
    """
    Fit what the judge says to the local score and to where a sample belongs.

    Without verdicts the score is expected to be the local score, and a pass to be even
    at the pass line. Each verdict draws level and slope away from that, and each place's
    step away from 0, by penalised likelihood: one curve for all where there are few.

    References
    ----------
    .. [1] J. Platt, "Probabilistic outputs for support vector machines", in "Advances in
       Large Margin Classifiers", MIT Press (1999): a logistic curve through scores.
    """
    places = _telling(verdicts)
    design = _design(verdicts, places)
    sign = -1.0 if rule.direction is Direction.LOWER else 1.0
    passed = np.array([verdict.passed for verdict in verdicts], float)
    score = np.array([verdict.score for verdict in verdicts], float)
    return Curve(
        passes=_fitted(design, passed, (-sign * _log_odds(rule.line), sign), places),
        score=_fitted(design, score, (0.0, 1.0), places),
    )


def _fitted(
    design: NDArray[np.float64],
    targets: NDArray[np.float64],
    start: tuple[float, float],
    places: Sequence[int],
) -> Weights:
    centre = np.array([*start, *(0.0 for _ in places)])
    precision = np.array([*_FIRM, *(_FIRM_PLACE for _ in places)])
    level, slope, *steps = ridge_logistic(design, targets, centre, precision).tolist()
    return Weights(level, slope, dict(zip(places, steps, strict=True)))


def _telling(verdicts: Sequence[Verdict]) -> list[int]:
    """Choose the places that many verdicts, but not all, come from."""
    seen = Counter(place for verdict in verdicts for place in verdict.places)
    known = [p for p, count in seen.items() if _FEWEST_HERE <= count < len(verdicts)]
    return sorted(known, key=lambda place: (-seen[place], place))[:_MOST_PLACES]


def _design(verdicts: Sequence[Verdict], places: Sequence[int]) -> NDArray[np.float64]:
    columns = {place: column for column, place in enumerate(places, start=2)}
    made = np.zeros((len(verdicts), 2 + len(places)))
    made[:, 0] = 1.0
    made[:, 1] = [_log_odds(verdict.local_score) for verdict in verdicts]
    at = [(row, columns[p]) for row, v in enumerate(verdicts) for p in v.places if p in columns]
    if at:
        made[tuple(zip(*at, strict=True))] = 1.0
    return made


def _log_odds(score: float) -> float:
    if not 0 < score < 1:
        return _WIDEST if score >= 1 else -_WIDEST
    return min(_WIDEST, max(-_WIDEST, math.log(score / (1 - score))))
