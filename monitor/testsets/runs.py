"""Runs of an app over a test set: their records and figures, and the file that keeps them."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import AwareDatetime, BaseModel, Field, ValidationError
from pydantic_core import PydanticSerializationError

from monitor.errors import GroundwatchError, RecordError, first_mistake
from monitor.format import plain_text
from monitor.models import EvaluationStatus, PerformanceSummary, QualitySummary
from monitor.models.evaluation import AnyEvaluation, PassRule
from monitor.models.interaction import Passage, ToolCall
from monitor.queue.wire import mended
from monitor.report.words import skip_sentence
from monitor.stats.summary import summarise
from monitor.testsets.cases import TestCase, TestSet, write_whole

_FSYNC_EVERY_S = 1.0
_PASS_SCORE = 0.7
_READ_MODE = 0o600  #: a run quotes answers: its owner alone reads it


class AppError(BaseModel, frozen=True, extra="forbid"):
    """Why an app gave no answer."""

    type: str
    message: str


class CaseKey(NamedTuple):
    """One call of the app in a run: which case, by which model, for the how manyth time."""

    case: str
    model: str | None
    repeat: int


class CaseResult(BaseModel, frozen=True, extra="forbid"):
    """
    What became of one call of the app: an answer with its evaluations, or the app's error.

    ``passed`` is None where nothing could be scored. ``scored`` is False while an answer waits for
    its evaluations.
    """

    case: str
    case_version: str
    model: str | None = None
    repeat: int = Field(1, ge=1)
    output: str | None = None
    contexts: tuple[Passage, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    error: AppError | None = None
    attempts: int = Field(1, ge=1)
    duration_ms: float | None = Field(None, ge=0)
    evaluations: tuple[AnyEvaluation, ...] = ()
    overall_score: float | None = None
    passed: bool | None = None
    scored: bool = False

    @property
    def key(self) -> CaseKey:
        """What no other result of the run has."""
        return CaseKey(self.case, self.model, self.repeat)

    @property
    def has_failed(self) -> bool:
        """Whether an evaluation broke; another try may end better."""
        return any(each.status is EvaluationStatus.FAILED for each in self.evaluations)

    def unscored(self) -> Self:
        """Return the answer without its evaluations."""
        return self.model_copy(
            update={"evaluations": (), "overall_score": None, "passed": None, "scored": False}
        )

    @property
    def dimension_scores(self) -> dict[str, float]:
        """The scores by metric, of those that have one."""
        return {
            each.evaluator_name: float(each.score)
            for each in self.evaluations
            if each.status is EvaluationStatus.COMPLETED and isinstance(each.score, int | float)
        }


class CaseNote(BaseModel, frozen=True, extra="forbid"):
    """What a run remembers of a case, so that runs can be paired without the test set."""

    version: str
    query: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    critical: bool = False

    @classmethod
    def of(cls, case: TestCase) -> Self:
        """Return the note of a case."""
        return cls(version=case.version, **{
            name: getattr(case, name) for name in ("query", "category", "tags", "critical")
        })  # fmt: skip


class EvaluationRun(BaseModel, frozen=True, extra="forbid"):
    """
    A run of an app over a test set, as ``run.json`` holds it.

    ``metrics`` has for each metric ``n``, ``mean``, ``median``, ``std_dev`` (over n - 1), ``min``,
    ``max``, ``percentile_5``, ``percentile_95``, ``pass_rate`` and ``histogram``; ``per_category``
    the ``count`` of each category and its means. ``app_errors`` and ``unscored`` results are in no
    figure. ``consistency`` has the evaluations of all answers to a case together, by case.
    """

    format: Literal[1] = 1
    dataset: str
    dataset_version: str
    timestamp: AwareDatetime
    app: str
    app_version: str = ""
    evaluators: dict[str, str] = Field(default_factory=dict, description="Version by metric.")
    repeat: int = 1
    models: tuple[str, ...] = ()
    duration_s: float = 0.0
    total_queries: int
    passed: int
    failed: int
    unscored: int
    app_errors: int
    pass_rate: float | None
    metrics: dict[str, dict[str, Any]] = Field(default_factory=dict)
    per_category: dict[str, dict[str, float]] = Field(default_factory=dict)
    evaluation_performance: PerformanceSummary | None = None
    evaluation_quality: QualitySummary | None = None
    cases: dict[str, CaseNote] = Field(default_factory=dict)
    consistency: dict[str, tuple[AnyEvaluation, ...]] = Field(default_factory=dict)
    results: tuple[CaseResult, ...] = ()

    def rules(self) -> dict[str, PassRule]:
        """Return by metric where its scores pass, as its evaluations say."""
        found: dict[str, PassRule] = {}
        for each in self.evaluations():
            if each.criteria and each.evaluator_name not in found:
                found[each.evaluator_name] = PassRule.of(each, _PASS_SCORE)
        return found

    def evaluations(self) -> Iterable[AnyEvaluation]:
        """Iterate over all evaluations of the run."""
        for result in self.results:
            yield from result.evaluations
        for together in self.consistency.values():
            yield from together

    def case_scores(self, metric: str) -> dict[str, float]:
        """Return the mean score of each case that has one, over repeats and models."""
        found: dict[str, list[float]] = defaultdict(list)
        for result in self.results:
            if metric in result.dimension_scores:
                found[result.case].append(result.dimension_scores[metric])
        for case, together in self.consistency.items():
            for each in together:
                if each.evaluator_name == metric and isinstance(each.score, int | float):
                    found[case].append(float(each.score))
        return {case: sum(scores) / len(scores) for case, scores in found.items()}

    def why_unscored(self, metric: str, cases: Collection[str] | None = None) -> str:
        """Return why *cases*, by default all, have no score of a metric, counted; '' if they do."""
        scored, found = self.case_scores(metric), dict[str, str]()
        for result in self.results:
            mine = [*result.evaluations, *self.consistency.get(result.case, ())]
            why = ["app error"] if result.error else []
            for each in mine:
                if each.evaluator_name == metric:
                    means = skip_sentence(each.reason).rstrip(".")
                    code = ": ".join(part for part in (each.reason, means) if part)
                    why.append(f"{each.status} ({plain_text(code, 120)})")
            if result.case not in scored and (cases is None or result.case in cases):
                found.setdefault(result.case, (why or ["not evaluated"])[0])
        return ", ".join(f"{n} {why}" for why, n in Counter(found.values()).most_common())

    def write(self, path: str | Path) -> None:
        """Write the run as JSON, whole or not at all; its owner alone can read it."""
        write_whole(Path(path), _json_text(self, indent=1) + "\n")


def _json_text(
    record: BaseModel, *, indent: int | None = None, exclude_defaults: bool = False
) -> str:
    """Return a record as JSON; lone surrogates, as in what a judge wrote, are replaced."""
    try:
        return record.model_dump_json(indent=indent, exclude_defaults=exclude_defaults)
    except PydanticSerializationError:
        plain = record.model_dump(mode="json", exclude_defaults=exclude_defaults)
        return json.dumps(mended(plain), indent=indent, ensure_ascii=False)


def read_run(path: str | Path) -> EvaluationRun:
    """
    Read a run that ``groundwatch eval`` or `EvaluationRun.write` wrote.

    Raise RecordError if the file cannot be read or is not a finished run.
    """
    path = Path(path)
    try:
        return EvaluationRun.model_validate_json(path.read_bytes())
    except OSError as error:
        unfinished = Journal.path_of(path)
        hint = "; the run has not ended: run eval again" if unfinished.exists() else ""
        raise RecordError(f"{path}: {error.strerror}{hint}") from None
    except ValidationError as error:
        where, what = first_mistake(error)
        raise RecordError(
            f"{path}: not a run of groundwatch eval ({where or 'file'}: {what})"
        ) from None


def figures(scores: Sequence[float], passed: int | None = None) -> dict[str, Any]:
    """
    Return the figures of scores in [0, 1], at least one, of which *passed* pass.

    The deviation is over n - 1; percentiles are interpolated between neighbours. Bins of the
    histogram are a tenth wide, empty ones are left out.
    """
    found = summarise(scores)._asdict()
    found["histogram"] = [{"bin": name, "count": n} for name, n in found["histogram"]]
    found["percentile_5"] = float(np.percentile(scores, 5))
    if passed is not None:
        found |= {"passed": passed, "pass_rate": passed / len(scores)}
    return found


def summary_of(
    test_set: TestSet, results: Sequence[CaseResult], together: Iterable[AnyEvaluation] = ()
) -> dict[str, Any]:
    """
    Count results, one a call of the app, and summarise their scores.

    Return ``total_tests``, ``passed``, ``failed``, ``app_errors``, ``unscored``, ``pass_rate`` (of
    those that passed or failed), ``dimension_averages``, ``metrics`` and ``per_category``.
    *together* are evaluations of several answers to one case.
    """
    category = {case.id: case.category or "uncategorized" for case in test_set}
    scores: dict[str, list[float]] = defaultdict(list)
    passes: Counter[str] = Counter()
    by_category: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    pairs = [(category.get(r.case, ""), each) for r in results for each in r.evaluations]
    for name, each in [*pairs, *(("", each) for each in together)]:
        metric = each.evaluator_name
        if each.status is not EvaluationStatus.COMPLETED or not isinstance(each.score, int | float):
            reasons[metric][each.reason or each.status.value] += 1
            continue
        value = float(each.score)
        scores[metric].append(value)
        passes[metric] += PassRule.of(each, _PASS_SCORE).passes(value)
        if name:
            by_category[name][metric].append(value)
    verdicts = Counter(result.passed for result in results if result.error is None)
    decided = verdicts[True] + verdicts[False]
    metrics = {
        name: (figures(scores[name], passes[name]) if scores[name] else {"n": 0})
        | ({"not_scored": dict(reasons[name])} if reasons[name] else {})
        for name in dict.fromkeys([*scores, *reasons])
    }
    counts = Counter(category.get(result.case, "") for result in results)
    return {
        "total_tests": len(results),
        "passed": verdicts[True],
        "failed": verdicts[False],
        "app_errors": sum(result.error is not None for result in results),
        "unscored": verdicts[None],
        "pass_rate": verdicts[True] / decided if decided else None,
        "dimension_averages": {name: float(np.mean(each)) for name, each in scores.items() if each},
        "metrics": metrics,
        "per_category": {
            name: {"count": counts[name]}
            | {metric: float(np.mean(each)) for metric, each in by_category[name].items()}
            for name in sorted(counts)
        },
    }


class LineFile:
    """
    Lines that one process appends to a file, which its owner alone reads; others are refused.

    A line is written whole and at once, so that a process that is killed loses none; it reaches the
    disk within a second, for machines that lose power. Raises RecordError if another process writes
    to the file now.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._is_file = path.is_file() or not path.exists()  # and no pipe, nor /dev/null
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if self._is_file else os.O_WRONLY
        self._file = os.open(path, flags, _READ_MODE)
        self._synced_s = time.monotonic()
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with this process
            except BlockingIOError:
                os.close(self._file)
                raise RecordError(f"{path} is being written to by another run") from None
        if overwrite and self._is_file:
            os.ftruncate(self._file, 0)

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines that are there; at the end, cut off what follows them."""
        if not self._is_file:
            return
        whole = 0
        with self.path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    whole += len(line)
                    yield line
        os.ftruncate(self._file, whole)

    def write(self, line: str) -> None:
        """Append a line; raise GroundwatchError if it cannot be written, as on a full disk."""
        # Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON writes it.
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
            if self._is_file and time.monotonic() - self._synced_s >= _FSYNC_EVERY_S:
                os.fsync(self._file)
                self._synced_s = time.monotonic()
        except OSError as error:
            raise GroundwatchError(
                f"{self.path}: {error.strerror}; make room and run it again to go on"
            ) from None

    def close(self) -> None:
        """Close the file, with everything on the disk."""
        with suppress(OSError):  # on a full disk the last line could not be written either
            if self._is_file:
                os.fsync(self._file)
        os.close(self._file)


class JournalHeader(BaseModel, frozen=True, extra="forbid"):
    """Of which run a journal is."""

    journal: Literal[1] = 1
    app: str
    app_version: str
    evaluators: dict[str, str]


class Journal:
    """
    The results of a run that is under way, one a line, beside the file that it will become.

    ``found`` has those that are there already; the last line of a key counts. Without *output*, the
    file of the run, nothing is kept.
    """

    def __init__(self, output: Path | None, header: JournalHeader) -> None:
        self.found: dict[CaseKey, CaseResult] = {}
        self._file = None if output is None else LineFile(self.path_of(output))
        if self._file is None:
            return
        before: JournalHeader | None = None
        try:
            for number, line in enumerate(self._file.lines(), start=1):
                try:
                    if before is None or line.startswith(b'{"journal"'):
                        before = self._go_on(
                            before, JournalHeader.model_validate_json(line), header
                        )
                    else:
                        result = CaseResult.model_validate_json(line)
                        self.found[result.key] = result
                except ValidationError:
                    what = f"line {number} is damaged" if before else "is not an unfinished run"
                    raise RecordError(
                        f"{self._file.path}: {what}; remove it, or add --overwrite to start over"
                    ) from None
            if before != header:
                self._go_on(before, header, header)
                self._file.write(header.model_dump_json())
        except BaseException:
            self._file.close()
            raise

    @staticmethod
    def path_of(output: Path) -> Path:
        """Return where the unfinished run of *output* is."""
        return output.with_name(output.name + ".part")

    def _go_on(
        self, before: JournalHeader | None, header: JournalHeader, now: JournalHeader
    ) -> JournalHeader:
        """Go on under *header*: answers stay, what other evaluators said of them does not."""
        if (header.app, header.app_version) != (now.app, now.app_version):
            raise RecordError(
                f"{self._file and self._file.path} is an unfinished run of {header.app}"
                f" {header.app_version}; finish it, remove it, or add --overwrite"
            )
        if before is not None and header.evaluators != before.evaluators:
            self.found = {key: each.unscored() for key, each in self.found.items()}
        return header

    def add(self, result: CaseResult) -> None:
        """Keep a result; raise GroundwatchError if it cannot be written, as on a full disk."""
        if self._file is not None:
            self._file.write(_json_text(result, exclude_defaults=True))

    def close(self, *, finished: bool) -> None:
        """Close the file; once the run is written it goes."""
        if self._file is not None:
            self._file.close()
            if finished:
                self._file.path.unlink(missing_ok=True)
