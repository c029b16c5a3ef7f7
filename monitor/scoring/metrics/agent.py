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
from monitor.scoring.declaration import Computed, NoParameters, computed, lookup

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
    formula="0.4 name parsed + 0.3 type found + up to 0.3 confidence",
    requires=("expected.name", "metadata.parsed"),
    source=_SOURCE,
)
def intent_correctness(interaction: Interaction, _: NoParameters) -> Finding:
    """Whether the agent understood the task."""
    parsed, wanted = interaction.metadata["parsed"], (interaction.expected or {})["name"]
    name, confidence = str(parsed.get("name") or ""), _number(parsed.get("confidence"))
    return Finding(score=intent_score(str(wanted), name, parsed.get("type"), confidence))


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
    formula="0.3 size in [3, 10] + 0.35 gathering step + 0.35 analysis step",
    requires=("metadata.plan",),
    source=_SOURCE,
    parameters=PlanRules,
)
def plan_quality(interaction: Interaction, p: PlanRules) -> Finding:
    """Whether the plan has a fitting size, gathers data and analyses it."""
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


def _tools(score: Callable[..., float], **declared: Any) -> Computed:
    def compute(interaction: Interaction, p: ToolRules) -> Finding:
        tools = (interaction.expected or {}).get("tools")
        if tools is None:
            kind = str(lookup(interaction, "metadata.parsed.type"))
            tools = p.expected_by_type.get(kind, p.expected_tools)
        expected = {str(each) for each in tools}
        if not expected:
            return Finding(skipped="no_expected_tools")
        selected = sorted({call.name for call in interaction.tool_calls})
        called = ", ".join(selected) or "none"
        said = f"expected {', '.join(sorted(expected))}; called {called}."
        return Finding(score=score(selected, expected), explanation=said)

    skips = ("no_expected_tools",)
    shared = {"requires": (), "source": _SOURCE, "skips": skips, "parameters": ToolRules}
    one_of = ("expected.tools", *ToolRules.model_fields)
    return computed(one_of=one_of, **shared, **declared)(compute)


tool_choice_correctness = _tools(
    tool_precision,
    name="tool_choice_correctness",
    what="Share of the tools called that were expected: precision.",
    formula="expected and called / called",
)
tool_completeness = _tools(
    tool_recall,
    name="tool_completeness",
    what="Share of the expected tools that were called: recall.",
    formula="expected and called / expected",
)


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


def _missing(names: Sequence[str], there: Collection[str], what: str) -> str:
    missing = [name for name in names if name not in there]
    return f"missing: {', '.join(missing)}." if missing else f"no {what} is missing."


@computed(
    version="2",
    formula="0.6 Jaccard(steps) + 0.4 pairs in order / pairs; Jaccard alone for one step",
    requires=("metadata.trajectory",),
    one_of=("expected.trajectory", "expected_trajectory"),
    source=_SOURCE,
    skips=("no_expected_trajectory",),
    parameters=TrajectoryRules,
)
def trajectory_match(interaction: Interaction, p: TrajectoryRules) -> Finding:
    """Whether the agent took the expected steps in the expected order."""
    steps = (interaction.expected or {}).get("trajectory")
    expected = [str(step) for step in (p.expected_trajectory if steps is None else steps)]
    if not expected:
        return Finding(skipped="no_expected_trajectory")
    actual = [str(step) for step in interaction.metadata["trajectory"]]
    said = _missing(expected, actual, "step")
    if further := [step for step in dict.fromkeys(actual) if step not in expected]:
        said += f" Not expected: {', '.join(further)}."
    taken = [step for step in dict.fromkeys(actual) if step in expected]
    if taken != [step for step in dict.fromkeys(expected) if step in taken]:
        said += f" Out of order: {', '.join(taken)}."
    return Finding(score=trajectory_score(actual, expected), explanation=said)


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
    formula="0.5 fields + 0.15 level + 0.15 score + 0.1 confidence + 0.1 reasoning",
    requires=("output",),
    source=_SOURCE,
    skips=("no_structured_answer",),
    parameters=AnswerFields,
)
def final_answer_quality(interaction: Interaction, p: AnswerFields) -> Finding:
    """
    Whether the final answer has all fields, with valid values.

    It is ``metadata.answer``, else the output as a JSON object.
    """
    answer: Any = interaction.metadata.get("answer")
    if not answer:
        try:
            answer = json.loads(interaction.output)
        except (ValueError, RecursionError):
            answer = None
    if not isinstance(answer, dict):
        return Finding(skipped="no_structured_answer")
    return Finding(score=answer_score(answer, p), explanation=_missing(p.required, answer, "field"))


class Limit(NoParameters):
    """Up to which figure the score is 1."""

    limit: float = Field(20, gt=0)


class LatencyLimit(NoParameters):
    """Up to which time the score is 1."""

    limit: float = Field(30_000, gt=0, description="Milliseconds.")


def _limited(
    name: str,
    what: str,
    *one_of: str,
    value: Callable[[Interaction], float | None] | None = None,
    parameters: type[NoParameters] = Limit,
) -> Computed:
    """
    Make a metric of a figure that should stay below a limit.

    It is what *value* returns, else the number or the length at the first path that has one.
    """

    def figure(interaction: Interaction) -> float | None:
        given = (lookup(interaction, path) for path in one_of)
        sizes = (_number(len(each) or None if isinstance(each, list) else each) for each in given)
        return next((size for size in sizes if size is not None), None)

    def compute(interaction: Interaction, p: Any) -> Finding:
        found = (value or figure)(interaction)
        if found is None or found < 0:
            return Finding(skipped=f"no_{name}")
        score = 1.0 if found <= p.limit else p.limit / found
        return Finding(score=score, details={"value": found, "limit": p.limit})

    return computed(
        name=name,
        what=f"{what}; the figure itself is in the metadata, the score is how it keeps its limit.",
        formula="1 up to the limit, else limit / value",
        requires=(),
        one_of=one_of,
        source="ours: figure against a limit",
        skips=(f"no_{name}",),
        parameters=parameters,
    )(compute)


step_count = _limited("step_count", "Steps taken", "metadata.step_count", "metadata.trajectory")
tool_calls = _limited(
    "tool_calls",
    "Tools called",
    "tool_calls",
    "metadata.trajectory",
    # An app that never calls tools has no figure; a trajectory without a call has one.
    value=lambda each: (
        float(len(each.tool_calls)) if each.tool_calls or each.metadata.get("trajectory") else None
    ),
)
latency_ms = _limited("latency_ms", "Time taken", "metadata.latency_ms", parameters=LatencyLimit)


class ChainRules(NoParameters):
    """How far confidence may fall from one step to the next."""

    threshold: float = Field(0.0, ge=0, le=1)


def chain_break(confidences: Sequence[float], threshold: float = 0.0) -> int | None:
    """
    Return the index of the first step that falls more than *threshold* below the step before.

    None when every step keeps or raises the confidence; a chain of one step or none cannot
    break.
    """
    steps = enumerate(pairwise(confidences), start=1)
    return next((n for n, (before, after) in steps if after < before - threshold), None)


@computed(
    formula="1 if every step ≥ the one before - threshold, else 0",
    requires=("metadata.verification_chain",),
    source="ours: monotone confidence",
    parameters=ChainRules,
)
def chain_integrity(interaction: Interaction, p: ChainRules) -> Finding:
    """
    Whether confidence never falls along a chain of verification steps.

    The chain holds confidences, or objects that have one.
    """
    chain = interaction.metadata["verification_chain"]
    steps = [float(step["confidence"] if isinstance(step, dict) else step) for step in chain]
    broken = chain_break(steps, p.threshold)
    said = f"confidence falls at step {(broken or 0) + 1}."
    said = "no step lowers the confidence." if broken is None else said
    return Finding(score=float(broken is None), explanation=said)
