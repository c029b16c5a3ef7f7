"""Compare two variants: two runs on one test set, two parts of the live traffic, two releases."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from monitor.cli.console import check_app, err, open_store, out, parse_duration_s, parse_share
from monitor.models import CustomEvaluation, EvaluationStatus
from monitor.models.passing import PassRule
from monitor.report.format import (
    count,
    number,
    percent,
    plain_text,
    points,
    points_with_interval,
    score,
)
from monitor.report.listing import Listing
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.testsets.compare import (
    Comparison,
    Variant,
    arms_of_scores,
    decide,
    decision,
)
from monitor.testsets.compare import compare as compare_arms
from monitor.testsets.releases import ReleaseStatus, ReleaseVerdict, judge_release
from monitor.testsets.variants import MOST_READ, TrafficParts, compare_parts, read_parts
from workers.reports import read_status

_MOST_NAMED = 10
_MOST_SHOWN = 100


def compare(  # the options of a command
    files: Annotated[
        list[Path] | None, typer.Argument(help="Two files: runs of `eval`, or of `score -o`.")
    ] = None,
    app: Annotated[str | None, typer.Option(help="Compare parts of this app's traffic.")] = None,
    by: Annotated[str, typer.Option(help="Tag whose values are compared.")] = "variant",
    since: Annotated[str, typer.Option(help="How far back: 24h, 7d.")] = "7d",
    baseline: Annotated[
        str | None, typer.Option(help="Value that the others are compared with.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """
    Compare two files, or the variants of an app in production.

    A variant is better in a metric if Welch's test is significant at 5 % (Holm over all metrics)
    and Cohen's d is beyond 0.1. In production the last column holds however often you look.
    """
    if files:
        if len(files) != 2:  # noqa: PLR2004
            raise typer.BadParameter("two files are compared: groundwatch compare a.json b.json")
        compared = list(_of_files(files[0], files[1], metric))
    else:
        settings = Settings.from_env()
        store = open_store(settings)
        name = _app(store, settings, app)
        now = datetime.now(UTC)
        begin = now - timedelta(seconds=parse_duration_s(since))
        with store.read() as connection:
            parts = read_parts(
                connection, app=name, by=by, since=begin, now=now,
                bucket_s=settings.windows.bucket_s,
            )  # fmt: skip
        if parts.cut:
            err.print(f"only the newest {MOST_READ:,} samples were read; ", end="")
            err.print(Text(f"GROUNDWATCH_SEGMENTS with {by} counts all of them"))
        compared = list(_of_parts(parts, name, by, baseline, metric))
    decided = decide(compared)
    if as_json:
        tests = [one.ab_test().model_dump(mode="json") for one in decided]
        found = {
            "decision": decision(decided),
            "comparisons": [one.model_dump(mode="json") for one in decided],
            "ab_tests": tests,
        }
        typer.echo(json.dumps(found, indent=2))
        return
    _show(decided, live=not files)


def _app(store: Store, settings: Settings, app: str | None) -> str:
    """Return the app that is meant: the only one there is unless it is named."""
    check_app(store, settings, app)
    if app is not None:
        return app
    known = [item.app for item in read_status(store, settings, now=datetime.now(UTC)).apps]
    if len(known) != 1:
        there = ", ".join(plain_text(name, 40) for name in known[:_MOST_NAMED]) or "none yet"
        raise typer.BadParameter(f"name the app with --app; there is {there}")
    return known[0]


@dataclass(slots=True)
class _FileScores:
    """The scores of one metric in one file."""

    scores: list[float] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    rule: PassRule | None = None
    unscored: int = 0


def _read_scores(path: Path) -> dict[str, _FileScores]:
    """Read the evaluations of a run, or of the lines that `score` wrote, by metric."""
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
    found: dict[str, _FileScores] = defaultdict(_FileScores)
    for n, result in enumerate(results, start=1):
        try:
            records = [CustomEvaluation.model_validate(each) for each in result["evaluations"]]
        except (KeyError, TypeError, ValidationError):
            raise typer.BadParameter(
                f"'{path}' result {n} has no readable evaluations: expected a run of `eval`"
                " or lines of `score`"
            ) from None
        for each in records:
            one = found[each.evaluator_name]
            one.versions.add(each.evaluator_version or "")
            one.rule = one.rule or (PassRule.of(each, 0.7) if each.criteria else None)
            if each.status is EvaluationStatus.COMPLETED and not isinstance(each.score, str | None):
                one.scores.append(float(each.score))
            else:
                one.unscored += 1
    if not found:
        raise typer.BadParameter(f"'{path}' holds no evaluations")
    return found


def _of_files(first: Path, second: Path, wanted: Sequence[str] | None) -> Iterator[Comparison]:
    """Yield the comparison of each metric that both files have."""
    a, b = _read_scores(first), _read_scores(second)
    names = [first.stem, second.stem]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    both = [name for name in a if name in b and (not wanted or name in wanted)]
    if not both:
        raise typer.BadParameter("the files have no metric in common")
    for name in both:
        one, other = a[name], b[name]
        rule = one.rule or other.rule or PassRule(0.7)
        if one.versions != other.versions:
            yield Comparison(
                metric=name,
                a=Variant(name=names[0], n=len(one.scores), unscored=one.unscored),
                b=Variant(name=names[1], n=len(other.scores), unscored=other.unscored),
                reason="scored by different versions of the evaluator",
            )
            continue
        arms = arms_of_scores(
            {names[0]: one.scores, names[1]: other.scores},
            rule.passes,
            unscored={names[0]: one.unscored, names[1]: other.unscored},
        )
        yield compare_arms(name, arms[0], arms[1], direction=rule.direction)


def _of_parts(
    parts: TrafficParts, app: str, by: str, baseline: str | None, wanted: Sequence[str] | None
) -> Iterator[Comparison]:
    """Yield the comparison of each metric and value with the baseline."""
    values = sorted({value for of in parts.of.values() for value in of})
    if len(values) < 2 or (baseline is not None and baseline not in values):  # noqa: PLR2004
        there = ", ".join(plain_text(value, 40) for value in values[:_MOST_NAMED]) or "none"
        raise typer.BadParameter(
            f"two values of {plain_text(by, 60)!r} are needed to compare; {plain_text(app, 60)} has"
            f" {there}. Tag samples in the app: sample(..., tags={{{by!r}: 'A'}})"
        )
    base = baseline or values[0]
    for metric, of in sorted(parts.of.items()):
        if wanted and metric not in wanted:
            continue
        for value in values:
            if value == base or value not in of or base not in of:
                continue
            yield compare_parts(metric, of, base, value)


def _show(decided: Sequence[Comparison], *, live: bool) -> None:
    if not decided:
        raise typer.BadParameter("there is no metric to compare")
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
            out.print(Text(f"{plain_text(one.metric, 60)}: not compared, {one.reason}"))
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


# --- the gate on live traffic ---


def gate_live(  # the options of a command
    *,
    release: str,
    against: str,
    max_drop: str,
    app: str | None,
    metrics: Sequence[str] | None,
    since: str,
    as_json: bool,
) -> int:
    """
    Judge a live release against another one, and print the verdicts.

    Returns
    -------
    int
        0 every metric is ok, 1 at least one is worse, 2 not yet known, 3 not comparable.
    """
    drop = parse_share(max_drop)
    if not 0 < drop < 1:
        raise typer.BadParameter(f"Invalid share {max_drop!r}: expected 3% or 0.03")
    settings = Settings.from_env()
    store = open_store(settings)
    name, now = _app(store, settings, app), datetime.now(UTC)
    with store.read() as connection:
        parts = read_parts(
            connection, app=name, by="release", now=now,
            since=now - timedelta(seconds=parse_duration_s(since)),
            bucket_s=settings.windows.bucket_s, values=frozenset({release, against}),
        )  # fmt: skip
    of = {one: sides for one, sides in parts.of.items() if not metrics or one in metrics}
    both = {one: sides for one, sides in of.items() if release in sides and against in sides}
    reasons = {
        one: "scored by different versions of the evaluator"
        for one, sides in both.items()
        if sides[release].version != sides[against].version
    }
    reasons |= dict.fromkeys(of.keys() - both.keys(), f"no scores under {against}")
    known = [one for one in both if one not in reasons]
    verdicts = [
        # Shared out over metrics: the probability of any false verdict stays the same.
        judge_release(
            one, both[one][against].counts, both[one][release].counts,
            max_drop=drop, alpha=0.02 / len(known),
        )
        for one in sorted(known)
    ]  # fmt: skip
    statuses = {verdict.status for verdict in verdicts}
    if ReleaseStatus.WORSE in statuses:
        code = 1
    elif not verdicts or reasons:
        code = 3
    else:
        code = 2 if ReleaseStatus.NOT_YET in statuses else 0
    if as_json:
        found = {
            "exit_code": code,
            "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts],
            "not_comparable": reasons,
        }
        typer.echo(json.dumps(found, indent=2))
        return code
    title = f"{name}: {release} against {against}, allowed drop {percent(drop)}"
    out.print(Text(plain_text(title, 200), style="bold"))
    for verdict in verdicts:
        out.print(Text(_sentence(verdict)), soft_wrap=True)
    for one, why in sorted(reasons.items()):
        out.print(Text(f"{plain_text(one, 60)}  not comparable: {plain_text(why, 120)}"))
    if not of:
        out.print(Text(
            f"{plain_text(name, 60)} has no scores of release {plain_text(release, 60)!r} or"
            f" {plain_text(against, 60)!r}; set it with init(release=...) or GROUNDWATCH_RELEASE"
        ), soft_wrap=True)  # fmt: skip
    return code


def _sentence(verdict: ReleaseVerdict) -> str:
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
