"""Make the scorer that the settings describe, and the metrics that they name."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import redis
import structlog
from pydantic import ValidationError

from monitor.errors import SettingsError, first_mistake
from monitor.format import percent
from monitor.models.evaluation import PassRule
from monitor.queue.consumer import connect
from monitor.scoring.base import Judge, Scorer
from monitor.scoring.calibration import Calibration, VerdictHistory
from monitor.scoring.cascade import Cascade, JudgeSampling, cascade_version, draw
from monitor.scoring.declaration import (
    Combined,
    ConfiguredMetric,
    JudgementMetric,
    Metric,
    RubricMetric,
    Similarity,
)
from monitor.scoring.judges.prices import Prices
from monitor.scoring.limits.budget import caps_from, microusd_up
from monitor.scoring.limits.limiter import LimitedJudge, SharedLimits
from monitor.scoring.limits.meter import USUAL_TOKENS, Meter
from monitor.scoring.limits.rate import Concurrency
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.metric_config import (
    MAKES,
    makes_metric,
    metrics_of_entry,
    own_metric,
    read_toml,
)
from monitor.scoring.metrics import ALIASES, METRICS, RENAMED
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.settings import Settings, variable
from monitor.settings.kinds import is_loopback

if TYPE_CHECKING:
    from monitor.scoring.judges.openai_client import ChatEndpoint

_MOST_NAMED = 8

log = structlog.get_logger("groundwatch.scoring")


def describe_scorer(settings: Settings) -> str:
    """Return in one line which scorer works, and what it can and cannot see."""
    local = "answers that do not come from their contexts, not a changed detail in a paraphrase"
    judge = f"what {settings.judge_model} sees"
    verify = "until 50 answers are labelled"
    if settings.scorer == "local":
        return (
            f"local: sees {local}; level not verified {verify} or a judge is asked"
            f" ({variable('openai_api_key')} and {variable('budget_usd_per_day')})"
        )
    if settings.scorer == "cascade":
        return (
            f"cascade: sees {judge} (asked about {100 * settings.judge_share:.3g} % of the samples)"
            f" and {local}; its level is the judge's, not verified against people {verify}"
        )
    if settings.scorer == "judge":
        return f"judge: sees {judge}; its level is not verified against people {verify}"
    return f"nli: sees sentences that no passage entails; level not verified {verify}"


def small_budgets(settings: Settings, call_microusd: int | None = None) -> list[str]:
    """
    Describe the judge's budgets of which one call reserves more than a tenth.

    *call_microusd* is what calls have reserved so far; None: what a sample of 2.5 kB would.
    """
    caps = caps_from(settings) if settings.asks_judge else ()
    price_usd = Prices.from_settings(settings).cost_usd(settings.judge_model, *USUAL_TOKENS)
    usual = microusd_up(price_usd or 0.0) if call_microusd is None else call_microusd
    enough_usd = math.ceil(usual / 1_000) / 100
    return [
        f"a usual call reserves ${usual / 1e6:.4f}, {percent(usual / cap.microusd, 0)} of"
        f" {cap.words}, and calls stop when less is left: set"
        f" {variable(f'budget_usd_per_{cap.period}')} to {enough_usd:.2f} or more to use nine"
        " tenths"
        for cap in caps
        if 10 * usual > cap.microusd
    ]


def budget_client(settings: Settings) -> redis.Redis | None:
    """
    Return the Redis that keeps the judge's budget, for a run of its own beside the workers.

    None where there is no cap: such a run shares nothing with them.
    """
    return connect(settings.broker_url) if caps_from(settings) else None


def make_scorer(
    settings: Settings,
    *,
    client: redis.Redis | None = None,
    once: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    share_of: Callable[[str], float] | None = None,
) -> MetricPipeline:
    """
    Make the scorer that the settings describe; no endpoint is contacted yet.

    A model for inference is loaded, and fetched from its hub if it is not here. Through *client*
    all workers share what they know of the judge and its budget; None is a run of its own. With
    *once* a budget that is reached ends the run, rather than skipping samples until it is not.
    *parameters* of metrics, by name, come before those of the metrics file. *share_of* returns the
    share of an app's samples that a cascade asks its judge about.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, a parameter is wrong, the judge lacks its key
        or its model, or a budget cannot be kept.
    MissingExtraError
        If the judge needs packages that are not installed.
    """
    metrics = resolve_metrics(settings, parameters=parameters)
    for name in ALIASES.keys() & settings.metrics:
        log.warning("metric_alias", metric=name, same_as=ALIASES[name])
    shared = [each for each in metrics if isinstance(each.metric, JudgementMetric)]
    endpoint = _JudgeEndpoint(settings, client, once=once) if settings.asks_judge else None
    judged = fallback = criteria_judge = None
    infers = settings.scorer == "nli" and any(each.declaration.infers for each in metrics)
    if shared or infers:
        judged = _judged(settings, shared, client, endpoint, share_of)
        if endpoint is not None and settings.judge_budget.budget_policy == "local":
            fallback = JudgementScorer(_local(settings, shared), shared)
    if any(isinstance(each.metric, RubricMetric) for each in metrics) and endpoint is not None:
        criteria_judge = endpoint.judge

    def is_asked(key: str) -> bool:
        # A cascade asks about a share of samples, drawn without looking at them: what is
        # scored stands for all, without weights.
        factor = 1.0 if endpoint is None else endpoint.budget_factor()
        return settings.scorer != "cascade" or draw(key) < settings.judge_share * factor

    similarity: Similarity | None = None
    if settings.embedding_model and any(each.declaration.embeds for each in metrics):
        similarity = _extra("embedding").make_similarity(settings.embedding_model)
    return MetricPipeline(
        metrics,
        wanted=settings.metrics,
        judged=judged,
        criteria_judge=criteria_judge,
        concurrency=settings.judge_limits.judge_concurrency if criteria_judge is not None else 1,
        is_asked=is_asked,
        budget=endpoint.limits.watch if endpoint is not None and not once else None,
        fallback=fallback,
        similarity=similarity,
    )


def _extra(name: str) -> Any:
    """Import a back end by its name: it needs an extra that few install."""
    return import_module(f"monitor.contrib.{name}")


def _judged(
    settings: Settings,
    metrics: Sequence[ConfiguredMetric],
    client: redis.Redis | None,
    endpoint: _JudgeEndpoint | None,
    share_of: Callable[[str], float] | None,
) -> Scorer:
    """Make the scorer of the metrics that share one judgement."""
    if endpoint is None:
        if settings.scorer == "local":
            return JudgementScorer(_local(settings, metrics), metrics)
        judge = _extra("nli").make_judge(settings, _line_of_claims(settings, metrics))
        return JudgementScorer(judge, metrics)
    concurrency = settings.judge_limits.judge_concurrency
    judged = JudgementScorer(endpoint.judge, metrics, concurrency=concurrency)
    if settings.scorer != "cascade":
        return judged
    local = JudgementScorer(_local(settings, metrics), metrics)
    version = cascade_version(judged.version, local.version)
    return Cascade(
        local=local,
        judge=judged,
        sampling=JudgeSampling(settings.judge_share),
        calibration=Calibration(
            VerdictHistory(client, version), {each.name: each.rule for each in metrics}
        ),
        budget_factor=endpoint.budget_factor,
        share_of=share_of,
        dimensions=settings.dimensions,
    )


class _JudgeEndpoint:
    """The judge's endpoint with what keeps its use within bounds, one for all that asks it."""

    def __init__(self, settings: Settings, client: redis.Redis | None, *, once: bool) -> None:
        host = urlsplit(settings.openai_base_url or "").hostname or ""
        if settings.openai_api_key is None and not is_loopback(host):
            raise SettingsError(
                f"{variable('openai_api_key')}: {variable('scorer')}={settings.scorer} needs a"
                f" key; set it, or use {variable('scorer')}=local"
            )
        # Imported here: it takes a second to load and the default does without it.
        from monitor.scoring.judges.openai_judge import OpenAIJudge  # noqa: PLC0415

        prices, judge_limits = Prices.from_settings(settings), settings.judge_limits
        price = partial(prices.cost_usd, settings.judge_model)
        limits = SharedLimits.from_settings(settings, client, price)
        concurrency = Concurrency(judge_limits.judge_concurrency)
        meter = Meter(budget=limits.budget, price=price, rate=limits.rate, concurrency=concurrency)
        self.limits, self.meter = limits, meter
        self.judge = LimitedJudge(
            OpenAIJudge.from_settings(settings, meter=meter),
            concurrency,
            limits,
            # A worker holds samples no longer than the calls of a round take; a run of its own
            # waits.
            longest_wait_s=None if once else judge_limits.judge_timeout_s,
        )
        self._lowers = settings.judge_budget.budget_policy in (None, "lower")

    def budget_factor(self) -> float:
        """Return the part of the judge's share that the budget leaves, in [0, 1]."""
        watch = self.limits.watch
        return watch.factor() if watch is not None and self._lowers else 1.0


def make_chat(settings: Settings, client: redis.Redis | None = None) -> ChatEndpoint:
    """
    Make the judge's endpoint for questions of one's own, under its budget and limits.

    Raises
    ------
    SettingsError
        If the judge lacks its key, or a budget cannot be kept.
    """
    from monitor.scoring.judges.openai_client import ChatEndpoint, access_from  # noqa: PLC0415

    meter = _JudgeEndpoint(settings, client, once=True).meter
    return ChatEndpoint(settings.judge_model, **access_from(settings), meter=meter)


def _local(settings: Settings, metrics: Sequence[ConfiguredMetric]) -> Judge:
    name = settings.embedding_model
    return LocalJudge(
        pass_score=_line_of_claims(settings, metrics),
        similarity=None if name is None else _extra("embedding").make_similarity(name),
    )


def _line_of_claims(settings: Settings, metrics: Sequence[ConfiguredMetric]) -> float:
    """Return the support from which a claim is supported: where groundedness passes."""
    # An app's own line is one for answers; a claim needs the usual support.
    lines = [m.rule.line for m in metrics if m.name == "groundedness" and not m.rule.own]
    return lines[0] if lines else settings.pass_score


# --- which metrics: those of the settings, with what the metrics file says of each ---


def resolve_metrics(
    settings: Settings,
    plugins: Iterable[tuple[str, Metric]] | None = None,
    *,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ConfiguredMetric]:
    """
    Return every metric that has to be scored, the parts of combined ones before them.

    Raises
    ------
    SettingsError
        If a metric is unknown or named twice, or a parameter is wrong.
    """
    file = read_metrics_file(settings.metrics_file).with_tables(parameters or {})
    known = known_metrics(file, plugins)
    setting = variable("metrics")
    if not settings.metrics:
        raise SettingsError(f"{setting}: name at least one; {_hint('', known)}")
    if twice := [name for name, n in Counter(settings.metrics).items() if n > 1]:
        raise SettingsError(f"{setting}: {twice[0]} is named twice")
    for name in file.tables:
        if name not in known:
            hint = _hint(name, known)
            if hint.startswith("there are"):
                hint = f"a table that makes one has {', '.join(MAKES[:-1])} or {MAKES[-1]}"
            raise SettingsError(f"{file.where}: no metric is called {name!r}; {hint}")
    # A table is checked, scored or not.
    every = dict.fromkeys(_with_parts(file.tables, known, file.where))
    wanted = dict.fromkeys(_with_parts(settings.metrics, known, setting))
    configured = {name: _configured(known[name], file, settings) for name in every | wanted}
    return [configured[name] for name in wanted]


def _with_parts(
    names: Iterable[str], known: Mapping[str, Metric], where: str, within: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield *names*, each behind those that it is made of, or raise if *where* names an unknown."""
    for name in names:
        if name not in known:
            raise SettingsError(f"{where}: no metric is called {name!r}; {_hint(name, known)}")
        if name in within:
            raise SettingsError(f"{where}: {name} is made of itself")
        metric = known[name]
        if isinstance(metric, Combined):
            yield from _with_parts(metric.weights, known, f"[{name}] weights", (*within, name))
        yield name


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """What the file says, a table a metric."""

    tables: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    where: str = "the metrics file"
    folder: Path = Path()

    def with_tables(self, more: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the same with further tables, whose keys come first."""
        added = {name: self.tables.get(name, {}) | dict(table) for name, table in more.items()}
        where = f"{self.where} or parameters" if self.tables else "parameters"
        return replace(self, tables={**self.tables, **added}, where=where if added else self.where)


def read_metrics_file(path: Path | None) -> MetricsFile:
    """Read the file, if there is one; ``SettingsError`` says what is wrong with it."""
    if path is None:
        return MetricsFile()
    tables = read_toml(path)
    if "preset" in tables:
        raise SettingsError(
            f"{path}: presets are files of their own now; copy the tables of examples/credit.toml"
        )
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: {name} should be a table, written [{name}]")
    return MetricsFile(tables, str(path), path.parent)


def known_metrics(
    file: MetricsFile, plugins: Iterable[tuple[str, Metric]] | None = None
) -> dict[str, Metric]:
    """Return every metric that ships, is installed or made in *file*, or raise if two share a name.

    Raises ``SettingsError``.
    """
    known, origin = dict(METRICS), dict.fromkeys(METRICS, "groundwatch")
    if plugins is None:
        points = sorted(
            entry_points(group="groundwatch.evaluators"), key=lambda each: (each.name, each.value)
        )
        names = (f"{p.dist.name if p.dist else '?'} ({p.value})" for p in points)
        plugins = [
            (source, metric)
            for point, source in zip(points, names, strict=True)
            for metric in metrics_of_entry(point, source)
        ]
    own = [
        (file.where, own_metric(name, table, file.where, file.folder))
        for name, table in file.tables.items()
        if makes_metric(table)
    ]
    for source, metric in (*plugins, *own):
        name, version = metric.declaration.name, metric.declaration.version
        if name in known:
            other = known[name].declaration.version
            raise SettingsError(
                f"two metrics are called {name}: version {other} of {origin[name]} and version"
                f" {version} of {source}; rename one or uninstall it"
            )
        known[name], origin[name] = metric, source
    return known


def _hint(name: str, known: Iterable[str]) -> str:
    if name in RENAMED:
        return f"it is called {RENAMED[name]} now; examples/credit.toml brings the old name back"
    close = difflib.get_close_matches(name, list(known), n=1)
    if close:
        return f"did you mean {close[0]}?"
    listed = list(known)
    more = len(listed) - _MOST_NAMED
    if more <= 0:
        return f"there are {', '.join(listed)}"
    first = ", ".join(listed[:_MOST_NAMED])
    return f"there are {first} and {more} more; `groundwatch metrics` lists them all"


def _configured(metric: Metric, file: MetricsFile, settings: Settings) -> ConfiguredMetric:
    declared = metric.declaration
    where = f"{file.where}: [{declared.name}]"
    values = dict(file.tables.get(declared.name, {}))
    line = values.pop("pass_score", declared.pass_score)
    if line is None:
        rule = PassRule.mirrored(settings.pass_score, declared.direction)
        is_set = "pass_score" in settings.model_fields_set
        if declared.local_rule is not None and settings.scorer == "local" and not is_set:
            rule = declared.local_rule
    elif not isinstance(line, int | float) or isinstance(line, bool) or not 0 <= line <= 1:
        raise SettingsError(f"{where} pass_score: should be a number in [0, 1]")
    else:
        rule = PassRule(float(line), declared.direction)
    if values.pop("like", None) is None and makes_metric(values):
        values = {}  # they made the metric
    try:
        parameters = declared.parameters.model_validate(values)
    except ValidationError as error:
        key, what = first_mistake(error)
        if what == "unknown field":
            known = ["pass_score", *declared.parameters.model_fields]
            raise SettingsError(f"{where} has no parameter {key!r}; {_hint(key, known)}") from None
        raise SettingsError(f"{where} {key}: {what}".replace(" : ", " ")) from None
    return ConfiguredMetric(metric, parameters, rule)
