"""Every kind of metric together: computed, read, asked and combined, for one interaction."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from monitor.errors import BudgetReachedError, JudgeError, JudgeReplyError
from monitor.models import Evaluation, EvaluationStatus, Interaction
from monitor.models.bands import advice_for
from monitor.queue.wire import unscorable
from monitor.scoring.base import Finding, ScoresSamples
from monitor.scoring.budgeted import with_cost
from monitor.scoring.declaration import (
    Combined,
    Computed,
    ConfiguredMetric,
    CriteriaJudge,
    Criterion,
    JudgementMetric,
    Reply,
    RubricMetric,
)
from monitor.scoring.metrics.weighted import weighted_average
from monitor.scoring.scorer import failure, log_internal, outcome_of


class MetricPipeline:
    """
    Scores all metrics that are wanted, and the parts that combined ones need besides.

    Parameters
    ----------
    wanted
        The names to report, in order.
    bound
        Every metric that has to be scored, parts before what is made of them.
    inner
        Scores the ``Read`` ones; None when there are none.
    asker
        Answers the questions of the ``Asked`` ones, all of a sample in one call; without it
        they are computed by their screen or skipped as ``needs_judge``.
    concurrency
        How many calls of ``score`` are worth having in flight.
    is_asked
        Draws, by a sample's key, whether the asker is asked about it; metrics with questions
        of their own are else skipped as ``not_asked``.
    once
        Whether a budget that is reached ends the run, rather than skipping these metrics.
    """

    def __init__(
        self,
        wanted: Sequence[str],
        bound: Sequence[ConfiguredMetric],
        inner: ScoresSamples | None,
        asker: CriteriaJudge | None = None,
        *,
        concurrency: int = 1,
        is_asked: Callable[[str], bool] | None = None,
        once: bool = False,
    ) -> None:
        self._wanted = tuple(wanted)
        self._bound = {each.name: each for each in bound}
        self._inner = inner
        self._asker = asker
        self._is_asked = is_asked or (lambda _: True)
        self._once = once
        self._versions: dict[str, str] = {}
        for each in bound:
            self._versions[each.name] = self._version_of(each)
        self.concurrency = max(concurrency, inner.concurrency if inner else 1)

    @property
    def version(self) -> str:
        """The version of the judge, else of the formulas."""
        return self._inner.version if self._inner else "computed"

    @property
    def versions(self) -> dict[str, str]:
        """The ``evaluator_version`` of each wanted metric."""
        return {name: self._versions[name] for name in self._wanted}

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """Make one evaluation a wanted metric, in order; raises only what the inner scorer does."""
        found: dict[str, Evaluation] = {}
        if self._inner is not None:
            found = {e.evaluator_name: e for e in self._inner.score(interaction, key=key)}
            found = {name: self._with_criteria(found[name]) for name in found}
        unseen = unscorable(interaction)
        found |= self._ask(interaction, unseen, key or interaction.id)
        for each in self._bound.values():
            if isinstance(each.metric, Combined):
                found[each.name] = self._combine(each, found, interaction)
            elif each.name not in found:
                found[each.name] = self._compute(each, interaction, unseen)
        return self._reported(found)

    def close(self) -> None:
        """Give connections back."""
        for each in (self._inner, self._asker):
            if each is not None:
                each.close()

    def _version_of(self, each: ConfiguredMetric) -> str:
        if isinstance(each.metric, JudgementMetric) and self._inner is not None:
            shipped = each.parameters == each.declaration.parameters()
            return self._inner.version + ("" if shipped else f"-{each.version}")
        if isinstance(each.metric, RubricMetric) and self._asker is not None:
            return f"{self._asker.version}-{each.version}"
        if isinstance(each.metric, RubricMetric):
            kind = "unasked" if each.metric.screen is None else "screen"
            return f"{kind}-{each.version}"
        if isinstance(each.metric, Combined):
            parts = "+".join(self._versions[part] for part in each.metric.weights)
            return f"combined-{each.version}-{_digest(parts)}"
        return f"computed-{each.version}"

    def _with_criteria(self, evaluation: Evaluation) -> Evaluation:
        bound = self._bound[evaluation.evaluator_name]
        metadata = dict(evaluation.metadata or {})
        if isinstance(evaluation.score, float | int):
            metadata |= _advice(bound, float(evaluation.score))
        update = {
            "criteria": bound.criteria(),
            "metadata": metadata,
            "evaluator_version": self._versions[bound.name],
        }
        return evaluation.model_copy(update=update)

    def _fields(self, each: ConfiguredMetric, interaction: Interaction) -> dict[str, Any]:
        return {
            "target_event_id": interaction.id,
            "evaluator_name": each.name,
            "evaluator_version": self._versions[each.name],
            "criteria": each.criteria(),
        }

    def _compute(
        self, each: ConfiguredMetric, interaction: Interaction, unseen: str | None
    ) -> Evaluation:
        fields = self._fields(each, interaction)
        reason = unseen or each.unmet(interaction)
        metric = each.metric
        if reason is not None:
            return Evaluation.skipped(reason=reason, **fields)
        compute = metric.compute if isinstance(metric, Computed) else None
        if isinstance(metric, RubricMetric):
            compute = metric.screen
        if compute is None:
            return Evaluation.skipped(reason="needs_judge", **fields)
        started = time.perf_counter()
        wanted = compute
        made = self._finish(each, lambda: wanted(interaction, each.parameters), fields)
        return made.model_copy(update={"duration_ms": (time.perf_counter() - started) * 1000})

    def _ask(self, interaction: Interaction, unseen: str | None, key: str) -> dict[str, Evaluation]:
        """Ask the questions of all metrics that can be judged, in one call."""
        asked = [each for each in self._bound.values() if isinstance(each.metric, RubricMetric)]
        if self._asker is None or not asked or unseen:
            return {}
        wanted = [each for each in asked if each.unmet(interaction) is None]
        if not self._is_asked(key):
            return self._skipped(wanted, interaction, "not_asked")
        try:
            outcome = self._asked(wanted, interaction) if wanted else None
        except BudgetReachedError as error:
            if self._once:
                raise
            return self._skipped(wanted, interaction, "budget_reached", error.context)
        made = {}
        for each in wanted:
            fields = self._fields(each, interaction)
            if isinstance(outcome, Exception):
                made[each.name] = failure(outcome, fields, shared_by=len(wanted))
            elif outcome is not None:
                cost = outcome.cost_usd
                fields |= {
                    "duration_ms": outcome.duration_ms,
                    "cost_usd": None if cost is None else cost / len(wanted),
                }
                made[each.name] = self._read(each, outcome, interaction, fields)
        return made

    def _skipped(
        self,
        wanted: Sequence[ConfiguredMetric],
        interaction: Interaction,
        reason: str,
        bill: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Evaluation]:
        made = (
            Evaluation.skipped(reason=reason, **self._fields(each, interaction)) for each in wanted
        )
        paid = with_cost(tuple(made), bill.get("cost_usd"))
        return {each.evaluator_name: each for each in paid}

    def _asked(
        self, wanted: Sequence[ConfiguredMetric], interaction: Interaction
    ) -> Reply | Exception:
        criteria: dict[str, Criterion] = {}
        for each in wanted:
            assert isinstance(each.metric, RubricMetric)
            criteria |= {item.name: item for item in each.metric.criteria(each.parameters)}
        fields = frozenset(path for each in wanted for path in each.declaration.requires)
        asker = self._asker
        assert asker is not None
        return outcome_of(
            lambda: asker.ask(interaction, tuple(criteria.values()), fields), interaction.id
        )

    def _read(
        self, each: ConfiguredMetric, reply: Reply, interaction: Interaction, fields: dict[str, Any]
    ) -> Evaluation:
        metric = each.metric
        assert isinstance(metric, RubricMetric)
        made = self._finish(
            each, lambda: metric.read(reply.answers, interaction, each.parameters), fields
        )
        return made.model_copy(update={"metadata": (made.metadata or {}) | reply.details})

    def _finish(
        self, each: ConfiguredMetric, find: Callable[[], Finding], fields: dict[str, Any]
    ) -> Evaluation:
        """Turn a finding into a record; a broken metric takes no other along."""
        try:
            finding = find()
            if finding.skipped is not None:
                fields["metadata"] = finding.details
                return Evaluation.skipped(reason=finding.skipped, **fields)
            score = _checked(finding.score)
            own, details = _parted(finding.details, each.declaration.record)
            return each.declaration.record(
                score=score,
                explanation=finding.explanation or None,
                confidence=finding.confidence,
                metadata=details | _advice(each, score),
                **own,
                **fields,
            )
        except Exception as error:  # noqa: BLE001 - see above
            if not isinstance(error, JudgeError):
                log_internal(error, fields["target_event_id"])
            return failure(error, fields, shared_by=1)

    def _combine(
        self, each: ConfiguredMetric, found: Mapping[str, Evaluation], interaction: Interaction
    ) -> Evaluation:
        metric = each.metric
        assert isinstance(metric, Combined)
        scores = {
            part: float(found[part].score or 0.0)
            for part in metric.weights
            if found[part].status is EvaluationStatus.COMPLETED
        }
        lower = {part for part in metric.weights if not _is_higher(self._bound[part])}
        missing = [part for part in metric.weights if part not in scores]
        details = {"parts": scores, "missing": missing}

        def find() -> Finding:
            score = weighted_average(scores, metric.weights, lower)
            if score is None or (missing and not metric.renormalise):
                return Finding(skipped="part_missing", details=details)
            return Finding(score=score, details=details)

        return self._finish(each, find, self._fields(each, interaction))

    def _reported(self, found: Mapping[str, Evaluation]) -> tuple[Evaluation, ...]:
        """Keep what is wanted; what hidden parts cost goes to the first combined metric."""
        hidden = sum(e.cost_usd or 0.0 for name, e in found.items() if name not in self._wanted)
        made = []
        for name in self._wanted:
            each = found[name]
            if hidden and isinstance(self._bound[name].metric, Combined):
                each, hidden = each.model_copy(update={"cost_usd": hidden}), 0.0
            made.append(each)
        return tuple(made)


def _checked(score: float | None) -> float:
    if score is None or not 0 <= score <= 1:
        raise JudgeReplyError("the score is not in [0, 1]")
    return round(float(score), 6)


def _parted(
    details: Mapping[str, Any], record: type[Evaluation]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what the record has fields of its own for from what goes into the metadata."""
    own = record.model_fields.keys() - Evaluation.model_fields.keys()
    return (
        {key: value for key, value in details.items() if key in own},
        {key: value for key, value in details.items() if key not in own},
    )


def _is_higher(each: ConfiguredMetric) -> bool:
    return each.rule.direction.value == "higher"


def _advice(each: ConfiguredMetric, score: float) -> dict[str, str]:
    found = advice_for(each.name, score, each.rule.direction)
    return {"advice": f"{found.cause}: {found.fix}"} if found else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
