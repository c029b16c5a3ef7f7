"""
Failing questions asked again, with one component changed: does that component explain the fall?

Each question is answered twice, by the app as it is and with the change, and both answers are
scored alike. What passes both times did not fail again, and says nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from monitor.errors import RecordError
from monitor.models.evaluation import PassRule
from monitor.settings import Settings
from monitor.stats.two_rates import HalfFixed, half_fixed
from monitor.testsets.apps import EvaluatedApp, open_app
from monitor.testsets.cases import TestCase
from monitor.testsets.grading import Grader
from monitor.testsets.runs import CaseResult

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
    Asks questions again until each change is decided, or *questions* end.

    Parameters
    ----------
    reply
        The app: takes a question, and each changed component as a keyword argument.
    changes
        What to change, one at a time.
    metric
        The metric that failed.
    settings
        Judge, key and budget.

    Raises
    ------
    SettingsError
        If *reply* cannot be called, the metric is unknown or the judge lacks its key.
    RecordError
        If *reply* does not take one of the components.
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

        Raises
        ------
        JudgeOutageError, BudgetReachedError
            If the judge cannot be asked at all, or its budget is spent; what was counted stands.
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
