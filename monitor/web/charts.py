"""Values to SVG: no script, colours by the style sheet, and the same said in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from math import ceil

from markupsafe import Markup, escape

from monitor.format import duration, percent
from monitor.models import Status
from monitor.report.model import ChartFrame, scored_runs
from monitor.report.words import ICONS, WORDS
from monitor.web.time_range import ChartMark, SeriesPoint, ShadedSpan, TimeSeries

_ROOM = 0.03  # of rate, above and below what is drawn
_MOST_LABEL = 24
#: Charts without text, which may be stretched to any size.
_STRETCHED = frozenset({"spark", "strip"})
_HOUR, _DAY = 3600, 86_400
_TICKS_S = (
    10, 60, 120, 300, 600, 900, 1_800, _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR,
    _DAY, 2 * _DAY, 7 * _DAY, 28 * _DAY,
)  # fmt: skip
_MOST_TICKS, _EDGE = 7, 16  #: labels of a time axis, and pixels that half of one needs
_LEVELS = {"warning": "warning", "critical": "critical"}  # what a class of the style may be
#: Lines are drawn in so many units a pixel: whole numbers are exact enough, and short.
_UNITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartThresholds:
    """The rates at which a status turns, in [0, 1]."""

    warning: float
    critical: float


def svg_sparkline(series: TimeSeries, lines: ChartThresholds) -> Markup:
    """Return a small chart: band, line, both thresholds, and gaps as gaps."""
    width, height = _UNITS * max(1, len(series.steps)), 100
    frame = ChartFrame(
        left=0, right=width, top=4, bottom=height - 4, begin=series.from_s, end=series.to_s,
        low=_lowest(series, lines),
    )  # fmt: skip
    band, line = _course(series, frame, 1)
    parts = [*_gaps(series, frame), band, *_thresholds(frame, lines), line]
    return _svg("spark", width, height, _in_words(series), parts)


def series_chart(
    series: TimeSeries,
    lines: ChartThresholds,
    *,
    spans: Sequence[ShadedSpan] = (),
    marks: Sequence[ChartMark] = (),
    reference: float | None = None,
    width: int = 720,
    height: int = 260,
) -> Markup:
    """
    Return a large chart with axes, incident shading, release marks and the reference rate.

    The axis of rates does not begin at zero; both thresholds are always on it.
    """
    # What a script needs to tell what is under the pointer.
    values = [
        f"{i},{100 * s.rate:.1f},{100 * (s.low or 0.0):.1f},{100 * (s.high or 0.0):.1f},{s.n}"
        for i, s in enumerate(series.steps)
        if s.rate is not None
    ]
    frame = ChartFrame(
        left=64, right=width - 8, top=22, bottom=height - 24,
        begin=series.from_s, end=series.to_s,
        low=min(_lowest(series, lines), 1.0 if reference is None else reference - _ROOM),
    )  # fmt: skip
    data = {
        "from": str(series.from_s), "to": str(series.to_s), "step": str(series.step_s),
        "values": " ".join(values), "left": _n(frame.left), "right": _n(frame.right),
    }  # fmt: skip
    shading = [
        _block(f"span {_LEVELS.get(span.level, 'unknown')}", frame, span.from_s, span.to_s)
        for span in spans
        if span.to_s > frame.begin and span.from_s < frame.end
    ]
    releases = [
        f'<g class="mark">{_line("", x, x, frame.top, frame.bottom)}'
        + _text("", x, frame.top - 7, "end" if x > frame.right - 90 else "start", mark.label)
        + "</g>"
        for mark in marks
        if frame.begin <= mark.at_s <= frame.end
        for x in (frame.x(mark.at_s),)
    ]
    band, line = (f'<g transform="scale({1 / _UNITS})">{part}</g>' if part else ""
                  for part in _course(series, frame, _UNITS))  # fmt: skip
    dotted = [] if reference is None else [_level("reference", frame, reference)]
    step = 0.05 if frame.high - frame.low <= 0.3 else 0.1 if frame.high - frame.low <= 0.6 else 0.2  # noqa: PLR2004
    grid = [
        _level("grid", frame, rate)
        + _text("tick", frame.left - 6, frame.y(rate) + 4, "end", percent(rate, 0))
        for i in range(-int(-frame.low / step // 1), round(1 / step) + 1)
        for rate in (i * step,)
    ]
    parts = [
        *shading, *grid, *_times(frame), *_gaps(series, frame), band, *dotted,
        *_thresholds(frame, lines), line, *releases,
    ]  # fmt: skip
    return _svg("series", width, height, _in_words(series, spans), parts, data)


def volume_chart(counts: Mapping[str, Sequence[int]], *, from_s: int, step_s: int) -> Markup:
    """
    Return counts by kind as rows of bars, one a step; each row has a scale of its own.

    So what failed is seen beside what was sampled, and that beside what came. *from_s* is the
    start of the first step in epoch seconds.
    """
    width, row, left = 720, 54, 104
    steps = max((len(found) for found in counts.values()), default=0)
    step = (width - 8 - left) / max(1, steps)
    parts, said = [], []
    for i, (kind, found) in enumerate(counts.items()):
        most, foot = max((*found, 0)), (i + 1) * row
        parts.append(_line("axis", left, width - 8, foot, foot))
        for y, text in ((foot - 24, kind), (foot - 4, f"max {most:,}" if most else "none")):
            parts.append(_text("tick", left - 6, y, "end", text))
        parts += [
            _bar(f"bar of-{kind}", left + j * step + 0.5, foot - high, step - 1, high)
            for j, n in enumerate(found)
            if n
            for high in (max(1.0, (row - 16) * n / most),)
        ]
        said.append(f"{sum(found):,} {kind}, at most {most:,} a step")
    bottom, to_s = len(counts) * row, from_s + steps * step_s
    frame = ChartFrame(
        left=left, right=width - 8, top=0, bottom=bottom, begin=from_s, end=to_s, low=0
    )
    words = f"Steps of {duration(step_s)}: {'; '.join(said)}."
    return _svg("volume", width, bottom + 20, words, [*parts, *_times(frame)])


def histograms(
    now: Sequence[float], before: Sequence[float], pass_score: float, samples: str = ""
) -> Markup:
    """
    Return two distributions of scores over [0, 1]: *now* as bars, *before* as an outline.

    Both are counts in bins of equal width and are drawn as shares of their own total. With the
    address of a list of *samples*, each bar leads to its own.
    """
    width, height = 720, 200
    shares_now, shares_before = _shares(now), _shares(before)
    most = max((*shares_now, *shares_before, 0.01))
    frame = ChartFrame(
        left=64, right=width - 8, top=10, bottom=height - 24, begin=0, end=1, low=0, high=most
    )
    left, step = frame.left, (frame.right - frame.left) / max(1, len(now))

    def link(i: int) -> str:
        if not samples:
            return ""
        # A bin holds the hundredths to which scores are rounded; the last one also 1.00.
        least, most = i / len(now) - 0.005, (i + 1) / len(now) - 0.005001
        scores = f"min_score={least:.6g}&max_score={1.01 if i + 1 == len(now) else most:.6g}"
        words = f"{now[i]:,.0f} samples, scores {i / len(now):.2f} and up"
        return f'<a href="{escape(f"{samples}&{scores}")}" aria-label="{words}">'

    bars = [
        link(i) + _bar(
            "bar" if (i + 0.5) / len(now) >= pass_score else "bar failing",
            left + i * step + 1, frame.y(share), step - 2, frame.bottom - frame.y(share),
        ) + ("</a>" if samples else "")
        for i, share in enumerate(shares_now)
        if share
    ]  # fmt: skip
    outline = "".join(
        f"{'M' if i == 0 else 'L'}{_n(left + i * step)} {_n(frame.y(share))}"
        f"H{_n(left + (i + 1) * step)}"
        for i, share in enumerate(shares_before)
    )
    at = frame.x(pass_score)
    ticks = [
        _text("tick", frame.x(tenth / 10), height - 6, anchor, f"{tenth / 10:.1f}")
        for tenth in range(0, 11, 2)
        for anchor in ({0: "start", 10: "end"}.get(tenth, "middle"),)
    ]
    words = (
        f"Scores now, {sum(now):,.0f} of them, {_below(now, pass_score)} below the pass score of"
        f" {pass_score:g}; in the reference {sum(before):,.0f}, {_below(before, pass_score)} below."
    )
    parts = [
        *bars, f'<path class="outline" d="{outline}"/>' if sum(before) else "",
        _line("threshold warning", at, at, frame.top, frame.bottom), _level("axis", frame, 0),
        _text("tick", left - 6, frame.top + 8, "end", percent(most, 0)), *ticks,
    ]  # fmt: skip
    drawn = _svg("histogram", width, height, words, parts)
    # A picture has no links in it.
    return Markup(str(drawn).replace('role="img"', 'role="group"', 1)) if samples else drawn  # noqa: S704


@lru_cache(maxsize=256)  # most strips of a page are alike
def status_strip(statuses: tuple[Status | None, ...], cell: str) -> Markup:
    """Return an SVG of one cell per time range, *cell* long, in the colour of its worst status."""
    wide, gap, height = 5, 1, 14
    where: dict[str, str] = {}
    for i, status in enumerate(statuses):
        name = "unknown" if status is None else str(status)
        where[name] = where.get(name, "") + f"M{i * (wide + gap)} 0h{wide}v{height}h-{wide}z"
    parts = [f'<path class="{name}" d="{path}"/>' for name, path in where.items()]
    counted = [(status, statuses.count(status)) for status in Status if status in statuses]
    said = ", ".join(f"{WORDS[status]} in {n}" for status, n in counted)
    words = f"Of {len(statuses)} periods of {cell}: {said or 'nothing known'}."
    return _svg("strip", len(statuses) * (wide + gap), height, words, parts)


def _svg(
    name: str,
    width: int,
    height: int,
    words: str,
    parts: Iterable[str],
    data: Mapping[str, str] | None = None,
) -> Markup:
    more = "".join(f' data-{key}="{value}"' for key, value in (data or {}).items())
    stretch = ' preserveAspectRatio="none"' if name in _STRETCHED else ""
    return Markup(  # noqa: S704  # parts are our own, and what comes from elsewhere is escaped
        f'<svg class="{name}" viewBox="0 0 {width} {height}"{stretch} role="img"'
        f' aria-label="{escape(words)}"{more}>{"".join(parts)}</svg>'
    )


def _lowest(series: TimeSeries, lines: ChartThresholds) -> float:
    lows = [step.low for step in series.steps if step.low is not None]
    return max(0.0, min((*lows, lines.critical)) - _ROOM)


def _gaps(series: TimeSeries, frame: ChartFrame) -> list[str]:
    """Return the parts without scores, one rectangle each."""
    found: list[str] = []
    start: SeriesPoint | None = None
    for step in (*series.steps, None):
        if step is not None and step.rate is None:
            start = start or step
        elif start is not None:
            end_s = step.start_s if step is not None else series.finished_s
            if end_s > start.start_s:
                found.append(_block("gap", frame, start.start_s, end_s))
            start = None
    return found


def _path(frame: ChartFrame, ats: Sequence[float], rates: Sequence[float], units: int) -> str:
    """
    Return a line from point to point, each as its distance from the last: packs best.

    All points must lie within the frame; coordinates are whole, *units* a pixel.
    """
    across = units * (frame.right - frame.left) / max(1.0, frame.end - frame.begin)
    up = units * (frame.bottom - frame.top) / (frame.high - frame.low)
    left, bottom = units * frame.left - frame.begin * across, units * frame.bottom + frame.low * up
    xs = [round(left + at * across) for at in ats]
    ys = [round(bottom - rate * up) for rate in rates]
    moves = zip(pairwise(xs), pairwise(ys), strict=True)
    return "l".join([f"M{xs[0]} {ys[0]}", *(f"{x - a} {y - b}" for (a, x), (b, y) in moves)])


def _course(series: TimeSeries, frame: ChartFrame, units: int) -> tuple[str, str]:
    """
    Return band and line, each a path; a lone step is drawn over its whole width.

    The way to an unfinished step is drawn apart: its rate may still change.
    """
    band, line, open_end = "", "", ""
    for _, run in scored_runs(series.steps):
        ends = [min(series.to_s, step.start_s + series.step_s) for step in run]
        ats = [(step.start_s + end_s) / 2 for step, end_s in zip(run, ends, strict=True)]
        is_open = ends[-1] > series.finished_s
        if len(run) == 1:
            ats, run = [run[0].start_s, ends[0]], [run[0], run[0]]  # noqa: PLW2901
        upper, lower = [step.high or 0.0 for step in run], [step.low or 0.0 for step in run]
        rates = [step.rate or 0.0 for step in run]
        band += _path(frame, ats + ats[::-1], upper + lower[::-1], units) + "z"
        if is_open:
            open_end = _path(frame, ats[-2:], rates[-2:], units)
            ats, rates = ats[:-1], rates[:-1]
        if len(ats) > 1:
            line += _path(frame, ats, rates, units)
    paths = (("line", line), ("line unfinished", open_end))
    drawn = "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths if path)
    return (f'<path class="band" d="{band}"/>', drawn) if band else ("", "")


def _thresholds(frame: ChartFrame, lines: ChartThresholds) -> list[str]:
    pairs = (("warning", lines.warning), ("critical", lines.critical))
    return [_level(f"threshold {name}", frame, rate) for name, rate in pairs]


def _times(frame: ChartFrame) -> list[str]:
    """Return round moments below the frame; a script shows them in the reader's time zone."""
    span_s = frame.end - frame.begin
    form = "%H:%M:%S" if span_s < _HOUR else "%H:%M" if span_s <= _DAY else "%b %d %H:%M"
    step_s = next((step for step in _TICKS_S if span_s <= _MOST_TICKS * step), _TICKS_S[-1])
    # A label at an edge is moved inwards, where there is room for it beside the next one.
    has_room = frame.x(frame.begin + step_s) - frame.left >= 6 * _EDGE
    at_left, at_right = frame.left + _EDGE, frame.right - _EDGE
    return [
        _text(
            "tick", x, frame.bottom + 16,
            "start" if x < at_left else "end" if x > at_right else "middle",
            f"{datetime.fromtimestamp(at, UTC):{form}}", f' data-at="{at:.0f}"',
        )
        for at in range(ceil(frame.begin / step_s) * step_s, int(frame.end) + 1, step_s)
        for x in (frame.x(at),)
        if has_room or at_left <= x <= at_right
    ]  # fmt: skip


def _line(name: str, x1: float, x2: float, y1: float, y2: float) -> str:
    of = f' class="{name}"' if name else ""
    return f'<line{of} x1="{_n(x1)}" x2="{_n(x2)}" y1="{_n(y1)}" y2="{_n(y2)}"/>'


def _level(name: str, frame: ChartFrame, rate: float) -> str:
    """Return a line across the frame."""
    y = frame.y(rate)
    return _line(name, frame.left, frame.right, y, y)


def _bar(name: str, x: float, y: float, width: float, height: float) -> str:
    size = f'width="{_n(width)}" height="{_n(height)}"'
    return f'<rect class="{name}" x="{_n(x)}" y="{_n(y)}" {size}/>'


def _block(name: str, frame: ChartFrame, from_s: float, to_s: float) -> str:
    """Return a time range as high as the frame."""
    x = frame.x(from_s)
    return _bar(name, x, frame.top, max(1.0, frame.x(to_s) - x), frame.bottom - frame.top)


def _text(name: str, x: float, y: float, anchor: str, text: str, more: str = "") -> str:
    of, shown = f' class="{name}"' if name else "", escape(text[:_MOST_LABEL])
    return f'<text{of}{more} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{shown}</text>'


def _shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts] if total else [0.0] * len(counts)


def _below(counts: Sequence[float], pass_score: float) -> str:
    total = sum(counts)
    below = sum(c for i, c in enumerate(counts) if (i + 0.5) / len(counts) < pass_score)
    return percent(below / total) if total else "none"


def _in_words(series: TimeSeries, spans: Sequence[ShadedSpan] = ()) -> str:
    rates = [step.rate for step in series.steps if step.rate is not None]
    if not rates:
        return "No scores in this time range."
    said = (
        f"Pass rate from {percent(rates[0])} to {percent(rates[-1])}, lowest"
        f" {percent(min(rates))}, n {series.n:,}"
    )
    said += f", {series.gaps} of {len(series.steps)} steps without scores" if series.gaps else ""
    said += f", {len(spans)} incident{'s' if len(spans) > 1 else ''} shaded" if spans else ""
    return said + "."


def _n(value: float) -> str:
    """Return a coordinate with one decimal, or none if it is whole."""
    return f"{value:.1f}".removesuffix(".0")


# A status as a small picture.

_RING = '<circle cx="16" cy="16" r="11" fill="none" stroke-width="4" stroke='
#: The shape of a tab's icon and the colour of a badge.
_PICTURES = {
    Status.HEALTHY: ('<circle cx="16" cy="16" r="12" fill="#2f855a"/>', "#276749"),
    Status.WARNING: ('<path d="M16 4L30 28H2Z" fill="#b7791f"/>', "#975a16"),
    Status.CRITICAL: ('<rect x="4" y="4" width="24" height="24" fill="#c53030"/>', "#c53030"),
    Status.INSUFFICIENT_DATA: (f'{_RING}"#718096"/>', "#4a5568"),
    Status.BLIND: (f'{_RING}"#6b46c1" stroke-dasharray="6 4"/>', "#553c9a"),
}


def favicon(status: Status) -> Markup:
    """Return the worst status as a shape of its colour, for the tab of a browser."""
    return Markup(  # noqa: S704  # constants
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{_PICTURES[status][0]}</svg>'
    )


def badge(label: str, status: Status, value: str) -> Markup:
    """Return a badge for a README: the app's name, its status in words, its rate."""
    said = f"{ICONS[status]} {WORDS[status]} {value}".strip()
    label = label[:_MOST_LABEL]
    left, right = 12 + 7 * len(label), 12 + 7 * len(said)
    text = 'font-family="system-ui,sans-serif" font-size="12" fill="#fff"'
    return Markup(  # noqa: S704  # what comes from elsewhere is escaped
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="22" role="img"'
        f' aria-label="{escape(label)}: {escape(said)}">'
        f'<rect width="{left}" height="22" fill="#4a5568"/>'
        f'<rect x="{left}" width="{right}" height="22" fill="{_PICTURES[status][1]}"/>'
        f'<text x="6" y="15" {text}>{escape(label)}</text>'
        f'<text x="{left + 6}" y="15" {text}>{escape(said)}</text></svg>'
    )
