"""What a score means in a word, and what usually helps (seed 001, "Interpreting Scores")."""

from __future__ import annotations

from typing import NamedTuple

from monitor.models.passing import Direction


class Band(NamedTuple):
    """A range of scores, from ``least`` up to the next band."""

    least: float
    quality: str
    action: str


#: The document leaves gaps between 0.89 and 0.9 and so on; a band ends where the next begins.
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


_UNSUPPORTED = Advice("the answer contains unsupported claims", "improve context retrieval")
#: "Common Issues and Fixes", with the metrics that measure the same thing under another name.
ADVICE: dict[str, Advice] = {
    "faithfulness": _UNSUPPORTED,
    "groundedness": _UNSUPPORTED,
    "grounding_score": _UNSUPPORTED,
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
    """Find the band of a score in [0, 1]; one that is better when lower is mirrored first."""
    good = 1 - score if direction is Direction.LOWER else score
    # Without rounding 1 - 0.3 would fall just below the line that 0.7 stands on.
    good = round(good, 9)
    return next((band for band in BANDS if good >= band.least), BANDS[-1])


def advice_for(metric: str, score: float, direction: Direction = Direction.HIGHER) -> Advice | None:
    """Give what usually helps when *metric* is worse than good; None when it is not, or unknown."""
    is_low = band_of(score, direction).least < BANDS[1].least
    return ADVICE.get(metric) if is_low else None
