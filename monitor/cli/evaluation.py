"""
Before a release: ``eval`` runs an app on a test set, ``gate`` decides whether it may go out.

Test sets come from production samples by ``golden``, from documents by ``synthesize``.
"""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from monitor.cli import console
from monitor.cli.console import err, out
from monitor.errors import RecordError, SettingsError
from monitor.format import (
    count,
    number,
    percent,
    plain_text,
    points,
    points_with_interval,
    score,
)

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
    repeat: Annotated[int, typer.Option(min=1, help="Ask each case this many times.")] = 1,
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
    console.tell_missing(
        console.missing_scores(each for case in runner.run.results for each in case.evaluations)
    )
    if cases.unreadable:
        console.warn(f"bad lines of {golden.name}: {reasons(cases.unreadable)}")
        raise typer.Exit(1)


def gate(  # noqa: PLR0913 - the options of a command
    run: Annotated[Path | None, typer.Argument(help="The run that eval wrote.")] = None,
    *,
    baseline: Annotated[
        Path | None, typer.Option(help="The run of the version in production.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="TOML file with the drops allowed.")] = None,
    floor: Annotated[
        list[str] | None, typer.Option(help="Lowest mean allowed: faithfulness=0.95; repeatable.")
    ] = None,
    critical_metric: Annotated[
        list[str] | None,
        typer.Option(help="One more metric that may fall by 2 points only; repeatable."),
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
        before = GatePolicy(**found).critical_metrics
        found["critical_metrics"] = (*before, *critical_metrics)
    for metric, value in console.parse_pairs(floors, "--floor METRIC=0.95").items():
        found.setdefault("floors", {})[metric] = console.parse_share(value)
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
        console.check_metrics(store, metrics or (), name)
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
        said, missing = _sentence(verdict), (verdict.unscored_before, verdict.unscored_after)
        if any(missing):
            said += f"; skipped or failed: {missing[0]:,} under {plain_text(against, 60)}"
            said += f", {missing[1]:,} under {plain_text(release, 60)}"
        console.say(said)
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
        why = f"groundwatch samples --metric {plain_text(verdict.metric, 60)} --unscored says why"
        is_missing = verdict.unscored_before or verdict.unscored_after
        return f"{words}no scores in a finished minute{f' ({why})' if is_missing else ''}"
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


# --- where test sets come from ---

_SHOWN = 5
#: Why a question was dropped, in words.
_WORDS = {
    "unreadable": "not as asked",
    "not_grounded": "quotes that are not in its passages",
    "duplicate": "same as another question",
    "round_trip": "does not lead back to its passage",
    "not_answerable": "not answerable from its passage",
    "answerable": "answerable though it should not be",
}

golden_app = console.group("Golden sets: test cases from production samples and their labels.")
Of = Annotated[
    str, typer.Option("--app", help="Name of the app.", autocompletion=console.complete_app)
]
Metric = Annotated[str, typer.Option(help="The metric.")]
_GOLDEN = Path("golden.jsonl")


@golden_app.command()
def add(
    sample_ids: Annotated[list[str], typer.Argument(help="Sample ids.")],
    to: Annotated[Path, typer.Option(help="Test set; created if it does not exist.")] = _GOLDEN,
    answer: Annotated[str | None, typer.Option(help="The answer that was expected.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; repeatable.")] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="A gate tolerates no failure of these cases.")
    ] = False,
) -> None:
    """
    Add production samples to a test set: `eval` asks the app their questions again.

    The app's answer stays in the metadata; it is expected again only where people passed it.
    """
    from monitor.store.labels import labels_of
    from monitor.store.samples import read_sample
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_case

    if answer is not None and len(sample_ids) > 1:
        raise typer.BadParameter("--answer is for one sample")
    cases = TestSet.read(to) if to.exists() else TestSet(to.stem)
    there, before = {case.id for case in cases}, len(cases)
    with console.reading() as connection:
        for sample_id in dict.fromkeys(sample_ids):
            if sample_id in there:
                err.print(f"{plain_text(sample_id, 64)} is in {to} already", markup=False)
                continue
            stored = read_sample(connection, sample_id)
            if stored is None:
                raise RecordError(
                    f"there is no sample {plain_text(sample_id, 64)}, or no longer;"
                    " `groundwatch samples` lists ids"
                )
            said = labels_of(connection, sample_id)
            cases.add_test(
                golden_case(stored, said, answer=answer, tags=tag or (), critical=critical)
            )
    if len(cases) > before:
        cases.write(to)
    added, whole = count(len(cases) - before, "case"), count(len(cases), "case")
    console.say(f"{added} added to {to}, which has {whole}")


@golden_app.command()
def export(
    of: Of,
    metric: Metric = "groundedness",
    annotators: Annotated[int, typer.Option(min=1, help="Annotators that a sample needs.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set.")] = _GOLDEN,
) -> None:
    """Write the samples that people labelled as a test set, by majority; ties are left out."""
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_set

    with console.reading() as connection:
        found = golden_set(connection, app=of, metric=metric, annotators=annotators)
    if not found.cases:
        raise RecordError(
            f"no sample of {plain_text(of, 60)} has a majority of {count(annotators, 'annotator')}"
            f" on {plain_text(metric, 60)}; label some with: groundwatch label --app NAME"
        )
    TestSet(output.stem, found.cases).write(output)
    console.say(f"{count(len(found.cases), 'case')} written to {output}")
    if found.single:
        console.say(f"{count(found.single, 'sample')} with fewer than {annotators} annotators")
    if found.gone:
        console.say(f"{count(found.gone, 'sample')} without texts, or no longer stored")
    if found.disputed:
        shown = ", ".join(plain_text(one, 64) for one in found.disputed[:_SHOWN])
        disputed = count(len(found.disputed), "sample")
        console.say(f"{disputed} disputed, which `groundwatch label` offers first: {shown}")
    if found.alpha is not None:
        console.say(f"Krippendorff's alpha between annotators {score(found.alpha)}")


@golden_app.command()
def records(of: Of, metric: Metric = "groundedness", output: console.Output = None) -> None:
    """Write a human-versus-AI record for each label, as JSONL."""
    from monitor.testsets.golden import human_ai_records

    with console.reading() as connection:
        found = human_ai_records(connection, app=of, metric=metric)
        console.write_or_print("".join(f"{each.model_dump_json()}\n" for each in found), output)


def synthesize(  # the options of a command
    documents: Annotated[
        list[Path], typer.Argument(help="Files, or folders with .txt, .md and .rst.", exists=True)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Test set to write.")] = Path(
        "synthetic.jsonl"
    ),
    n: Annotated[
        int, typer.Option("--cases", "-n", min=1, max=10_000, help="How many cases.")
    ] = 50,
    share: Annotated[
        list[str] | None,
        typer.Option(help="Share of a kind: unanswerable=20%; repeatable. Others share the rest."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same questions.")] = 0,
) -> None:
    """
    Write test cases from documents: the judge asks, and filters keep the good questions.

    Kinds: single_hop, multi_hop, reasoning, conditional, summary, unanswerable. Personal data is
    masked before anything is sent; the judge's budget and limits apply.
    """
    from monitor.scoring.registry import budget_client, make_chat
    from monitor.settings.kinds import is_loopback
    from monitor.testsets.cases import TestSet
    from monitor.testsets.synthesis import Synthesizer, chunks_of, read_documents

    settings = console.read_settings()
    shares = _shares(share or [])
    host = urlsplit(settings.openai_base_url or "").hostname or ""
    if settings.openai_api_key is None and not is_loopback(host):
        raise SettingsError(
            "OPENAI_API_KEY is not set: a judge writes the questions; set it, or OPENAI_BASE_URL to"
            " an endpoint on this machine"
        )
    chunks = chunks_of(read_documents(documents))
    chat = make_chat(settings, budget_client(settings))
    words = f"{count(len(chunks), 'passage')}, {count(n, 'case')}, {settings.judge_model}"
    err.print(plain_text(words, 200), markup=False)
    with closing(chat):
        maker = Synthesizer(
            chat, seed=seed, concurrency=settings.judge_limits.judge_concurrency,
            tell=lambda done: err.print(f"{done} of {n}"),
        )  # fmt: skip
        made = maker.run(chunks, n, shares)
    if made.cases:
        TestSet(output.stem, made.cases).write(output)
    console.say(count(len(made.cases), "case") + (f" written to {output}" if made.cases else ""))
    for kind, wanted in sorted(made.wanted.items()):
        have = wanted - made.missing.get(kind, 0)
        out.print(f"  {kind}: {have} of {wanted} ({percent(have / n)} of all)")
    for filter_, taken in made.taken.most_common():
        out.print(f"dropped: {taken}, {_WORDS[filter_]}")
    if made.masked:
        out.print(f"personal data was masked in {count(made.masked, 'text')}")
    if made.stopped:
        console.say(f"stopped early: {plain_text(made.stopped, 300)}")
    if len(made.cases) < n:
        raise typer.Exit(1)


def _shares(given: list[str]) -> dict[str, float]:
    """Return the share of each kind: as given; the other kinds share the rest as usual."""
    from monitor.testsets.synthesis import KINDS, USUAL_SHARES

    form = f"--share KIND=20%, of the kinds {', '.join(KINDS)}"
    asked = {k: console.parse_share(v) for k, v in console.parse_pairs(given, form).items()}
    if unknown := asked.keys() - set(KINDS):
        raise typer.BadParameter(f"Invalid kind {min(unknown)!r}: expected {form}")
    left = 1 - sum(asked.values())
    if left < -1e-9:  # noqa: PLR2004  # rounding
        raise typer.BadParameter("the shares are more than 100 % together")
    usual = {kind: share for kind, share in USUAL_SHARES.items() if kind not in asked}
    scale = max(0.0, left) / sum(usual.values()) if usual else 0.0
    shares = {kind: share * scale for kind, share in usual.items()} | asked
    return {kind: share for kind, share in shares.items() if share > 0}
