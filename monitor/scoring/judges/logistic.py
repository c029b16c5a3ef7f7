"""Logistic models whose coefficients are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
    def from_data(
        cls, data: dict[str, Any], features: Sequence[str], limits: dict[str, Sequence[float]]
    ) -> Self:
        """
        Read the coefficients of exactly *features*.

        Raises
        ------
        ValueError
            If the data was made for other features.
        """
        if set(data["weights"]) != set(features) or set(limits) != set(features):
            raise ValueError("the coefficients do not fit the features: run benchmarks/train_local")
        return cls(
            data["intercept"],
            np.array([data["weights"][name] for name in features], dtype=float),
            np.array([limits[name][0] for name in features], dtype=float),
            np.array([limits[name][1] for name in features], dtype=float),
        )

    def log_odds(self, values: Array) -> Array:
        """Sum features up to log odds, one a row of *values*."""
        cut: Array = np.clip(values, self.lowest, self.highest)
        # Not a matrix product: its rounding depends on the number of rows.
        found: Array = (cut * self.weights).sum(axis=-1) + self.intercept
        return found


@dataclass(frozen=True, slots=True)
class ByKind:
    """One logistic model for every kind of exchange; they share what they were fitted on."""

    models: dict[str, Logistic]

    @classmethod
    def from_data(cls, data: dict[str, Any], features: Sequence[str]) -> Self:
        """Read the coefficients of every kind; raises ``ValueError`` as ``Logistic`` does."""
        return cls(
            {
                kind: Logistic.from_data(model, features, data["limits"])
                for kind, model in data["kinds"].items()
            }
        )

    def log_odds(self, kind: str, values: Array) -> Array:
        """Sum features up to log odds, one a row of *values*."""
        return self.models[kind].log_odds(values)


def sigmoid(log_odds: float) -> float:
    """Turn log odds into a probability."""
    return 1.0 / (1.0 + math.exp(-max(-_STEEPEST, min(_STEEPEST, log_odds))))
