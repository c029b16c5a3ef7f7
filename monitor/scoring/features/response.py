"""Pool the claims of a response to the figures of the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.features.support import CLAIM_FEATURES

_MEAN = (
    "overlap", "covered", "covered_two", "bigrams", "runs", "pairs", "first_person",
    "covered_rare", "covered_rare_near", "pairs_near", "pairs_near_weighted", "pairs_far",
    "in_sequence", "trigrams", "query_novel", "worst_window", "sweeping", "gaps_wide", "gap",
    "repeated", "numbers_not_before_unit", "bound_flipped", "names_apart", "partners",
    "partners_weighted", "novel_describing", "novel_doing", "novel_things",
)  # fmt: skip
_LEAST = ("covered_two", "worst_window", "partners", "partners_weighted")
_MOST = (
    "antonym", "negation", "rarest_novel", "numbers_far", "names_far", "denies_affirmed",
    "affirms_denied", "stronger", "novel_run", "number_conflict", "name_conflict", "names_apart",
    "gap", "numbers_not_before_unit", "repeated", "bound_flipped",
)  # fmt: skip
_SUM = (
    "numbers_absent", "names_absent", "novel_rare", "attributes_conflict", "attributes_unknown",
    "hours_conflict", "attributes_agree", "hours_agree", "unit_has_other_number",
    "first_name_absent", "comparative_absent",
)  # fmt: skip
RESPONSE_FEATURES = (
    "worst", "second_worst", "mean", "any_unsupported", "log_claims",
    *(f"mean_{name}" for name in _MEAN),
    *(f"least_{name}" for name in _LEAST),
    *(f"most_{name}" for name in _MOST),
    *(f"sum_{name}" for name in _SUM),
)  # fmt: skip

_PLACES = {name: place for place, name in enumerate(CLAIM_FEATURES)}
_LENGTH = _PLACES["log_length"]
_MEAN_AT, _LEAST_AT, _MOST_AT, _SUM_AT = (
    [_PLACES[name] for name in names] for names in (_MEAN, _LEAST, _MOST, _SUM)
)
_STEEPEST = 30.0

Array = NDArray[np.float64]


def response_names(more: Sequence[str] = ()) -> tuple[str, ...]:
    """Name the figures of a response whose claims have *more* figures than usual."""
    return (
        *RESPONSE_FEATURES,
        *(f"mean_{name}" for name in more),
        *(f"least_{name}" for name in more),
    )


def response_features(claims: Array, log_odds: Array) -> Array:
    """
    Pool claims, each with its log odds of being supported.

    Parameters
    ----------
    claims
        One row a claim, in the order of ``CLAIM_FEATURES``, which more may follow; at
        least one.
    log_odds
        One a claim.

    Returns
    -------
    Array
        One row in the order of ``response_names``; averages weigh claims by their
        length in words, sums are given as ``log(1 + sum)``.
    """
    weights = np.exp(claims[:, _LENGTH])
    weights /= weights.sum()
    more = claims[:, len(CLAIM_FEATURES) :]
    ordered = np.sort(log_odds)
    all_supported = np.logaddexp(0, -np.clip(log_odds, -_STEEPEST, _STEEPEST)).sum()
    return np.concatenate(
        [
            (
                ordered[0],
                ordered[min(1, len(ordered) - 1)],
                ordered.mean(),
                np.log1p(all_supported),
                np.log(len(ordered)),
            ),
            weights @ claims[:, _MEAN_AT],
            claims[:, _LEAST_AT].min(axis=0),
            claims[:, _MOST_AT].max(axis=0),
            np.log1p(claims[:, _SUM_AT].sum(axis=0)),
            weights @ more,
            more.min(axis=0),
        ]
    )
