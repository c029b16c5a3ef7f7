"""Choose judge and metrics from the settings."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from monitor.errors import SettingsError
from monitor.scoring.base import Judge
from monitor.scoring.evaluators import EVALUATORS
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.scorer import Scorer
from monitor.settings import Settings, variable

__all__ = ["EVALUATORS", "make_scorer"]


def make_scorer(settings: Settings) -> Scorer:
    """
    Make the scorer that the settings describe; no endpoint is contacted yet.

    A model for inference is loaded, and fetched from its hub if it is not here.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, or the judge lacks its key or its model.
    MissingExtraError
        If the judge needs packages that are not installed.
    """
    _check_metrics(settings.metrics)
    judge, concurrency = _JUDGES[settings.scorer](settings)
    return Scorer(judge, settings.metrics, settings.pass_score, concurrency=concurrency)


def _local(_: Settings) -> tuple[Judge, int]:
    return LocalJudge(), 1


def _openai(settings: Settings) -> tuple[Judge, int]:
    # Imported here: it takes a second to load and the default does without it.
    from monitor.scoring.judges.openai_judge import OpenAIJudge  # noqa: PLC0415

    if settings.openai_api_key is None and not _is_loopback(settings.openai_base_url):
        raise SettingsError(
            f"{variable('openai_api_key')}: {variable('scorer')}=judge needs a key; set it,"
            f" or use {variable('scorer')}=local"
        )
    return OpenAIJudge.from_settings(settings), settings.judge_concurrency


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


_JUDGES: dict[str, Callable[[Settings], tuple[Judge, int]]] = {
    "local": _local,
    "judge": _openai,
    "nli": _nli,
}


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
