"""Weigh figures: logistic models whose coefficients are data, and the pooling of claims."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from operator import mul
from typing import Any, Self

from monitor.scoring.local import alignment, records

COEFFICIENTS = "coefficients.v6.json"
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
_STEEPEST = 30.0  # beyond it exp() only makes noise


@dataclass(frozen=True, slots=True)
class Logistic:
    """
    A weighted sum of named features, as log odds.

    Every feature is cut to the limits it was fitted within, so that no strange text
    can reach beyond what was ever measured.
    """

    intercept: float
    terms: tuple[tuple[float, float, float], ...]  #: weight, lowest and highest value

    @classmethod
    def by_kind(cls, data: Mapping[str, Any], features: Sequence[str]) -> dict[str, Self]:
        """
        Read the coefficients of exactly *features*, one model for every kind of exchange.

        Raises
        ------
        ValueError
            If the data was made for other features.
        """
        limits, kinds = data["limits"], data["kinds"]
        if any(
            {*each} != {*features} for each in (limits, *(k["weights"] for k in kinds.values()))
        ):
            raise ValueError("the coefficients do not fit the features: run benchmarks/train_local")
        return {
            kind: cls(each["intercept"], tuple((each["weights"][n], *limits[n]) for n in features))
            for kind, each in kinds.items()
        }

    def log_odds(self, values: Sequence[float]) -> float:
        """Sum features up to log odds."""
        cut = zip(values, self.terms, strict=True)
        return self.intercept + sum([w * min(max(v, low), high) for v, (w, low, high) in cut])


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


def response_features(claims: Sequence[Sequence[float]], odds: Sequence[float]) -> list[float]:
    """
    Return the figures of a response in the order of ``RESPONSE_FEATURES``.

    *claims* has at least one row of ``CLAIM_FEATURES``, *odds* the log odds of each of being
    supported. Averages weigh claims by their length in words, sums are given as ``log(1 + sum)``.
    """
    columns = dict(zip(CLAIM_FEATURES, zip(*claims, strict=True), strict=True))
    lengths = [*map(math.exp, columns["log_length"])]
    words = sum(lengths)
    pool: dict[str, Callable[[Sequence[float]], float]] = {
        "mean": lambda column: sum(map(mul, lengths, column)) / words,
        "least": min,
        "most": max,
        "sum": lambda column: math.log1p(sum(column)),
    }
    pooled = [pool[how](columns[name]) for how, names in _POOLS.items() for name in names]
    return [min(odds), sum(odds) / len(odds), math.log(len(odds)), *pooled]
