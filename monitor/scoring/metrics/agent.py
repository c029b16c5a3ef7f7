"""
Agent metrics: what the app noted in ``metadata`` and ``tool_calls`` against what was expected.

What is expected comes with the interaction (``expected.tools``, ``expected.trajectory``) or
from the parameters; ``examples/credit.toml`` sets them for an agent that rates credit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Any

from pydantic import Field

from monitor.format import count
from monitor.models import Interaction
from monitor.scoring.base import Finding
from monitor.scoring.declaration import Computed, NoParameters, computed, lookup, lookup_list

_SOURCE = "ours: agent efficiency"
_CONFIDENCES = ((0.7, 0.3), (0.5, 0.2), (0.3, 0.1))
_JACCARD_WEIGHT = 0.6


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


@computed(
    formula="0.4 name parsed + 0.3 type found + up to 0.3 confidence",
    requires=("expected.name", "metadata.parsed"),
    source=_SOURCE,
)
def intent_correctness(interaction: Interaction, _: NoParameters) -> Finding:
    """
    Whether the agent understood the task.

    The name is right when what was asked for occurs in what was parsed, in any case. Confidence
    above 0.7, 0.5 and 0.3 earns 0.3, 0.2 and 0.1.
    """
    parsed, wanted = interaction.metadata["parsed"], str((interaction.expected or {})["name"])
    if not isinstance(parsed, dict):
        return Finding(skipped="no_metadata_parsed")
    named = wanted.strip() and wanted.lower() in str(parsed.get("name") or "").lower()
    confidence = _number(parsed.get("confidence")) or 0.0
    earned = (points for above, points in _CONFIDENCES if confidence > above)
    found = parsed.get("type") is not None
    said = f"Name {'right' if named else 'wrong'}, type {'found' if found else 'missing'}"
    return Finding(
        score=0.4 * bool(named) + 0.3 * found + next(earned, 0.0),
        explanation=f"{said}, confidence {confidence:.2f}.",
    )


class PlanRules(NoParameters):
    """What makes a plan good."""

    least_steps: int = 3
    most_steps: int = 10
    gathering: tuple[str, ...] = ("data", "fetch", "search")
    analysis: tuple[str, ...] = ("analy", "synthe")


@computed(
    formula="0.3 size in [3, 10] + 0.35 gathering step + 0.35 analysis step",
    requires=("metadata.plan",),
    source=_SOURCE,
    parameters=PlanRules,
)
def plan_quality(interaction: Interaction, p: PlanRules) -> Finding:
    """Whether the plan has a fitting size, gathers data and analyses it; of a text, each line."""
    plan = interaction.metadata["plan"]
    listed = (
        plan.splitlines() if isinstance(plan, str) else lookup_list(interaction, "metadata.plan")
    )
    steps = [str(step).lower() for step in listed if str(step).strip()]
    score = 0.3 * (p.least_steps <= len(steps) <= p.most_steps)
    said = f"{count(len(steps), 'step')}, {p.least_steps} to {p.most_steps} expected"
    for kind, named in (("gathers data", p.gathering), ("analyses it", p.analysis)):
        there = any(word in step for step in steps for word in named)
        score += 0.35 * there
        said += f"; {'one' if there else 'none'} {kind}"
    return Finding(score=score, explanation=f"{said}.", details={"steps": len(steps)})


class ToolRules(NoParameters):
    """Which tools are right; those of ``expected.tools`` come first."""

    expected_tools: tuple[str, ...] = ()
    expected_by_type: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="By the type in `metadata.parsed.type`."
    )


def _tools(of: Callable[[set[str], set[str]], set[str]], **declared: Any) -> Computed:
    """Make a metric of the share that was expected and called *of* the tools called, expected."""

    def compute(interaction: Interaction, p: ToolRules) -> Finding:
        tools: Iterable[Any] = lookup_list(interaction, "expected.tools")
        if lookup(interaction, "expected.tools") is None:
            kind = str(lookup(interaction, "metadata.parsed.type"))
            tools = p.expected_by_type.get(kind, p.expected_tools)
        expected = {str(each) for each in tools}
        if not expected:
            return Finding(skipped="no_expected_tools")
        called = {call.name for call in interaction.tool_calls}
        said = (
            f"Expected {', '.join(sorted(expected))}; called {', '.join(sorted(called)) or 'none'}."
        )
        whole = of(called, expected)
        score = len(called & expected) / len(whole) if whole else 0.0
        return Finding(score=score, explanation=said)

    skips = ("no_expected_tools",)
    shared = {"requires": (), "source": _SOURCE, "skips": skips, "parameters": ToolRules}
    one_of = ("expected.tools", *ToolRules.model_fields)
    return computed(one_of=one_of, **shared, **declared)(compute)


tool_choice_correctness = _tools(
    lambda called, _: called,
    name="tool_choice_correctness",
    what="Share of the tools called that were expected: precision.",
    formula="expected and called / called",
)
tool_completeness = _tools(
    lambda _, expected: expected,
    name="tool_completeness",
    what="Share of the expected tools that were called: recall.",
    formula="expected and called / expected",
)


class TrajectoryRules(NoParameters):
    """Which steps are right, in order; those of ``expected.trajectory`` come first."""

    expected_trajectory: tuple[str, ...] = ()


def _missing(names: Iterable[str], there: Collection[str], what: str) -> str:
    missing = [name for name in names if name not in there]
    return f"Missing: {', '.join(missing)}." if missing else f"No {what} is missing."


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
    """
    Whether the agent took the expected steps in the expected order.

    Order is the share of neighbours among the expected steps that were taken which come in that
    order, by their first occurrence; a single expected step has none.
    """
    steps: Iterable[Any] = lookup_list(interaction, "expected.trajectory")
    if lookup(interaction, "expected.trajectory") is None:
        steps = p.expected_trajectory
    if not (expected := dict.fromkeys(map(str, steps))):
        return Finding(skipped="no_expected_trajectory")
    actual = dict.fromkeys(map(str, lookup_list(interaction, "metadata.trajectory")))
    first = {step: place for place, step in enumerate(actual)}
    taken = [step for step in expected if step in first]
    score = len(taken) / len({*actual, *expected})
    if len(expected) > 1:
        pairs = list(pairwise(taken))
        ordered = sum(first[a] < first[b] for a, b in pairs) / len(pairs) if pairs else 0.0
        score = _JACCARD_WEIGHT * score + (1 - _JACCARD_WEIGHT) * ordered
    said = _missing(expected, actual, "step")
    if further := [step for step in actual if step not in expected]:
        said += f" Not expected: {', '.join(further)}."
    if taken != (in_fact := sorted(taken, key=first.__getitem__)):
        said += f" Out of order: {', '.join(in_fact)}."
    return Finding(score=score, explanation=said)


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


@computed(
    version="2",
    formula="0.5 fields + 0.15 level + 0.15 score + 0.1 confidence + 0.1 reasoning",
    requires=("output",),
    source=_SOURCE,
    skips=("no_structured_answer",),
    parameters=AnswerFields,
)
def final_answer_quality(interaction: Interaction, p: AnswerFields) -> Finding:
    """
    Whether the final answer has all fields, with valid values.

    It is ``metadata.answer``, else the output as a JSON object, also in a code fence. A value that
    is missing or of the wrong type is not valid.
    """
    answer: Any = interaction.metadata.get("answer")
    if not answer:
        try:
            text = interaction.output.strip()
            if text.startswith("```") and text.endswith("```"):
                text = text[3:-3]
                text = text[4:] if text.lower().startswith("json") else text
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
    if not isinstance(answer, dict):
        return Finding(skipped="no_structured_answer")

    def within(name: str, low: float, high: float) -> bool:
        value = _number(answer.get(name))
        return value is not None and low <= value <= high

    present = sum(name in answer for name in p.required)
    reasoning = answer.get(p.reasoning_field)
    long = isinstance(reasoning, str) and len(reasoning) > p.least_reasoning_chars
    valid = (
        (0.15, p.level_field, answer.get(p.level_field) in p.levels),
        (0.15, p.score_field, within(p.score_field, p.score_low, p.score_high)),
        (0.1, p.confidence_field, within(p.confidence_field, 0.0, 1.0)),
        (0.1, p.reasoning_field, long),
    )
    score = 0.5 * present / len(p.required) if p.required else 0.5
    said = _missing(p.required, answer, "field")
    if wrong := [name for _, name, right in valid if not right and name in answer]:
        said += f" Not valid: {', '.join(wrong)}."
    return Finding(
        score=score + sum(weight for weight, _, right in valid if right), explanation=said
    )


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
        said = f"{what}: {found:,.10g}; limit {p.limit:,.10g}."
        return Finding(score=score, explanation=said, details={"value": found, "limit": p.limit})

    return computed(
        name=name,
        what=f"{what}; the figure itself is in the metadata, the score is how it keeps its limit.",
        formula="1 up to the limit, else limit / value",
        requires=(),
        one_of=one_of,
        version="2",
        source="ours: figure against a limit",
        pass_score=1.0,
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
latency_ms = _limited(
    "latency_ms", "Milliseconds taken", "metadata.latency_ms", parameters=LatencyLimit
)


class ChainRules(NoParameters):
    """How far confidence may fall from one step to the next."""

    threshold: float = Field(0.0, ge=0, le=1)


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
    chain = lookup_list(interaction, "metadata.verification_chain")
    read = [_number(each.get("confidence") if isinstance(each, dict) else each) for each in chain]
    steps = [each for each in read if each is not None]
    if len(steps) < len(read):
        return Finding(skipped="no_metadata_verification_chain")
    falls = (n for n, (a, b) in enumerate(pairwise(steps), start=2) if b < a - p.threshold)
    broken = next(falls, None)
    said = (
        "No step lowers the confidence."
        if broken is None
        else f"Confidence falls at step {broken}."
    )
    return Finding(score=float(broken is None), explanation=said)
