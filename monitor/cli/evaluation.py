"""``groundwatch eval``: ask an app every question of a test set, and evaluate the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from monitor.cli.console import FromTool, JudgeKind, err, out, quiet_logs, readable, warn
from monitor.errors import SettingsError
from monitor.report.words import reasons
from monitor.settings import Settings
from monitor.testsets.cases import TestSet
from monitor.testsets.report import ENDINGS, run_sentence, write_report
from monitor.testsets.runner import EvaluationRunner


def evaluate(  # noqa: PLR0913 - the options of a command
    golden: Annotated[
        Path, typer.Argument(help="Test set: JSONL, .json, .csv or .parquet.", callback=readable)
    ],
    *,
    source: FromTool = None,
    app: Annotated[
        str, typer.Option(help="module:function, http(s)://..., a file of answers, or recorded.")
    ] = "recorded",
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.")
    ] = "groundedness,relevance",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run; what exists there is gone on with.")
    ] = Path("run.json"),
    app_version: Annotated[
        str, typer.Option(help="Version of the app; answers of the same one are not asked again.")
    ] = "",
    judge: Annotated[
        JudgeKind | None, typer.Option(help="Who judges; unset: GROUNDWATCH_SCORER.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls of the app in flight.")] = 8,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one answer.")] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="Further calls after a failed one.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="How often each case is asked.")] = 1,
    models: Annotated[str, typer.Option(help="Passed to the app as model, one by one.")] = "",
    report: Annotated[
        list[Path] | None, typer.Option(help="Write a report: .md, .html, .xml; repeatable.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over.")] = False,
) -> None:
    """
    Ask an app every question of a test set, evaluate the answers, and keep the run.

    A run that was stopped resumes where it stopped. Exit code 0 whatever the scores are: what they
    mean for a release is said by the gate. 1 if lines of the test set cannot be read.
    """
    for path in report or ():
        if path.suffix not in ENDINGS:
            raise typer.BadParameter(f"Invalid report '{path}': expected {', '.join(ENDINGS)}")
    if not output.parent.is_dir():
        raise SettingsError(f"there is no folder {output.parent}; make it, or name another output")
    quiet_logs()
    settings = Settings.from_env()
    if judge is not None:
        settings = settings.model_copy(update={"scorer": judge.value})
    cases = TestSet.read(golden, tell=lambda text: warn(f"{golden.name} {text}"), source=source)
    columns = TextColumn("evaluating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=err)
    task = bar.add_task("", total=None)

    def show(done: int, total: int) -> None:
        bar.start()  # not before there is something to show: a mistake is one line
        bar.update(task, completed=done, total=total)

    try:
        runner = EvaluationRunner(
            cases,
            _names(metrics),
            app,
            settings=settings,
            output=output,
            overwrite=overwrite,
            app_version=app_version,
            concurrency=concurrency,
            timeout_s=timeout,
            retries=retries,
            repeat=repeat,
            models=_names(models),
            on_progress=show,
            tell=lambda text: err.print(Text(text), soft_wrap=True),
        )
        runner.run_all()
    finally:
        bar.stop()
    assert runner.run is not None
    for path in report or ():
        write_report(path, runner.run)
    out.print(Text(run_sentence(runner.run)), soft_wrap=True)
    if cases.unreadable:
        warn(f"bad lines of {golden.name}: {reasons(cases.unreadable)}")
        raise typer.Exit(1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
