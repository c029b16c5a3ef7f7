"""``groundwatch compare``: two runs on one test set, or the variants of an app in production."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from monitor.cli.console import (
    AsJson,
    app_names,
    open_store,
    out,
    parse_time,
    print_json,
    say,
    the_app,
    warn,
)
from monitor.models import CustomEvaluation, EvaluationStatus
from monitor.models.passing import PassRule
from monitor.report.format import count, number, plain_text, score
from monitor.report.listing import Listing
from monitor.settings import Settings
from monitor.testsets.compare import Comparison, Variant, arms_of_scores, decide, decision
from monitor.testsets.compare import compare as compare_arms
from monitor.testsets.releases import MOST_READ, TrafficParts, compare_parts, read_parts

_MOST_SHOWN = 100


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
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """
    Compare two files, or the variants of an app in production.

    A variant is better in a metric if Welch's test is significant at 5 % (Holm over all metrics)
    and Cohen's d is beyond 0.1. In production, the last column stays valid however often you look.
    """
    if files:
        if len(files) != 2:  # noqa: PLR2004
            raise typer.BadParameter("two files are compared: groundwatch compare a.json b.json")
        compared = list(_of_files(files[0], files[1], metric))
    else:
        settings, now = Settings.from_env(), datetime.now(UTC)
        store = open_store(settings)
        name = the_app(store, app)
        with store.read() as connection:
            parts = read_parts(
                connection, app=name, by=by, since=parse_time(since, now), now=now,
                bucket_s=settings.windows.bucket_s,
            )  # fmt: skip
        if parts.cut:
            warn(
                f"only the newest {MOST_READ:,} samples were read; GROUNDWATCH_SEGMENTS with {by}"
                " counts all of them"
            )
        compared = list(_of_parts(parts, name, by, baseline, metric))
    if not compared:
        raise typer.BadParameter("there is no metric to compare")
    decided = decide(compared)
    if as_json:
        tests = [one.ab_test() for one in decided]
        verdict = decision(decided)
        print_json({"decision": verdict, "comparisons": decided, "ab_tests": tests})
    else:
        _show(decided, live=not files)


def _read_evaluations(path: Path) -> dict[str, list[CustomEvaluation]]:
    """Read the evaluations of a run, or of the lines that `evaluate` wrote, by metric."""
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
            raise typer.BadParameter(f"'{path}' is neither a run nor lines of `score`") from None
    found: dict[str, list[CustomEvaluation]] = defaultdict(list)
    for n, result in enumerate(results, start=1):
        try:
            for each in result["evaluations"]:
                record = CustomEvaluation.model_validate(each)
                found[record.evaluator_name].append(record)
        except (KeyError, TypeError, ValidationError):
            raise typer.BadParameter(
                f"'{path}' result {n} has no readable evaluations: expected a run of `eval`"
                " or lines of `score`"
            ) from None
    if not found:
        raise typer.BadParameter(f"'{path}' holds no evaluations")
    return found


def _of_files(first: Path, second: Path, wanted: Sequence[str] | None) -> Iterator[Comparison]:
    """Yield the comparison of each metric that both files have."""
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
            reason = "scored by different versions of the evaluator"
            yield Comparison(metric=metric, a=one, b=other, reason=reason)
            continue
        records = (*sides[names[0]], *sides[names[1]])
        rule = next((PassRule.of(e, 0.7) for e in records if e.criteria), PassRule(0.7))
        arms = arms_of_scores(scores, rule.passes, unscored=unscored)
        yield compare_arms(metric, arms[0], arms[1], direction=rule.direction)


def _of_parts(
    parts: TrafficParts, app: str, by: str, baseline: str | None, wanted: Sequence[str] | None
) -> Iterator[Comparison]:
    """Yield the comparison of each metric and value with the baseline."""
    values = sorted({value for of in parts.of.values() for value in of})
    if len(values) < 2 or (baseline is not None and baseline not in values):  # noqa: PLR2004
        raise typer.BadParameter(
            f"two values of {plain_text(by, 60)!r} are needed to compare; {plain_text(app, 60)} has"
            f" {app_names(values)}. Tag samples in the app: sample(..., tags={{{by!r}: 'A'}})"
        )
    base = baseline or values[0]
    for metric, of in sorted(parts.of.items()):
        if (not wanted or metric in wanted) and base in of:
            for value in values:
                if value != base and value in of:
                    yield compare_parts(metric, of, base, value)


def _show(decided: Sequence[Comparison], *, live: bool) -> None:
    figures = ("n", "mean", "difference (95 %)", "Cohen's d (95 %)", "p", "rank p")
    last = ("any look",) if live else ()
    listed = Listing.of("metric", *figures, "better", *last, right=figures)
    for one in decided:
        if one.difference is None or one.difference_interval is None:
            continue
        row = [
            plain_text(one.metric, 60),
            f"{number(one.a.n)}/{number(one.b.n)}",
            f"{score(one.a.mean)}/{score(one.b.mean)}",
            _with_interval(one.difference, one.difference_interval),
            _with_interval(one.cohens_d, one.cohens_d_interval),
            _p_value(one.holm_p),
            _p_value(one.mann_whitney_p),
            plain_text(one.winner or "–", 40),
        ]
        listed.add_row(*row, *([plain_text(one.sequential_winner or "–", 40)] if live else []))
    pairs = dict.fromkeys((one.a.name, one.b.name) for one in decided)
    for a, b in pairs:
        out.print(Text(f"{plain_text(b, 60)} against {plain_text(a, 60)}", style="bold"))
    if listed.rows:
        out.print(listed)
    for one in decided:
        if one.reason:
            say(f"{plain_text(one.metric, 60)}: not compared, {one.reason}")
    unscored = sum(
        {(one.metric, arm.name): arm.unscored for one in decided for arm in (one.a, one.b)}.values()
    )
    if unscored:
        out.print(f"{count(unscored, 'evaluation')} without a score in no figure")
    for a, b in pairs:
        some = [one for one in decided if (one.a.name, one.b.name) == (a, b)]
        out.print(Text(plain_text(decision(some), 300)), style="bold", soft_wrap=True)


def _with_interval(value: float | None, bounds: tuple[float, float] | None) -> str:
    """Return "+0.12 (0.05 to 0.19)"; beyond 100 standard deviations a figure says nothing."""
    if value is None or bounds is None:
        return "–"
    if abs(value) > _MOST_SHOWN:
        return f"{'<−' if value < 0 else '>'}{_MOST_SHOWN}"  # noqa: RUF001  # a minus sign
    text = f"{value:+.2f} ({bounds[0]:.2f} to {bounds[1]:.2f})"
    return text.replace("-", "−")  # noqa: RUF001  # as above


def _p_value(p_value: float | None) -> str:
    if p_value is None:
        return "–"
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"  # noqa: PLR2004
