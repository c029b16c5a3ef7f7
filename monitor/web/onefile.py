"""A report as one HTML file: no script, nothing loaded, aggregates and reasons only."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from monitor.report.model import AppReport, MetricReport, Point, Report
from monitor.stats.intervals import wilson_interval
from monitor.web.charts import Lines
from monitor.web.course import Course, Span, Step, spans_of
from monitor.web.words import environment


def render_html(report: Report, lines: Lines) -> str:
    """Write the report as a page that reads from ``file://``; all that it needs is in it."""
    style = (files("monitor.web") / "static" / "style.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html")
    return template.render(
        report=report, lines=lines, style=style, course_of=course_of,
        shaded=lambda app, item: _shaded(report, app, item),
    )  # fmt: skip


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
    return spans_of(incidents, report.generated_at)
