"""
Fit logistic models of good answers over several sources and kinds of exchanges.

Every source has the same weight and an intercept of its own while fitting, so that a
model learns what tells grounded from ungrounded within a source and not which source a
text comes from. Every kind of exchange has weights of its own, drawn towards the common
ones (Daumé III, "Frustratingly Easy Domain Adaptation", 2007).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
Groups = Sequence[str]

#: Share of good answers in the traffic the probabilities are meant for. With it a score of 0.7,
#: the pass line, says that the text speaks as much for the answer as against it.
PRIOR = 0.7
#: Features are cut to this many standard deviations around their mean, or to what all but the
#: rarest records have: a sign that is seldom seen must not be cut off.
WIDEST, RARE = 4.0, 0.001
_OWN_SLOPE, _OWN_INTERCEPT = 30.0, 2.0  # how strongly kinds are drawn to the common calibration


@dataclass(frozen=True)
class Fitted:
    """Weights of one model, common and by kind, for features as they are measured."""

    names: Sequence[str]
    low: Array
    high: Array
    mean: Array
    weights: dict[str, Array]

    def odds(self, values: Array, kinds: Groups) -> Array:
        """Sum up log odds, up to slope and intercept."""
        table = np.array([self.weights.get(kind, self.weights[""]) for kind in kinds])
        found: Array = ((np.clip(values, self.low, self.high) - self.mean) * table).sum(axis=1)
        return found

    def data(self, lines: dict[str, tuple[float, float]]) -> dict[str, Any]:
        """Write the coefficients with a slope and an intercept for every kind of *lines*."""
        kinds = {}
        for kind, (slope, intercept) in lines.items():
            own = self.weights.get(kind, self.weights[""]) * slope
            weights = {n: _rounded(w) for n, w in zip(self.names, own, strict=True)}
            kinds[kind] = {
                "intercept": _rounded(intercept - float(own @ self.mean)),
                "weights": weights,
            }
        limits = {
            name: [_rounded(low), _rounded(high)]
            for name, low, high in zip(self.names, self.low, self.high, strict=True)
        }
        return {"limits": limits, "kinds": kinds}


def fit(
    values: Array,
    good: Array,
    sources: Groups,
    kinds: Groups,
    names: Sequence[str],
    *,
    ridge: float,
    own: float = 0.0,
    expected: Mapping[str, float] | None = None,
) -> Fitted:
    """
    Fit *good* on *values*.

    *own* says how freely the weights of a kind may differ; *expected* names the weights,
    in log odds, that knowledge alone would give: others are drawn towards 0.
    """
    mean, spread = values.mean(0), values.std(0)
    spread[spread == 0] = 1
    rarest = np.quantile(values, [RARE, 1 - RARE], axis=0)
    low = np.minimum(mean - WIDEST * spread, rarest[0])
    high = np.maximum(mean + WIDEST * spread, rarest[1])
    scaled = (np.clip(values, low, high) - mean) / spread
    known = sorted(set(kinds)) if own else []
    inside = [np.array([kind == each for each in kinds], dtype=float) for kind in known]
    wide = np.hstack([scaled, *(scaled * mask[:, None] * own for mask in inside)])
    drawn_to = np.zeros((1 + len(known), len(names)))
    drawn_to[0] = [(expected or {}).get(name, 0.0) for name in names] * spread
    slopes = _slopes(wide, good, sources, ridge, drawn_to.ravel()).reshape(1 + len(known), -1)
    weights = {"": slopes[0] / spread}
    weights |= {k: (slopes[0] + own * s) / spread for k, s in zip(known, slopes[1:], strict=True)}
    return Fitted(names, low, high, mean, weights)


def fit_plain(values: Array, good: Array, sources: Groups, ridge: float) -> Array:
    """Fit weights of *values* as they are, each source with the same weight."""
    return _slopes(values, good, sources, ridge, np.zeros(values.shape[1]))


def _slopes(scaled: Array, good: Array, groups: Groups, ridge: float, drawn_to: Array) -> Array:
    sources, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member)
    weight = len(member) / (len(sources) * sizes[member])
    count = scaled.shape[1]

    def loss(parameters: Array) -> tuple[float, Array]:
        slopes, intercepts = parameters[:count], parameters[count:]
        odds = scaled @ slopes + intercepts[member]
        wrong = 1 / (1 + np.exp(-odds)) - good
        away = slopes - drawn_to
        value = weight @ (np.logaddexp(0, odds) - good * odds) + ridge / 2 * away @ away
        steps = np.bincount(member, weights=weight * wrong) + 0.02 * intercepts
        value += 0.01 * intercepts @ intercepts
        return float(value), np.concatenate([scaled.T @ (weight * wrong) + ridge * away, steps])

    start = np.concatenate([drawn_to, np.zeros(len(sources))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    slopes: Array = found[:count]
    return slopes


def calibrate(
    odds: Array, good: Array, sources: Groups, kinds: Groups
) -> dict[str, tuple[float, float]]:
    """
    Find slope and intercept of log odds for every kind, at the share ``PRIOR`` of good answers.

    Sources and classes weigh evenly, and a kind with few records stays near the common line.
    *odds* should come from models that have not seen the records.
    """
    keys = list(zip(sources, good, strict=True))
    counts = {key: keys.count(key) for key in set(keys)}
    weight = np.array([1 / counts[key] for key in keys]) * len(keys) / len(counts)
    shift = math.log(PRIOR / (1 - PRIOR))

    def line(mask: NDArray[np.bool_], near: tuple[float, float] | None) -> tuple[float, float]:
        def loss(parameters: Array) -> float:
            made = parameters[0] * odds[mask] + parameters[1]
            value = float(weight[mask] @ (np.logaddexp(0, made) - good[mask] * made))
            if near is None:
                return value
            away = (parameters[0] - near[0]) ** 2 * _OWN_SLOPE
            return value + away + (parameters[1] - near[1]) ** 2 * _OWN_INTERCEPT

        slope, intercept = minimize(loss, np.array(near or (1.0, 0.0)), method="BFGS").x
        return float(slope), float(intercept)

    common = line(np.ones(len(odds), dtype=bool), None)
    lines = {"": common}
    for kind in sorted(set(kinds)):
        lines[kind] = line(np.array([each == kind for each in kinds]), common)
    return {kind: (slope, intercept + shift) for kind, (slope, intercept) in lines.items()}


def _rounded(value: float) -> float:
    return round(float(value), 5)
