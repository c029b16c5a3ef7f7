"""``groundwatch score``: evaluate the records of a file, without any server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.progress import Progress

from monitor.cli.console import err, warn
from monitor.cli.records import Record, RecordFile
from monitor.models import Evaluation
from monitor.report.words import reasons
from monitor.scoring.base import ScoresSamples
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings


def score(
    file: Annotated[
        Path, typer.Argument(help="JSONL, plain or gzipped.", exists=True, dir_okay=False)
    ],
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.")
    ] = "groundedness,relevance",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL; unset: stdout.")
    ] = None,
) -> None:
    """Evaluate each record; write one line of evaluations a record, in the same order."""
    names = tuple(name.strip() for name in metrics.split(",") if name.strip())
    scorer = make_scorer(Settings.from_env().model_copy(update={"metrics": names}))
    records = RecordFile(file, tell=lambda text: warn(f"{file.name} {text}"))
    total = records.count_lines()
    found: Counter[str] = Counter()
    with closing(scorer), _opened(output, not_over=file) as target, Progress(console=err) as bar:
        task = bar.add_task("scoring", total=total)
        for record, evaluations in _evaluate(records, scorer):
            found.update(evaluation.status.value for evaluation in evaluations)
            _write(target, record, evaluations)
            bar.advance(task)
        bar.update(task, total=total - records.unreadable.total())
    err.print(
        f"evaluations {reasons(found)}; bad lines {reasons(records.unreadable)}", soft_wrap=True
    )
    if records.unreadable:
        raise typer.Exit(1)


def _opened(output: Path | None, *, not_over: Path) -> AbstractContextManager[IO[str] | None]:
    """Open the file to write to; never the one that is read."""
    if output is None:
        return nullcontext()
    if output.exists() and output.samefile(not_over):
        raise typer.BadParameter(f"{output} is the file that is read; write to another one")
    return output.open("w", encoding="utf-8")


def _evaluate(
    records: RecordFile, scorer: ScoresSamples
) -> Iterator[tuple[Record, tuple[Evaluation, ...]]]:
    """Keep a window of records in work, and give them back in order."""
    window: list[tuple[Record, Future[tuple[Evaluation, ...]]]] = []
    with ThreadPoolExecutor(scorer.concurrency) as pool:
        for record in records:
            window.append((record, pool.submit(scorer.score, record.interaction)))
            if len(window) > scorer.concurrency * 2:
                first, future = window.pop(0)
                yield first, future.result()
        for rest, future in window:
            yield rest, future.result()


def _write(target: IO[str] | None, record: Record, evaluations: tuple[Evaluation, ...]) -> None:
    line = json.dumps(
        {
            "id": record.interaction.id,
            "evaluations": [item.model_dump(mode="json") for item in evaluations],
        },
        ensure_ascii=False,
    )
    # Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON writes it: escaped.
    line = line.encode("utf-8", "backslashreplace").decode()
    if target is None:
        typer.echo(line)
    else:
        target.write(line + "\n")
