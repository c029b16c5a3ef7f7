"""Choose judge and metrics from the settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from monitor.errors import SettingsError
from monitor.scoring.asker import Asker
from monitor.scoring.base import Judge, ScoresSamples
from monitor.scoring.bound import Bound
from monitor.scoring.choosing import chosen
from monitor.scoring.declaration import Asked, Read
from monitor.scoring.evaluators import EVALUATORS
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.panel import Panel
from monitor.scoring.scorer import Scorer
from monitor.settings import Settings, variable

__all__ = ["EVALUATORS", "make_scorer"]


def make_scorer(
    settings: Settings, *, parameters: Mapping[str, Mapping[str, Any]] | None = None
) -> ScoresSamples:
    """
    Make the scorer that the settings describe; nothing is contacted yet.

    *parameters* of metrics, by name, come before those of the metrics file.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, a parameter is wrong, or the judge has no key.
    """
    bound = chosen(settings, parameters=parameters)
    shared = [each for each in bound if isinstance(each.metric, Read)]
    if len(shared) == len(bound) and all(each.is_plain(settings.pass_score) for each in bound):
        return _shared(settings, shared)
    asks = any(isinstance(each.metric, Asked) for each in bound)
    return Panel(
        settings.metrics,
        bound,
        _shared(settings, shared) if shared else None,
        _asker(settings) if asks and settings.scorer != "local" else None,
        concurrency=settings.judge_concurrency if asks and settings.scorer != "local" else 1,
    )


def _shared(settings: Settings, bound: Sequence[Bound]) -> Scorer:
    """Make the scorer of the metrics that share one judgement."""
    judge, concurrency = _JUDGES[settings.scorer](settings)
    return Scorer(
        judge,
        [each.name for each in bound],
        settings.pass_score,
        concurrency=concurrency,
        evaluators={each.name: each.evaluator() for each in bound},
    )


def _asker(settings: Settings) -> Asker:
    """Make what answers the questions that metrics have of their own."""
    from monitor.scoring.judges.openai_criteria import OpenAICriteria  # noqa: PLC0415

    _check_key(settings)
    return OpenAICriteria.from_settings(settings)


def _local(_: Settings) -> tuple[Judge, int]:
    return LocalJudge(), 1


def _openai(settings: Settings) -> tuple[Judge, int]:
    # Imported here: it takes a second to load and the default does without it.
    from monitor.scoring.judges.openai_judge import OpenAIJudge  # noqa: PLC0415

    _check_key(settings)
    return OpenAIJudge.from_settings(settings), settings.judge_concurrency


_JUDGES: dict[str, Callable[[Settings], tuple[Judge, int]]] = {"local": _local, "judge": _openai}


def _check_key(settings: Settings) -> None:
    if settings.openai_api_key is None and not _is_loopback(settings.openai_base_url):
        raise SettingsError(
            f"{variable('openai_api_key')}: {variable('scorer')}=judge needs a key; set it,"
            f" or use {variable('scorer')}=local"
        )


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
