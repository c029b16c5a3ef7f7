"""Runs as a test writes them down: scores by metric, one a case."""

from datetime import UTC, datetime
from functools import cache

import pytest

from monitor.models import Evaluation
from monitor.models.evaluation import PassRule
from monitor.testsets import TestSet
from monitor.testsets.runs import AppError, CaseNote, CaseResult, EvaluationRun, summary_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULE = PassRule(0.7)


@cache
def questions(size):
    return TestSet("golden", [{"id": f"c{n}", "query": f"Question {n}?"} for n in range(size)])


def make_run(
    scores, *, rules=None, errors=(), versions=None, cases=None, outputs=None, bare=False, **fields
):
    """Return a run with ``scores[metric][case]``; None is a skipped evaluation."""
    size = len(next(iter(scores.values())))
    rules = dict.fromkeys(scores, RULE) | (rules or {})
    tests = TestSet("golden", cases) if cases else questions(size)
    results = []
    for n, case in enumerate(tests):
        if n in errors:
            error = AppError(type="ValueError", message="no index")
            results.append(CaseResult(case=case.id, case_version=case.version, error=error))
            continue
        made, passed = [], []
        for metric, values in scores.items():
            named = {
                "target_event_id": case.id,
                "evaluator_name": metric,
                "evaluator_version": "1",
                "criteria": rules[metric].criteria(),
                "timestamp": NOW,
                "evaluation_id": "e",
            }
            if values[n] is None:
                made.append(Evaluation.skipped(reason="no_claim", **named))
            else:
                # Not checked again: there are thousands in a test.
                made.append(Evaluation.model_construct(score=float(values[n]), **named))
                passed.append(rules[metric].passes(values[n]))
        results.append(
            CaseResult.model_construct(
                case=case.id, case_version=case.version, evaluations=tuple(made), scored=True,
                output=outputs[n] if outputs else f"answer {n}",
                passed=all(passed) if passed else None,
            )
        )  # fmt: skip
    # Figures are for reports; a gate reads the results.
    summary = {} if bare else summary_of(tests, results)
    kept = ("passed", "failed", "unscored", "app_errors", "pass_rate", "metrics", "per_category")
    return EvaluationRun.model_construct(
        dataset="golden", dataset_version=tests.version, timestamp=NOW, app="bot:answer",
        evaluators=dict.fromkeys(scores, "1") | (versions or {}),
        total_queries=len(results), cases={case.id: CaseNote.of(case) for case in tests},
        results=tuple(results), **{k: summary[k] for k in kept if k in summary}, **fields,
    )  # fmt: skip


@pytest.fixture
def golden_run():
    return make_run
