"""
Agent metrics: what the app noted in ``metadata`` and ``tool_calls`` against what was expected.

What is expected comes with the interaction (``expected.tools``, ``expected.trajectory``) or
from the parameters; ``examples/credit.toml`` sets them for an agent that rates credit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed, lookup

_SOURCE = "ours: agent efficiency"
_CONFIDENCES = ((0.7, 0.3), (0.5, 0.2), (0.3, 0.1))
_JACCARD_WEIGHT = 0.6


def intent_score(wanted: str, parsed: str, kind: str | None, confidence: float | None) -> float:
    """
    Return 0.4 for the right name + 0.3 for a kind + up to 0.3 for confidence; in [0, 1].

    The name is right when what was asked for occurs in what was parsed, in any
    case; an empty name is not right. Confidence above 0.7, 0.5 and 0.3 earns 0.3, 0.2, 0.1.
    """
    score = 0.4 if wanted.strip() and wanted.lower() in parsed.lower() else 0.0
    score += 0.3 if kind is not None else 0.0
    earned = (points for above, points in _CONFIDENCES if confidence and confidence > above)
    return score + next(earned, 0.0)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


@computed(
    name="intent_correctness",
    what="Whether the agent understood the task.",
    formula="0.4 name parsed + 0.3 type found + up to 0.3 confidence",
    requires=("expected.name", "metadata.parsed"),
    source=_SOURCE,
)
def intent_correctness(interaction: Interaction, _: NoParameters) -> Finding:
    """Compare ``metadata.parsed`` (name, type, confidence) with ``expected.name``."""
    parsed = interaction.metadata["parsed"]
    score = intent_score(
        str((interaction.expected or {})["name"]),
        str(parsed.get("name") or ""),
        parsed.get("type"),
        _number(parsed.get("confidence")),
    )
    return Finding(score=score)


class PlanRules(NoParameters):
    """What makes a plan good."""

    least_steps: int = 3
    most_steps: int = 10
    gathering: tuple[str, ...] = ("data", "fetch", "search")
    analysis: tuple[str, ...] = ("analy", "synthe")


def plan_score(steps: Sequence[str], p: PlanRules) -> float:
    """Return 0.3 for a fitting number of steps + 0.35 for gathering data + 0.35 for analysis."""
    lower = [step.lower() for step in steps]
    score = 0.3 if p.least_steps <= len(steps) <= p.most_steps else 0.0
    for named in (p.gathering, p.analysis):
        score += 0.35 if any(word in step for step in lower for word in named) else 0.0
    return score


@computed(
    name="plan_quality",
    what="Whether the plan has a fitting size, gathers data and analyses it.",
    formula="0.3 size in [3, 10] + 0.35 gathering step + 0.35 analysis step",
    requires=("metadata.plan",),
    source=_SOURCE,
    parameters=PlanRules,
)
def plan_quality(interaction: Interaction, p: PlanRules) -> Finding:
    """Read ``metadata.plan``, a list of steps."""
    steps = [str(step) for step in interaction.metadata["plan"]]
    return Finding(score=plan_score(steps, p), details={"steps": len(steps)})


class ToolRules(NoParameters):
    """Which tools are right; those of ``expected.tools`` come first."""

    expected_tools: tuple[str, ...] = ()
    expected_by_type: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="By the type in `metadata.parsed.type`."
    )


def tool_precision(selected: Collection[str], expected: Collection[str]) -> float:
    """Return expected and selected tools over those selected; 0 for none selected."""
    chosen = set(selected)
    return len(chosen & set(expected)) / len(chosen) if chosen else 0.0


def tool_recall(selected: Collection[str], expected: Collection[str]) -> float:
    """Return expected and selected tools over those expected; 0 for none expected."""
    return tool_precision(expected, selected)


def _tools(name: str, what: str, formula: str, score: Callable[..., float]) -> Computed:
    def compute(interaction: Interaction, p: ToolRules) -> Finding:
        tools = (interaction.expected or {}).get("tools")
        if tools is None:
            kind = str(lookup(interaction, "metadata.parsed.type"))
            tools = p.expected_by_type.get(kind, p.expected_tools)
        expected = {str(each) for each in tools}
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
        skips=("no_expected_tools",),
        parameters=ToolRules,
    )(compute)


class TrajectoryRules(NoParameters):
    """Which steps are right, in order; those of ``expected.trajectory`` come first."""

    expected_trajectory: tuple[str, ...] = ()


def trajectory_score(actual: Sequence[str], expected: Sequence[str]) -> float:
    """
    Return 0.6 Jaccard similarity of the steps + 0.4 order; 0 when there are no steps at all.

    Order is the share of neighbours among the expected steps that were taken which come in
    that order, by their first occurrence. A single expected step has no order: Jaccard alone
    counts.
    """
    union = set(actual) | set(expected)
    jaccard = len(set(actual) & set(expected)) / len(union) if union else 0.0
    if len(set(expected)) == 1:
        return jaccard
    first = {step: place for place, step in reversed(list(enumerate(actual)))}
    pairs = list(pairwise(step for step in dict.fromkeys(expected) if step in first))
    order = sum(first[a] < first[b] for a, b in pairs) / len(pairs) if pairs else 0.0
    return _JACCARD_WEIGHT * jaccard + (1 - _JACCARD_WEIGHT) * order


@computed(
    name="trajectory_match",
    version="2",
    what="Whether the agent took the expected steps in the expected order.",
    formula="0.6 Jaccard(steps) + 0.4 pairs in order / pairs; Jaccard alone for one step",
    requires=("metadata.trajectory",),
    source=_SOURCE,
    skips=("no_expected_trajectory",),
    parameters=TrajectoryRules,
)
def trajectory_match(interaction: Interaction, p: TrajectoryRules) -> Finding:
    """Compare ``metadata.trajectory`` with ``expected.trajectory``, else the parameter."""
    steps = (interaction.expected or {}).get("trajectory")
    expected = [str(step) for step in (p.expected_trajectory if steps is None else steps)]
    if not expected:
        return Finding(skipped="no_expected_trajectory")
    actual = [str(step) for step in interaction.metadata["trajectory"]]
    missing = [step for step in expected if step not in actual]
    return Finding(
        score=trajectory_score(actual, expected),
        explanation=f"missing: {', '.join(missing)}." if missing else "no step is missing.",
    )


class AnswerFields(NoParameters):
    """Which fields a final answer needs, and what makes them valid."""

    required: tuple[str, ...] = ("level", "score", "confidence", "reasoning", "recommendations")
    level_field: str = "level"
    levels: tuple[str, ...] = ("low", "moderate", "high", "critical")
    score_field: str = "score"
    score_low: float = 0.0
    score_high: float = 100.0
    confidence_field: str = "confidence"
    reasoning_field: str = "reasoning"
    least_reasoning_chars: int = 50


def answer_score(answer: Mapping[str, Any], p: AnswerFields) -> float:
    """
    Return 0.5 fields present + 0.15 level valid + 0.15 score in range + 0.1 confidence valid
    + 0.1 reasoning.

    A value that is missing or of the wrong type is not valid.
    """

    def within(name: str, low: float, high: float) -> bool:
        value = _number(answer.get(name))
        return value is not None and low <= value <= high

    present = sum(name in answer for name in p.required)
    reasoning = answer.get(p.reasoning_field)
    return (
        (0.5 * present / len(p.required) if p.required else 0.5)
        + 0.15 * (answer.get(p.level_field) in p.levels)
        + 0.15 * within(p.score_field, p.score_low, p.score_high)
        + 0.1 * within(p.confidence_field, 0.0, 1.0)
        + 0.1 * (isinstance(reasoning, str) and len(reasoning) > p.least_reasoning_chars)
    )


@computed(
    name="final_answer_quality",
    what="Whether the final answer has all fields, with valid values.",
    formula="0.5 fields + 0.15 level + 0.15 score + 0.1 confidence + 0.1 reasoning",
    requires=("output",),
    source=_SOURCE,
    skips=("no_structured_answer",),
    parameters=AnswerFields,
)
def final_answer_quality(interaction: Interaction, p: AnswerFields) -> Finding:
    """Read ``metadata.answer``, else the output as a JSON object."""
    answer: Any = interaction.metadata.get("answer")
    if not answer:
        try:
            answer = json.loads(interaction.output)
        except (ValueError, RecursionError):
            answer = None
    if not isinstance(answer, dict):
        return Finding(skipped="no_structured_answer")
    missing = [name for name in p.required if name not in answer]
    return Finding(
        score=answer_score(answer, p),
        explanation=f"missing: {', '.join(missing)}." if missing else "no field is missing.",
    )


class Limit(NoParameters):
    """Up to which figure the score is 1."""

    limit: float = Field(20, gt=0)


class LatencyLimit(NoParameters):
    """Up to which time the score is 1."""

    limit: float = Field(30_000, gt=0, description="Milliseconds.")


def _limited(
    name: str, what: str, value: Callable[[Interaction], float | None], rules: type[NoParameters]
) -> Computed:
    """Make a metric of a figure that should stay below a limit."""

    def compute(interaction: Interaction, p: Any) -> Finding:
        found = value(interaction)
        if found is None or found < 0:
            return Finding(skipped=f"no_{name}")
        score = 1.0 if found <= p.limit else p.limit / found
        return Finding(score=score, details={"value": found, "limit": p.limit})

    return computed(
        name=name,
        what=f"{what}; the figure itself is in the metadata, the score is how it keeps its limit.",
        formula="1 up to the limit, else limit / value",
        requires=(),
        source="ours: figure against a limit",
        skips=(f"no_{name}",),
        parameters=rules,
    )(compute)


def _steps(interaction: Interaction) -> float | None:
    count = _number(interaction.metadata.get("step_count"))
    steps = interaction.metadata.get("trajectory")
    return float(len(steps)) if count is None and steps else count


METRICS: tuple[Metric, ...] = (
    intent_correctness,
    plan_quality,
    _tools(
        "tool_choice_correctness",
        "Share of the tools called that were expected: precision.",
        "expected and called / called",
        tool_precision,
    ),
    _tools(
        "tool_completeness",
        "Share of the expected tools that were called: recall.",
        "expected and called / expected",
        tool_recall,
    ),
    trajectory_match,
    final_answer_quality,
    _limited("step_count", "Steps taken", _steps, Limit),
    _limited(
        "tool_calls",
        "Tools called",
        # An app that never calls tools has no figure; a trajectory without a call has one.
        lambda each: (
            float(len(each.tool_calls))
            if each.tool_calls or each.metadata.get("trajectory")
            else None
        ),
        Limit,
    ),
    _limited(
        "latency_ms",
        "Time taken",
        lambda each: _number(each.metadata.get("latency_ms")),
        LatencyLimit,
    ),
)
