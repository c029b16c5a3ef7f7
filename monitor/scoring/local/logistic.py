"""
The logistic models of the local scorer: weighted features of a claim, a response and a relevance.

Their coefficients ship as data, which ``benchmarks/train_local.py`` writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple, Self

from monitor.scoring.local.reading import CLAIM_FEATURES
from monitor.scoring.local.records import RECORD_FEATURES

COEFFICIENTS = "coefficients.v7.json"
#: Features of claims of which a response has the sum.
_SUM = ("number_conflict", "names_absent", *RECORD_FEATURES)
RESPONSE_FEATURES = ("worst", "mean", "log_claims", *(f"sum_{name}" for name in _SUM))
_STEEPEST = 30.0  # beyond it exp() only makes noise


class Logistic(NamedTuple):
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
        return self.intercept + sum(
            [w * (v if low <= v <= high else min(max(v, low), high)) for v, (w, low, high) in cut]
        )


def load_coefficients() -> dict[str, Any]:
    """Read the coefficients that ship with the package."""
    text = resources.files("monitor.scoring.local").joinpath(COEFFICIENTS).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def probability(log_odds: float) -> float:
    """Return log odds as a probability."""
    return 1.0 / (1.0 + math.exp(-max(-_STEEPEST, min(log_odds, _STEEPEST))))


def response_features(claims: Sequence[Sequence[float]], odds: Sequence[float]) -> list[float]:
    """
    Return the figures of a response in the order of ``RESPONSE_FEATURES``.

    *claims* has at least one row of ``CLAIM_FEATURES``, *odds* the log odds of each of being
    supported. Sums are given as ``log(1 + sum)``.
    """
    columns = dict(zip(CLAIM_FEATURES, zip(*claims, strict=True), strict=True))
    sums = [math.log1p(sum(columns[name])) for name in _SUM]
    return [min(odds), sum(odds) / len(odds), math.log(len(odds)), *sums]
