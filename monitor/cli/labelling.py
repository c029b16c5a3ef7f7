"""``groundwatch label``: say of answers whether they are good; ``check``: did they get worse?"""

from __future__ import annotations

import getpass
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel
from rich.text import Text

from monitor.cli.console import (
    AppName,
    AsJson,
    MetricName,
    Output,
    check_app,
    complete_app,
    err,
    open_store,
    out,
    parse_time,
    print_json,
    print_rows,
    readable,
    reading,
    safe,
    the_app,
    warn,
    write_or_print,
)
from monitor.errors import SettingsError
from monitor.models import Interaction
from monitor.queue.consumer import connect
from monitor.report.format import NONE, count, percent, plain_text, score, utc_second
from monitor.report.words import agreement_line, reasons
from monitor.scoring.limits.budget import caps_from
from monitor.scoring.metrics import metric_question
from monitor.settings import Settings
from monitor.stats.two_rates import LOOKS, CheckAnswer, PairCheck, check_pairs, power
from monitor.store.engine import Store
from monitor.store.feedback import complained_of, feedback_of
from monitor.store.label_agreement import agreements, verdicts_of_people
from monitor.store.labels import (
    ENOUGH,
    USUAL_METRIC,
    LabelOutcome,
    LabelRecord,
    SamplePair,
    Taken,
    all_labels,
    draw,
    draw_pairs,
    labels_of,
    read_record,
    take_labels,
)
from monitor.store.samples import read_sample
from monitor.web.schema import AgreementItem
from workers.judge_recheck import JudgeAgain

_MOST_CHARS = 8_000
_SHOWN = 5
_BATCH = 500
_COMPLAINTS_BACK, _MOST_COMPLAINTS = timedelta(days=7), 100
#: What a key says of a sample.
KEYS = {"p": True, "f": False}

app = typer.Typer(
    add_completion=False,
    help="Label answers as good or bad: drawn at random, without the evaluator's verdict.",
)
App = Annotated[
    str | None, typer.Option("--app", help="Name of the app.", autocompletion=complete_app)
]
Metric = Annotated[str | None, typer.Option("--metric", help="Only this metric.")]
Who = Annotated[str | None, typer.Option("--annotator", help="Who labels; unset: your user name.")]


@app.callback(invoke_without_command=True)
def label(
    context: typer.Context,
    of: App = None,
    metric: Annotated[str, typer.Option(help="The metric.")] = USUAL_METRIC,
    annotator: Who = None,
    complaints: Annotated[
        bool,
        typer.Option(
            "--complaints", help="Label what users complained about; these labels set no level."
        ),
    ] = False,
) -> None:
    """Label drawn samples in the terminal: p passes, f fails, s skips, q ends; go on any time."""
    if context.invoked_subcommand is not None:
        return
    settings = Settings.from_env()
    with closing(open_store(settings)) as store:
        name, who = the_app(store, of), annotator or getpass.getuser()
        session = _complaints if complaints else _session
        said = Counter(session(store, name, metric, who))
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
            out.print("nothing left to draw now")
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
        Path | None, typer.Option(help="Write refused lines to this file, to correct them.")
    ] = None,
) -> None:
    """Import labels: JSON lines with sample_id and label, as `label export` writes them."""
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
    """Yield the lines that are not blank with their numbers, five hundred at a time."""
    lines = sys.stdin if str(file) == "-" else file.open(encoding="utf-8", errors="replace")
    with lines:
        numbered = ((n, line.rstrip("\n")) for n, line in enumerate(lines, 1) if line.strip())
        yield from iter(lambda: list(islice(numbered, _BATCH)), [])


def _parsed(line: str) -> LabelRecord | LabelOutcome:
    try:
        return read_record(json.loads(line))
    except (ValueError, RecursionError) as error:
        return LabelOutcome(Taken.UNREADABLE, f"no JSON: {plain_text(str(error), 100)}")


@app.command("export")
def export_labels(
    of: App = None,
    metric: Metric = None,
    output: Output = None,
) -> None:
    """Write labels as JSONL, one a line, in the form that `label import` reads."""
    with reading() as connection:
        records = [
            {
                "sample_id": item.sample_id, "app": item.app, "metric": item.metric,
                "label": int(item.human_passed), "annotator": item.labelled_by,
                "labelled_at": item.labelled_at.isoformat(), "note": item.note,
                "evaluator_version": item.evaluator_version,
                "evaluator_passed": int(item.judge_passed), "release": item.release or None,
                "drawn": item.drawn,
            }
            for item in all_labels(connection, app=of, metric=metric)
        ]  # fmt: skip
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    write_or_print("".join(lines), output)


@app.command("stats")
def show_stats(
    of: App = None,
    metric: Metric = None,
    as_json: AsJson = False,
) -> None:
    """Show how far evaluators agree with people, and people with each other."""
    with reading() as connection:
        found = agreements(connection, app=of, metric=metric)
    if as_json:
        print_json([AgreementItem.of(item) for item in found])
        return
    print_rows(found, {
        "app, metric": lambda item: f"{plain_text(item.app, 40)}, {plain_text(item.metric, 40)}",
        "evaluator": lambda item: safe(item.evaluator_version, 80),
        "agreement": lambda item: (
            agreement_line(item.confusion) + (f", {item.tied} tied" if item.tied else "")
        ),
        "of all answers": lambda item: (
            f"{percent(item.weighted.agreement)}, kappa {score(item.weighted.kappa)}"
            if item.weighted
            else NONE
        ),
        "good that pass": lambda item: _share(
            item.confusion.true_pass_rate, item.confusion.passed_good, item.confusion.failed_good
        ),
        "bad that pass": lambda item: _share(
            item.confusion.false_pass_rate, item.confusion.passed_bad, item.confusion.failed_bad
        ),
        "people": lambda item: (
            f"{item.annotators}"
            + (
                f", {percent(item.between_annotators)} agree"
                if item.between_annotators is not None
                else ""
            )
        ),
        "last": lambda item: utc_second(item.last_at),
    }, none="no labels yet; begin with: groundwatch label --app NAME")  # fmt: skip


def _share(rate: float | None, passed: float, failed: float) -> str:
    return f"{percent(rate)} ({passed:g} of {passed + failed:g})"


_MOST = LOOKS[-1].pairs
_FALL = 0.20
_CODES = {CheckAnswer.NO_CHANGE: 0, CheckAnswer.WORSE: 1, CheckAnswer.GO_ON: 2}
#: Says of a sample whether it is good; None to pass over it, which ends the run.
Ask = Callable[[str, str], bool | None]


def check(
    app: AppName,
    metric: MetricName,
    since: Annotated[
        str, typer.Option(help="When it may have changed: 2026-11-21T14:05 (UTC), or 2h ago.")
    ],
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask the judge instead of you, within its budget.")
    ] = False,
    annotator: Annotated[
        str | None, typer.Option(help="Who labels; unset: your user name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """
    Check with a few labels whether answers got worse: random pairs from before and after.

    Decides after 10, 20, 30 or 50 pairs, as soon as it can. Exit code: 0 no change seen, 1 worse,
    2 undecided. Labels are kept: run it again to label more.
    """
    settings, now = Settings.from_env(), datetime.now(UTC)
    at = parse_time(since, now)
    with closing(open_store(settings)) as store:
        check_app(store, app)
        with store.read() as connection:
            pairs = draw_pairs(connection, app=app, metric=metric, at=at, most=_MOST)
        if len(pairs) < LOOKS[0].pairs:
            raise SettingsError(
                f"only {count(len(pairs), 'pair')} of samples with a verdict of"
                f" {plain_text(metric, 40)} from before and after {utc_second(at)}; a check needs"
                f" {LOOKS[0].pairs}"
            )
        known: dict[str, bool] = {}
        if judge:
            client = connect(settings.broker_url) if caps_from(settings) else None
            with closing(JudgeAgain.make(settings, client, metric=metric)) as again:
                found = run_check(pairs, known, _asking_judge(store, again, metric))
        else:
            with store.read() as connection:
                ids = [sample_id for pair in pairs for sample_id in pair]
                known = verdicts_of_people(connection, ids, metric)
            found = run_check(
                pairs, known, _asking_people(store, metric, annotator or getpass.getuser())
            )
    said = {
        "app": app, "metric": metric, "since": at.isoformat(), "answer": found.answer.value,
        "pairs": found.pairs, "good_before": found.good_before, "good_after": found.good_after,
        "p_value": found.p_value, "next_look": found.next_look,
        "by": "judge" if judge else "people",
    }  # fmt: skip
    if as_json:
        print_json(said)
    else:
        out.print(answer_line(found, available=len(pairs)))
    raise typer.Exit(_CODES[found.answer])


def run_check(pairs: Sequence[SamplePair], known: dict[str, bool], ask: Ask) -> PairCheck:
    """Ask about samples, pair by pair, until the check is decided, ended or out of pairs."""
    for number in range(len(pairs) + 1):
        so_far = pairs[:number]
        found = check_pairs([known[p.before] for p in so_far], [known[p.after] for p in so_far])
        if found.answer is not CheckAnswer.GO_ON or number == len(pairs):
            break
        for sample_id in pairs[number].shuffled:
            if sample_id not in known:
                verdict = ask(sample_id, f"pair {number + 1}, next look at {found.next_look}")
                if verdict is None:
                    return found
                known[sample_id] = verdict
    return found


def answer_line(found: PairCheck, *, available: int) -> str:
    """Return the answer of a check in a sentence, with what it is based on."""
    figures = f"{found.good_before} of {found.pairs} good before, {found.good_after} after"
    if found.answer is CheckAnswer.WORSE:
        return f"worse: {figures} (p {found.p_value:.3f})"
    if found.answer is CheckAnswer.NO_CHANGE:
        rate = min(0.98, max((found.good_before + found.good_after) / (2 * found.pairs), _FALL))
        seen = percent(power(rate, max(0.0, rate - _FALL)).worse, 0)
        return f"no change seen: {figures}; a fall of 20 points would have been seen in {seen}"
    if found.next_look is not None and found.next_look > available:
        return f"undecided: {figures}; only {count(available, 'pair')} so far"
    return f"go on: {figures} so far, the next look is at {found.next_look} pairs; run it again"


def _asking_people(store: Store, metric: str, annotator: str) -> Ask:
    def ask(sample_id: str, title: str) -> bool | None:
        with store.read() as connection:
            sample = read_sample(connection, sample_id)
        if sample is None:
            return None
        show_sample(sample.sample.interaction, title, metric)
        key = read_key()
        if key not in KEYS:  # whoever is not sure of one sample cannot leave it out: it was drawn
            return None
        record = LabelRecord(sample_id=sample_id, label=KEYS[key], metric=metric, drawn=True)
        with store.write() as connection:
            take_labels(connection, [record], annotator=annotator, now=datetime.now(UTC))
        return KEYS[key]

    return ask


def _asking_judge(store: Store, again: JudgeAgain, metric: str) -> Ask:
    def ask(sample_id: str, _title: str) -> bool | None:
        with store.read() as connection:
            sample = read_sample(connection, sample_id)
        return again.verdicts(sample.sample.interaction).get(metric) if sample else None

    return ask
