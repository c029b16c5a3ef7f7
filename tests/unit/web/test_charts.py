"""Values to SVG: well-formed, gaps as gaps, harmless whatever the names are."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Status, Tally
from monitor.report.model import scored_runs
from monitor.web.charts import (
    ChartThresholds,
    badge,
    favicon,
    histograms,
    series_chart,
    status_strip,
    svg_sparkline,
    volume_chart,
)
from monitor.web.time_range import ChartMark, ShadedSpan, steps_of, strip, time_series

LINES = ChartThresholds(warning=0.85, critical=0.7)
NOW_S = 1_000_020


def tally(n, passed):
    return Tally(
        n=n, passed=passed, sum_w=n, sum_w2=n, sum_wy=passed, sum_w2y=passed, sum_w2yy=passed
    )


def made(*rates, now_s=inf):
    """A time series of one step a rate, of ten scores each; None is a gap."""
    first = NOW_S // 60 * 60 - 60 * (len(rates) - 1)
    steps = {
        first + 60 * i: tally(10, round(10 * rate))
        for i, rate in enumerate(rates)
        if rate is not None
    }
    series = time_series(steps_of(steps), now_s=NOW_S, span_s=60 * len(rates), step_s=60)
    return replace(series, now_s=now_s)


def of_class(svg, name):
    return [e for e in ET.fromstring(svg).iter() if e.get("class") == name]


def test_step_without_scores_is_a_gap_and_breaks_line_and_band():
    svg = svg_sparkline(made(1.0, 0.9, None, None, 0.8, 0.9), LINES)
    assert len(of_class(svg, "gap")) == 1
    assert of_class(svg, "line")[0].get("d").count("M") == 2
    assert of_class(svg, "band")[0].get("d").count("M") == 2


def test_line_to_an_unfinished_step_is_dashed():
    svg = svg_sparkline(made(1.0, 0.9, 0.2, now_s=NOW_S + 20), LINES)
    assert of_class(svg, "line")[0].get("d").count("l") == 1
    assert of_class(svg, "line unfinished")[0].get("d").count("l") == 1


def test_unfinished_step_without_scores_is_not_a_gap():
    series = made(1.0, None, 0.9, None, now_s=NOW_S + 20)
    svg = svg_sparkline(series, LINES)
    assert len(of_class(svg, "gap")) == series.gaps == 1
    assert of_class(svg, "line unfinished") == []


def test_both_thresholds_are_always_drawn():
    for rates in ([1.0], [None], [0.0, 1.0]):
        names = {e.get("class") for e in ET.fromstring(svg_sparkline(made(*rates), LINES)).iter()}
        assert {"threshold warning", "threshold critical"} <= names


def test_chart_says_in_words_what_it_draws():
    svg = ET.fromstring(svg_sparkline(made(1.0, None, 0.5), LINES))
    assert svg.get("role") == "img"
    assert svg.get("aria-label") == (
        "Pass rate from 100.0 % to 50.0 %, lowest 50.0 %, n 20, 1 of 3 steps without scores."
    )


@pytest.mark.parametrize("minutes", [7, 16, 70, 360, 420])
def test_labels_of_the_axis_of_time_never_overlap(minutes):
    series = time_series({}, now_s=NOW_S, span_s=60 * minutes, step_s=60)
    labels = [
        e for e in of_class(series_chart(series, LINES, width=520), "tick") if e.get("data-at")
    ]
    place = {"start": (0, 1), "middle": (-0.5, 0.5), "end": (-1, 0)}  # in widths of a label
    spans = [
        [float(e.get("x")) + 6.5 * len(e.text) * part for part in place[e.get("text-anchor")]]
        for e in labels
    ]
    assert len(spans) > 1
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_worse_rate_is_drawn_lower():
    moves = of_class(svg_sparkline(made(0.9, 0.1), LINES), "line")[0].get("d").split("l")
    assert float(moves[1].split()[1]) > 0


def test_large_chart_marks_only_incidents_and_releases_in_its_range():
    spans = [ShadedSpan(NOW_S - 100, NOW_S, "critical"), ShadedSpan(0, 5, "warning")]
    marks = [ChartMark(NOW_S - 60, "v2 <b>"), ChartMark(5, "long ago")]
    svg = series_chart(made(0.9, 0.9, 0.5), LINES, spans=spans, marks=marks, reference=0.9)
    assert len(of_class(svg, "span critical")) == 1
    assert of_class(svg, "span warning") == []
    assert [e.text for e in of_class(svg, "mark")[0] if e.text] == ["v2 <b>"]
    assert len(of_class(svg, "mark")) == 1


def test_failing_scores_are_distinguished_from_passing_ones():
    svg = histograms([5.0] + [0.0] * 18 + [15.0], [1.0] * 20, 0.7)
    assert (len(of_class(svg, "bar failing")), len(of_class(svg, "bar"))) == (1, 1)
    assert "25.0 % below" in ET.fromstring(svg).get("aria-label")


def test_volume_chart_has_one_row_per_kind_with_its_own_scale():
    svg = volume_chart({"seen": [1000, 500], "failed": [0, 2]}, from_s=0, step_s=1800)
    heights = {
        kind: [float(e.get("height")) for e in of_class(svg, f"bar of-{kind}")]
        for kind in ("seen", "failed")
    }
    assert heights == {"seen": [38, 19], "failed": [38]}
    assert "1,500 seen, at most 1,000 a step; 2 failed" in ET.fromstring(svg).get("aria-label")


def test_unscored_series_is_drawn_without_an_error():
    assert "none below" in histograms([0.0] * 20, [0.0] * 20, 0.7)


def test_cell_has_its_worst_status_and_unknown_is_not_healthy():
    changes = [
        (NOW_S - 250, Status.HEALTHY),
        (NOW_S - 90, Status.CRITICAL),
        (NOW_S - 80, Status.HEALTHY),
    ]
    cells = strip(changes, now_s=NOW_S, cells=5, cell_s=60)
    assert list(cells) == [
        Status.HEALTHY, Status.HEALTHY, Status.CRITICAL, Status.HEALTHY, Status.HEALTHY,
    ]  # fmt: skip
    assert strip([], now_s=NOW_S, cells=1, cell_s=60) == (None,)
    ET.fromstring(status_strip(cells, "60 s"))


@pytest.mark.parametrize("status", list(Status))
def test_icon_and_badge_of_every_status_are_well_formed(status):
    ET.fromstring(favicon(status))
    shown = ET.fromstring(badge("<a href='x'>&", status, "91.0 %"))
    assert len(list(shown.iter("{http://www.w3.org/2000/svg}a"))) == 0


rates = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=60)


@given(rates)
def test_any_series_is_drawn_within_its_frame(values):
    svg = ET.fromstring(series_chart(made(*values), LINES))
    for element in svg.iter():
        for name in ("x", "x1", "x2"):
            assert -1 <= float(element.get(name, 0)) <= 720
        for name in ("y", "y1", "y2"):
            assert -1 <= float(element.get(name, 0)) <= 260


@given(rates)
def test_series_has_every_step_once_and_all_scores(values):
    found = made(*values)
    assert len(found.steps) == len(values)
    assert found.n == 10 * sum(rate is not None for rate in values)
    assert found.gaps + sum(len(run) for _, run in scored_runs(found.steps)) == len(values)


def test_chart_of_a_first_day_starts_near_its_first_score():
    day = made(*([None] * 90), 0.9, 0.8)
    assert len(day.fitted().steps) == 12
    assert day.fitted().steps[-2:] == day.steps[-2:]
    whole = made(0.9, *([None] * 90), 0.8)
    assert whole.fitted() == whole
    assert made(None, None).fitted() == made(None, None)
