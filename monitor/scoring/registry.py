"""Choose judge and metrics from the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self
from urllib.parse import urlsplit

import redis

from monitor.errors import SettingsError
from monitor.scoring.base import Judge, ScoresSamples
from monitor.scoring.budgeted import BudgetWatch, CappedScorer, SkippingScorer
from monitor.scoring.calibration import Calibration, OwnMemory, SharedMemory
from monitor.scoring.cascade import Cascade, JudgeSampling, cascade_version, draw
from monitor.scoring.declaration import (
    ConfiguredMetric,
    CriteriaJudge,
    JudgementMetric,
    RubricMetric,
)
from monitor.scoring.evaluators import EVALUATORS
from monitor.scoring.judges.embedding import Embedding
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.judges.prices import Prices
from monitor.scoring.metric_config import resolve_metrics
from monitor.scoring.panel import MetricPipeline
from monitor.scoring.scorer import Scorer
from monitor.scoring.shared_limits import Fleet, make_fleet
from monitor.scoring.spending.limited import GovernedAsker, GovernedJudge
from monitor.scoring.spending.limiter import JudgeLimiter, Slots
from monitor.scoring.spending.meter import Meter
from monitor.settings import Settings, variable
from monitor.settings.addresses import is_loopback

__all__ = ["EVALUATORS", "asks", "make_scorer"]


def asks(settings: Settings) -> bool:
    """Say whether a judge is asked that costs money, rather than all computed here."""
    return settings.scorer in {"judge", "cascade"}


def make_scorer(
    settings: Settings,
    *,
    client: redis.Redis | None = None,
    once: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> ScoresSamples:
    """
    Make the scorer that the settings describe; no endpoint is contacted yet.

    A model for inference is loaded, and fetched from its hub if it is not here.

    Parameters
    ----------
    settings
        Which scorer, for which metrics, at what cost.
    client
        The Redis through which all workers share what they know of the judge and its
        budget; None for a run of its own.
    once
        Whether a budget that is reached ends the run, rather than skipping samples
        until it is not.
    parameters
        Parameters of metrics, by name; they come before those of the metrics file.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, a parameter is wrong, the judge lacks its key
        or its model, or a budget cannot be kept.
    MissingExtraError
        If the judge needs packages that are not installed.
    """
    bound = resolve_metrics(settings, parameters=parameters)
    shared = [each for each in bound if isinstance(each.metric, JudgementMetric)]
    money = _Money.of(settings, client, once=once) if asks(settings) else None
    inner = _shared(settings, shared, client, money, once=once) if shared else None
    if inner is not None and len(shared) == len(bound) and _are_plain(shared, settings):
        return inner
    factor = _factor(settings, money.fleet.watch if money else None)
    has_questions = any(isinstance(each.metric, RubricMetric) for each in bound)
    return MetricPipeline(
        settings.metrics,
        bound,
        inner,
        _asker(settings, money) if money and has_questions else None,
        concurrency=settings.judge_limits.judge_concurrency if money and has_questions else 1,
        # A cascade asks about a share of samples, drawn without looking at them: what is
        # scored stands for all, without weights.
        is_asked=(lambda key: draw(key) < settings.judge_share * factor())
        if settings.scorer == "cascade"
        else None,
        once=once,
    )


def _are_plain(bound: Sequence[ConfiguredMetric], settings: Settings) -> bool:
    return all(each.is_plain(settings.pass_score) for each in bound)


@dataclass(frozen=True, slots=True)
class _Money:
    """What keeps a judge within bounds, one for all that asks it."""

    fleet: Fleet
    gate: JudgeLimiter
    meter: Meter

    @classmethod
    def of(cls, settings: Settings, client: redis.Redis | None, *, once: bool) -> Self:
        prices = Prices.from_settings(settings)
        fleet = make_fleet(settings, client, partial(prices.cost_usd, settings.judge_model))
        slots = Slots(settings.judge_limits.judge_concurrency)
        meter = Meter(budget=fleet.budget, price=fleet.price, pace=fleet.pace, slots=slots)
        gate = JudgeLimiter(
            slots=slots,
            pace=fleet.pace,
            absence=fleet.absence,
            kept=fleet.kept,
            # A worker holds samples no longer than the calls of a round take; a run of its own
            # waits.
            longest_wait_s=None if once else settings.judge_limits.judge_timeout_s,
        )
        return cls(fleet, gate, meter)


def _shared(
    settings: Settings,
    bound: Sequence[ConfiguredMetric],
    client: redis.Redis | None,
    money: _Money | None,
    *,
    once: bool,
) -> ScoresSamples:
    """Make the scorer of the metrics that share one judgement."""
    if money is None:
        judge, concurrency = _JUDGES[settings.scorer](settings)
        return _scorer(settings, bound, judge, concurrency)
    judged = _judged(settings, bound, money)
    made: ScoresSamples = judged
    watch = money.fleet.watch
    if settings.scorer == "cascade":
        rules = {each.name: each.rule for each in bound}
        local = _scorer(settings, bound, _local(settings)[0], 1)
        version = cascade_version(judged.version, local.version)
        made = Cascade(
            local=local,
            judge=judged,
            asking=JudgeSampling(settings.judge_share),
            calibration=Calibration(
                OwnMemory() if client is None else SharedMemory(client, version),
                pass_score=settings.pass_score,
                rules=rules,
            ),
            factor=_factor(settings, watch),
            rules=rules,
            dimensions=settings.segments,
        )
    return made if watch is None or once else _capped(settings, bound, made, watch)


def _asker(settings: Settings, money: _Money) -> CriteriaJudge:
    """Make what answers the questions that metrics have of their own."""
    from monitor.scoring.judges.openai_criteria import OpenAICriteria  # noqa: PLC0415

    _check_key(settings)
    return GovernedAsker(OpenAICriteria.from_settings(settings, meter=money.meter), money.gate)


def _scorer(
    settings: Settings, bound: Sequence[ConfiguredMetric], judge: Judge, concurrency: int
) -> Scorer:
    return Scorer(
        judge,
        [each.name for each in bound],
        settings.pass_score,
        concurrency=concurrency,
        evaluators={each.name: each.evaluator() for each in bound},
    )


def _factor(settings: Settings, watch: BudgetWatch | None) -> Callable[[], float]:
    """Pace the judge's share by what is left of the budget, if that is wanted."""
    lowers = settings.judge_budget.budget_policy in (None, "lower")
    return watch.factor if watch is not None and lowers else lambda: 1.0


def _capped(
    settings: Settings, bound: Sequence[ConfiguredMetric], made: ScoresSamples, watch: BudgetWatch
) -> ScoresSamples:
    alone = settings.judge_budget.budget_policy == "local"
    return CappedScorer(
        inner=made,
        watch=watch,
        skipping=SkippingScorer(made.version, tuple(each.name for each in bound)),
        fallback=_scorer(settings, bound, _local(settings)[0], 1) if alone else None,
    )


def _judged(settings: Settings, bound: Sequence[ConfiguredMetric], money: _Money) -> Scorer:
    """Make a judge that costs money, with all that keeps it within bounds."""
    judge = GovernedJudge(_openai(settings, money.meter), money.gate)
    return _scorer(settings, bound, judge, settings.judge_limits.judge_concurrency)


def _local(settings: Settings) -> tuple[Judge, int]:
    if settings.embedding_model is None:
        return LocalJudge(), 1
    return LocalJudge(embedding=_embedding(settings.embedding_model)), 1


@cache
def _embedding(name: str) -> Embedding:
    # Imported here: an extra that few install. One for all: it is large.
    from monitor.scoring.judges.embedding_model import EmbeddingModel  # noqa: PLC0415

    return Embedding(EmbeddingModel(name))


def _openai(settings: Settings, meter: Meter) -> Judge:
    # Imported here: it takes a second to load and the default does without it.
    from monitor.scoring.judges.openai_judge import OpenAIJudge  # noqa: PLC0415

    _check_key(settings)
    return OpenAIJudge.from_settings(settings, meter=meter)


def _nli(settings: Settings) -> tuple[Judge, int]:
    if settings.nli_model is None:
        raise SettingsError(
            f"{variable('nli_model')}: {variable('scorer')}=nli needs a model; name a folder or an"
            " id on the hub"
        )
    # Imported here: an extra that few install.
    from monitor.scoring.judges.nli import NliJudge  # noqa: PLC0415
    from monitor.scoring.judges.nli_model import NliModel  # noqa: PLC0415

    return NliJudge(NliModel(settings.nli_model), settings.nli_model), 1


#: The judges that cost nothing, with how many of their calls are worth having in flight.
_JUDGES: dict[str, Callable[[Settings], tuple[Judge, int]]] = {"local": _local, "nli": _nli}


def _check_key(settings: Settings) -> None:
    if settings.openai_api_key is None and not is_loopback(
        urlsplit(settings.openai_base_url or "").hostname or ""
    ):
        raise SettingsError(
            f"{variable('openai_api_key')}: {variable('scorer')}={settings.scorer} needs a key;"
            f" set it, or use {variable('scorer')}=local"
        )
