"""``groundwatch show``: one metric of one app, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from monitor.cli.console import out, parse_duration_s
from monitor.cli.stores import open_store
from monitor.report.insight_words import insight_lines
from monitor.report.model import Point
from monitor.report.text import status_text
from monitor.report.words import (
    drift_sentence,
    duration,
    harmless,
    percent,
    rate_with_interval,
    score,
    sparkline,
)
from monitor.settings import Settings
from monitor.web.detail import Detail, read_detail
from monitor.web.stretch import Stretch
from workers.facts import read_status

_BAR_CHARS = 30


def show(
    app: Annotated[str, typer.Argument(help="Name of the app.")],
    metric: Annotated[str, typer.Argument(help="Name of the metric.")],
    window: Annotated[str, typer.Option(help="How far back: 90s, 15m, 24h, 7d.")] = "24h",
) -> None:
    """Show one metric of one app: its course, its scores, its worst samples, and why."""
    span_s = parse_duration_s(window)
    settings = Settings.from_env()
    store = open_store(settings)
    now = datetime.now(UTC)
    found = read_detail(
        store, settings, app=app, metric=metric, stretch=Stretch.last(span_s, now), now=now
    )
    if found is None:
        known = [
            f"{item.app} {m.metric}"
            for item in read_status(store, settings, now=now).apps
            for m in item.metrics
        ]
        there = ", ".join(harmless(name, 80) for name in known[:10]) or "nothing yet"
        raise typer.BadParameter(f"nothing was scored as {app} {metric}; there is {there}")
    out.print(Group(*_parts(found)))


def _parts(found: Detail) -> Iterator[RenderableType]:
    verdict = found.verdict
    yield Text.assemble(
        (f"{harmless(found.app, 60)}, {harmless(found.metric, 60)}  ", "bold"),
        status_text(verdict.status),
        f"  {rate_with_interval(verdict)}, n {verdict.n:,} in {duration(verdict.window_s)}",
    )
    yield Text(f"{harmless(verdict.reason, 300)} ({harmless(verdict.policy, 40)})", style="dim")
    points = [
        Point(start=datetime.fromtimestamp(step.start_s, UTC), n=step.n, pass_rate=step.rate)
        for step in found.course.steps
    ]
    yield Text(f"\n{sparkline(points)}")
    gaps = f", {found.course.gaps} steps without scores" if found.course.gaps else ""
    yield Text(f"pass rate, last {duration(found.span_s)}, n {found.course.n:,}{gaps}", style="dim")
    if verdict.drift is not None:
        yield Text(drift_sentence(verdict.drift), style="dim")
    if found.insight is not None and (lines := insight_lines(found.insight, datetime.now(UTC))):
        yield Text("\nWhat explains it", style="bold")
        yield from (Text(line) for line in lines)
    if sum(found.histogram_now):
        yield Text("\nScores now, and in the reference", style="bold")
        yield _histogram(found.histogram_now, found.histogram_before)
    if found.worst:
        yield Text("\nWorst samples", style="bold")
    for sample in found.worst:
        yield Text(
            f"{score(sample.score)}  {harmless(sample.interaction_id, 60)}"
            f"  {harmless(sample.evaluation.explanation or '')}"
        )


def _histogram(now: Sequence[float], before: Sequence[float]) -> Table:
    """Draw two distributions in tenths of the score, as bars and shares."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("score", "now", "", "reference"):
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    tenths = range(10)
    current, earlier = (_tenths(counts) for counts in (now, before))
    most = max(*current, 0.01)
    for tenth in tenths:
        bar = "█" * round(current[tenth] / most * _BAR_CHARS)
        label = f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"
        shown = percent(earlier[tenth]) if sum(before) else "–"
        table.add_row(label, percent(current[tenth]), bar, shown)
    return table


def _tenths(counts: Sequence[float]) -> list[float]:
    total, each = sum(counts) or 1.0, max(1, len(counts) // 10)
    return [sum(counts[i * each : (i + 1) * each]) / total for i in range(10)]
