"""How efficiently an agent worked (seed 001, "Agent Efficiency Metrics")."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_CONFIDENCES = ((0.7, 0.3), (0.5, 0.2), (0.3, 0.1))
_GATHERING = ("data", "fetch", "search")
_ANALYSIS = ("analy", "synthe")
_JACCARD_WEIGHT = 0.6


def intent_correctness(
    wanted: str, parsed: str, kind: str | None, confidence: float | None
) -> float:
    """
    0.4 for the right name, 0.3 for a kind, up to 0.3 for confidence; in [0, 1].

    The name is right when what was asked for occurs in what was parsed, whatever the
    case; an empty name is not right. Confidence above 0.7, 0.5 and 0.3 earns 0.3, 0.2, 0.1.
    """
    score = 0.4 if wanted.strip() and wanted.lower() in parsed.lower() else 0.0
    score += 0.3 if kind is not None else 0.0
    earned = (points for above, points in _CONFIDENCES if confidence and confidence > above)
    return score + next(earned, 0.0)


def plan_quality(
    steps: Sequence[str],
    *,
    least: int = 3,
    most: int = 10,
    gathering: Sequence[str] = _GATHERING,
    analysis: Sequence[str] = _ANALYSIS,
) -> float:
    """0.3 for a fitting number of steps, 0.35 for gathering data, 0.35 for analysis."""
    lower = [step.lower() for step in steps]
    score = 0.3 if least <= len(steps) <= most else 0.0
    score += 0.35 if any(word in step for step in lower for word in gathering) else 0.0
    return score + (0.35 if any(word in step for step in lower for word in analysis) else 0.0)


def tool_choice_correctness(selected: Collection[str], expected: Collection[str]) -> float:
    """Expected tools among those selected over those selected: precision; 0 for none selected."""
    chosen = set(selected)
    return len(chosen & set(expected)) / len(chosen) if chosen else 0.0


def tool_completeness(selected: Collection[str], expected: Collection[str]) -> float:
    """Expected tools among those selected over those expected: recall; 0 for none expected."""
    needed = set(expected)
    return len(needed & set(selected)) / len(needed) if needed else 0.0


def order_score(actual: Sequence[str], expected: Sequence[str]) -> float:
    """
    Share of consecutive expected steps that both occur and in that order; in [0, 1].

    The document says "consecutive steps maintain expected order" and leaves the pairs open:
    here they are the pairs of neighbours among the expected steps that were taken, compared
    by their first occurrence. With fewer than two such steps there is no pair, and no bonus.
    """
    first = {step: place for place, step in reversed(list(enumerate(actual)))}
    taken = [step for step in dict.fromkeys(expected) if step in first]
    pairs = list(pairwise(taken))
    return sum(first[a] < first[b] for a, b in pairs) / len(pairs) if pairs else 0.0


def trajectory_match(actual: Sequence[str], expected: Sequence[str]) -> float:
    """0.6 Jaccard similarity of the steps + 0.4 order score; 0 when there are no steps at all."""
    union = set(actual) | set(expected)
    jaccard = len(set(actual) & set(expected)) / len(union) if union else 0.0
    return _JACCARD_WEIGHT * jaccard + (1 - _JACCARD_WEIGHT) * order_score(actual, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """What a final answer should hold; the defaults are the document's credit example."""

    required: tuple[str, ...] = (
        "risk_level",
        "credit_score",
        "confidence",
        "reasoning",
        "recommendations",
    )
    level_field: str = "risk_level"
    levels: tuple[str, ...] = ("low", "moderate", "high", "critical")
    score_field: str = "credit_score"
    score_range: tuple[float, float] = (0.0, 100.0)
    confidence_field: str = "confidence"
    reasoning_field: str = "reasoning"
    least_reasoning_chars: int = 50


def final_answer_quality(answer: Mapping[str, Any], rules: AnswerRules | None = None) -> float:
    """
    0.5 fields present, 0.15 level valid, 0.15 score in range, 0.1 confidence valid, 0.1 reasoning.

    A value that is missing or of the wrong type is not valid.
    """
    rules = rules or AnswerRules()
    present = sum(name in answer for name in rules.required)
    score = 0.5 * present / len(rules.required) if rules.required else 0.5
    score += 0.15 * (answer.get(rules.level_field) in rules.levels)
    score += 0.15 * _within(answer.get(rules.score_field), *rules.score_range)
    score += 0.1 * _within(answer.get(rules.confidence_field), 0.0, 1.0)
    reasoning = answer.get(rules.reasoning_field)
    is_long = isinstance(reasoning, str) and len(reasoning) > rules.least_reasoning_chars
    return score + 0.1 * is_long


def kept_limit(value: float, limit: float) -> float:
    """1 up to the limit, then limit / value: how far a count or a time keeps its limit."""
    return 1.0 if value <= limit else limit / value


def _within(value: Any, low: float, high: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high
