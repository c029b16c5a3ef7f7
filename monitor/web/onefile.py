"""A report as one HTML file: no script, nothing loaded, aggregates and reasons only."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from monitor.report.model import AppReport, MetricReport, Point, Report
from monitor.stats.intervals import wilson_interval
from monitor.web.charts import Lines
from monitor.web.course import Course, Span, Step, spans_of
from monitor.web.words import environment

#: No report is larger, whatever the store holds: it goes by email.
MOST_BYTES = 480_000
_MOST_IN_FULL, _MOST_LINES, _MOST_EVENTS = 100, 300, 40


class _Short(NamedTuple):
    """A metric for which there is one line only."""

    app: str
    item: MetricReport


def render_html(report: Report, lines: Lines) -> str:
    """
    Write the report as a page that reads from ``file://``; all that it needs is in it.

    The worst apps are told in full. The more there are, the more of the others have one line
    each, so that the page stays below :data:`MOST_BYTES`.
    """
    style = (files("monitor.web") / "static" / "style.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html")
    count = min(_MOST_IN_FULL, sum(max(1, len(app.metrics)) for app in report.apps))
    while True:
        shown, short = _cut(report.apps, count)
        text = template.render(
            report=report, lines=lines, style=style, course_of=course_of, shown=shown,
            short=short[:_MOST_LINES], left_out=len(short[_MOST_LINES:]), most=_MOST_EVENTS,
            shaded=lambda app, item: _shaded(report, app, item),
        )  # fmt: skip
        size = len(text.encode())
        if size <= MOST_BYTES or count == 0:
            return text
        count = min(count - 1, int(0.95 * count * MOST_BYTES / size))


def _cut(
    apps: Sequence[AppReport], count: int
) -> tuple[list[tuple[AppReport, Sequence[MetricReport]]], list[_Short]]:
    """Give the apps with the first *count* metrics, and the metrics behind those."""
    shown: list[tuple[AppReport, Sequence[MetricReport]]] = []
    short: list[_Short] = []
    for app in apps:
        if count > 0:
            shown.append((app, app.metrics[:count]))
        short += [_Short(app.app, item) for item in app.metrics[max(0, count) :]]
        count -= max(1, len(app.metrics))
    return shown, short


def course_of(points: Sequence[Point]) -> Course:
    """
    Turn the points of a report into a course with bounds.

    Wilson's at 95 %, as if the samples of a step had one weight; the points hold no more.
    """
    steps = [_step(point) for point in points]
    step_s = steps[1].start_s - steps[0].start_s if len(steps) > 1 else 1
    return Course(step_s, tuple(steps))


def _step(point: Point) -> Step:
    start_s = int(point.start.timestamp())
    if point.pass_rate is None or point.n == 0:
        return Step(start_s)
    low, high = wilson_interval(point.pass_rate * point.n, point.n)
    return Step(start_s, point.n, point.pass_rate, low, high)


def _shaded(report: Report, app: AppReport, item: MetricReport) -> list[Span]:
    incidents = [found for found in app.incidents if found.metric == item.metric]
    return spans_of(incidents[:_MOST_EVENTS], report.generated_at)
