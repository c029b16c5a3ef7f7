"""
Evaluate records from Python, without a server: the same metrics as in production.

    from monitor.metrics import evaluate, faithfulness

    evaluate([{"query": "How long?", "contexts": ["Five days."], "output": "Five days."}])
    faithfulness(contexts=["Five days."], output="Five days.").score
    pandas.DataFrame(to_rows(evaluate(frame, ["groundedness", "precision_at_k"])))

Every metric of ``groundwatch metrics`` can be imported by its name. Judge, key, budget and lines
come from the environment, or from *settings*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from itertools import chain
from typing import Any

import redis
from pydantic import ValidationError

from monitor.errors import RecordError, SettingsError
from monitor.models import Evaluation, Interaction
from monitor.models.records import ALIASES, columns_of, mistake, read_interaction
from monitor.report.words import why_unscored
from monitor.scoring.declaration import Combined
from monitor.scoring.metrics import METRICS
from monitor.scoring.pipeline import MetricPipeline
from monitor.scoring.registry import budget_client, make_scorer
from monitor.settings import Settings
from monitor.settings.kinds import split_commas

__all__ = ["aevaluate", "evaluate", "to_rows"]

Record = Interaction | Mapping[str, Any]
_A_RECORD = '{"query": "...", "contexts": ["..."], "output": "..."}'


def evaluate(
    records: Iterable[Record] | Record,
    metrics: Iterable[str] | str = ("groundedness", "relevance"),
    *,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Settings | None = None,
    client: redis.Redis | None = None,
) -> list[tuple[Evaluation, ...]]:
    """
    Evaluate records; return one evaluation a metric for each of them, in order.

    Several records are in work at a time where a judge is asked. A failure is an evaluation
    with ``status="failed"`` and an error.

    Parameters
    ----------
    records
        Interactions, or objects with their fields: ``output``, ``query``, ``contexts``,
        ``expected`` and so on, as the metrics need, also under the names that are read in files
        (``question``, ``answer`` ...); ``id`` is the place, from 1, unless given.
        A data frame of pandas or Polars has a row for each and a column for each field; an
        empty cell is a field that is not there, and an index called ``id`` names the rows.
        A metric whose fields are missing is skipped, with the reason.
    metrics
        Names of metrics; one text may hold several, with commas.
    parameters
        Parameters by metric, such as ``{"precision_at_k": {"k": 3}}``.
    settings
        Judge, key, retries and budget; those of the environment by default.
    client
        The Redis that keeps cached verdicts and the judge's budget; where there is a budget, it is
        that of the settings unless given.

    Raises
    ------
    SettingsError
        If a metric or a parameter is unknown, or the judge lacks its key.
    JudgeOutageError, BudgetReachedError
        If the judge cannot be asked at all, or the budget ends the run.
    RecordError
        If something is not a record, a field has the wrong type, or every metric reads an output
        and no record has one; the message says which record.
    """
    named = _names(metrics, parameters or {})
    wanted = (settings or Settings.from_env()).model_copy(update={"metrics": named})
    client = client or budget_client(wanted)
    scorer = make_scorer(wanted, client=client, once=True, parameters=parameters)
    try:
        rows = _rows(records)
        needs_output = all_read_output(scorer) and not any(map(_has_output, rows))
        interactions = [_interaction(row, n, needs_output) for n, row in enumerate(rows, start=1)]
        if scorer.concurrency == 1:
            return [scorer.score(each) for each in interactions]
        with ThreadPoolExecutor(scorer.concurrency, "groundwatch-evaluate") as pool:
            return list(pool.map(scorer.score, interactions))
    finally:
        scorer.close()


def all_read_output(scorer: MetricPipeline) -> bool:
    """Return whether a record without an output leaves nothing to score."""
    computed = (each for each in scorer.metrics if not isinstance(each.metric, Combined))
    return all("output" in each.declaration.requires for each in computed)


def _names(metrics: Any, parameters: Any) -> tuple[str, ...]:
    """Return the names of metrics; raise SettingsError if these or their parameters are none."""
    named = split_commas(metrics) if isinstance(metrics, str) else metrics
    if not isinstance(named, Iterable) or not all(isinstance(name, str) for name in named):
        raise SettingsError('Invalid metrics: expected names, such as ["groundedness", "length"]')
    of_each = parameters.values() if isinstance(parameters, Mapping) else (None,)
    if not all(isinstance(each, Mapping) for each in of_each):
        raise SettingsError(
            'Invalid parameters: expected them by metric, {"length": {"max_words": 50}}'
        )
    return tuple(named)


def _rows(records: Any) -> list[Record]:
    """Return records, or the rows of a data frame, as a list; raise RecordError for others."""
    if isinstance(records, Interaction | Mapping):
        records = [records]
    elif hasattr(records, "to_dicts"):  # of Polars
        records = records.to_dicts()
    elif hasattr(records, "to_dict"):  # of pandas
        is_named = getattr(getattr(records, "index", None), "name", None) == "id"
        records = (records.reset_index() if is_named else records).to_dict("records")
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        kind = type(records).__name__
        raise RecordError(f"Invalid records of type {kind}: expected {_A_RECORD}, a list of such"
                          " records, or a data frame")  # fmt: skip
    rows = [*records]
    for n, row in enumerate(rows, start=1):
        if not isinstance(row, Interaction | Mapping):
            kind = type(row).__name__
            raise RecordError(f"record {n} is of type {kind}: expected {_A_RECORD}")
    return rows


def _has_output(row: Record) -> bool:
    """Return whether a record has an output, or an empty cell where it should be."""
    columns = (*columns_of("output"), "messages")
    return isinstance(row, Interaction) or any(name in row for name in columns)


def _interaction(row: Record, n: int, needs_output: bool) -> Interaction:
    if isinstance(row, Interaction):
        return row
    try:
        given = {key: cell for key, value in row.items() if (cell := _plain(value)) is not None}
        return read_interaction(given, n, needs_output=needs_output)
    except ValidationError as error:
        raise RecordError(f"record {n}: {mistake(error).what}") from None
    except RecursionError:
        raise RecordError(f"record {n}: a value is nested too deeply") from None


def _plain(value: Any) -> Any:
    """Return a NumPy or pandas cell as a plain Python value; None if empty."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    is_empty = isinstance(value, float) and value != value  # noqa: PLR0124 - not a number
    return None if is_empty or type(value).__name__ in {"NAType", "NaTType"} else value


async def aevaluate(
    records: Iterable[Record] | Record, *arguments: Any, **options: Any
) -> list[tuple[Evaluation, ...]]:
    """Evaluate without blocking the event loop; takes and returns what `evaluate` does."""
    return await asyncio.to_thread(evaluate, records, *arguments, **options)


def to_rows(found: Iterable[tuple[Evaluation, ...]]) -> list[dict[str, Any]]:
    """
    Return one flat row a record, such as a data frame takes.

    Columns are ``id``, and for each metric its score under its name (None without one), and
    ``NAME_status`` (completed, failed or skipped) and ``NAME_reason`` (the explanation, or why
    there is no score: what failed, or the reason for being skipped and what it means).
    """
    rows = []
    for evaluations in found:
        row: dict[str, Any] = {"id": evaluations[0].target_event_id} if evaluations else {}
        for each in evaluations:
            name, status = each.evaluator_name, each.status.value
            reason = each.explanation or "" if each.score is not None else why_unscored(each)
            row |= {name: each.score, f"{name}_status": status, f"{name}_reason": reason}
        rows.append(row)
    return rows


def __getattr__(name: str) -> Callable[..., Evaluation]:
    """Return a metric as a function of one record's fields."""
    if name not in METRICS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    declared = METRICS[name].declaration

    def metric(
        *,
        parameters: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        **record: Any,
    ) -> Evaluation:
        known = {*Interaction.model_fields, *chain.from_iterable(ALIASES.values()), "messages"}
        for field in record.keys() - known:
            if close := get_close_matches(field, known - record.keys(), n=1, cutoff=0.8):
                raise RecordError(
                    f"{name} has no field {field!r}; did you mean {close[0]}?"
                    " Other values may stand in metadata"
                )
        own = {name: parameters} if parameters else None
        [[evaluation]] = evaluate([record], (name,), parameters=own, settings=settings)
        return evaluation

    metric.__name__ = metric.__qualname__ = name
    needed = [*declared.requires, *([" or ".join(declared.one_of)] if declared.one_of else ())]
    metric.__doc__ = f"{declared.what}\n\nNeeds: {', '.join(needed) or 'its parts'}."
    return metric


def __dir__() -> list[str]:
    return sorted([*__all__, *METRICS])
