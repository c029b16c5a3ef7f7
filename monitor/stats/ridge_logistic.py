"""A logistic curve through few observations, drawn towards what is believed without them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

_MOST_STEPS = 50
_PRECISE = 1e-5
_SHORTEST = 1e-6  # of a step, when nothing but rounding is left to gain
_GAIN = 1e-4  # of what the slope promises (Armijo)

Array = NDArray[np.float64]


def ridge_logistic(design: Array, targets: Array, centre: Array, precision: Array) -> Array:
    """
    Fit log odds that are linear in *design*, by penalised likelihood.

    The mode of the posterior under independent normal beliefs about the weights. It exists
    and is unique for every *design*, also without a row (then it is *centre*), because the
    penalty is strictly convex. Newton's steps are halved until they gain, so they arrive from
    any start.

    *design* and *targets*: shapes (n, d) and (n,); targets in [0, 1]: outcomes, or shares
    (quasi-likelihood). *centre* and *precision*: shape (d,): the weights believed beforehand,
    and how firmly, as 1 / variance, above 0.

    Source: S. le Cessie, J. C. van Houwelingen, "Ridge estimators in logistic regression",
    Applied Statistics 41 (1992), 191-201.

    >>> belief = np.array([0.0]), np.array([1.0])
    >>> ridge_logistic(np.empty((0, 1)), np.empty(0), *belief).tolist()
    [0.0]
    >>> ridge_logistic(np.ones((8, 1)), np.repeat([1.0, 0.0], [6, 2]), *belief).round(3).tolist()
    [0.684]
    """

    def cost(weights: Array) -> float:
        odds, away = design @ weights, weights - centre
        return float((np.logaddexp(0, odds) - targets * odds).sum() + away @ (precision * away) / 2)

    weights = centre.astype(float)
    before = cost(weights)
    for _ in range(_MOST_STEPS):
        chance = expit(design @ weights)
        gradient = design.T @ (chance - targets) + precision * (weights - centre)
        curvature = (design.T * (chance * (1 - chance))) @ design + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        size, promised = 1.0, _GAIN * float(gradient @ step)
        while (now := cost(weights - size * step)) > before - size * promised and size > _SHORTEST:
            size /= 2
        weights, before = weights - size * step, now
        if float(np.abs(step).max(initial=0.0)) < _PRECISE:
            break
    return weights
