"""Weigh figures: logistic models whose coefficients are data, and the pooling of claims."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.local import alignment, records

COEFFICIENTS = "coefficients.v4.json"
CLAIM_FEATURES = (*alignment.FEATURES, *records.FEATURES)
#: How figures of claims are pooled to figures of a response.
_POOLS = {
    "mean": tuple(name for name in alignment.FEATURES if name != "log_length"),
    "least": ("covered_two", "partners"),
    "most": (
        *("novel_run", "number_conflict", "name_conflict"),
        *("numbers_not_before_unit", "names_apart"),
    ),
    "sum": ("numbers_absent", "names_absent", *records.FEATURES),
}
RESPONSE_FEATURES = (
    *("worst", "second_worst", "mean", "any_unsupported", "log_claims"),
    *(f"{pool}_{name}" for pool, names in _POOLS.items() for name in names),
)
_AT = {pool: [CLAIM_FEATURES.index(name) for name in names] for pool, names in _POOLS.items()}
LENGTH = CLAIM_FEATURES.index("log_length")
_STEEPEST = 30.0  # beyond it exp() only makes noise

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Logistic:
    """
    A weighted sum of named features, as log odds.

    Every feature is cut to the limits it was fitted within, so that no strange text
    can reach beyond what was ever measured.
    """

    intercept: float
    weights: Array
    lowest: Array
    highest: Array

    @classmethod
    def by_kind(cls, data: Mapping[str, Any], features: Sequence[str]) -> dict[str, Self]:
        """
        Read the coefficients of exactly *features*, one model for every kind of exchange.

        Raises
        ------
        ValueError
            If the data was made for other features.
        """
        limits = data["limits"]
        if any(
            set(names) != set(features)
            for names in (limits, *[model["weights"] for model in data["kinds"].values()])
        ):
            raise ValueError("the coefficients do not fit the features: run benchmarks/train_local")
        lowest, highest = np.array([limits[name] for name in features], dtype=float).T
        return {
            kind: cls(
                model["intercept"],
                np.array([model["weights"][name] for name in features], dtype=float),
                lowest,
                highest,
            )
            for kind, model in data["kinds"].items()
        }

    def log_odds(self, values: Array) -> Array:
        """Sum features up to log odds, one a row of *values*."""
        cut = np.minimum(np.maximum(values, self.lowest), self.highest)
        # Not a matrix product: its rounding depends on the number of rows.
        found: Array = (cut * self.weights).sum(axis=-1) + self.intercept
        return found


def load_coefficients() -> dict[str, Any]:
    """Read the coefficients that ship with the package."""
    text = resources.files("monitor.scoring.local").joinpath(COEFFICIENTS).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def sigmoid(log_odds: float) -> float:
    """Return log odds as a probability."""
    return 1.0 / (1.0 + math.exp(-max(-_STEEPEST, min(log_odds, _STEEPEST))))


def response_features(claims: Array, log_odds: Array) -> Array:
    """
    Pool the claims of a response, each with its log odds of being supported.

    Parameters
    ----------
    claims
        One row a claim, in the order of ``CLAIM_FEATURES``; at least one.
    log_odds
        One a claim.

    Returns
    -------
    Array
        One row in the order of ``RESPONSE_FEATURES``; averages weigh claims by their
        length in words, sums are given as ``log(1 + sum)``.
    """
    weights = np.exp(claims[:, LENGTH])
    ordered = np.sort(log_odds)
    any_unsupported = np.log1p(np.logaddexp(0, -np.clip(ordered, -_STEEPEST, _STEEPEST)).sum())
    second = ordered[min(1, len(ordered) - 1)]
    return np.concatenate(
        [
            (ordered[0], second, ordered.mean(), any_unsupported, np.log(len(ordered))),
            weights @ claims[:, _AT["mean"]] / weights.sum(),
            claims[:, _AT["least"]].min(axis=0),
            claims[:, _AT["most"]].max(axis=0),
            np.log1p(claims[:, _AT["sum"]].sum(axis=0)),
        ]
    )
