"""``groundwatch show``: one metric of one app, as its page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from monitor.cli.console import out, parse_duration_s
from monitor.cli.stores import open_store
from monitor.report.insight_words import insight_lines
from monitor.report.listing import Course, Listing
from monitor.report.model import Point
from monitor.report.text import status_text
from monitor.report.words import (
    drift_sentence,
    duration,
    harmless,
    percent,
    rate_with_interval,
    score,
    unscored_sentence,
    with_interval,
)
from monitor.settings import Settings
from monitor.web.detail import Detail, read_detail
from monitor.web.segment_rows import SegmentTable
from monitor.web.stretch import Stretch
from monitor.web.words import points
from workers.facts import read_status

#: The longest bar, and what its row needs beside it.
_BAR_CHARS, _BESIDE_BARS = 30, 30


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
        status_text(verdict.status, verdict.n),
        f"  {rate_with_interval(verdict)}, n {verdict.n:,} in {duration(verdict.window_s)}",
    )
    yield Text(f"{harmless(verdict.reason, 300)} ({harmless(verdict.policy, 40)})", style="dim")
    steps = [
        Point(start=datetime.fromtimestamp(step.start_s, UTC), n=step.n, pass_rate=step.rate)
        for step in found.course.steps
    ]
    gaps = f", {found.course.gaps} steps without scores" if found.course.gaps else ""
    yield Text()
    yield Course(steps, f"pass rate, last {duration(found.span_s)}, n {found.course.n:,}{gaps}")
    if verdict.drift is not None:
        yield Text(drift_sentence(verdict.drift), style="dim")
    if found.insight is not None and (lines := insight_lines(found.insight, datetime.now(UTC))):
        yield Text("\nWhat explains it", style="bold")
        yield from (Text(line) for line in lines)
    if found.segments.rows:
        compared = f", against {harmless(found.segments.reference, 60)}"
        yield Text.assemble(("\nSegments", "bold"), (compared, "dim"))
        yield _segments(found.segments)
        if found.segments.left_out:
            yield Text(f"{found.segments.left_out} more add less", style="dim")
    if sum(found.histogram_now):
        yield Text("\nScores now, and in the reference", style="bold")
        yield Histogram(found.histogram_now, found.histogram_before)
    yield from _samples(found)


def _samples(found: Detail) -> Iterator[RenderableType]:
    """Tell of single samples: why some have no score, and which are the worst."""
    without = found.unscored
    if said := unscored_sentence(without.failed, without.skipped, found.span_s):
        yield Text(f"\n{said}", style="dim")
    if found.worst:
        yield Text("\nWorst samples", style="bold")
    for sample in found.worst:
        yield Text(
            f"{score(sample.score)}  {harmless(sample.interaction_id, 60)}"
            f"  {harmless(sample.evaluation.explanation or '')}"
        )


def _segments(found: SegmentTable) -> Listing:
    figures = ("share", "n", "pass rate (95 %)", "change", "adds")
    listed = Listing.of("segment", *figures, right=figures)
    for row in found.rows:
        listed.add_row(
            harmless(f"{row.dimension} {row.value}", 60),
            percent(row.share),
            f"{row.n:,.0f}",
            with_interval(row.rate, row.low, row.high),
            points(row.change),
            points(row.adds),
        )
    return listed


@dataclass(frozen=True, slots=True)
class Histogram:
    """Two distributions in tenths of the score, as bars and shares; as long as there is room."""

    now: Sequence[float]
    before: Sequence[float]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them."""
        current, earlier = (_tenths(counts) for counts in (self.now, self.before))
        longest = max(1, min(_BAR_CHARS, options.max_width - _BESIDE_BARS))
        listed = Listing.of("score", "now", "reference", "", right=("score", "now", "reference"))
        for tenth, (share, share_before) in enumerate(zip(current, earlier, strict=True)):
            listed.add_row(
                f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}",
                percent(share),
                percent(share_before) if sum(self.before) else "–",
                "█" * round(share / max(*current, 0.01) * longest),
            )
        yield listed


def _tenths(counts: Sequence[float]) -> list[float]:
    total, each = sum(counts) or 1.0, max(1, len(counts) // 10)
    return [sum(counts[i * each : (i + 1) * each]) / total for i in range(10)]
