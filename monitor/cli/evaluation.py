"""Before a release: ``eval`` runs an app on a test set, ``gate`` decides whether it may go out."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli import console
from monitor.errors import SettingsError
from monitor.report.format import number, percent, plain_text, points, points_with_interval

if TYPE_CHECKING:
    from monitor.testsets.gate import GatePolicy
    from monitor.testsets.releases import ReleaseVerdict

_STYLES = {"pass": "green", "fail": "red", "open": "yellow"}
_LIVE_DROP = "3%"


def evaluate(  # noqa: PLR0913 - the options of a command
    golden: Annotated[
        Path,
        typer.Argument(help="Test set: JSONL, .json, .csv or .parquet.", callback=console.readable),
    ],
    *,
    source: console.FromTool = None,
    app: Annotated[
        str, typer.Option(help="module:function, http(s)://..., a file of answers, or recorded.")
    ] = "recorded",
    metrics: console.Metrics = "groundedness,relevance",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The run; an unfinished one is resumed.")
    ] = Path("run.json"),
    app_version: Annotated[
        str, typer.Option(help="Version of the app; answers of the same one are reused.")
    ] = "",
    judge: console.Judge = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Parallel calls of the app.")] = 8,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Longest wait for an answer, in seconds.")
    ] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="Retries of a failed call.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Ask each case so many times.")] = 1,
    models: Annotated[
        str, typer.Option(help="Models to compare, passed to the app as model.")
    ] = "",
    report: console.Reports = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over.")] = False,
) -> None:
    """
    Ask an app every question of a test set, evaluate the answers, and keep the run.

    A run that was stopped resumes where it stopped. The exit code is 0 whatever the scores are
    (`gate` decides what they mean for a release), and 1 if lines of the test set cannot be read.
    """
    from monitor.report.words import reasons
    from monitor.settings import kinds
    from monitor.testsets.cases import TestSet
    from monitor.testsets.report import ENDINGS, run_sentence, write_report
    from monitor.testsets.runner import EvaluationRunner

    for path in report or ():
        if path.suffix not in ENDINGS:
            raise typer.BadParameter(f"Invalid report '{path}': expected {', '.join(ENDINGS)}")
    if not output.parent.is_dir():
        raise SettingsError(f"there is no folder {output.parent}; make it, or name another output")
    console.quiet_logs()
    settings = console.read_settings()
    if judge is not None:
        settings = settings.model_copy(update={"scorer": judge.value})
    cases = TestSet.read(
        golden, tell=lambda text: console.warn(f"{golden.name} {text}"), source=source
    )
    bar = console.progress_bar()
    task = bar.add_task("evaluating", total=None)

    def show(done: int, total: int) -> None:
        bar.start()  # not before there is something to show: a mistake is one line
        bar.update(task, completed=done, total=total)

    try:
        runner = EvaluationRunner(
            cases, kinds.split_commas(metrics), app, settings=settings, output=output,
            overwrite=overwrite, app_version=app_version, concurrency=concurrency,
            timeout_s=timeout, retries=retries, repeat=repeat,
            models=kinds.split_commas(models), on_progress=show, tell=console.tell,
        )  # fmt: skip
        runner.run_all()
    finally:
        bar.stop()
    assert runner.run is not None
    for path in report or ():
        write_report(path, runner.run)
    console.say(run_sentence(runner.run))
    if cases.unreadable:
        console.warn(f"bad lines of {golden.name}: {reasons(cases.unreadable)}")
        raise typer.Exit(1)


def gate(  # noqa: PLR0913 - the options of a command
    run: Annotated[Path | None, typer.Argument(help="The run that eval wrote.")] = None,
    *,
    baseline: Annotated[Path | None, typer.Option(help="The run of what is in production.")] = None,
    policy: Annotated[Path | None, typer.Option(help="TOML file with what is tolerated.")] = None,
    floor: Annotated[
        list[str] | None, typer.Option(help="Lowest mean allowed: faithfulness=0.95; repeatable.")
    ] = None,
    critical_metric: Annotated[
        list[str] | None, typer.Option(help="Metric that may fall by 2 points only; repeatable.")
    ] = None,
    shared_cases: Annotated[
        bool, typer.Option("--shared-cases", help="Where sets differ, compare the cases of both.")
    ] = False,
    report: console.Reports = None,
    release: Annotated[str | None, typer.Option(help="Release that is live.")] = None,
    against: Annotated[str | None, typer.Option(help="Release to compare it with.")] = None,
    max_drop: Annotated[
        str | None, typer.Option(help="Allowed drop: of a mean, 5%; of a live pass rate, 3%.")
    ] = None,
    app: Annotated[
        str | None, typer.Option(help="The live app; not needed if there is only one.")
    ] = None,
    metric: console.OnlyMetrics = None,
    since: Annotated[str, typer.Option(help="How far back in live traffic: 24h, 7d.")] = "7d",
    as_json: console.AsJson = False,
) -> None:
    """
    Decide whether a run may be released, or whether a live release is worse than another.

    A run: gate run.json --baseline main.json. Live, as often as you like: gate --release v12
    --against v11. Exit code: 0 pass or ok, 1 fail or worse, 2 not decided yet, 3 not comparable.
    """
    from monitor.testsets.gate import decide
    from monitor.testsets.report import gate_page, write_report
    from monitor.testsets.runs import read_run

    if run is not None:
        if release or against:
            raise typer.BadParameter("name either a run or two live releases")
        rules = _policy(policy, max_drop, floor, critical_metric, shared_cases=shared_cases)
        found = decide(read_run(run), None if baseline is None else read_run(baseline), rules)
        for path in report or ():
            write_report(path, found)
        if as_json:
            typer.echo(found.model_dump_json(indent=1))
        else:
            page = gate_page(found)
            console.say(page.outcome, style=_STYLES[page.kind])
            for line in page.lines:
                console.say(f"  {line}")
        raise typer.Exit(found.exit_code)
    if release is None or against is None:
        raise typer.BadParameter(
            "name a run, groundwatch gate run.json --baseline main.json, or both releases,"
            " groundwatch gate --release v12 --against v11"
        )
    if baseline or policy or floor or critical_metric or shared_cases or report:
        raise typer.BadParameter("a live release is compared with --against and --max-drop only")
    raise typer.Exit(_gate_live(release, against, max_drop or _LIVE_DROP, app, metric, since,
                                as_json=as_json))  # fmt: skip


def _policy(
    file: Path | None,
    max_drop: str | None,
    floors: Sequence[str] | None,
    critical_metrics: Sequence[str] | None,
    *,
    shared_cases: bool,
) -> GatePolicy:
    """Return the policy of a file with what the options say instead."""
    from monitor.testsets.gate import GatePolicy

    found: dict[str, Any] = GatePolicy.read(file).model_dump() if file else {}
    if max_drop is not None:
        found["max_drop"] = console.parse_share(max_drop)
    if shared_cases:
        found["shared_cases"] = True
    if critical_metrics:
        found["critical_metrics"] = tuple(critical_metrics)
    for each in floors or ():
        metric, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"Invalid floor {each!r}: expected METRIC=0.95")
        found.setdefault("floors", {})[metric.strip()] = console.parse_share(value)
    return GatePolicy(**found)


def _gate_live(
    release: str, against: str, max_drop: str, app: str | None, metrics: Sequence[str] | None,
    since: str, *, as_json: bool,
) -> int:  # fmt: skip
    """Print the verdicts on a live release; return 0 all ok, 1 worse, 2 open, 3 not comparable."""
    from monitor.testsets.releases import ReleaseStatus, judge_parts, read_parts

    drop = console.parse_share(max_drop)
    if not 0 < drop < 1:
        raise typer.BadParameter(f"Invalid share {max_drop!r}: expected 3% or 0.03")
    now = datetime.now(UTC)
    with console.opened() as (settings, store), store.read() as connection:
        name = console.the_app(store, app)
        parts = read_parts(
            connection, app=name, by="release", now=now, since=console.parse_time(since, now),
            bucket_s=settings.windows.bucket_s, values=frozenset({release, against}),
        )  # fmt: skip
    verdicts, refused = judge_parts(parts, against, release, max_drop=drop, metrics=metrics)
    statuses = {verdict.status for verdict in verdicts}
    if ReleaseStatus.WORSE in statuses:
        code = 1
    elif not verdicts or refused:
        code = 3
    else:
        code = 2 if ReleaseStatus.NOT_YET in statuses else 0
    if as_json:
        console.print_json({"exit_code": code, "verdicts": verdicts, "not_comparable": refused})
        return code
    title = f"{name}: {release} against {against}, allowed drop {percent(drop)}"
    console.say(plain_text(title, 200), style="bold")
    for verdict in verdicts:
        console.say(_sentence(verdict))
    for one, why in refused.items():
        console.say(f"{plain_text(one, 60)}  not comparable: {plain_text(why, 120)}")
    if not verdicts and not refused:
        console.say(
            f"{plain_text(name, 60)} has no scores of release {plain_text(release, 60)!r} or"
            f" {plain_text(against, 60)!r}; set it with init(release=...) or GROUNDWATCH_RELEASE"
        )
    return code


def _sentence(verdict: ReleaseVerdict) -> str:
    from monitor.testsets.releases import ReleaseStatus

    words = f"{plain_text(verdict.metric, 60)}  {verdict.status.value}: "
    if verdict.before is None or verdict.after is None:
        return words + "no scores in a finished minute"
    words += (
        f"pass rate {percent(verdict.before)} (n {number(verdict.n_before)})"
        f" to {percent(verdict.after)} (n {number(verdict.n_after)}), "
    )
    change = verdict.after - verdict.before
    words += f"change {points_with_interval(change, -verdict.drop_high, -verdict.drop_low)}"
    if verdict.status is ReleaseStatus.NOT_YET:
        more = f"about {number(verdict.more_n)} more samples decide" if verdict.more_n else ""
        words += "; " + (more or f"it is close to the allowed {points(-verdict.max_drop)}")
    return words
