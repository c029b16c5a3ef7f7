"""``groundwatch check``: did the answers get worse since then? Few labels, blind, and exact."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from monitor.cli.console import check_app, open_store, out, parse_time
from monitor.cli.labelling import KEYS, read_key, show_sample
from monitor.errors import SettingsError
from monitor.queue.consumer import connect
from monitor.report.format import count, percent, plain_text, utc_second
from monitor.scoring.limits.budget import caps_from
from monitor.settings import Settings
from monitor.stats.two_rates import LOOKS, CheckAnswer, PairCheck, check_pairs, power
from monitor.store.engine import Store
from monitor.store.label_agreement import verdicts_of_people
from monitor.store.labels import LabelRecord, SamplePair, draw_pairs, take_labels
from monitor.store.samples import read_sample
from workers.judge_recheck import JudgeAgain

_MOST = LOOKS[-1].pairs
_FALL = 0.20
_CODES = {CheckAnswer.NO_CHANGE: 0, CheckAnswer.WORSE: 1, CheckAnswer.GO_ON: 2}
#: Says of a sample whether it is good; None to pass over it, which ends the run.
Ask = Callable[[str, str], bool | None]


def check(
    app: Annotated[str, typer.Argument(help="Name of the app.")],
    metric: Annotated[str, typer.Argument(help="Such as groundedness.")],
    since: Annotated[
        str, typer.Option(help="When it may have changed: 2026-11-21T14:05 (UTC), or 2h ago.")
    ],
    judge: Annotated[
        bool, typer.Option("--judge", help="Ask the judge, within its budget, instead of you.")
    ] = False,
    annotator: Annotated[str | None, typer.Option(help="Who labels; else your user name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """
    Check by a few labels whether answers got worse: pairs from before and after, at random.

    It looks at 10, 20, 30 and 50 pairs and stops as soon as it can answer. Exit code 0: no change
    seen, 1: worse, 2: go on. Labels are kept: run it again to go on.
    """
    settings, now = Settings.from_env(), datetime.now(UTC)
    at = parse_time(since, now)
    with closing(open_store(settings)) as store:
        check_app(store, settings, app)
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
        typer.echo(json.dumps(said))
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
        return f"undecided: {figures}; there are no more than {count(available, 'pair')} yet"
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
