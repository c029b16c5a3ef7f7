"""
Agent metrics: what the app noted in ``metadata`` and ``tool_calls`` against what was expected.

What is expected comes with the interaction (``expected.tools``, ``expected.trajectory``) or
from the parameters; the preset ``credit`` is the document's own example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed, lookup

_SOURCE = "seed 001, Agent Efficiency Metrics"


class ToolRules(NoParameters):
    """Which tools are right; those of ``expected.tools`` come first."""

    expected_tools: tuple[str, ...] = ()
    expected_by_type: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="By the type in `metadata.parsed.type`."
    )


class PlanRules(NoParameters):
    """What makes a plan good."""

    least_steps: int = 3
    most_steps: int = 10
    gathering: tuple[str, ...] = ("data", "fetch", "search")
    analysis: tuple[str, ...] = ("analy", "synthe")


class TrajectoryRules(NoParameters):
    """Which steps are right, in order; those of ``expected.trajectory`` come first."""

    expected_trajectory: tuple[str, ...] = ()


# --- agent ---
# How efficiently an agent worked (seed 001, "Agent Efficiency Metrics").


_CONFIDENCES = ((0.7, 0.3), (0.5, 0.2), (0.3, 0.1))
_GATHERING = ("data", "fetch", "search")
_ANALYSIS = ("analy", "synthe")
_JACCARD_WEIGHT = 0.6


def intent_correctness_score(
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


def plan_quality_score(
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


def trajectory_match_score(actual: Sequence[str], expected: Sequence[str]) -> float:
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


def final_answer_quality_score(
    answer: Mapping[str, Any], rules: AnswerRules | None = None
) -> float:
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


class AnswerFields(NoParameters):
    """Which fields a final answer needs, and what makes them valid."""

    required: tuple[str, ...] = AnswerRules().required
    level_field: str = "risk_level"
    levels: tuple[str, ...] = AnswerRules().levels
    score_field: str = "credit_score"
    score_low: float = 0.0
    score_high: float = 100.0
    confidence_field: str = "confidence"
    reasoning_field: str = "reasoning"
    least_reasoning_chars: int = 50


class Limit(NoParameters):
    """Up to what it is well."""

    limit: float = Field(20, gt=0)


class LatencyLimit(NoParameters):
    """Up to what it is well."""

    limit: float = Field(30_000, gt=0, description="Milliseconds.")


@computed(
    name="intent_correctness",
    what="Whether the agent understood the task.",
    formula="0.4 name parsed + 0.3 type found + up to 0.3 confidence",
    requires=("expected.name", "metadata.parsed"),
    source=_SOURCE,
    backend="computed",
)
def intent_correctness(interaction: Interaction, _: NoParameters) -> Finding:
    """Compare ``metadata.parsed`` (name, type, confidence) with ``expected.name``."""
    parsed = interaction.metadata["parsed"]
    score = intent_correctness_score(
        str((interaction.expected or {})["name"]),
        str(parsed.get("name") or ""),
        parsed.get("type"),
        _number(parsed.get("confidence")),
    )
    return Finding(score=score)


@computed(
    name="plan_quality",
    what="Whether the plan has a fitting size, gathers data and analyses it.",
    formula="0.3 size in [3, 10] + 0.35 gathering step + 0.35 analysis step",
    requires=("metadata.plan",),
    source=_SOURCE,
    backend="computed",
    parameters=PlanRules,
)
def plan_quality(interaction: Interaction, p: PlanRules) -> Finding:
    """Read ``metadata.plan``, a list of steps."""
    steps = [str(step) for step in interaction.metadata["plan"]]
    score = plan_quality_score(
        steps,
        least=p.least_steps,
        most=p.most_steps,
        gathering=p.gathering,
        analysis=p.analysis,
    )
    return Finding(score=score, details={"steps": len(steps)})


def _tools(name: str, what: str, formula: str, score: Callable[..., float]) -> Computed:
    def compute(interaction: Interaction, p: ToolRules) -> Finding:
        expected = _expected_tools(interaction, p)
        if not expected:
            return Finding(skipped="no_expected_tools")
        selected = sorted({call.name for call in interaction.tool_calls})
        return Finding(
            score=score(selected, expected),
            explanation=f"expected {', '.join(sorted(expected))};"
            f" called {', '.join(selected) or 'none'}.",
        )

    return computed(
        name=name,
        what=what,
        formula=formula,
        requires=(),
        source=_SOURCE,
        backend="computed",
        skips=("no_expected_tools",),
        parameters=ToolRules,
    )(compute)


def _expected_tools(interaction: Interaction, p: ToolRules) -> set[str]:
    told = (interaction.expected or {}).get("tools")
    if told is None:
        told = p.expected_by_type.get(str(lookup(interaction, "metadata.parsed.type")))
    return {str(each) for each in (p.expected_tools if told is None else told)}


@computed(
    name="trajectory_match",
    what="Whether the agent took the expected steps in the expected order.",
    formula="0.6 Jaccard(steps) + 0.4 pairs in order / pairs",
    requires=("metadata.trajectory",),
    source=_SOURCE,
    backend="computed",
    skips=("no_expected_trajectory",),
    parameters=TrajectoryRules,
)
def trajectory_match(interaction: Interaction, p: TrajectoryRules) -> Finding:
    """Compare ``metadata.trajectory`` with ``expected.trajectory``, else the parameter."""
    told = (interaction.expected or {}).get("trajectory")
    expected = [str(step) for step in (p.expected_trajectory if told is None else told)]
    if not expected:
        return Finding(skipped="no_expected_trajectory")
    actual = [str(step) for step in interaction.metadata["trajectory"]]
    missing = [step for step in expected if step not in actual]
    return Finding(
        score=trajectory_match_score(actual, expected),
        explanation=f"missing: {', '.join(missing)}." if missing else "no step is missing.",
    )


@computed(
    name="final_answer_quality",
    what="Whether the final answer has all fields, with valid values.",
    formula="0.5 fields + 0.15 level + 0.15 score + 0.1 confidence + 0.1 reasoning",
    requires=("output",),
    source=_SOURCE,
    backend="computed",
    skips=("no_structured_answer",),
    parameters=AnswerFields,
)
def final_answer_quality(interaction: Interaction, p: AnswerFields) -> Finding:
    """Read ``metadata.answer``, else the output as a JSON object."""
    answer = interaction.metadata.get("answer", None) or _object(interaction.output)
    if not isinstance(answer, dict):
        return Finding(skipped="no_structured_answer")
    values = p.model_dump(exclude={"score_low", "score_high"})
    rules = AnswerRules(**values, score_range=(p.score_low, p.score_high))
    missing = [name for name in p.required if name not in answer]
    return Finding(
        score=final_answer_quality_score(answer, rules),
        explanation=f"missing: {', '.join(missing)}." if missing else "no field is missing.",
    )


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _stat(
    name: str, what: str, value: Callable[[Interaction], float | None], rules: type[NoParameters]
) -> Computed:
    def compute(interaction: Interaction, p: Any) -> Finding:
        found = value(interaction)
        if found is None or found < 0:
            return Finding(skipped=f"no_{name}")
        return Finding(score=kept_limit(found, p.limit), details={"value": found, "limit": p.limit})

    return computed(
        name=name,
        what=f"{what}; the figure itself is in the metadata, the score is how it keeps its limit.",
        formula="1 up to the limit, else limit / value",
        requires=(),
        source="seed 001, Execution Stats",
        backend="computed",
        skips=(f"no_{name}",),
        parameters=rules,
    )(compute)


def _steps(interaction: Interaction) -> float | None:
    told = _number(interaction.metadata.get("step_count"))
    steps = interaction.metadata.get("trajectory")
    return told if told is not None else (float(len(steps)) if steps else None)


METRICS: tuple[Metric, ...] = (
    intent_correctness,
    plan_quality,
    _tools(
        "tool_choice_correctness",
        "Share of the tools called that were expected: precision.",
        "expected and called / called",
        tool_choice_correctness,
    ),
    _tools(
        "tool_completeness",
        "Share of the expected tools that were called: recall.",
        "expected and called / expected",
        tool_completeness,
    ),
    trajectory_match,
    final_answer_quality,
    _stat("step_count", "Steps taken", _steps, Limit),
    _stat("tool_calls", "Tools called", lambda each: float(len(each.tool_calls)), Limit),
    _stat(
        "latency_ms",
        "Time taken",
        lambda each: _number(each.metadata.get("latency_ms")),
        LatencyLimit,
    ),
)
