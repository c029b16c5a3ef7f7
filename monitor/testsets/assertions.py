"""Assertions about one answer, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.metrics import evaluate
from monitor.models import Evaluation, EvaluationStatus
from monitor.models.passing import Direction, PassRule
from monitor.report.format import plain_text, score

_PASS_SCORE = 0.7
_OUTPUT_CHARS = 200


def assert_grounded(
    output: str,
    contexts: Sequence[str | dict[str, Any]],
    *,
    query: str | None = None,
    metric: str = "groundedness",
    min_score: float | None = None,
    **fields: Any,
) -> Evaluation:
    """
    Assert that an answer is grounded in its passages; return the evaluation.

    Parameters
    ----------
    output, contexts, query, fields
        The exchange; further fields are those of an interaction, such as ``expected``.
    metric
        Any metric, such as ``faithfulness``.
    min_score
        The line in [0, 1] to reach (or not to exceed, where lower is better); by default the
        metric's own.

    Raises
    ------
    AssertionError
        If the answer does not pass, or could not be evaluated.
    SettingsError
        If the metric is unknown, or the judge lacks its key.
    """
    __tracebackhide__ = True  # a failing test ends where it called
    record = {"query": query, "output": output, "contexts": list(contexts), **fields}
    [[found]] = evaluate([record], (metric,))
    if found.status is not EvaluationStatus.COMPLETED or not isinstance(found.score, int | float):
        raise AssertionError(f"{metric} was not evaluated: {found.reason}")
    rule = PassRule.of(found, _PASS_SCORE)
    if min_score is not None:
        rule = rule._replace(line=min_score)
    if not rule.passes(float(found.score)):
        bound = "at most" if rule.direction is Direction.LOWER else "at least"
        raise AssertionError(
            f"{metric} {score(float(found.score))}, expected {bound} {score(rule.line)}:"
            f" {found.explanation or ''}"
            f" Answer: {plain_text(output, _OUTPUT_CHARS)}"
        )
    return found
