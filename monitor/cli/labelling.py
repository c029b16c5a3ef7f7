"""``groundwatch label``: say of answers whether they are good, and see who agrees with whom."""

from __future__ import annotations

import getpass
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from monitor.cli.console import (
    AsJson,
    check_app,
    err,
    open_store,
    out,
    print_json,
    readable,
    warn,
)
from monitor.errors import SettingsError
from monitor.models import Interaction
from monitor.report.format import NONE, percent, plain_text, score, utc_second
from monitor.report.listing import Listing
from monitor.report.words import agreement_line, reasons
from monitor.scoring.metrics import metric_question
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.feedback import complained_of, feedback_of
from monitor.store.label_agreement import agreements
from monitor.store.labels import (
    ENOUGH,
    USUAL_METRIC,
    LabelOutcome,
    LabelRecord,
    Taken,
    all_labels,
    draw,
    labels_of,
    read_record,
    take_labels,
)
from monitor.store.samples import read_sample
from monitor.store.verdicts import read_verdicts
from monitor.web.schema import AgreementItem

_MOST_CHARS = 8_000
_SHOWN = 5
_BATCH = 500
_COMPLAINTS_BACK, _MOST_COMPLAINTS = timedelta(days=7), 100
#: What a key says of a sample.
KEYS = {"p": True, "f": False}

app = typer.Typer(
    add_completion=False,
    help="Labels: say of answers whether they are good, blind and drawn at random.",
)
App = Annotated[str | None, typer.Option("--app", help="Name of the app.")]
Metric = Annotated[str | None, typer.Option("--metric", help="One metric only.")]
Who = Annotated[str | None, typer.Option("--annotator", help="Who says so; else your user name.")]


@app.callback(invoke_without_command=True)
def label(
    context: typer.Context,
    of: App = None,
    metric: Annotated[str, typer.Option(help="Of which metric.")] = USUAL_METRIC,
    annotator: Who = None,
    complaints: Annotated[
        bool,
        typer.Option("--complaints", help="What users complained of; such labels make no level."),
    ] = False,
) -> None:
    """Label drawn samples in the terminal: p passes, f fails, s skips, q ends; go on any time."""
    if context.invoked_subcommand is not None:
        return
    settings = Settings.from_env()
    with closing(open_store(settings)) as store:
        check_app(store, settings, of)
        with store.read() as connection:
            apps = sorted({verdict.app for verdict in read_verdicts(connection).values()})
        if of is None and len(apps) != 1:
            there = ", ".join(plain_text(name, 40) for name in apps[:10]) or "none yet"
            raise SettingsError(f"which app? Choose with --app; there is {there}")
        said = Counter[str]()
        name, who = of or apps[0], annotator or getpass.getuser()
        session = _complaints if complaints else _session
        for outcome in session(store, name, metric, who):
            said[outcome] += 1
    out.print(f"labelled {said['p'] + said['f']:,}, skipped {said['s']:,}")


def _session(store: Store, name: str, metric: str, annotator: str) -> Iterator[str]:
    """Show one sample after the other; yield each key until the queue is empty or q."""
    skipped: set[str] = set()
    while True:
        with store.read() as connection:
            queue = draw(connection, app=name, metric=metric, annotator=annotator, skip=skipped)
            sample = queue and queue.sample_id and read_sample(connection, queue.sample_id)
        if queue is None:
            raise SettingsError(f"nothing of {plain_text(name, 40)} has a verdict of {metric} yet")
        if not sample or queue.sample_id is None:
            out.print("nothing is left that the queue can draw now")
            return
        of = f" · release {plain_text(queue.release, 40)}" if queue.release else ""
        show_sample(sample.sample.interaction, f"{queue.n} of {ENOUGH} labelled{of}", metric)
        key = read_key()
        if key == "q":
            return
        yield key
        if key == "s":
            skipped.add(queue.sample_id)
            continue
        record = LabelRecord(
            sample_id=queue.sample_id,
            label=KEYS[key],
            metric=metric,
            evaluator_version=queue.evaluator_version,
            drawn=True,
        )
        with store.write() as connection:
            take_labels(connection, [record], annotator=annotator, now=datetime.now(UTC))
        judged = next(
            e for e in sample.evaluations
            if (e.metric, e.evaluator_version) == (metric, queue.evaluator_version)
        )  # fmt: skip
        same = bool(judged.passed) == KEYS[key]
        verdict = "pass" if judged.passed else "fail"
        out.print(f"the evaluator said {verdict}{', as you did' if same else ', unlike you'}\n")


def _complaints(store: Store, name: str, metric: str, annotator: str) -> Iterator[str]:
    """Show what users complained of in the last week and nobody of that name has labelled."""
    since = datetime.now(UTC) - _COMPLAINTS_BACK
    with store.read() as connection:
        found = complained_of(connection, name, since=since, limit=_MOST_COMPLAINTS)
    for sample_id in found:
        with store.read() as connection:
            sample = read_sample(connection, sample_id)
            said = {
                label.labelled_by
                for label in labels_of(connection, sample_id)
                if label.metric == metric
            }
            comments = sample and feedback_of(connection, name, sample.sample.interaction.trace_id)
        if sample is None or annotator in said:
            continue
        for word in comments or ():
            if word.comment:
                out.print(Text(f"a user said: {plain_text(word.comment, 500)}"))
        show_sample(sample.sample.interaction, "a user complained", metric)
        key = read_key()
        if key == "q":
            return
        yield key
        if key in KEYS:
            record = LabelRecord(sample_id=sample_id, label=KEYS[key], metric=metric)
            with store.write() as connection:
                now = datetime.now(UTC)
                (outcome,) = take_labels(connection, [record], annotator=annotator, now=now)
            if outcome.taken.is_refused:
                warn(outcome.detail)


def show_sample(it: Interaction, title: str, metric: str) -> None:
    """Print one sample and what is asked, no evaluator's verdict; its texts may be hostile."""
    out.rule(title, style="dim")
    out.print(Text(metric_question(metric), style="dim"))
    pieces = [("question", it.query or NONE), ("answer", it.output)]
    pieces += [(f"context {i}", c.text) for i, c in enumerate(it.contexts, 1)]
    for name, text in pieces:
        lines = (plain_text(line, _MOST_CHARS) for line in text.splitlines())
        out.print(Panel(Text("\n".join(lines)), title=name, title_align="left"))


def read_key() -> str:
    """Ask for a key until it is p, f, s or q; the end of the input is q."""
    err.print("pass (p), fail (f), skip (s), quit (q)? ", end="")
    while True:
        try:
            key = (typer.getchar() if sys.stdin.isatty() else sys.stdin.read(1)).lower()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        if key in {*KEYS, "s", "q"}:
            err.print(key)
            return key
        if key in {"", "\x03", "\x04"}:
            return "q"


@app.command("import")
def import_labels(
    file: Annotated[
        Path, typer.Argument(help="JSONL; - is the standard input.", callback=readable)
    ],
    annotator: Who = None,
    refused: Annotated[
        Path | None, typer.Option(help="Write the lines that were refused here, to be corrected.")
    ] = None,
) -> None:
    """Import labels: lines with sample_id, label, and what `label export` writes besides."""
    who = annotator or getpass.getuser()
    counts: Counter[Taken] = Counter()
    kept: list[str] = []
    with closing(open_store(Settings.from_env())) as store:
        for batch in _batches(file):
            records = [_parsed(line) for _, line in batch]
            with store.write() as connection:
                outcomes = take_labels(connection, records, annotator=who, now=datetime.now(UTC))
            for (number, line), outcome in zip(batch, outcomes, strict=True):
                counts[outcome.taken] += 1
                if outcome.taken.is_refused:
                    kept.append(line)
                    if len(kept) <= _SHOWN:
                        warn(f"line {number}: {outcome.taken.value}: {outcome.detail}")
    bad = {taken.value: n for taken, n in counts.items() if taken.is_refused}
    parts = [f"{taken.value} {counts[taken]:,}" for taken in Taken if not taken.is_refused]
    out.print(f"{', '.join(parts)}, refused {reasons(bad)}")
    if refused is not None and kept:
        refused.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        out.print(Text(f"the refused lines are in {refused}"))
    if kept:
        raise typer.Exit(1)


def _batches(file: Path) -> Iterator[list[tuple[int, str]]]:
    lines = sys.stdin if str(file) == "-" else file.open(encoding="utf-8", errors="replace")
    with lines:
        batch: list[tuple[int, str]] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                batch.append((number, line.rstrip("\n")))
            if len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _parsed(line: str) -> LabelRecord | LabelOutcome:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return LabelOutcome(Taken.UNREADABLE, f"no JSON: {plain_text(str(error), 100)}")
    return read_record(value)


@app.command("export")
def export_labels(
    of: App = None,
    metric: Metric = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; else the terminal.")
    ] = None,
) -> None:
    """Write labels as JSONL, one a line, in the form that `label import` reads."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        text = "".join(
            json.dumps(
                {
                    "sample_id": item.sample_id,
                    "app": item.app,
                    "metric": item.metric,
                    "label": int(item.human_passed),
                    "annotator": item.labelled_by,
                    "labelled_at": item.labelled_at.isoformat(),
                    "note": item.note,
                    "evaluator_version": item.evaluator_version,
                    "evaluator_passed": int(item.judge_passed),
                    "release": item.release or None,
                    "drawn": item.drawn,
                },
                ensure_ascii=False,
            )
            + "\n"
            for item in all_labels(connection, app=of, metric=metric)
        )
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


@app.command("stats")
def show_stats(
    of: App = None,
    metric: Metric = None,
    as_json: AsJson = False,
) -> None:
    """Show how evaluators and people agree: confusion, Cohen's kappa, between annotators."""
    with closing(open_store(Settings.from_env())) as store, store.read() as connection:
        found = agreements(connection, app=of, metric=metric)
    if as_json:
        print_json([AgreementItem.of(item) for item in found])
        return
    if not found:
        out.print("no labels yet; begin with: groundwatch label --app NAME")
        return
    listed = Listing.of(
        "app, metric",
        "evaluator",
        "agreement",
        "of all answers",
        "good that pass",
        "bad that pass",
        "people",
        "last",
    )
    for item in found:
        c = item.confusion
        between = percent(item.between_annotators)
        listed.add_row(
            f"{plain_text(item.app, 40)}, {plain_text(item.metric, 40)}",
            plain_text(item.evaluator_version, 80),
            agreement_line(c) + (f", {item.tied} tied" if item.tied else ""),
            f"{percent(item.weighted.agreement)}, kappa {score(item.weighted.kappa)}"
            if item.weighted
            else NONE,
            f"{percent(c.true_pass_rate)} ({c.passed_good} of {c.passed_good + c.failed_good})",
            f"{percent(c.false_pass_rate)} ({c.passed_bad} of {c.passed_bad + c.failed_bad})",
            f"{item.annotators}" + (f", {between} agree" if between != NONE else ""),
            utc_second(item.last_at),
        )
    out.print(listed)
