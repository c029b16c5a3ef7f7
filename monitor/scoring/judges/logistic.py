"""A logistic model whose coefficients are data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

_STEEPEST = 30.0  # beyond it exp() only makes noise


@dataclass(frozen=True, slots=True)
class Logistic:
    """A weighted sum of named features, as log odds."""

    intercept: float
    weights: tuple[float, ...]

    @classmethod
    def from_data(cls, data: dict[str, Any], features: Sequence[str]) -> Self:
        """
        Read the coefficients of exactly *features*.

        Raises
        ------
        ValueError
            If the data was made for other features.
        """
        if set(data["weights"]) != set(features):
            raise ValueError("the coefficients do not fit the features: run benchmarks/train_local")
        return cls(data["intercept"], tuple(data["weights"][name] for name in features))

    def log_odds(self, values: Sequence[float]) -> float:
        """Sum *values* up to log odds."""
        return self.intercept + sum(w * v for w, v in zip(self.weights, values, strict=True))


def sigmoid(log_odds: float) -> float:
    """Turn log odds into a probability."""
    return 1.0 / (1.0 + math.exp(-max(-_STEEPEST, min(_STEEPEST, log_odds))))
