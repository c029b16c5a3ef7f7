"""Two runs over the same test set, paired case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from monitor.errors import NotComparableError
from monitor.models.evaluation import Direction, PassRule
from monitor.report.format import count, plain_text
from monitor.testsets.runs import CaseResult, EvaluationRun

_MOST_NAMED = 5
_QUESTION_CHARS = 60
CaseVerdict = Literal["fails", "passes", "app error"]


class ChangedCase(BaseModel, frozen=True, extra="forbid"):
    """A case whose verdict changed between two runs, with the metrics that did it."""

    case: str
    query: str | None
    now: CaseVerdict
    blocks: bool = Field(default=False, description="The gate fails because of it.")
    scores: dict[str, tuple[float | None, float | None]] = Field(
        default_factory=dict, description="Before and after, by metric."
    )
    same_answer: bool = Field(default=False, description="The app answered the same as before.")


class RunPair:
    """
    Two comparable runs; ``shared`` has the cases that both have.

    Parameters
    ----------
    baseline, run
        Before and after.
    shared_cases
        Compare the cases that both runs have where their sets differ, rather than refuse.

    Raises
    ------
    NotComparableError
        If the runs are of different cases, evaluators, pass lines or models.
    """

    def __init__(
        self, baseline: EvaluationRun, run: EvaluationRun, *, shared_cases: bool = False
    ) -> None:
        self.baseline, self.run = baseline, run
        self.shared = _shared(run, baseline, shared_cases=shared_cases)
        if run.models != baseline.models:
            raise NotComparableError(
                "the runs are of different models; evaluate the baseline again"
            )
        for metric, version in baseline.evaluators.items():
            mine = run.evaluators.get(metric)
            if mine != version:
                what = f"is by {mine}, the baseline by {version}" if mine else "was not evaluated"
                raise NotComparableError(
                    f"{metric} {what}; evaluate both runs with the same metrics and judge"
                )
        self.rules: Mapping[str, PassRule] = run.rules()
        for metric, theirs in baseline.rules().items():
            if self.rules.get(metric, theirs) != theirs:
                raise NotComparableError(
                    f"{metric} passes at {self.rules[metric].line:g}, in the baseline at"
                    f" {theirs.line:g}; evaluate the baseline again"
                )
        self._before, self._after = by_case(baseline), by_case(run)
        #: The cases to which the app answered the same in both runs.
        self.same_answers = frozenset(
            case
            for case in self.shared
            if [r.output for r in self._before[case]] == [r.output for r in self._after[case]]
        )

    @property
    def metrics(self) -> list[str]:
        """Return what both runs evaluated, in order."""
        return [metric for metric in self.run.evaluators if metric in self.baseline.evaluators]

    def scores(self, metric: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return before and after by case."""
        before, after = self.baseline.case_scores(metric), self.run.case_scores(metric)
        return (
            {case: before[case] for case in before if case in self.shared},
            {case: after[case] for case in after if case in self.shared},
        )

    def falls(self, metric: str) -> dict[str, float]:
        """Return by case how far it fell; positive is worse, whatever the direction."""
        before, after = self.scores(metric)
        sign = -1.0 if is_lower(self.rules, metric) else 1.0
        return {case: sign * (before[case] - after[case]) for case in before if case in after}

    def reasons(self, metric: str, cases: Sequence[str]) -> str:
        """Return why *cases* have no score in the run, counted."""
        found: Counter[str] = Counter()
        for result in self.run.results:
            if result.case in cases:
                mine = [e.reason for e in result.evaluations if e.evaluator_name == metric]
                found["app error" if result.error else (mine or ["not evaluated"])[0]] += 1
        return ", ".join(f"{reason} {n}" for reason, n in found.most_common())

    def changed(self) -> list[ChangedCase]:
        """Return the cases whose verdict changed, those that got worse first."""
        tables = {metric: self.scores(metric) for metric in self.metrics}
        made: list[ChangedCase] = []
        for case in (each for each in self.run.cases if each in self.shared):
            was, now = verdict_of(self._before[case]), verdict_of(self._after[case])
            if now is not None and was not in {now, "app error", None}:
                scores = {m: (b.get(case), a.get(case)) for m, (b, a) in tables.items()}
                made.append(ChangedCase(
                    case=case, query=self.run.cases[case].query, now=now, scores=scores,
                    same_answer=case in self.same_answers,
                ))  # fmt: skip
        return sorted(made, key=lambda each: each.now == "passes")


def _shared(run: EvaluationRun, baseline: EvaluationRun, *, shared_cases: bool) -> frozenset[str]:
    """Return the cases that are compared."""
    same = frozenset(
        case
        for case, note in run.cases.items()
        if case in baseline.cases and baseline.cases[case].version == note.version
    )
    if run.dataset_version != baseline.dataset_version:
        missing = [case for case in baseline.cases if case not in run.cases]
        new = [case for case in run.cases if case not in baseline.cases]
        other = [case for case in run.cases if case in baseline.cases and case not in same]
        parts = [
            f"{count(len(found), 'case')} {what} ({named(found)})"
            for found, what in ((missing, "missing"), (new, "new"), (other, "changed"))
            if found
        ]
        if not shared_cases or not same:
            raise NotComparableError(
                f"the runs are of different test sets: {', '.join(parts)}; evaluate the baseline"
                " on this set, or compare what both have with --shared-cases"
            )
    return same


def verdict_of(results: Sequence[CaseResult]) -> CaseVerdict | None:
    """Return how a case fared over its repeats and models: by majority, a tie fails."""
    if results and all(each.error is not None for each in results):
        return "app error"
    passed = [each.passed for each in results if each.passed is not None]
    if not passed:
        return None
    return "passes" if 2 * sum(passed) > len(passed) else "fails"


def by_case(run: EvaluationRun) -> Mapping[str, list[CaseResult]]:
    """Return the results of each case."""
    found: dict[str, list[CaseResult]] = {case: [] for case in run.cases}
    for result in run.results:
        found[result.case].append(result)
    return found


def is_lower(rules: Mapping[str, PassRule], metric: str) -> bool:
    """Return whether a metric is better when lower."""
    return metric in rules and rules[metric].direction is Direction.LOWER


def named(cases: Sequence[str], run: EvaluationRun | None = None) -> str:
    """Name the first of *cases*, by their questions where *run* has them; count the others."""
    notes = {} if run is None else run.cases
    questions = {case: note.query for case, note in notes.items() if note.query}
    shown = ", ".join(
        plain_text(case, 60)
        + (f' "{plain_text(questions[case], _QUESTION_CHARS)}"' if case in questions else "")
        for case in cases[:_MOST_NAMED]
    )
    more = len(cases) - _MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
