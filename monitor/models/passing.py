"""When a score passes, and what it means in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from .evaluation import Evaluation

#: The end of a stream's version whose line is the app's own.
OWN = " pass own"
_VERSION = re.compile(r" pass (<= )?(\d+(?:\.\d+)?(?:e-?\d+)?)$")
#: An app's own line lies within these; before it is learnt it is the lower one.
OWN_LEAST, OWN_MOST = 0.2, 0.5
#: An app's own line is learnt from so many of its first scores, and again from so many.
OWN_LEARNT_AT = (100, 500)
_OWN_SHARE = 0.03


class Direction(StrEnum):
    """Which end of its range a metric wants."""

    HIGHER = "higher"
    LOWER = "lower"


class PassRule(NamedTuple):
    """
    A line in [0, 1] and the side of it that passes; the line itself always does.

    ``own`` says that the line is learnt from an app's own first scores (`own_line`).
    """

    line: float
    direction: Direction = Direction.HIGHER
    own: bool = False

    @classmethod
    def mirrored(cls, pass_score: float, direction: Direction) -> Self:
        """Return the rule for *direction*: where lower is better the line is 1 minus the score."""
        lower = direction is Direction.LOWER
        return cls(round(1 - pass_score, 6) if lower else pass_score, direction)

    @classmethod
    def of(cls, evaluation: Evaluation, pass_score: float) -> Self:
        """Read the rule that an evaluation names in its criteria, else take *pass_score*."""
        criteria = evaluation.criteria or {}
        direction = Direction(criteria.get("direction", Direction.HIGHER))
        line = criteria.get("pass_score") if "direction" in criteria else None
        own = criteria.get("pass_line") == "own"
        return cls(pass_score if line is None else float(line), direction, own)

    @classmethod
    def read(cls, version: str) -> Self | None:
        """
        Read the rule back from the version of a stream; None where there is none.

        A version does not say where an app's own line lies: then it is the lowest.
        """
        if version.endswith(OWN):
            return cls(OWN_LEAST, own=True)
        found = _VERSION.search(version)
        if found is None:
            return None
        return cls(float(found[2]), Direction.LOWER if found[1] else Direction.HIGHER)

    def passes(self, score: float) -> bool:
        """Return whether *score* passes."""
        if self.direction is Direction.LOWER:
            return score <= self.line
        return score >= self.line

    def criteria(self) -> dict[str, str | float]:
        """Write the rule as an evaluation's criteria."""
        found: dict[str, str | float] = {
            "pass_score": self.line,
            "direction": self.direction.value,
        }
        return found | {"pass_line": "own"} if self.own else found

    def __str__(self) -> str:
        if self.own:
            return OWN.strip()
        sign = "<= " if self.direction is Direction.LOWER else ""
        return f"pass {sign}{self.line:g}"


def own_line(bins: Mapping[int, int]) -> float:
    """
    Return the pass line of an app for an evaluator whose scores have no level of their own.

    Good answers of every kind score above 0.2, so that is the line of an app of which little
    is known. An app whose good answers all score higher gets a higher line, at the 3 % quantile
    of its own first scores, so that answers to other contexts fall below it there too; never
    above 0.5, so that an app that is sick from birth does not make sickness its measure.

    Parameters
    ----------
    bins
        How many of the app's first 100, or 500, scores round to each hundredth. Fewer than 100
        give the lowest line.

    Examples
    --------
    >>> own_line({3: 2, 41: 3, 90: 95})
    0.41
    """
    if sum(bins.values()) < OWN_LEARNT_AT[0]:
        return OWN_LEAST
    below, most = 0, _OWN_SHARE * sum(bins.values())
    for position in sorted(bins):
        below += bins[position]
        if below > most:
            return min(max(position / 100, OWN_LEAST), OWN_MOST)
    raise AssertionError("the highest bin holds the quantile")


class Band(NamedTuple):
    """A range of scores, from ``least`` up to where the band before begins."""

    least: float
    quality: str
    action: str


BANDS = (
    Band(0.9, "excellent", "No action needed"),
    Band(0.7, "good", "Minor improvements possible"),
    Band(0.5, "fair", "Review and improve"),
    Band(0.3, "poor", "Significant issues"),
    Band(0.0, "critical", "Requires immediate attention"),
)


class Advice(NamedTuple):
    """Why a metric is usually bad, and what usually helps."""

    cause: str
    fix: str


#: Only for metrics that count what the cause names, so that advice never contradicts the reason.
ADVICE: dict[str, Advice] = {
    "faithfulness": Advice("the answer contains unsupported claims", "improve context retrieval"),
    "hallucination": Advice(
        "the model generates facts that are not in the context", "add stricter grounding"
    ),
    "tool_completeness": Advice(
        "required data sources are missing", "update the tool selection logic"
    ),
    "trajectory_match": Advice("steps are out of order or missing", "review the workflow graph"),
    "final_answer_quality": Advice(
        "required output fields are missing", "update the synthesis prompt"
    ),
}


def band_of(score: float, direction: Direction = Direction.HIGHER) -> Band:
    """Return the band of a score in [0, 1]; where lower is better it is mirrored first."""
    good = 1 - score if direction is Direction.LOWER else score
    # Without rounding 1 - 0.3 would fall just below the line that 0.7 stands on.
    good = round(good, 9)
    return next((band for band in BANDS if good >= band.least), BANDS[-1])


def advice_for(metric: str, score: float, direction: Direction = Direction.HIGHER) -> Advice | None:
    """Return what usually helps when *metric* is below good; None when it is not, or unknown."""
    is_low = band_of(score, direction).least < BANDS[1].least
    return ADVICE.get(metric) if is_low else None
