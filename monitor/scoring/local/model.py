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

COEFFICIENTS = "coefficients.v5.json"
CLAIM_FEATURES = (*alignment.FEATURES, *records.FEATURES)
#: How figures of claims are pooled to figures of a response.
_POOLS = {
    "mean": tuple(name for name in alignment.FEATURES if name != "log_length"),
    "least": ("covered_two",),
    "most": (
        *("novel_run", "number_conflict", "name_conflict"),
        *("numbers_not_before_unit", "names_apart"),
    ),
    "sum": ("numbers_absent", "names_absent", *records.FEATURES),
}
RESPONSE_FEATURES = (
    *("worst", "mean", "log_claims"),
    *(f"{pool}_{name}" for pool, names in _POOLS.items() for name in names),
)
_AT = {pool: [CLAIM_FEATURES.index(name) for name in names] for pool, names in _POOLS.items()}
_LENGTH = CLAIM_FEATURES.index("log_length")
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
        tables = (data["limits"], *(model["weights"] for model in data["kinds"].values()))
        if any({*table} != {*features} for table in tables):
            raise ValueError("the coefficients do not fit the features: run benchmarks/train_local")
        limits, *weights = (np.array([t[n] for n in features], dtype=float) for t in tables)
        models = zip(data["kinds"].items(), weights, strict=True)
        return {kind: cls(each["intercept"], own, *limits.T) for (kind, each), own in models}

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


def probability(log_odds: float) -> float:
    """Return log odds as a probability."""
    return 1.0 / (1.0 + math.exp(-max(-_STEEPEST, min(log_odds, _STEEPEST))))


def log_odds(probability: float) -> float:
    """Return a probability between 0 and 1 as log odds."""
    return math.log(probability / (1.0 - probability))


def response_features(claims: Array, odds: Array) -> Array:
    """
    Pool the claims of a response, each with its log odds of being supported.

    Parameters
    ----------
    claims
        One row a claim, in the order of ``CLAIM_FEATURES``; at least one.
    odds
        One a claim.

    Returns
    -------
    Array
        One row in the order of ``RESPONSE_FEATURES``; averages weigh claims by their
        length in words, sums are given as ``log(1 + sum)``.
    """
    weights = np.exp(claims[:, _LENGTH])
    return np.concatenate(
        [
            (odds.min(), odds.mean(), math.log(len(odds))),
            weights @ claims[:, _AT["mean"]] / weights.sum(),
            claims[:, _AT["least"]].min(axis=0),
            claims[:, _AT["most"]].max(axis=0),
            np.log1p(claims[:, _AT["sum"]].sum(axis=0)),
        ]
    )
