"""
Why it is so, and what would be different: ``why`` explains failures, ``rerun`` asks an incident's
failing questions again with a component changed, ``compare`` compares two runs on one test set, or
the variants of an app in production.
"""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.cli import console
from monitor.cli.console import out
from monitor.format import (
    NONE,
    count,
    number,
    percent,
    plain_text,
    points_with_interval,
    score,
    utc_time,
)

if TYPE_CHECKING:
    from monitor.models import CustomEvaluation
    from monitor.rolling.faults import Faults
    from monitor.testsets.compare import Comparison
    from monitor.testsets.golden import Change

_MOST_SHOWN = 100
#: Of an incident's failing samples, the newest from which questions are drawn.
_MOST_FAILING = 2_000
_MEANS = {"explains": "explains the fall", "does not": "does not explain it"}


def why(
    app: console.AppName,
    metric: console.MetricName = "groundedness",
    since: Annotated[
        str | None,
        typer.Option(
            help="When it got worse: 2026-11-21T14:05 (UTC), or 24h ago. Default: when the fall"
            " that the status found began; without one, 24h ago."
        ),
    ] = None,
    before: Annotated[str, typer.Option(help="Compare with samples from this time on.")] = "8d",
    test_set: Annotated[
        Path | None, typer.Option(help="Write the examples of all failure modes as a test set.")
    ] = None,
    as_json: console.AsJson = False,
) -> None:
    """
    Explain failures: traffic, retrieval or generation, what changed, and named failure modes.

    Compares the words of the newest 1,000 samples before and after, as the page does; calls no
    model.
    """
    from monitor.store.samples import read_sample
    from monitor.store.verdicts import read_verdicts
    from monitor.testsets.cases import TestSet
    from monitor.testsets.golden import golden_case
    from workers.reports import read_faults

    now = datetime.now(UTC)
    start = console.parse_time(before, now)
    with console.opened() as (_, store), store.read() as connection:
        console.check_app(store, app)
        verdicts = [*read_verdicts(connection, app).values()]
        known = {verdict.metric for verdict in verdicts}
        if known and metric not in known:
            raise typer.BadParameter(
                f"nothing was scored as {plain_text(app, 60)} {plain_text(metric, 60)};"
                f" {console.there_are(sorted(known))}"
            )
        began = [v.onset for v in verdicts if v.metric == metric and v.onset is not None]
        at = began[0] if began and since is None else console.parse_time(since or "24h", now)
        if start >= at:
            raise typer.BadParameter(
                f"--before {before} is not before --since {since or utc_time(at)}"
            )
        faults = read_faults(store, app, metric, since=at, began=start)
        if test_set is not None:
            named = dict.fromkeys(i for mode in faults.modes for i in mode.examples)
            if not named:
                raise typer.BadParameter("--test-set: there is no failure mode to take cases from")
            cases = TestSet(test_set.stem)
            for stored in filter(None, (read_sample(connection, each) for each in named)):
                cases.add_test(golden_case(stored))
            cases.write(test_set)
    if as_json:
        console.print_json(faults)
        return
    print_faults(faults, f"{plain_text(app, 60)} · {plain_text(metric, 60)}", at)
    if test_set is not None:
        console.say(f"{count(len(cases), 'case')} written to {test_set}")


def print_faults(faults: Faults, about: str, at: datetime) -> None:
    """Print what the samples say of a fall at a time, under a headline."""
    from monitor.report.words import BLAMED, change_sentence
    from monitor.rolling.faults import LEAST_SAMPLES

    since = f"since {utc_time(at)}"
    console.say(f"{about} {since}: {faults.n_failed:,} of {faults.n_after:,} fail", style="bold")
    if faults.blame is None:
        sizes = f"{faults.n_before:,} before, {faults.n_after:,} after"
        out.print(f"Cause: too few samples ({sizes}; {LEAST_SAMPLES} needed)")
    else:
        cause = faults.blame.cause
        meaning = BLAMED.get(cause, faults.blame.reason)
        out.print(f"Cause: {cause}{meaning and f' ({meaning})'}")
        console.print_rows(faults.blame.shares, {
            "cause": lambda each: each.cause,
            "fail before": lambda each: percent(each.before),
            "fail since": lambda each: percent(each.after),
            "change (90 %)": lambda each: points_with_interval(
                each.after - each.before, each.low, each.high
            ),
        }, right=("fail before", "fail since", "change (90 %)"))  # fmt: skip
    for changed in faults.components:
        console.say(f"Changed: {change_sentence(changed)}")
    # The app's page has those of the last 24 h.
    console.say(f"Failure modes {since}:{'' if faults.modes else ' none beyond chance'}")
    if faults.modes:
        console.print_rows(faults.modes, {
            "words": lambda mode: console.safe(mode.name, 60),
            "failures": lambda mode: f"{mode.n:,}",
            "share": lambda mode: percent(mode.n / mode.n_failed),
            "by chance": lambda mode: f"{mode.expected:.1f}",
            "growing": lambda mode: "yes" if mode.growing else "no",
            "first seen": lambda mode: utc_time(mode.first_seen),
            "example": lambda mode: mode.examples[0],
        }, right=("failures", "share", "by chance"))  # fmt: skip


def rerun(
    incident: Annotated[str, typer.Argument(help="Id of the incident, or its first characters.")],
    *,
    reply: Annotated[
        str,
        typer.Option(help="Module that calls groundwatch.replayable(), or module:function."),
    ],
    changed: Annotated[
        list[str], typer.Option("--with", help="What to change: retriever=v11; repeatable.")
    ],
    most: Annotated[int, typer.Option(min=1, help="Ask at most this many questions.")] = 60,
    as_json: console.AsJson = False,
) -> None:
    """
    Ask an incident's failing questions again, as the app is and with a component changed.

    Says for each change, by a paired test that is valid after each question, whether it explains
    the fall: whether it fixes more than half of what still fails. Runs your function in this
    process; stores nothing. Exit code: 0 one explains it, 1 none does, 2 undecided.
    """
    from alerts.conditions import MONITOR_PREFIX
    from monitor.cli.alerts import named_incident
    from monitor.errors import BudgetReachedError, JudgeOutageError, SettingsError
    from monitor.report.words import reasons
    from monitor.store.query import read_pass_lines
    from monitor.store.samples import read_sample, scored_exchanges
    from monitor.testsets.apps import imported
    from monitor.testsets.golden import Rerun, golden_case, read_changes

    console.quiet_logs()
    # Of the app's hook: nobody asks these questions.
    os.environ["GROUNDWATCH_ENABLED"] = "false"  # noqa: TID251
    changes, function = read_changes(changed), imported(reply)
    with console.opened() as (settings, store), store.read() as connection:
        found = named_incident(connection, incident)
        app, metric, since = found.app, found.metric, found.since
        if metric.startswith(MONITOR_PREFIX):
            raise SettingsError(f"incident {found.incident_id} is about the monitor, not answers")
        failing = [
            each for each in scored_exchanges(
                connection, app, metric, since, found.resolved_at, limit=_MOST_FAILING
            ) if not each.passed and each.interaction.query
        ]  # fmt: skip
        Random(found.incident_id).shuffle(failing)  # noqa: S311
        questions = [
            golden_case(stored) for each in failing[:most]
            if (stored := read_sample(connection, each.sample_id)) is not None
        ]  # fmt: skip
        own = read_pass_lines(connection)
    work = Rerun(function, changes, metric, settings)
    if line := own.get((app, metric, work.version)):
        work.line = line.line
    stopped = ""
    with console.progress_bar() as bar:
        task = bar.add_task("asking again", total=len(questions))
        try:
            work.run(questions, lambda n: bar.update(task, completed=n))
        except (JudgeOutageError, BudgetReachedError) as error:
            stopped = str(error)
    if as_json:
        console.print_json({
            "incident": found.incident_id, "app": app, "metric": metric, "stopped": stopped,
            "unusable": dict(work.unusable), "changes": [
                {"change": each.name, "fixed": each.fixed, "not_fixed": each.not_fixed,
                 "passed_both": each.passed, **each.decided._asdict()} for each in changes
            ],
        })  # fmt: skip
    else:
        for each in changes:
            console.say(_rerun_sentence(each, left=len(failing) - len(questions)))
        for said in (work.unusable and f"no result: {reasons(work.unusable)}", stopped):
            if said:
                console.warn(said)
    answers = {each.decided.answer for each in changes}
    raise typer.Exit(0 if "explains" in answers else 2 if "undecided" in answers else 1)


def _rerun_sentence(change: Change, *, left: int) -> str:
    n, decided = change.fixed + change.not_fixed, change.decided
    name = plain_text(change.name, 60)
    counts = f"fixed {change.fixed} of {count(n, 'question')} that failed again"
    if change.passed:
        counts += f"; {change.passed} passed without it"
    if decided.answer != "undecided":
        return f"{name} {_MEANS[decided.answer]}: {counts}"
    more = "more" if decided.more is None else f"about {count(decided.more, 'more question')}"
    there = f"{left:,} are left, see --most" if left > 0 else "no more failed in this incident"
    return f"{name} is undecided: {counts}; {more} would decide it ({there})"


def compare(  # the options of a command
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Two files: runs of `eval`, or outputs of `evaluate`."),
    ] = None,
    app: Annotated[str | None, typer.Option(help="Compare parts of this app's traffic.")] = None,
    by: Annotated[str, typer.Option(help="Tag whose values are compared.")] = "variant",
    since: Annotated[str, typer.Option(help="How far back: 24h, 7d.")] = "7d",
    baseline: Annotated[
        str | None, typer.Option(help="Value that the others are compared with.")
    ] = None,
    metric: console.OnlyMetrics = None,
    as_json: console.AsJson = False,
) -> None:
    """
    Compare two files, or the variants of an app in production.

    A variant is better in a metric if Welch's test is significant at 5 % (Holm over all metrics)
    and Cohen's d is beyond 0.1. In production, the last column stays valid however often you look.
    """
    from monitor.testsets.compare import decide, decision
    from monitor.testsets.releases import MOST_READ, compare_parts, read_parts

    if files:
        if len(files) != 2 or files[0] == files[1]:  # noqa: PLR2004
            raise typer.BadParameter("two files are compared: groundwatch compare a.json b.json")
        compared = list(_of_files(files[0], files[1], metric))
    else:
        now = datetime.now(UTC)
        with console.opened() as (settings, store), store.read() as connection:
            name = console.the_app(store, app)
            console.check_metrics(store, metric or (), name)
            parts = read_parts(
                connection, app=name, by=by, since=console.parse_time(since, now), now=now,
                bucket_s=settings.windows.bucket_s,
            )  # fmt: skip
        if parts.cut:
            console.warn(
                f"only the newest {MOST_READ:,} samples were read; GROUNDWATCH_SEGMENTS with {by}"
                " counts all of them"
            )
        values = sorted({value for of in parts.of.values() for value in of})
        if len(values) < 2 or (baseline is not None and baseline not in values):  # noqa: PLR2004
            raise typer.BadParameter(
                f"two values of {plain_text(by, 60)!r} are needed to compare;"
                f" {plain_text(name, 60)} has {console.app_names(values)}."
                f" Tag samples in the app: sample(..., tags={{{by!r}: 'A'}})"
            )
        base = baseline or values[0]
        compared = [
            compare_parts(one, of, base, value)
            for one, of in sorted(parts.of.items())
            if (not metric or one in metric) and base in of
            for value in values
            if value != base and value in of
        ]
    if not compared:
        raise typer.BadParameter("there is no metric to compare")
    decided = decide(compared)
    if as_json:
        tests = [one.ab_test() for one in decided]
        verdict = decision(decided)
        console.print_json({"decision": verdict, "comparisons": decided, "ab_tests": tests})
    else:
        print_comparisons(decided, live=not files)


def _read_evaluations(path: Path) -> dict[str, list[CustomEvaluation]]:
    """Read the evaluations of a run, or of the lines that `evaluate` wrote, by metric."""
    from pydantic import ValidationError

    from monitor.models import CustomEvaluation

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise typer.BadParameter(f"'{path}' cannot be read: {why}") from None
    results: list[Any] = []
    try:
        whole = json.loads(text)
        results = whole.get("results", [whole])
    except (ValueError, AttributeError):
        try:
            results = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise typer.BadParameter(f"'{path}' is neither a run nor lines of `evaluate`") from None
    found: dict[str, list[CustomEvaluation]] = defaultdict(list)
    for n, result in enumerate(results, start=1):
        try:
            for each in result["evaluations"]:
                record = CustomEvaluation.model_validate(each)
                found[record.evaluator_name].append(record)
        except (KeyError, TypeError, ValidationError):
            raise typer.BadParameter(
                f"'{path}' result {n} has no readable evaluations: expected a run of `eval`"
                " or lines of `evaluate`"
            ) from None
    if not found:
        raise typer.BadParameter(f"'{path}' holds no evaluations")
    return found


def _of_files(first: Path, second: Path, wanted: Sequence[str] | None) -> Iterator[Comparison]:
    """Yield the comparison of each metric that both files have."""
    from monitor.models import EvaluationStatus
    from monitor.models.evaluation import PassRule
    from monitor.testsets.compare import Comparison, Variant, arms_of_scores
    from monitor.testsets.compare import compare as compare_arms
    from monitor.testsets.releases import OTHER_VERSIONS

    a, b = _read_evaluations(first), _read_evaluations(second)
    names = (first.stem, second.stem) if first.stem != second.stem else (str(first), str(second))
    both = [metric for metric in a if metric in b and (not wanted or metric in wanted)]
    if not both:
        raise typer.BadParameter("the files have no metric in common")
    for metric in both:
        sides = dict(zip(names, (a[metric], b[metric]), strict=True))
        scores = {
            name: [
                float(each.score)
                for each in records
                if each.status is EvaluationStatus.COMPLETED
                and not isinstance(each.score, str | None)
            ]
            for name, records in sides.items()
        }
        unscored = {name: len(records) - len(scores[name]) for name, records in sides.items()}
        versions = [{each.evaluator_version or "" for each in of} for of in sides.values()]
        if versions[0] != versions[1]:
            one, other = (
                Variant(name=name, n=len(scores[name]), unscored=unscored[name]) for name in names
            )
            yield Comparison(metric=metric, a=one, b=other, reason=OTHER_VERSIONS)
            continue
        records = (*sides[names[0]], *sides[names[1]])
        rule = next((PassRule.of(e, 0.7) for e in records if e.criteria), PassRule(0.7))
        arms = arms_of_scores(scores, rule.passes, unscored=unscored)
        yield compare_arms(metric, arms[0], arms[1], direction=rule.direction)


def print_comparisons(decided: Sequence[Comparison], *, live: bool) -> None:
    """Print what was compared, and for each pair of variants what to do."""
    from monitor.testsets.compare import decision

    pairs = dict.fromkeys((one.a.name, one.b.name) for one in decided)
    for a, b in pairs:
        console.say(f"{plain_text(b, 60)} against {plain_text(a, 60)}", style="bold")
    columns: dict[str, Callable[[Comparison], str]] = {
        "metric": lambda one: plain_text(one.metric, 60),
        "n": lambda one: f"{number(one.a.n)}/{number(one.b.n)}",
        "mean": lambda one: f"{score(one.a.mean)}/{score(one.b.mean)}",
        "difference (95 %)": lambda one: _with_interval(one.difference, one.difference_interval),
        "Cohen's d (95 %)": lambda one: _with_interval(one.cohens_d, one.cohens_d_interval),
        "p": lambda one: _p_value(one.holm_p),
        "rank p": lambda one: _p_value(one.mann_whitney_p),
        "better": lambda one: plain_text(one.winner or NONE, 40),
    }
    figures = [name for name in columns if name not in {"metric", "better"}]
    if live:
        columns["any look"] = lambda one: plain_text(one.sequential_winner or NONE, 40)
    if compared := [one for one in decided if one.difference_interval is not None]:
        console.print_rows(compared, columns, right=figures)
    for one in decided:
        if one.reason:
            console.say(f"{plain_text(one.metric, 60)}: not compared, {one.reason}")
    unscored = sum(
        {(one.metric, arm.name): arm.unscored for one in decided for arm in (one.a, one.b)}.values()
    )
    if unscored:
        out.print(f"{count(unscored, 'evaluation')} without a score in no figure")
    for a, b in pairs:
        some = [one for one in decided if (one.a.name, one.b.name) == (a, b)]
        console.say(plain_text(decision(some), 300), style="bold")


def _with_interval(value: float | None, bounds: tuple[float, float] | None) -> str:
    """Return "+0.12 (0.05 to 0.19)"; beyond 100 standard deviations a figure says nothing."""
    if value is None or bounds is None:
        return NONE
    if abs(value) > _MOST_SHOWN:
        return f"{'<−' if value < 0 else '>'}{_MOST_SHOWN}"  # noqa: RUF001  # a minus sign
    text = f"{value:+.2f} ({bounds[0]:.2f} to {bounds[1]:.2f})"
    return text.replace("-", "−")  # noqa: RUF001  # as above


def _p_value(p_value: float | None) -> str:
    if p_value is None:
        return NONE
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"  # noqa: PLR2004
