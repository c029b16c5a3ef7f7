"""
Evaluate answers to test cases by a rubric: their metrics, their verdict, their consistency.

`assert_grounded` does it for one answer in a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from monitor.format import plain_text, score
from monitor.metrics import evaluate
from monitor.models import Evaluation, EvaluationStatus
from monitor.models.evaluation import AnyEvaluation, Direction, PassRule, band_of
from monitor.scoring.measures import weighted_average
from monitor.scoring.pipeline import MetricPipeline
from monitor.scoring.registry import budget_client, make_scorer, resolve_metrics
from monitor.settings import Settings
from monitor.testsets.cases import TestCase
from monitor.testsets.runs import CaseResult

#: What metrics need that read all answers to a question together.
_SEVERAL = frozenset({"metadata.runs", "metadata.models", "metadata.answers"})
_OVERALL_PASSES = 0.7
_OUTPUT_CHARS = 200
_LEAST_ANSWERS = 2


def weights_of(rubric: Mapping[str, Any] | Sequence[str]) -> dict[str, float] | None:
    """Return weights by metric; None for a rubric of names, each of which has to pass."""
    if not isinstance(rubric, Mapping):
        return None
    return {
        name: float(config.get("weight", 1.0) if isinstance(config, Mapping) else config)
        for name, config in rubric.items()
    }


def verdict(
    evaluations: Iterable[AnyEvaluation], weights: Mapping[str, float] | None
) -> tuple[float | None, bool | None]:
    """
    Return the overall score in [0, 1] of an answer, and whether it passes.

    With *weights* the weighted average has to be at least 0.7; without, every metric has to pass
    its own line. Scores that are better when lower count as 1 minus themselves. Both are None
    where nothing is scored.
    """
    scores: dict[str, float] = {}
    rules: dict[str, PassRule] = {}
    for each in evaluations:
        if each.status is EvaluationStatus.COMPLETED and isinstance(each.score, int | float):
            scores[each.evaluator_name] = float(each.score)
            rules[each.evaluator_name] = PassRule.of(each, _OVERALL_PASSES)
    lower = {name for name, rule in rules.items() if rule.direction is Direction.LOWER}
    equal = dict.fromkeys(scores, 1.0)
    overall = weighted_average(scores, equal if weights is None else weights, lower)
    if overall is None:
        return None, None
    if weights is not None:
        return overall, overall >= _OVERALL_PASSES
    return overall, all(rules[name].passes(score) for name, score in scores.items())


class Grader:
    """
    The scorers of a run; may be shared by threads.

    ``versions`` has the version of each metric's evaluator, ``concurrency`` how many answers are
    worth evaluating at a time. Metrics of consistency read all answers to a case together, at the
    end; *parameters* are by metric. Raises SettingsError if a metric or a parameter is unknown, or
    the judge lacks its key.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        settings: Settings,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        asked = settings.model_copy(update={"metrics": tuple(metrics)})
        needs = {
            each.name: each.declaration.requires
            for each in resolve_metrics(asked, parameters=parameters)
        }
        several = tuple(name for name in metrics if not _SEVERAL.isdisjoint(needs[name]))
        single = tuple(name for name in metrics if name not in several)

        def scorer(names: tuple[str, ...]) -> MetricPipeline | None:
            if not names:
                return None
            mine = settings.model_copy(update={"metrics": names})
            client = budget_client(mine)
            return make_scorer(mine, client=client, once=True, parameters=parameters)

        self._single, self._several = scorer(single), scorer(several)
        scorers = [each for each in (self._single, self._several) if each is not None]
        self.versions = {name: v for each in scorers for name, v in each.versions.items()}
        self.concurrency = max(each.concurrency for each in scorers)

    def score(self, case: TestCase, result: CaseResult) -> tuple[Evaluation, ...]:
        """Evaluate one answer; raises what `MetricPipeline.score` does."""
        if self._single is None:
            return ()
        fields: dict[str, Any] = {"metadata": {**case.metadata, **result.metadata}}
        if result.contexts is not None:
            fields["contexts"] = result.contexts
        if result.tool_calls:
            fields["tool_calls"] = result.tool_calls
        exchange = case.interaction(result.output or "", **fields)
        key = f"{case.id}:{result.model or ''}:{result.repeat}"
        return self._single.score(exchange, key=key)

    def score_together(
        self, case: TestCase, results: Sequence[CaseResult]
    ) -> tuple[Evaluation, ...]:
        """Evaluate all answers to *case* by the metrics that read several."""
        answers = [each for each in results if each.output is not None]
        if self._several is None or len(answers) < _LEAST_ANSWERS:
            return ()
        runs: list[dict[str, Any]] = []
        for each in answers:  # level and score that the app gave, else the answer's grade
            graded: dict[str, Any] = {}
            if each.overall_score is not None:
                quality = band_of(each.overall_score).quality
                graded = {"level": quality, "score": 100 * each.overall_score}
            runs.append(graded | each.metadata)
        metadata = {
            "answers": [each.output for each in answers],
            "runs": runs,
            "models": list({a.model: run for a, run in zip(answers, runs, strict=True)}.values()),
        }
        return self._several.score(case.interaction(answers[0].output or "", metadata=metadata))

    def close(self) -> None:
        """Close the connections to the judge."""
        for each in (self._single, self._several):
            if each is not None:
                each.close()


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
    rule = PassRule.of(found, _OVERALL_PASSES)
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
