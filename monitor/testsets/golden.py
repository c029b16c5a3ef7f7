"""
Production samples as test cases: kept as golden cases, or asked again at once with a change.

`Rerun` answers each failing question twice, by the app as it is and with one component changed, and
scores both answers alike: does that component explain the fall? What passes both times did not fail
again, and says nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection

from monitor.errors import RecordError
from monitor.models import HumanAIEvaluation, RaterEvaluation
from monitor.models.evaluation import PassRule
from monitor.settings import Settings
from monitor.stats.agreement import krippendorff_alpha, majority
from monitor.stats.two_rates import HalfFixed, half_fixed
from monitor.store.labels import Label, all_labels
from monitor.store.samples import StoredSample, read_sample
from monitor.testsets.apps import EvaluatedApp, open_app
from monitor.testsets.cases import TestCase
from monitor.testsets.grading import Grader
from monitor.testsets.runs import CaseResult

#: What a case keeps of the answer that was given, in its metadata.
PRODUCTION = "production"


class GoldenSet(NamedTuple):
    """
    The cases on which most annotators agree, and what was left out.

    ``disputed`` are samples whose annotators are split evenly, ``single`` those that have fewer
    annotators than were asked for, ``gone`` those that are no longer stored. ``alpha`` is
    Krippendorff's, over all samples with two annotators.
    """

    cases: list[TestCase]
    disputed: list[str]
    single: int
    gone: int
    alpha: float | None


def golden_case(
    stored: StoredSample,
    labels: Sequence[Label] = (),
    *,
    answer: str | None = None,
    tags: Iterable[str] = (),
    critical: bool = False,
) -> TestCase:
    """
    Return a sample as a test case.

    What the app answered is kept in ``metadata["production"]``, with the metrics that failed. It
    becomes the expected answer only where people passed it, or else *answer* is that. Raise
    RecordError if the sample has no question: there is nothing to ask again.
    """
    sample = stored.sample
    it = sample.interaction
    if not it.query:
        raise RecordError(
            f"sample {sample.sample_id} has no question (texts may have been deleted, or only"
            " metadata captured), so that nothing can be asked again"
        )
    votes = [label.human_passed for label in labels]
    good = majority(sum(votes), len(votes) - sum(votes))
    failed = sorted(each.metric for each in stored.evaluations if each.passed is False)
    is_failure = bool(failed) if good is None else not good
    expected = dict(it.expected or {})
    if answer is not None:
        expected["answer"] = answer
    elif good and "answer" not in expected:
        expected["answer"] = it.output
    return TestCase(
        id=sample.sample_id,
        query=it.query,
        history=tuple(turn.model_dump(exclude_none=True) for turn in it.history),
        expected=expected,
        tags=(PRODUCTION, "failure" if is_failure else "good", *tags),
        critical=critical,
        metadata={PRODUCTION: {
            "output": it.output, "contexts": [passage.text for passage in it.contexts],
            "release": it.release, "failed": failed,
            "passes": sum(votes), "fails": len(votes) - sum(votes),
        }},
    )  # fmt: skip


def golden_set(connection: Connection, *, app: str, metric: str, annotators: int = 1) -> GoldenSet:
    """Return what people labelled as test cases, by majority of at least so many annotators."""
    by_sample: dict[str, dict[str, Label]] = defaultdict(dict)
    for label in all_labels(connection, app=app, metric=metric):
        by_sample[label.sample_id][label.labelled_by] = label  # the last word counts
    cases, disputed, single, gone = [], [], 0, 0
    for sample_id, by_annotator in by_sample.items():
        said = list(by_annotator.values())
        passes = sum(label.human_passed for label in said)
        if len(said) < annotators:
            single += 1
        elif majority(passes, len(said) - passes) is None:
            disputed.append(sample_id)
        elif (stored := read_sample(connection, sample_id)) is None:
            gone += 1
        else:
            try:
                cases.append(golden_case(stored, said))
            except RecordError:
                gone += 1
    votes = [
        (sum(label.human_passed for label in said.values()), len(said))
        for said in by_sample.values()
    ]
    counts = np.array([(passes, n - passes) for passes, n in votes], dtype=float).reshape(-1, 2)
    return GoldenSet(cases, disputed, single, gone, krippendorff_alpha(counts))


def human_ai_records(
    connection: Connection, *, app: str, metric: str
) -> Iterator[HumanAIEvaluation]:
    """Yield a record for each label: the person's verdict beside the evaluator's score."""
    for label in all_labels(connection, app=app, metric=metric):
        stored = read_sample(connection, label.sample_id)
        evaluations = () if stored is None else stored.evaluations
        score = next(
            (
                each.evaluation.score
                for each in evaluations
                if (each.metric, each.evaluator_version) == (metric, label.evaluator_version)
            ),
            None,
        )
        ai_score = float(label.judge_passed) if isinstance(score, str | None) else float(score)
        human_score = float(label.human_passed)
        agreement = max(0.0, 1 - abs(human_score - ai_score))
        person, evaluator = (
            "passed" if each else "failed" for each in (label.human_passed, label.judge_passed)
        )
        differ = f"{label.labelled_by} {person} it, the evaluator {evaluator} it"
        yield HumanAIEvaluation(
            evaluator_name="human_ai_comparison",
            target_event_id=label.sample_id,
            score=1 - abs(human_score - ai_score),
            human_evaluation=RaterEvaluation(
                annotator_id=label.labelled_by, score=human_score, explanation=label.note
            ),
            ai_evaluation=RaterEvaluation(model=label.evaluator_version, score=ai_score),
            agreement_score=agreement,
            discrepancy_analysis="" if person == evaluator else differ,
            timestamp=label.labelled_at,
        )


# --- failing questions asked again ---

#: The chance that a component is wrongly said to explain the fall, over all changes and looks.
_ALPHA = 0.05
_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Change:
    """
    One changed component, and what became of the questions asked with it.

    ``fixed``: failed as the app is and passed with the change; ``not_fixed``: failed with the
    change; ``passed``: passed both times.
    """

    component: str
    value: str
    fixed: int = 0
    not_fixed: int = 0
    passed: int = 0
    decided: HalfFixed = field(default_factory=lambda: half_fixed(0, 0, alpha=_ALPHA))

    @property
    def name(self) -> str:
        """The change as it is written."""
        return f"{self.component}={self.value}"

    def count(self, *, before: bool, after: bool, alpha: float) -> None:
        """Count a question by whether both answers passed."""
        if before and after:
            self.passed += 1
        elif after:
            self.fixed += 1
        else:
            self.not_fixed += 1
        self.decided = half_fixed(self.fixed, self.not_fixed, alpha=alpha)


def read_changes(written: Sequence[str]) -> list[Change]:
    """Read ``component=value`` each; raise RecordError for what is nothing of the kind."""
    found = []
    for each in written:
        component, separator, value = each.partition("=")
        if not (separator and value and component.isidentifier()):
            raise RecordError(f"Invalid change '{each}': expected component=value: retriever=v11")
        found.append(Change(component, value))
    return found


class Rerun:
    """
    Asks questions again, with one change at a time, until each is decided or questions end.

    *reply* is the app: it takes a question, and each changed component as a keyword argument.
    Raises SettingsError if it cannot be called, the metric is unknown or the judge lacks its key,
    and RecordError if it does not take one of the components.
    """

    def __init__(
        self, reply: object, changes: Sequence[Change], metric: str, settings: Settings
    ) -> None:
        self.changes, self.unusable, self._settings = changes, Counter[str](), settings
        self.line: float | None = None  #: the app's own, where it has learnt one
        self._grader = Grader([metric], settings)
        self.version = self._grader.versions[metric]
        call: Any = reply
        self._as_it_is = open_app(call, timeout_s=_TIMEOUT_S)
        components = [*inspect.signature(call).parameters.values()][1:]
        if not any(each.kind is each.VAR_KEYWORD for each in components):
            known = [each.name for each in components if each.kind is not each.VAR_POSITIONAL]
            for change in changes:
                if change.component not in known:
                    expected = ", ".join(known) or "a function with keyword arguments"
                    raise RecordError(
                        f"the app has no component '{change.component}': expected {expected}"
                    )
        self._changed = [
            open_app(partial(call, **{each.component: each.value}), timeout_s=_TIMEOUT_S)
            for each in changes
        ]

    def run(
        self, questions: Iterable[TestCase], on_question: Callable[[int], None] = lambda _: None
    ) -> int:
        """
        Ask; return how many questions were asked.

        Raise JudgeOutageError or BudgetReachedError if the judge cannot be asked at all, or its
        budget is spent; what was counted stands.
        """
        n, alpha = 0, _ALPHA / max(1, len(self.changes))
        with asyncio.Runner() as runner:
            for n, question in enumerate(questions, start=1):
                open_ones = [
                    (change, app)
                    for change, app in zip(self.changes, self._changed, strict=True)
                    if change.decided.answer == "undecided"
                ]
                if not open_ones:
                    return n - 1
                before = self._passes(runner, self._as_it_is, question)
                for change, app in open_ones if before is not None else ():
                    after = self._passes(runner, app, question)
                    if before is not None and after is not None:
                        change.count(before=before, after=after, alpha=alpha)
                on_question(n)
        return n

    def _passes(self, runner: asyncio.Runner, app: EvaluatedApp, question: TestCase) -> bool | None:
        """Return whether an answer passes; None, counted by reason, where it has no score."""
        try:
            answer = runner.run(app.answer(question, None))
        except Exception as error:  # noqa: BLE001 - the app's function may raise anything
            self.unusable[f"app error: {type(error).__name__}"] += 1
            return None
        result = CaseResult(
            case=question.id, case_version=question.version, output=answer.output,
            contexts=answer.contexts, tool_calls=answer.tool_calls, metadata=answer.metadata,
        )  # fmt: skip
        (found,) = self._grader.score(question, result)
        if not isinstance(found.score, int | float):
            self.unusable[f"no score: {found.reason or found.status.value}"] += 1
            return None
        rule = PassRule.of(found, self._settings.pass_score)
        if rule.own and self.line is not None:
            rule = rule._replace(line=self.line)
        return rule.passes(float(found.score))
