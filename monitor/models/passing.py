"""When a score passes: at or above a line, or, where lower is better, at or below one."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple, Self

from monitor.models.evaluation import Evaluation

_VERSION = re.compile(r" pass (<= )?(\d+(?:\.\d+)?(?:e-?\d+)?)$")


class Direction(StrEnum):
    """Which end of its range a metric wants."""

    HIGHER = "higher"
    LOWER = "lower"


class PassRule(NamedTuple):
    """A line in [0, 1] and the side of it that passes; the line itself always does."""

    line: float
    direction: Direction = Direction.HIGHER

    @classmethod
    def mirrored(cls, pass_score: float, direction: Direction) -> Self:
        """Give the rule for *direction*: a score of 0.3 is as good here as 0.7 is there."""
        lower = direction is Direction.LOWER
        return cls(round(1 - pass_score, 6) if lower else pass_score, direction)

    @classmethod
    def of(cls, evaluation: Evaluation, pass_score: float) -> Self:
        """Read the rule that an evaluation names in its criteria, else take *pass_score*."""
        criteria = evaluation.criteria or {}
        direction = Direction(criteria.get("direction", Direction.HIGHER))
        line = criteria.get("pass_score") if "direction" in criteria else None
        return cls(pass_score if line is None else float(line), direction)

    @classmethod
    def read(cls, version: str) -> Self | None:
        """Read the rule back from the version of a stream; None where there is none."""
        found = _VERSION.search(version)
        if found is None:
            return None
        return cls(float(found[2]), Direction.LOWER if found[1] else Direction.HIGHER)

    def passes(self, score: float) -> bool:
        """Say whether *score* passes."""
        if self.direction is Direction.LOWER:
            return score <= self.line
        return score >= self.line

    def criteria(self) -> dict[str, str | float]:
        """Write the rule as an evaluation's criteria."""
        return {"pass_score": self.line, "direction": self.direction.value}

    def __str__(self) -> str:
        sign = "<= " if self.direction is Direction.LOWER else ""
        return f"pass {sign}{self.line:g}"
