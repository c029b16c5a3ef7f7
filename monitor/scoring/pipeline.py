"""
How one interaction becomes one evaluation a metric.

Read `MetricPipeline.score` first: it decides which metrics apply and what scores each of
them. There are four kinds (`monitor.scoring.declaration`):

* read out of one judgement that several metrics share, made by the local scorer, by a judge,
  or by the cascade of both: `JudgementScorer`, `monitor.scoring.cascade`;
* asked with questions of their own, all of a sample in one further call;
* computed from the interaction;
* combined from the scores of others.

What cannot be scored is ``skipped`` with a reason, what broke is ``failed`` with an error;
neither has a score. No metric's record depends on which others are scored beside it.
"""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

import structlog

from monitor.errors import (
    BudgetReachedError,
    GroundwatchError,
    JudgeError,
    JudgeOutageError,
    JudgeReplyError,
)
from monitor.models import ErrorInfo, Evaluation, EvaluationStatus, Interaction
from monitor.models.evaluation import Direction, advice_for
from monitor.queue.wire import unscorable
from monitor.scoring.base import (
    Finding,
    InfersContradictions,
    Judge,
    Judgement,
    KeepsJudgements,
    Scorer,
)
from monitor.scoring.declaration import (
    Combined,
    Computed,
    ConfiguredMetric,
    CriteriaJudge,
    JudgementMetric,
    RubricMetric,
    Similarity,
    check_cpu,
    compared_by,
    cpu_budget,
)
from monitor.scoring.limits.budget import BudgetWatch
from monitor.scoring.metrics import METRICS

T = TypeVar("T")
_DECLINED = "right_refusal"  #: the reason of what asks how the query is answered
_CPU_S = 10.0  # of a sample; usual ones take milliseconds
_log = structlog.get_logger("groundwatch.scoring")


@dataclass
class MetricPipeline:
    """Scores all metrics that are wanted, and the parts that combined ones need besides."""

    metrics: Sequence[ConfiguredMetric]  #: all to be scored, parts before what is made of them
    wanted: Sequence[str] | None = None  #: the names to report, in order; by default all
    judged: Scorer | None = None  #: scores the metrics that share one judgement, if there are any
    #: Answers the questions that metrics have of their own, all of a sample in one call; without
    #: it these metrics are computed by their screen or skipped as ``needs_judge``.
    criteria_judge: CriteriaJudge | None = None
    concurrency: int = 1  #: how many calls of ``score`` are worth having in flight
    #: Draws, by a sample's key, whether *criteria_judge* is asked about it; metrics with
    #: questions of their own are otherwise skipped as ``not_asked``.
    is_asked: Callable[[str], bool] = lambda _: True
    #: What is left of the judge's budget. While it is used up, all samples fare alike, also those
    #: about which a cascade would not have asked: otherwise those that remain would not stand for
    #: the others. Without one, a budget that is used up ends the run.
    budget: BudgetWatch | None = None
    #: Scores the metrics of *judged* then; without it they are skipped as ``budget_reached``.
    fallback: Scorer | None = None
    similarity: Similarity | None = None  #: compares meanings; without it what embeds is skipped
    cpu_s: float = _CPU_S  #: of one sample; the rest is then failed as ``too_expensive``
    _versions: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._metrics = {each.name: each for each in self.metrics}
        self._wanted = tuple(self._metrics if self.wanted is None else self.wanted)
        judge: object = self.judged.judge if isinstance(self.judged, JudgementScorer) else None
        self._inference = judge if isinstance(judge, InfersContradictions) else None
        for each in self.metrics:
            model = self.similarity if each.declaration.embeds else None
            beside = f"+{model.version}" if model is not None else ""
            version = f"computed-{each.version}{beside}"
            if isinstance(each.metric, JudgementMetric) and self.judged is not None:
                version = each.judged_by(self.judged.version)
            elif isinstance(each.metric, RubricMetric) and self.criteria_judge is not None:
                version = f"{self.criteria_judge.criteria_version}-{each.version}{beside}"
            elif isinstance(each.metric, RubricMetric):
                version = f"{'screen' if each.metric.screen else 'unasked'}-{each.version}"
                rules = each.metric.screen_version()
                if each.declaration.infers and self._inference is not None:
                    rules = self.version
                version += f"+{rules}" if rules else ""
            elif isinstance(each.metric, Combined):
                parts = "+".join(self._versions[part] for part in each.metric.weights)
                digest = hashlib.sha256(parts.encode()).hexdigest()[:8]
                version = f"combined-{each.version}-{digest}"
            self._versions[each.name] = version
        if self.judged is not None:
            self.concurrency = max(self.concurrency, self.judged.concurrency)

    @property
    def version(self) -> str:
        """The version of the judge, else of the formulas."""
        return self.judged.version if self.judged else "computed"

    @property
    def versions(self) -> dict[str, str]:
        """The ``evaluator_version`` of each wanted metric."""
        return {name: self._versions[name] for name in self._wanted}

    def kept(self, interactions: Sequence[Interaction]) -> list[Judgement | None]:
        """Return the judgements with which samples are scored without waiting for anybody."""
        # Code of the user's own may wait, and samples whose judgement is kept share one thread.
        ours = all(
            METRICS.get(each.name) is each.metric or not isinstance(each.metric, Computed)
            for each in self.metrics
        )
        if ours and self.criteria_judge is None and isinstance(self.judged, JudgementScorer):
            return self.judged.kept(interactions)
        return [None] * len(interactions)

    def score(
        self, interaction: Interaction, *, key: str = "", kept: Judgement | None = None
    ) -> tuple[Evaluation, ...]:
        """
        Return one evaluation a wanted metric, in order; *key* names the sample.

        *kept* is its judgement where `kept` had one.

        Raises
        ------
        JudgeOutageError, BudgetReachedError, QueueUnavailableError
            If the judge cannot be asked now, which is not the fault of the interaction. Anything
            else that goes wrong is a failed evaluation.
        """
        with compared_by(self.similarity, self._inference), cpu_budget(self.cpu_s):
            unseen = unscorable(interaction)
            judge = None if unseen else self.criteria_judge
            if judge is None or self.judged is None:
                found = self._judge(interaction, key, kept)
                found |= self._ask(judge, interaction, key) if judge is not None else {}
            else:  # both calls of a sample side by side
                with ThreadPoolExecutor(1, "groundwatch-criteria") as pool:
                    asked = pool.submit(copy_context().run, self._ask, judge, interaction, key)
                    found = self._judge(interaction, key)
                    found |= asked.result()
            if any(each.reason == _DECLINED for each in found.values()):
                found |= self._declined(found, interaction)
            for each in self._metrics.values():
                if each.name not in found:
                    found[each.name] = self._compute(each, found, interaction, unseen)
        # What unreported parts cost is on the first metric that is made of them.
        hidden_usd = sum(e.cost_usd or 0.0 for n, e in found.items() if n not in self._wanted)
        for name in self._wanted:
            if hidden_usd and isinstance(self._metrics[name].metric, Combined):
                found[name] = found[name].model_copy(update={"cost_usd": hidden_usd})
                break
        return tuple(found[name] for name in self._wanted)

    def close(self) -> None:
        """Close the connections to the judge."""
        for each in (self.judged, self.criteria_judge):
            if each is not None:
                each.close()

    def _judge(
        self, interaction: Interaction, key: str, kept: Judgement | None = None
    ) -> dict[str, Evaluation]:
        """Score the metrics that share one judgement, as far as the budget allows it."""
        if self.judged is None:
            return {}
        paid_usd = None
        if self.budget is None or self.budget.reached() is None:
            try:
                if kept is not None and isinstance(self.judged, JudgementScorer):
                    return _by_name(self.judged.score(interaction, kept=kept))
                return _by_name(self.judged.score(interaction, key=key))
            except BudgetReachedError as error:
                if self.budget is None:
                    raise
                paid_usd = error.context.get("cost_usd")
        if self.fallback is not None:
            return _by_name(_with_cost(self.fallback.score(interaction, key=key), paid_usd))
        metrics = [m for m in self._metrics.values() if isinstance(m.metric, JudgementMetric)]
        return self._skipped(metrics, interaction, "budget_reached", paid_usd)

    def _ask(
        self, judge: CriteriaJudge, interaction: Interaction, key: str
    ) -> dict[str, Evaluation]:
        """Ask the questions of all metrics that have some, in one call."""
        asked = [
            (each, each.metric)
            for each in self._metrics.values()
            if isinstance(each.metric, RubricMetric) and each.unmet(interaction) is None
        ]
        if not asked:
            return {}
        metrics = [each for each, _ in asked]
        if not self.is_asked(key or interaction.id):
            return self._skipped(metrics, interaction, "not_asked")
        if self.budget is not None and self.budget.reached() is not None:
            return self._skipped(metrics, interaction, "budget_reached")
        criteria = {item.name: item for _, metric in asked for item in metric.criteria}
        fields = frozenset(path for each in metrics for path in each.declaration.requires)
        try:
            reply = _outcome(
                lambda: judge.ask(interaction, tuple(criteria.values()), fields), interaction.id
            )
        except BudgetReachedError as error:
            if self.budget is None:
                raise
            paid_usd = error.context.get("cost_usd")
            return self._skipped(metrics, interaction, "budget_reached", paid_usd)
        found: dict[str, Evaluation] = {}
        with cpu_budget(self.cpu_s):
            for each, metric in asked:
                about = _record_fields(each, self._versions[each.name], interaction)
                if isinstance(reply, Exception):
                    found[each.name] = failure(reply, about, shared_by=len(asked))
                    continue
                about["duration_ms"] = reply.duration_ms
                about["cost_usd"] = _share(reply.cost_usd, len(asked))
                read = partial(metric.read, reply.answers, interaction, each.parameters)
                found[each.name] = _finished(each, read, about, reply.details)
        return found

    def _declined(
        self, found: Mapping[str, Evaluation], interaction: Interaction
    ) -> dict[str, Evaluation]:
        """Skip what asks how a query is answered that is rightly declined."""
        asked = (
            (each, found[each.name])
            for each in self._metrics.values()
            if isinstance(each.metric, RubricMetric) and _DECLINED in each.declaration.skips
            if each.name in found and found[each.name].score is not None
        )
        return {
            each.name: Evaluation.skipped(
                reason=_DECLINED,
                cost_usd=made.cost_usd,
                duration_ms=made.duration_ms,
                **_record_fields(each, self._versions[each.name], interaction),
            )
            for each, made in asked
        }

    def _compute(
        self,
        each: ConfiguredMetric,
        found: Mapping[str, Evaluation],
        interaction: Interaction,
        unseen: str | None,
    ) -> Evaluation:
        """Compute what no judge scored: from the scores of its parts, or the interaction."""
        fields, metric = _record_fields(each, self._versions[each.name], interaction), each.metric
        if isinstance(metric, Combined):
            parts = {part: found[part] for part in metric.weights}
            scores = {
                part: float(made.score or 0.0)
                for part, made in parts.items()
                if made.status is EvaluationStatus.COMPLETED
            }
            lower = {p for p in parts if self._metrics[p].rule.direction is Direction.LOWER}
            return _finished(each, lambda: metric.combine(scores, lower), fields)
        if reason := unseen or each.unmet(interaction):
            return Evaluation.skipped(reason=reason, **fields)
        compute = metric.compute if isinstance(metric, Computed) else None
        if isinstance(metric, RubricMetric):
            compute = metric.screen
        if compute is None:
            return Evaluation.skipped(reason="needs_judge", **fields)
        started_s = time.perf_counter()
        made = _finished(each, lambda: compute(interaction, each.parameters), fields)
        duration_ms = (time.perf_counter() - started_s) * 1000
        return made.model_copy(update={"duration_ms": duration_ms})

    def _skipped(
        self,
        metrics: Iterable[ConfiguredMetric],
        interaction: Interaction,
        reason: str,
        paid_usd: float | None = None,
    ) -> dict[str, Evaluation]:
        made = [
            Evaluation.skipped(
                reason=reason, **_record_fields(each, self._versions[each.name], interaction)
            )
            for each in metrics
        ]
        return _by_name(_with_cost(made, paid_usd))


@dataclass
class JudgementScorer:
    """Scores the metrics that are read out of one judgement; may be shared by threads."""

    judge: Judge  #: asked at most once an interaction
    metrics: Sequence[ConfiguredMetric]  #: what to read from it, each a `JudgementMetric`
    concurrency: int = 1  #: how many calls of ``score`` are worth having in flight

    @property
    def version(self) -> str:
        """The version of the judge; a metric with parameters of its own adds them to it."""
        return self.judge.version

    def kept(self, interactions: Sequence[Interaction]) -> list[Judgement | None]:
        """Return the judgements that the judge keeps, each in the place of its interaction."""
        if isinstance(self.judge, KeepsJudgements):
            return self.judge.kept(interactions)
        return [None] * len(interactions)

    def score(
        self,
        interaction: Interaction,
        *,
        key: str = "",  # noqa: ARG002  # a cascade draws by it
        kept: Judgement | None = None,
    ) -> tuple[Evaluation, ...]:
        """Return one evaluation a metric, in order; raises what `MetricPipeline.score` does."""
        unseen = unscorable(interaction)
        reasons = [unseen or each.unmet(interaction) for each in self.metrics]
        shared_by = reasons.count(None)
        outcome: Judgement | Exception | None = kept
        if shared_by and kept is None:
            outcome = _outcome(lambda: self.judge.judge(interaction), interaction.id)
        made = []
        for each, reason in zip(self.metrics, reasons, strict=True):
            fields = _record_fields(each, each.judged_by(self.version), interaction)
            if reason is not None or outcome is None:
                made.append(Evaluation.skipped(reason=reason or "", **fields))
            elif isinstance(outcome, Exception):
                made.append(failure(outcome, fields, shared_by=shared_by))
            else:
                metric, said = each.metric, outcome
                assert isinstance(metric, JudgementMetric)
                fields["duration_ms"] = said.duration_ms
                fields["cost_usd"] = _share(said.cost_usd, shared_by)
                used = {
                    "model": said.model,
                    "input_tokens": said.input_tokens,
                    "output_tokens": said.output_tokens,
                    "kept_verdict": said.kept or None,
                }
                call = said.details | {k: v for k, v in used.items() if v is not None}
                read = partial(metric.read, said, interaction, each.parameters)
                made.append(_finished(each, read, fields, call))
        return tuple(made)

    def close(self) -> None:
        """Close the judge's connections."""
        self.judge.close()


# What all records have in common.


def _record_fields(
    each: ConfiguredMetric, version: str, interaction: Interaction
) -> dict[str, Any]:
    return {
        "target_event_id": interaction.id,
        "evaluator_name": each.name,
        "evaluator_version": version,
        "criteria": each.criteria(),
    }


@cache
def _own_fields(record: type[Evaluation]) -> frozenset[str]:
    return frozenset(record.model_fields.keys() - Evaluation.model_fields.keys())


def _finished(
    each: ConfiguredMetric,
    find: Callable[[], Finding],
    fields: dict[str, Any],
    call_details: Mapping[str, Any] | None = None,
) -> Evaluation:
    """
    Turn what *find* returns into a record; a metric that breaks takes no other along.

    *fields* are those that do not depend on what is found; *call_details* say how the judge
    was asked, for the metadata.
    """
    call = dict(call_details or {})
    try:
        check_cpu()
        finding = find()
        if finding.skipped is not None:
            said = {"explanation": finding.explanation or None, "metadata": finding.details | call}
            return Evaluation.skipped(reason=finding.skipped, **said, **fields)
        if finding.score is None or not 0 <= finding.score <= 1:
            return failure(JudgeReplyError("the score is not in [0, 1]"), fields, shared_by=1)
        score = round(float(finding.score), 6)
        advice = advice_for(each.name, score, each.rule.direction)
        record, details = each.declaration.record, dict(finding.details)
        own = {key: details.pop(key) for key in _own_fields(record) & details.keys()}
        if advice:
            details["advice"] = f"{advice.cause}: {advice.fix}"
        return record(
            score=score,
            explanation=finding.explanation or None,
            confidence=finding.confidence,
            metadata=details | call,
            **own,
            **fields,
        )
    except Exception as error:  # noqa: BLE001 - see above
        if not isinstance(error, JudgeError):
            _log_internal(error, fields["target_event_id"])
        return failure(error, fields | {"metadata": call}, shared_by=1)


def failure(error: Exception, fields: Mapping[str, Any], *, shared_by: int) -> Evaluation:
    """
    Return the record of an evaluation that broke; only our own errors are quoted.

    The text of any other exception may hold anything, also what was judged. *shared_by*
    metrics share what the call cost.
    """
    if not isinstance(error, JudgeError):
        info = ErrorInfo(type=type(error).__name__, message="", code="internal_error")
        return Evaluation.failed(error=info, **fields)
    context = dict(error.context)
    bill = {
        "cost_usd": _share(context.pop("cost_usd", None), shared_by),
        "duration_ms": context.pop("duration_ms", None),
    }
    info = ErrorInfo(
        type=type(error).__name__,
        message=str(error),
        code=error.code,
        context=context | {"transient": error.transient},
    )
    return Evaluation.failed(error=info, **(bill | dict(fields)))


def _outcome(ask: Callable[[], T], interaction_id: str) -> T | Exception:
    """Return what a judge says, or the error that makes the evaluation a failed one."""
    try:
        return ask()
    except (JudgeOutageError, BudgetReachedError):
        raise
    except JudgeError as error:
        return error
    except GroundwatchError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken judge is a failed evaluation
        _log_internal(error, interaction_id)
        return error


def _log_internal(error: Exception, interaction_id: str) -> None:
    """Log where an unexpected error came from, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    _log.error(
        "internal_error", interaction_id=interaction_id, error=type(error).__name__, where=where
    )


def _share(cost_usd: float | None, shared_by: int) -> float | None:
    """Split the cost of one call, so that the sum over evaluations is what was paid."""
    return None if cost_usd is None else cost_usd / shared_by


def _with_cost(evaluations: Sequence[Evaluation], paid_usd: float | None) -> Sequence[Evaluation]:
    """Share out what was paid before the budget had no room for the next question."""
    if not paid_usd:
        return evaluations
    each = {"cost_usd": paid_usd / len(evaluations)}
    return [evaluation.model_copy(update=each) for evaluation in evaluations]


def _by_name(evaluations: Iterable[Evaluation]) -> dict[str, Evaluation]:
    return {each.evaluator_name: each for each in evaluations}
