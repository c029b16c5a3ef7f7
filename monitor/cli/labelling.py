"""``groundwatch label``: say of answers whether they are good; ``check``: did they get worse?"""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import getpass
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from monitor.cli import console
from monitor.cli.console import err, out
from monitor.errors import SettingsError
from monitor.format import NONE, count, percent, plain_text, score, utc_second
from monitor.testsets import STDIN

if TYPE_CHECKING:
    from monitor.stats.two_rates import PairCheck
    from monitor.store.agreement import Agreement
    from monitor.store.engine import Store
    from monitor.store.labels import LabelOutcome, LabelRecord, LabelResult, SamplePair
    from monitor.store.samples import StoredSample

_MOST_CHARS = 8_000
_SHOWN = 5
_BATCH = 500
_COMPLAINTS_BACK, _MOST_COMPLAINTS = timedelta(days=7), 100
#: What a key says of a sample.
KEYS = {"p": True, "f": False}

app = console.group(
    "Label answers as good or bad: drawn at random, without the evaluator's verdict.", alone=True
)
Metric = Annotated[str | None, typer.Option("--metric", help="Only this metric.")]


@app.callback()
def label(
    context: typer.Context,
    of: Annotated[
        str | None,
        typer.Option(
            "--app",
            help="The app; not needed if there is only one.",
            autocompletion=console.complete_app,
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric.")] = "groundedness",
    annotator: console.Annotator = None,
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
    with console.opened() as (_, store):
        name = console.the_app(store, of)
        session = LabelSession(store, metric, annotator or getpass.getuser())
        said = Counter(session.complaints(name) if complaints else session.drawn(name))
    out.print(f"labelled {said['p'] + said['f']:,}, skipped {said['s']:,}")


class LabelSession(NamedTuple):
    """One person who is asked about samples, and whose labels are kept."""

    store: Store
    metric: str
    annotator: str

    def read(self, sample_id: str) -> StoredSample | None:
        """Return a sample, as far as it is stored."""
        from monitor.store.samples import read_sample

        with self.store.read() as connection:
            return read_sample(connection, sample_id)

    def ask(self, sample: StoredSample, title: str, **fields: Any) -> str:
        """
        Show a sample, no evaluator's verdict, and return the key; keep the label if it is one.

        Texts of the sample may be hostile.
        """
        from rich.panel import Panel

        from monitor.scoring.metrics import metric_question
        from monitor.store.labels import LabelRecord, take_labels

        it = sample.sample.interaction
        out.rule(title, style="dim")
        out.print(Text(metric_question(self.metric), style="dim"))
        pieces = [("question", it.query or NONE), ("answer", it.output)]
        pieces += [(f"context {i}", c.text) for i, c in enumerate(it.contexts, 1)]
        for name, text in pieces:
            lines = (plain_text(line, _MOST_CHARS) for line in text.splitlines())
            out.print(Panel(Text("\n".join(lines)), title=name, title_align="left"))
        if (key := read_key()) in KEYS:
            sample_id = sample.sample.sample_id
            made = LabelRecord(sample_id=sample_id, label=KEYS[key], metric=self.metric, **fields)
            now = datetime.now(UTC)
            with self.store.write() as connection:
                [kept] = take_labels(connection, [made], annotator=self.annotator, now=now)
            if kept.result.is_refused:
                console.warn(kept.detail)
        return key

    def drawn(self, name: str) -> Iterator[str]:
        """Draw one sample of an app after the other; yield each key until none is left or q."""
        from monitor.store.labels import ENOUGH, draw

        metric, who, skipped = self.metric, self.annotator, set[str]()
        while True:
            with self.store.read() as connection:
                queue = draw(connection, app=name, metric=metric, annotator=who, skip=skipped)
            if queue is None:
                name = plain_text(name, 40)
                raise SettingsError(f"nothing of {name} has a verdict of {metric} yet")
            if queue.sample_id is None or (sample := self.read(queue.sample_id)) is None:
                out.print("nothing left to draw now")
                return
            of = f" · release {plain_text(queue.release, 40)}" if queue.release else ""
            version = queue.evaluator_version
            title = f"{queue.n} of {ENOUGH} labelled{of}"
            key = self.ask(sample, title, evaluator_version=version, drawn=True)
            if key == "q":
                return
            yield key
            if key == "s":
                skipped.add(queue.sample_id)
                continue
            [judged] = [
                bool(each.passed)
                for each in sample.evaluations
                if (each.metric, each.evaluator_version) == (metric, version)
            ][:1]
            same = ", as you did" if judged == KEYS[key] else ", unlike you"
            out.print(f"the evaluator said {'pass' if judged else 'fail'}{same}\n")

    def complaints(self, name: str) -> Iterator[str]:
        """Show what users complained of in the last week and nobody of that name has labelled."""
        from monitor.store.feedback import complained_of, feedback_of
        from monitor.store.labels import labels_of

        since = datetime.now(UTC) - _COMPLAINTS_BACK
        with self.store.read() as connection:
            found = complained_of(connection, name, since=since, limit=_MOST_COMPLAINTS)
        for sample_id in found:
            sample = self.read(sample_id)
            with self.store.read() as connection:
                labels = labels_of(connection, sample_id)
                words = sample and feedback_of(connection, name, sample.sample.interaction.trace_id)
            mine = (self.metric, self.annotator)
            if sample is None or mine in {(each.metric, each.labelled_by) for each in labels}:
                continue
            for word in words or ():
                if word.comment:
                    out.print(Text(f"a user said: {plain_text(word.comment, 500)}"))
            key = self.ask(sample, "a user complained")
            if key == "q":
                return
            yield key


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
        Path, typer.Argument(help="JSONL; - is the standard input.", callback=console.readable)
    ],
    annotator: console.Annotator = None,
    refused: Annotated[
        Path | None, typer.Option(help="Write refused lines to this file, to correct them.")
    ] = None,
) -> None:
    """Import labels: JSON lines with sample_id and label, as `label export` writes them."""
    from monitor.report.words import reasons
    from monitor.store.labels import LabelOutcome, LabelResult, read_record, take_labels

    who = annotator or getpass.getuser()
    counts: Counter[LabelResult] = Counter()
    kept: list[str] = []
    lines = sys.stdin if file == STDIN else file.open(encoding="utf-8", errors="replace")
    with console.opened() as (_, store), lines:
        numbered = ((n, line.rstrip("\n")) for n, line in enumerate(lines, 1) if line.strip())
        for batch in iter(lambda: list(islice(numbered, _BATCH)), []):
            records: list[LabelRecord | LabelOutcome] = []
            for _, line in batch:
                try:
                    records.append(read_record(json.loads(line)))
                except (ValueError, RecursionError) as error:
                    why = f"not JSON: {plain_text(str(error), 100)}"
                    records.append(LabelOutcome(LabelResult.UNREADABLE, why))
            with store.write() as connection:
                outcomes = take_labels(connection, records, annotator=who, now=datetime.now(UTC))
            for (number, line), outcome in zip(batch, outcomes, strict=True):
                counts[outcome.result] += 1
                if outcome.result.is_refused:
                    kept.append(line)
                    if len(kept) <= _SHOWN:
                        console.warn(f"line {number}: {outcome.result.value}: {outcome.detail}")
    bad = {result.value: n for result, n in counts.items() if result.is_refused}
    parts = [
        f"{result.value} {counts[result]:,}" for result in LabelResult if not result.is_refused
    ]
    out.print(f"{', '.join(parts)}, refused {reasons(bad)}")
    if refused is not None and kept:
        refused.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        out.print(Text(f"the refused lines are in {refused}"))
    if kept:
        raise typer.Exit(1)


@app.command("export")
def export_labels(
    of: console.OnlyApp = None, metric: Metric = None, output: console.Output = None
) -> None:
    """Write labels as JSONL, one a line, in the form that `label import` reads."""
    from monitor.store.labels import all_labels

    with console.reading() as connection:
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
    console.write_or_print("".join(lines), output)


@app.command("stats")
def show_stats(
    of: console.OnlyApp = None, metric: Metric = None, as_json: console.AsJson = False
) -> None:
    """Show how far evaluators agree with people, and people with each other."""
    from monitor.report.words import agreement_line
    from monitor.store.agreement import agreements
    from monitor.web.schema import AgreementItem

    with console.reading() as connection:
        found = agreements(connection, app=of, metric=metric)
    console.print_rows(found, {
        "app, metric": lambda item: f"{plain_text(item.app, 40)}, {plain_text(item.metric, 40)}",
        "evaluator": lambda item: console.safe(item.evaluator_version, 80),
        "agreement": lambda item: (
            agreement_line(item.confusion) + (f", {item.tied} tied" if item.tied else "")
        ),
        "of all answers": lambda item: (
            f"{percent(item.weighted.agreement)}, kappa {score(item.weighted.kappa)}"
            if item.weighted
            else NONE
        ),
        "good that pass": lambda item: _share(item, "good", "true_pass_rate"),
        "bad that pass": lambda item: _share(item, "bad", "false_pass_rate"),
        "people": lambda item: (
            f"{item.annotators}"
            if item.between_annotators is None
            else f"{item.annotators}, {percent(item.between_annotators)} agree"
        ),
        "last": lambda item: utc_second(item.last_at),
    }, as_json=as_json, json_of=AgreementItem.of,
        none="no labels yet; begin with: groundwatch label --app NAME")  # fmt: skip


def _share(item: Agreement, kind: str, rate: str) -> str:
    """Return such as "75.0 % (9 of 12), 96.0 % of all": of the labelled, and of all answers."""
    counts = item.confusion._asdict()
    passed, n = counts[f"passed_{kind}"], counts[f"passed_{kind}"] + counts[f"failed_{kind}"]
    labelled = f"{percent(getattr(item.confusion, rate))} ({passed:g} of {n:g})"
    return (
        f"{labelled}, {percent(getattr(item.weighted, rate))} of all" if item.weighted else labelled
    )


_FALL = 0.20
_CODES = {"no change seen": 0, "worse": 1, "go on": 2}  # by the answer of a check
#: Says of a sample whether it is good; None to pass over it, which ends the run.
Ask = Callable[[str, str], bool | None]


def check(
    app: console.AppName,
    metric: console.MetricName,
    since: Annotated[
        str, typer.Option(help="When it may have changed: 2026-11-21T14:05 (UTC), or 2h ago.")
    ],
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask the judge instead of you, within its budget.")
    ] = False,
    annotator: console.Annotator = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """
    Check with a few labels whether answers got worse: random pairs from before and after.

    Decides after 10, 20, 30 or 50 pairs, as soon as it can. Exit code: 0 no change seen, 1 worse,
    2 undecided. Labels are kept: run it again to label more.
    """
    from monitor.scoring.registry import budget_client
    from monitor.stats.two_rates import LOOKS
    from monitor.store.agreement import verdicts_of_people
    from monitor.store.labels import draw_pairs
    from workers.judge_recheck import judge_again, passes

    at, most, least = console.parse_time(since, datetime.now(UTC)), LOOKS[-1].pairs, LOOKS[0].pairs
    with console.opened() as (settings, store), ExitStack() as stack:
        console.check_app(store, app)
        session = LabelSession(store, metric, annotator or getpass.getuser())
        with store.read() as connection:
            pairs = draw_pairs(connection, app=app, metric=metric, at=at, most=most)
            ids = [sample_id for pair in pairs for sample_id in pair]
            known = {} if judge else verdicts_of_people(connection, ids, metric)
        if len(pairs) < least:
            raise SettingsError(
                f"only {count(len(pairs), 'pair')} of samples with a verdict of"
                f" {plain_text(metric, 40)} from before and after {utc_second(at)}; a check needs"
                f" {least}"
            )

        asked = None
        if judge:
            made = judge_again(settings, budget_client(settings), metric=metric)
            asked = stack.enter_context(closing(made))

        def ask(sample_id: str, title: str) -> bool | None:
            sample = session.read(sample_id)
            if sample is None:
                return None
            if asked is None:
                # Whoever is not sure of one sample cannot leave it out: it was drawn.
                return KEYS.get(session.ask(sample, title, drawn=True))
            evaluations = asked.score(sample.sample.interaction)
            return passes(evaluations, settings.pass_score).get(metric)

        found = run_check(pairs, known, ask)
    said = {
        "app": app, "metric": metric, "since": at.isoformat(), "answer": found.answer.value,
        "pairs": found.pairs, "good_before": found.good_before, "good_after": found.good_after,
        "p_value": found.p_value, "next_look": found.next_look,
        "by": "judge" if judge else "people",
    }  # fmt: skip
    if as_json:
        console.print_json(said)
    else:
        out.print(answer_line(found, available=len(pairs)))
    raise typer.Exit(_CODES[found.answer.value])


def run_check(pairs: Sequence[SamplePair], known: dict[str, bool], ask: Ask) -> PairCheck:
    """Ask about samples, pair by pair, until the check is decided, ended or out of pairs."""
    from monitor.stats.two_rates import CheckAnswer, check_pairs

    for number in range(len(pairs) + 1):
        so_far = pairs[:number]
        found = check_pairs([known[p.before] for p in so_far], [known[p.after] for p in so_far])
        if found.answer is not CheckAnswer.GO_ON or number == len(pairs):
            break
        for sample_id in pairs[number].shuffled:
            if sample_id not in known:
                verdict = ask(sample_id, f"pair {number + 1}, next decision at {found.next_look}")
                if verdict is None:
                    return found
                known[sample_id] = verdict
    return found


def answer_line(found: PairCheck, *, available: int) -> str:
    """Return the answer of a check in a sentence, with what it is based on."""
    from monitor.stats.two_rates import CheckAnswer, power

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
