"""Run an app over a test set: call it, evaluate what it answers, and summarise."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from monitor.errors import BudgetReachedError, JudgeOutageError, SettingsError
from monitor.metrics import evaluate
from monitor.models import ErrorInfo, Evaluation
from monitor.models.evaluation import AnyEvaluation
from monitor.retry import backoff_s
from monitor.scoring.batch import agreement_and_confidence, performance
from monitor.settings import Settings
from monitor.testsets.apps import EndpointError, EvaluatedApp, open_app
from monitor.testsets.cases import TestCase, TestSet
from monitor.testsets.grading import Grader, verdict, weights_of
from monitor.testsets.runs import (
    AppError,
    CaseKey,
    CaseNote,
    CaseResult,
    EvaluationRun,
    Journal,
    JournalHeader,
    read_run,
    summary_of,
)

T = TypeVar("T")
DEFAULT_METRICS = ("groundedness", "relevance")
OWN = "own"  #: the version of evaluations that a subclass makes
_SCORING_THREADS = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_ERROR_CHARS = 500


@dataclass(eq=False)
class EvaluationRunner:
    """
    Evaluates an app on a test set.

    ``results`` lists what became of each call of the last run, each with ``test``, ``output`` and
    ``evaluation``; ``run`` is the whole record. An app's own error is counted and named, and
    never scored. Override `evaluate_dimension` or `evaluate_output` for evaluations of your own.

    Parameters
    ----------
    test_set
        What to ask.
    rubric
        Names of metrics, each of which has to pass; or weights by metric, as numbers or as
        ``{"weight": ...}``, whose average has to be at least 0.7.
    agent
        What answers; see `monitor.testsets.apps.open_app`.
    settings
        Judge, key, budget and lines; those of the environment by default.
    parameters
        Parameters of metrics, such as ``{"precision_at_k": {"k": 3}}``.
    output
        The file of the run. While it is under way its results are in ``OUTPUT.part``, from which
        a run that was killed goes on. A finished run there is a cache: what the same version of
        the app answered to the same case, and what the same evaluators said of the same answer,
        is not paid for again.
    overwrite
        Start over and replace the output.
    app_version
        Names the version of the app; without one, answers of earlier runs are not used.
    concurrency
        Parallel calls of the app.
    timeout_s
        The longest wait for one answer.
    retries
        Further calls after one that failed, with growing waits.
    repeat
        How often each case is asked, for the metrics of consistency.
    models
        Passed to the app as ``model``, one after the other; each case is asked for each.
    on_progress
        Called with the numbers of finished and of all calls.
    tell
        Gets a sentence about what goes on.

    Raises
    ------
    SettingsError
        If a number is too small.
    """

    test_set: TestSet
    rubric: Mapping[str, Any] | Sequence[str] = DEFAULT_METRICS
    agent: object = None
    _: KW_ONLY
    settings: Settings | None = None
    parameters: Mapping[str, Mapping[str, Any]] | None = None
    output: str | Path | None = None
    overwrite: bool = False
    app_version: str = ""
    concurrency: int = 8
    timeout_s: float = 60.0
    retries: int = 0
    repeat: int = 1
    models: Sequence[str] = ()
    on_progress: Callable[[int, int], None] = lambda _done, _total: None
    tell: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("timeout_s", 1e-3), ("retries", 0), ("repeat", 1)):
            if getattr(self, name) < least:
                raise SettingsError(
                    f"Invalid {name} {getattr(self, name)}: expected {least} or more"
                )
        self.results: list[dict[str, Any]] = []
        self.run: EvaluationRun | None = None
        self._grader: Grader | None = None

    # What a user calls.

    def run_all(self, verbose: bool = False) -> dict[str, Any]:
        """
        Ask and evaluate every case; return `summarize`.

        With *verbose* the number of each call is printed as it finishes.

        Raises
        ------
        SettingsError
            If the app, a metric or a parameter is unknown, or the judge lacks its key.
        JudgeOutageError, BudgetReachedError
            If the judge cannot be asked, or its budget ends the run; with an ``output``, the next
            run goes on from here.
        """
        self.run = _blocking(self._run_all(verbose))
        return self.summarize()

    def run_test(self, test: TestCase | Mapping[str, Any]) -> dict[str, Any]:
        """Ask and evaluate one case; return its ``test``, ``output`` and ``evaluation``."""
        case = test if isinstance(test, TestCase) else TestCase.model_validate(dict(test))

        async def ask() -> CaseResult:
            app = open_app(self.agent, timeout_s=self.timeout_s)
            try:
                answer = await self._answer(app, case, CaseKey(case.id, None, 1))
            finally:
                await app.close()
            return answer if answer.error else await asyncio.to_thread(self._scored, case, answer)

        try:
            return _shown(case, _blocking(ask()))
        finally:
            self._close()

    def evaluate_output(self, output: str, test: TestCase | Mapping[str, Any]) -> dict[str, Any]:
        """Return ``overall_score``, ``dimension_scores`` and ``passed`` of an answer to *test*."""
        case = test if isinstance(test, TestCase) else TestCase.model_validate(dict(test))
        result = CaseResult(case=case.id, case_version=case.version, output=output)
        return _shown(case, self._scored(case, result))["evaluation"]  # type: ignore[no-any-return]

    def evaluate_dimension(
        self, output: str, ground_truth: Mapping[str, Any], dimension: str, config: object
    ) -> float | None:
        """Return the score of one metric in [0, 1]; None where there is none."""
        del config  # of no use to the metrics that are shipped
        case = TestCase(id="case", expected=dict(ground_truth))
        [[found]] = evaluate([case.interaction(output)], (dimension,), settings=self.settings)
        return None if found.score is None else float(found.score)

    def summarize(self) -> dict[str, Any]:
        """
        Summarise ``results`` as `monitor.testsets.runs.summary_of` does, with the ``failures``.

        Return an ``error`` where nothing has run.
        """
        if not self.results:
            return {"error": "No results"}
        together = [
            e for found in (self.run.consistency.values() if self.run else ()) for e in found
        ]
        results = [each["result"] for each in self.results]
        return summary_of(self.test_set, results, together) | {
            "failures": [r for r in self.results if r["evaluation"]["passed"] is False]
        }

    # One run.

    async def _run_all(self, verbose: bool) -> EvaluationRun:
        started_s = time.perf_counter()
        app = open_app(self.agent, timeout_s=self.timeout_s, tell=self.tell)
        output = None if self.output is None else Path(self.output)
        if output is not None and self.overwrite:
            output.unlink(missing_ok=True)
            Journal.path_of(output).unlink(missing_ok=True)
        header = JournalHeader(
            app=app.name, app_version=self.app_version, evaluators=self._versions()
        )
        journal = Journal(output, header)
        finished = False
        try:
            calls = [
                (case, CaseKey(case.id, model, n))
                for case in self.test_set
                for model in (self.models or (None,))
                for n in range(1, self.repeat + 1)
            ]
            done = self._reusable(journal, app.name, output)
            kept = sum(done[key].scored for _, key in calls if key in done)
            if kept:
                self.tell(f"{kept:,} of {len(calls):,} answers exist already; resuming")
            found = await self._all_calls(app, calls, done, journal, verbose=verbose)
            made = self._finish(found, app.name, time.perf_counter() - started_s)
            if output is not None:
                made.write(output)
            finished = True
        except (BudgetReachedError, JudgeOutageError) as error:
            hint = "" if output is None else "; run it again to resume where it stopped"
            raise type(error)(f"{error}{hint}") from None
        finally:
            journal.close(finished=finished)
            self._close()
            await app.close()
        return made

    async def _all_calls(
        self,
        app: EvaluatedApp,
        calls: Sequence[tuple[TestCase, CaseKey]],
        done: Mapping[CaseKey, CaseResult],
        journal: Journal,
        *,
        verbose: bool,
    ) -> list[CaseResult]:
        """
        Ask and evaluate what is not done; a slow answer holds no other one up.

        What ends the run, such as a judge that is away, lets the calls in flight end: their
        answers are paid for and are kept.
        """
        asking = asyncio.Semaphore(self.concurrency)
        at_once = max(_SCORING_THREADS, 1 if self._is_own() else self._grading().concurrency)
        pool = ThreadPoolExecutor(at_once, "groundwatch-eval")
        finished, stopped = 0, list[Exception]()

        async def work(case: TestCase, key: CaseKey) -> CaseResult | None:
            nonlocal finished
            try:
                result = done.get(key)
                if result is None:
                    async with asking:
                        if stopped:
                            return None
                        result = await self._answer(app, case, key)
                    journal.add(result)
                if stopped:
                    return None
                if result.error is None and not result.scored:
                    loop = asyncio.get_running_loop()
                    result = await loop.run_in_executor(pool, self._scored, case, result)
                    journal.add(result)
                finished += 1
                self.on_progress(finished, len(calls))
            except Exception as error:  # noqa: BLE001 - raised once those in flight have ended
                stopped.append(error)
                return None
            if verbose:
                print(f"Running test {finished}/{len(calls)}")  # noqa: T201 - asked for
            return result

        try:
            results = await asyncio.gather(*(work(case, key) for case, key in calls))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if stopped:
            raise stopped[0]
        return [result for result in results if result is not None]

    async def _answer(self, app: EvaluatedApp, case: TestCase, key: CaseKey) -> CaseResult:
        """Ask the app, as often as the retries allow; its error is a result without a score."""
        fields: dict[str, Any] = {"case": case.id, "case_version": case.version}
        fields |= {"model": key.model, "repeat": key.repeat}
        started_s = time.perf_counter()
        for attempt in range(1, self.retries + 2):
            fields["attempts"] = attempt
            try:
                async with asyncio.timeout(self.timeout_s):
                    answer = await app.answer(case, key.model)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the app's
                if isinstance(error, TimeoutError):
                    said = f"no answer within {self.timeout_s:g} s"
                else:
                    said = str(error)[:_ERROR_CHARS]
                failed = AppError(type=type(error).__name__, message=said)
                if attempt <= self.retries:
                    wait_s = backoff_s(attempt, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S)
                    asked_s = (isinstance(error, EndpointError) and error.retry_after_s) or 0.0
                    await asyncio.sleep(max(wait_s, min(asked_s, _LONGEST_WAIT_S)))
            else:
                took_ms = (time.perf_counter() - started_s) * 1000
                return CaseResult(**fields, **dict(answer), duration_ms=took_ms)
        took_ms = (time.perf_counter() - started_s) * 1000
        return CaseResult(**fields, error=failed, duration_ms=took_ms)

    def _reusable(
        self, journal: Journal, app: str, output: Path | None
    ) -> dict[CaseKey, CaseResult]:
        """Return what need not be paid for again: of the unfinished run, else of the last one."""
        versions = {case.id: case.version for case in self.test_set}
        evaluators, version = self._versions(), self.app_version
        found: dict[CaseKey, CaseResult] = {}
        if output is not None and output.exists() and not journal.found:
            last = read_run(output)
            is_same_app = bool(version) and (last.app, last.app_version) == (app, version)
            for result in last.results if is_same_app else ():
                is_same = last.evaluators == evaluators
                found[result.key] = result if is_same else result.unscored()
        found |= journal.found
        return {
            key: result.unscored() if result.has_failed else result
            for key, result in found.items()
            if result.error is None and versions.get(result.case) == result.case_version
        }

    def _finish(self, results: Sequence[CaseResult], app: str, duration_s: float) -> EvaluationRun:
        cases = {case.id: case for case in self.test_set}
        self.results = [_shown(cases[result.case], result) for result in results]
        by_case: dict[str, list[CaseResult]] = defaultdict(list)
        for result in results:
            by_case[result.case].append(result)
        consistency = {}
        for case in () if self._is_own() else self.test_set:
            if found := self._grading().score_together(case, by_case[case.id]):
                consistency[case.id] = found
        together = [each for found in consistency.values() for each in found]
        evaluations = [e for result in results for e in result.evaluations] + together
        summary = summary_of(self.test_set, results, together)
        return EvaluationRun(
            dataset=self.test_set.name,
            dataset_version=self.test_set.version,
            timestamp=datetime.now(UTC),
            app=app,
            app_version=self.app_version,
            evaluators=self._versions(),
            repeat=self.repeat,
            models=tuple(self.models),
            duration_s=duration_s,
            total_queries=len(results),
            **{name: item for name, item in summary.items() if name in EvaluationRun.model_fields},
            evaluation_performance=performance(evaluations),
            evaluation_quality=agreement_and_confidence(evaluations),
            cases={case.id: CaseNote.of(case) for case in self.test_set},
            consistency=consistency,
            results=tuple(results),
        )

    # Evaluations.

    def _scored(self, case: TestCase, result: CaseResult) -> CaseResult:
        """Return *result* with its evaluations."""
        kind, output = type(self), result.output or ""
        evaluations: tuple[AnyEvaluation, ...]
        if kind.evaluate_output is not EvaluationRunner.evaluate_output:
            said = self.evaluate_output(output, case)
            evaluations = _records(case, said.get("dimension_scores", {}))
            overall, passed = said.get("overall_score"), said.get("passed")
        else:
            if kind.evaluate_dimension is not EvaluationRunner.evaluate_dimension:
                configs = dict.fromkeys(self.rubric)
                if isinstance(self.rubric, Mapping):
                    configs |= self.rubric
                scores = {
                    name: self.evaluate_dimension(output, case.expected, name, config)
                    for name, config in configs.items()
                }
                evaluations = _records(case, scores)
            else:
                evaluations = self._grading().score(case, result)
            overall, passed = verdict(evaluations, weights_of(self.rubric))
        graded = {"evaluations": evaluations, "overall_score": overall, "passed": passed}
        return result.model_copy(update={**graded, "scored": True})

    def _is_own(self) -> bool:
        """Return whether a subclass evaluates."""
        kind = type(self)
        return (
            kind.evaluate_output is not EvaluationRunner.evaluate_output
            or kind.evaluate_dimension is not EvaluationRunner.evaluate_dimension
        )

    def _versions(self) -> dict[str, str]:
        return dict.fromkeys(self.rubric, "own") if self._is_own() else self._grading().versions

    def _grading(self) -> Grader:
        if self._grader is None:
            settings = self.settings or Settings.from_env()
            self._grader = Grader(tuple(self.rubric), settings, self.parameters)
        return self._grader

    def _close(self) -> None:
        if self._grader is not None:
            self._grader.close()
        self._grader = None


def _shown(case: TestCase, result: CaseResult) -> dict[str, Any]:
    """Return what became of a call as users read it."""
    return {
        "test": case,
        "output": result.output,
        "evaluation": {
            "overall_score": result.overall_score,
            "dimension_scores": result.dimension_scores,
            "passed": result.passed,
        },
        "error": None if result.error is None else result.error.model_dump(),
        "result": result,
    }


def _records(case: TestCase, scores: Mapping[str, float | None]) -> tuple[Evaluation, ...]:
    """Make records of scores that a subclass gives."""
    made = []
    for name, score in scores.items():
        fields: dict[str, Any] = {"target_event_id": case.id, "evaluator_version": OWN}
        fields["evaluator_name"] = name
        if score is None:
            made.append(Evaluation.skipped(reason="no_score", **fields))
        elif not 0 <= score <= 1:
            said = f"the score {score:g} is not in [0, 1]"
            error = ErrorInfo(type="ValueError", message=said, code="out_of_range")
            made.append(Evaluation.failed(error=error, **fields))
        else:
            made.append(Evaluation(score=float(score), **fields))
    return tuple(made)


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end, in a thread where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "groundwatch-eval") as pool:
        return pool.submit(asyncio.run, work).result()
