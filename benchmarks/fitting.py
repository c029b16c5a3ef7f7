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
_OWN_SLOPE, _OWN_INTERCEPT = 30.0, 2.0  # how strongly forms are drawn to the common calibration


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
    drawn_to = np.array([(expected or {}).get(name, 0.0) for name in names]) * spread
    common, apart = _slopes(scaled, good, sources, kinds, ridge=ridge, own=own, drawn_to=drawn_to)
    weights = {"": common / spread}
    weights |= {kind: (common + own * slopes) / spread for kind, slopes in apart.items()}
    return Fitted(names, low, high, mean, weights)


def fit_plain(values: Array, good: Array, sources: Groups, ridge: float) -> Array:
    """Fit weights of *values* as they are, each source with the same weight."""
    kinds, drawn_to = [""] * len(values), np.zeros(values.shape[1])
    return _slopes(values, good, sources, kinds, ridge=ridge, own=0.0, drawn_to=drawn_to)[0]


def _slopes(
    scaled: Array,
    good: Array,
    sources: Groups,
    kinds: Groups,
    *,
    ridge: float,
    own: float,
    drawn_to: Array,
) -> tuple[Array, dict[str, Array]]:
    """Find the common slopes, and by how much (times *own*) those of every kind differ."""
    known, member = np.unique(sources, return_inverse=True)
    sizes = np.bincount(member)
    weight = len(member) / (len(known) * sizes[member])
    names, kind = np.unique(kinds, return_inverse=True)
    places = [np.flatnonzero(kind == each) for each in range(len(names))]
    parts = [scaled[place] for place in places]
    shape = (1 + len(names), scaled.shape[1])
    count = shape[0] * shape[1]

    def loss(parameters: Array) -> tuple[float, Array]:
        slopes, intercepts = parameters[:count].reshape(shape), parameters[count:]
        odds = intercepts[member]
        for place, part, differing in zip(places, parts, slopes[1:], strict=True):
            odds[place] += part @ (slopes[0] + own * differing)
        wrong = weight * (1 / (1 + np.exp(-odds)) - good)
        away = slopes.copy()
        away[0] -= drawn_to
        value = weight @ (np.logaddexp(0, odds) - good * odds) + ridge / 2 * (away * away).sum()
        value += 0.01 * intercepts @ intercepts
        steps = np.array([part.T @ wrong[at] for at, part in zip(places, parts, strict=True)])
        downhill = ridge * away + np.vstack([steps.sum(axis=0), own * steps])
        by_source = np.bincount(member, weights=wrong) + 0.02 * intercepts
        return float(value), np.concatenate([downhill.ravel(), by_source])

    start = np.zeros(count + len(known))
    start[: shape[1]] = drawn_to
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    common, *apart = found[:count].reshape(shape)
    return common, dict(zip(map(str, names), apart, strict=True))


def calibrate(
    odds: Array, good: Array, sources: Groups, forms: Groups
) -> dict[str, tuple[float, float]]:
    """
    Find slope and intercept of log odds for every form, at the share ``PRIOR`` of good answers.

    Sources and classes weigh evenly, and a form with few records stays near the common line, "".
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
    for form in sorted(set(forms)):
        lines[form] = line(np.array([each == form for each in forms]), common)
    return {form: (slope, intercept + shift) for form, (slope, intercept) in lines.items()}


def _rounded(value: float) -> float:
    return round(float(value), 5)
