"""Choose judge and metrics from the settings."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import redis

from monitor.errors import SettingsError
from monitor.scoring.asking import Asking
from monitor.scoring.base import Judge
from monitor.scoring.calibration import Calibration, OwnMemory, SharedMemory
from monitor.scoring.capped import BudgetWatch, CappedScorer, ScoresSamples, SkippingScorer
from monitor.scoring.cascade import Cascade
from monitor.scoring.evaluators import EVALUATORS
from monitor.scoring.fleet import make_fleet
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.judges.prices import Prices
from monitor.scoring.scorer import Scorer
from monitor.scoring.spending.governed import GovernedJudge
from monitor.scoring.spending.meter import Meter
from monitor.scoring.spending.slots import Slots
from monitor.settings import Settings, variable

__all__ = ["EVALUATORS", "make_scorer"]


def make_scorer(
    settings: Settings, *, client: redis.Redis | None = None, once: bool = False
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

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, the judge lacks its key or its model, or a
        budget cannot be kept.
    MissingExtraError
        If the judge needs packages that are not installed.
    """
    _check_metrics(settings.metrics)
    if settings.scorer == "cascade":
        judged, watch = _judged(settings, _openai, client, once=once)
        made: ScoresSamples = Cascade(
            local=_scorer(settings, LocalJudge(), 1),
            judge=judged,
            asking=Asking(settings.judge_share),
            calibration=Calibration(
                OwnMemory() if client is None else SharedMemory(client, judged.version),
                pass_score=settings.pass_score,
            ),
            factor=_factor(settings, watch),
        )
    elif settings.scorer == "judge":
        made, watch = _judged(settings, _openai, client, once=once)
    else:
        judge, concurrency = _JUDGES[settings.scorer](settings)
        return _scorer(settings, judge, concurrency)
    return made if watch is None or once else _capped(settings, made, watch)


def _scorer(settings: Settings, judge: Judge, concurrency: int) -> Scorer:
    return Scorer(judge, settings.metrics, settings.pass_score, concurrency=concurrency)


def _factor(settings: Settings, watch: BudgetWatch | None) -> Callable[[], float]:
    """Pace the judge's share by what is left of the budget, if that is wanted."""
    lowers = settings.budget_policy in (None, "lower")
    return watch.factor if watch is not None and lowers else lambda: 1.0


def _capped(settings: Settings, made: ScoresSamples, watch: BudgetWatch) -> ScoresSamples:
    alone = settings.budget_policy == "local"
    return CappedScorer(
        inner=made,
        watch=watch,
        skipping=SkippingScorer(made.version, settings.metrics),
        fallback=_scorer(settings, LocalJudge(), 1) if alone else None,
    )


def _judged(
    settings: Settings,
    make: Callable[[Settings, Meter], Judge],
    client: redis.Redis | None,
    *,
    once: bool,
) -> tuple[Scorer, BudgetWatch | None]:
    """Make a judge that costs money, with all that keeps it within bounds."""
    prices = Prices.from_settings(settings)
    fleet = make_fleet(settings, client, partial(prices.cost_usd, settings.judge_model))
    slots = Slots(settings.judge_concurrency)
    meter = Meter(budget=fleet.budget, price=fleet.price, pace=fleet.pace, slots=slots)
    judge = GovernedJudge(
        inner=make(settings, meter),
        slots=slots,
        pace=fleet.pace,
        absence=fleet.absence,
        kept=fleet.kept,
        # A worker holds samples no longer than the calls of a round take; a run of its own waits.
        longest_wait_s=None if once else settings.judge_timeout_s,
    )
    return _scorer(settings, judge, settings.judge_concurrency), fleet.watch


def _local(_: Settings) -> tuple[Judge, int]:
    return LocalJudge(), 1


def _openai(settings: Settings, meter: Meter) -> Judge:
    # Imported here: it takes a second to load and the default does without it.
    from monitor.scoring.judges.openai_judge import OpenAIJudge  # noqa: PLC0415

    if settings.openai_api_key is None and not _is_loopback(settings.openai_base_url):
        raise SettingsError(
            f"{variable('openai_api_key')}: {variable('scorer')}={settings.scorer} needs a key;"
            f" set it,"
            f" or use {variable('scorer')}=local"
        )
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


def _check_metrics(metrics: tuple[str, ...]) -> None:
    name = variable("metrics")
    if not metrics:
        raise SettingsError(f"{name}: name at least one of {', '.join(EVALUATORS)}")
    for metric in metrics:
        if metric not in EVALUATORS:
            close = difflib.get_close_matches(metric, EVALUATORS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(EVALUATORS)}"
            raise SettingsError(f"{name}: no metric is called {metric!r}; {hint}")
        if metrics.count(metric) > 1:
            raise SettingsError(f"{name}: {metric} is named twice")


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
