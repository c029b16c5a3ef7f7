"""
Agent metrics: what the app noted in ``metadata`` and ``tool_calls`` against what was expected.

What is expected comes with the interaction (``expected.tools``, ``expected.trajectory``) or
from the parameters; the preset ``credit`` is the document's own example.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import Field

from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, Metric, NoParameters, computed, lookup
from monitor.scoring.metrics import agent

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


class AnswerFields(NoParameters):
    """Which fields a final answer needs, and what makes them valid."""

    required: tuple[str, ...] = agent.AnswerRules().required
    level_field: str = "risk_level"
    levels: tuple[str, ...] = agent.AnswerRules().levels
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
    score = agent.intent_correctness(
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
    score = agent.plan_quality(
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
        score=agent.trajectory_match(actual, expected),
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
    rules = agent.AnswerRules(**values, score_range=(p.score_low, p.score_high))
    missing = [name for name in p.required if name not in answer]
    return Finding(
        score=agent.final_answer_quality(answer, rules),
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
        return Finding(
            score=agent.kept_limit(found, p.limit), details={"value": found, "limit": p.limit}
        )

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
        agent.tool_choice_correctness,
    ),
    _tools(
        "tool_completeness",
        "Share of the expected tools that were called: recall.",
        "expected and called / expected",
        agent.tool_completeness,
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
