"""``groundwatch score``: evaluate the records of a file, without any server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.cli.console import err, warn
from monitor.cli.records import RecordFile, readable
from monitor.cli.score_output import ScoreOutput
from monitor.cli.score_pool import Scored, score_here, score_on_all_cores
from monitor.errors import BudgetReachedError, JudgeAwayError
from monitor.models import Interaction
from monitor.queue.consumer import connect
from monitor.report.words import reasons
from monitor.scoring.base import ScoresSamples
from monitor.scoring.registry import asks, make_scorer
from monitor.scoring.spending.budget import caps_from
from monitor.settings import Settings


class Judged(StrEnum):
    """Who judges."""

    LOCAL = "local"
    JUDGE = "judge"
    CASCADE = "cascade"
    NLI = "nli"


def score(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSONL, plain or gzipped; - is the standard input.",
            callback=readable,
        ),
    ],
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.")
    ] = "groundedness,relevance",
    judge: Annotated[
        Judged | None, typer.Option(help="Who judges; unset: GROUNDWATCH_SCORER.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL; unset: stdout.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew, whatever the output holds.")
    ] = False,
) -> None:
    """
    Evaluate each record; write one line of evaluations a record, in the same order.

    Run again with the same output, it goes on after the last whole line.
    """
    settings = _settings(metrics, judge)
    scorer = _scorer(settings)
    found: Counter[str] = Counter()
    with (
        closing(scorer),
        RecordFile.opened(file, lambda text: warn(f"{file.name} {text}")) as records,
        closing(_opened(output, records.path, overwrite, scorer, settings)) as target,
    ):
        if target.done:
            err.print(f"{len(target.done):,} records are scored already; going on", soft_wrap=True)
        with _progress() as bar:
            task = bar.add_task("scoring", total=records.lines, completed=len(target.done))
            try:
                for scored in _score(_rest(records, target), scorer, settings):
                    found.update(scored.statuses)
                    target.write(scored.line)
                    bar.advance(task)
            except (JudgeAwayError, BudgetReachedError) as error:
                raise type(error)(f"{error}; run it again to go on where it stopped") from None
            bar.update(task, total=records.lines - records.unreadable.total())
    err.print(
        f"evaluations {reasons(found)}; bad lines {reasons(records.unreadable)}", soft_wrap=True
    )
    if records.unreadable:
        raise typer.Exit(1)


def _settings(metrics: str, judge: Judged | None) -> Settings:
    settings = Settings.from_env()
    names = tuple(name.strip() for name in metrics.split(",") if name.strip())
    chosen = settings.scorer if judge is None else judge.value
    return settings.model_copy(update={"metrics": names, "scorer": chosen})


def _scorer(settings: Settings) -> ScoresSamples:
    """Make a scorer that shares with workers only what it must: the budget."""
    client = connect(settings.broker_url) if asks(settings) and caps_from(settings) else None
    return make_scorer(settings, client=client, once=True)


def _opened(
    output: Path | None, file: Path, overwrite: bool, scorer: ScoresSamples, settings: Settings
) -> ScoreOutput:
    target = ScoreOutput.open(output, not_over=file, overwrite=overwrite)
    versions = getattr(scorer, "versions", dict.fromkeys(settings.metrics, scorer.version))
    try:
        target.check(versions)
    except BaseException:
        target.close()
        raise
    return target


def _rest(records: RecordFile, target: ScoreOutput) -> Iterator[Interaction]:
    """Pass over the records that are done."""
    for position, record in enumerate(records):
        if position < len(target.done):
            target.check_record(position, record.interaction.id)
        else:
            yield record.interaction


def _score(
    interactions: Iterator[Interaction], scorer: ScoresSamples, settings: Settings
) -> Iterator[Scored]:
    if asks(settings):
        return score_here(interactions, scorer)
    return score_on_all_cores(interactions, settings, scorer)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
    )
