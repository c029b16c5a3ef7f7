"""Pool the claims of a response to the figures of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monitor.scoring.features.support import CLAIM_FEATURES, ClaimFeatures

RESPONSE_FEATURES = (
    "worst", "second_worst", "mean", "any_unsupported", "log_claims",
    "overlap", "covered", "covered_two", "bigrams", "runs", "pairs", "covered_two_least",
    "numbers_absent", "names_absent", "negations", "antonyms", "novel", "first_person",
)  # fmt: skip

_OVERLAP = CLAIM_FEATURES.index("overlap")
_COVERED = CLAIM_FEATURES.index("covered")
_COVERED_TWO = CLAIM_FEATURES.index("covered_two")
_BIGRAMS = CLAIM_FEATURES.index("bigrams")
_RUNS = CLAIM_FEATURES.index("runs")
_PAIRS = CLAIM_FEATURES.index("pairs")
_LENGTH = CLAIM_FEATURES.index("log_length")
_NOVEL = CLAIM_FEATURES.index("novel_information")
_FIRST_PERSON = CLAIM_FEATURES.index("first_person")


def response_features(
    claims: Sequence[ClaimFeatures], log_odds: Sequence[float]
) -> tuple[float, ...]:
    """
    Pool claims, each with its log odds of being supported.

    The figures are in the order of ``RESPONSE_FEATURES``; averages weigh claims by
    their length in words.
    """
    lengths = [math.exp(claim.values[_LENGTH]) for claim in claims]
    total = sum(lengths)
    ordered = sorted(log_odds)

    def average(feature: int) -> float:
        weighted = zip(claims, lengths, strict=True)
        return sum(claim.values[feature] * length for claim, length in weighted) / total

    all_supported = sum(math.log1p(math.exp(-max(-30.0, odds))) for odds in log_odds)
    return (
        ordered[0],
        ordered[min(1, len(ordered) - 1)],
        sum(ordered) / len(ordered),
        math.log1p(all_supported),
        math.log(len(ordered)),
        average(_OVERLAP),
        average(_COVERED),
        average(_COVERED_TWO),
        average(_BIGRAMS),
        average(_RUNS),
        average(_PAIRS),
        min(claim.covered_two for claim in claims),
        math.log1p(sum(len(claim.numbers_absent) for claim in claims)),
        math.log1p(sum(len(claim.names_absent) for claim in claims)),
        math.log1p(sum(claim.negation for claim in claims)),
        math.log1p(sum(claim.antonym for claim in claims)),
        math.log1p(sum(math.expm1(claim.values[_NOVEL]) for claim in claims)),
        average(_FIRST_PERSON),
    )
