"""Values to SVG: no script, colours by the style sheet, and the same said in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from markupsafe import Markup, escape

from monitor.models import Status
from monitor.report.format import percent
from monitor.report.model import scored_runs
from monitor.report.words import ICONS, WORDS
from monitor.web.time_series import Cell, ChartMark, SeriesPoint, ShadedSpan, TimeSeries

_ROOM = 0.03  # of rate, above and below what is drawn
_MOST_LABEL = 24
#: Charts without text, which may be stretched to any size.
_STRETCHED = frozenset({"spark", "strip"})
_HOUR, _DAY = 3600, 86_400
_LEVELS = {"warning": "warning", "critical": "critical"}  # what a class of the style may be


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartThresholds:
    """The rates at which a status turns, in [0, 1]."""

    warning: float
    critical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Where values go: pixels left to right for time, bottom to top for rates."""

    left: float
    right: float
    top: float
    bottom: float
    from_s: float
    to_s: float
    low: float
    high: float = 1.0
    digits: int = 1  #: behind the point of a coordinate

    def x(self, at_s: float) -> float:
        share = (at_s - self.from_s) / max(1.0, self.to_s - self.from_s)
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def y(self, rate: float) -> float:
        share = (rate - self.low) / (self.high - self.low)
        return self.bottom - min(1.0, max(0.0, share)) * (self.bottom - self.top)

    def xs(self, ats: Sequence[float]) -> list[int]:
        """Place times, all of them within the frame, in units of the last digit."""
        unit = 10**self.digits
        across = unit * (self.right - self.left) / max(1.0, self.to_s - self.from_s)
        left = unit * self.left - self.from_s * across
        return [round(left + at * across) for at in ats]

    def ys(self, rates: Sequence[float]) -> list[int]:
        """Place rates, all of them within the frame, in units of the last digit."""
        unit = 10**self.digits
        up = unit * (self.bottom - self.top) / (self.high - self.low)
        bottom = unit * self.bottom + self.low * up
        return [round(bottom - rate * up) for rate in rates]

    def path(self, xs: Sequence[int], ys: Sequence[int]) -> str:
        """Return a line from point to point, each as its distance from the last: packs best."""
        moves = zip(pairwise(xs), pairwise(ys), strict=True)
        if self.digits == 0:
            rest = "l".join([f"{x - a} {y - b}" for (a, x), (b, y) in moves])
            return f"M{xs[0]} {ys[0]}" + (f"l{rest}" if rest else "")
        unit = 10**self.digits
        rest = "l".join([f"{_n((x - a) / unit)} {_n((y - b) / unit)}" for (a, x), (b, y) in moves])
        return f"M{_n(xs[0] / unit)} {_n(ys[0] / unit)}" + (f"l{rest}" if rest else "")


def svg_sparkline(series: TimeSeries, lines: ChartThresholds) -> Markup:
    """Return a small chart: band, line, both thresholds, and gaps as gaps."""
    # Ten units a step: whole numbers are exact enough, and short.
    width, height = 10 * max(1, len(series.steps)), 100
    frame = _Frame(
        left=0, right=width, top=4, bottom=height - 4, digits=0,
        from_s=series.from_s, to_s=series.to_s, low=_lowest(series, lines),
    )  # fmt: skip
    return _svg(
        "spark", width, height, _in_words(series),
        [
            *_gaps(series, frame), *_band(series, frame), *_thresholds(frame, lines),
            *_line(series, frame),
        ],
    )  # fmt: skip


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
    data = {
        "from": str(series.from_s), "to": str(series.to_s), "step": str(series.step_s),
        "values": " ".join(values),
    }  # fmt: skip
    frame = _Frame(
        left=64, right=width - 8, top=22, bottom=height - 24,
        from_s=series.from_s, to_s=series.to_s,
        low=min(_lowest(series, lines), 1.0 if reference is None else reference - _ROOM),
    )  # fmt: skip
    shading = [
        f'<rect class="span {_LEVELS.get(span.level, "unknown")}"'
        f' x="{_n(frame.x(span.from_s))}" y="{_n(frame.top)}"'
        f' width="{_n(max(1.0, frame.x(span.to_s) - frame.x(span.from_s)))}"'
        f' height="{_n(frame.bottom - frame.top)}"/>'
        for span in spans
        if span.to_s > frame.from_s and span.from_s < frame.to_s
    ]
    across = f'x1="{_n(frame.left)}" x2="{_n(frame.right)}"'
    dotted = []
    if reference is not None:
        y = _n(frame.y(reference))
        dotted = [f'<line class="reference" {across} y1="{y}" y2="{y}"/>']
    releases = [
        f'<g class="mark"><line x1="{_n(x)}" x2="{_n(x)}"'
        f' y1="{_n(frame.top)}" y2="{_n(frame.bottom)}"/>'
        f'<text x="{_n(x)}" y="{_n(frame.top - 7)}"'
        f' text-anchor="{"end" if x > frame.right - 90 else "start"}">'
        f"{escape(mark.label[:_MOST_LABEL])}</text></g>"
        for mark in marks
        if frame.from_s <= mark.at_s <= frame.to_s
        for x in (frame.x(mark.at_s),)
    ]
    return _svg(
        "series", width, height, _in_words(series, spans),
        [
            *shading, *_axes(frame), *_gaps(series, frame), *_band(series, frame),
            *dotted, *_thresholds(frame, lines),
            *_line(series, frame), *releases,
        ],
        data | {"left": _n(frame.left), "right": _n(frame.right)},
    )  # fmt: skip


def histograms(
    now: Sequence[float], before: Sequence[float], pass_score: float, samples: str = ""
) -> Markup:
    """
    Return two distributions of scores over [0, 1]: *now* as bars, *before* as an outline.

    Both are counts in bins of equal width and are drawn as shares of their own total. With the
    address of a list of *samples*, each bar leads to its own.
    """
    width, height = 720, 200
    left, right, top, bottom = 64.0, width - 8.0, 10.0, height - 24.0
    shares_now, shares_before = _shares(now), _shares(before)
    most = max((*shares_now, *shares_before, 0.01))
    step = (right - left) / max(1, len(now))

    def y(share: float) -> float:
        return bottom - share / most * (bottom - top)

    def link(i: int) -> str:
        if not samples:
            return ""
        # A bin holds the hundredths to which scores are rounded; the last one also 1.00.
        least, most = i / len(now) - 0.005, (i + 1) / len(now) - 0.005001
        scores = f"min_score={least:.6g}&max_score={1.01 if i + 1 == len(now) else most:.6g}"
        words = f"{now[i]:,.0f} samples, scores {i / len(now):.2f} and up"
        return f'<a href="{escape(f"{samples}&{scores}")}" aria-label="{words}">'

    bars = [
        link(i) + f'<rect class="bar{"" if (i + 0.5) / len(now) >= pass_score else " failing"}"'
        f' x="{_n(left + i * step + 1)}" y="{_n(y(share))}"'
        f' width="{_n(step - 2)}" height="{_n(bottom - y(share))}"/>' + ("</a>" if samples else "")
        for i, share in enumerate(shares_now)
        if share
    ]
    outline = "".join(
        f"{'M' if i == 0 else 'L'}{_n(left + i * step)} {_n(y(share))}H{_n(left + (i + 1) * step)}"
        for i, share in enumerate(shares_before)
    )
    at = left + pass_score * (right - left)
    ticks = [
        f'<text class="tick" x="{_n(left + tenth / 10 * (right - left))}" y="{height - 6}"'
        f' text-anchor="{_anchor(tenth, 10)}">{tenth / 10:.1f}</text>'
        for tenth in range(0, 11, 2)
    ]
    words = (
        f"Scores now, {sum(now):,.0f} of them, {_below(now, pass_score)} below the pass score of"
        f" {pass_score:g}; in the reference {sum(before):,.0f}, {_below(before, pass_score)} below."
    )
    parts = [
        *bars,
        f'<path class="outline" d="{outline}"/>' if sum(before) else "",
        f'<line class="threshold warning" x1="{_n(at)}" x2="{_n(at)}" y1="{top}" y2="{bottom}"/>',
        f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        (
            f'<text class="tick" x="{left - 6}" y="{top + 8}" text-anchor="end">'
            f"{100 * most:.0f} %</text>"
        ),
        *ticks,
    ]
    drawn = _svg("histogram", width, height, words, parts)
    # A picture has no links in it.
    return Markup(str(drawn).replace('role="img"', 'role="group"', 1)) if samples else drawn  # noqa: S704


def status_strip(cells: Sequence[Cell], cell: str) -> Markup:
    """Return an SVG of one cell per time range, *cell* long, in the colour of its worst status."""
    return _strip(tuple(item.status for item in cells), cell)


@lru_cache(maxsize=256)  # most strips of a page are alike
def _strip(statuses: tuple[Status | None, ...], cell: str) -> Markup:
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


def _gaps(series: TimeSeries, frame: _Frame) -> list[str]:
    """Return the parts without scores, one rectangle each."""
    found: list[str] = []
    start: SeriesPoint | None = None
    for step in (*series.steps, None):
        if step is not None and step.rate is None:
            start = start or step
        elif start is not None:
            end_s = step.start_s if step is not None else series.to_s
            x, end = frame.x(start.start_s), frame.x(end_s)
            found.append(
                f'<rect class="gap" x="{_n(x)}" y="{_n(frame.top)}" width="{_n(end - x)}"'
                f' height="{_n(frame.bottom - frame.top)}"/>'
            )
            start = None
    return found


def _band(series: TimeSeries, frame: _Frame) -> list[str]:
    parts = []
    for _, run in scored_runs(series.steps):
        ats, steps = _widened(run, series.step_s / 2)
        xs = frame.xs(ats)
        upper = frame.ys([step.high or 0.0 for step in steps])
        lower = frame.ys([step.low or 0.0 for step in steps])
        parts.append(f"{frame.path(xs + xs[::-1], upper + lower[::-1])}z")
    return [f'<path class="band" d="{"".join(parts)}"/>'] if parts else []


def _line(series: TimeSeries, frame: _Frame) -> list[str]:
    parts = []
    for _, run in scored_runs(series.steps):
        ats, steps = _widened(run, series.step_s / 2)
        parts.append(frame.path(frame.xs(ats), frame.ys([step.rate or 0.0 for step in steps])))
    return [f'<path class="line" d="{"".join(parts)}"/>'] if parts else []


def _widened(run: Sequence[SeriesPoint], half_s: float) -> tuple[list[float], list[SeriesPoint]]:
    """Return times and steps, each step at its middle; a lone one over its whole width."""
    if len(run) == 1:
        return [run[0].start_s, run[0].start_s + 2 * half_s], [run[0], run[0]]
    return [step.start_s + half_s for step in run], list(run)


def _thresholds(frame: _Frame, lines: ChartThresholds) -> list[str]:
    return [
        f'<line class="threshold {name}" x1="{_n(frame.left)}" x2="{_n(frame.right)}"'
        f' y1="{_n(frame.y(rate))}" y2="{_n(frame.y(rate))}"/>'
        for name, rate in (("warning", lines.warning), ("critical", lines.critical))
    ]


def _axes(frame: _Frame) -> list[str]:
    step = 0.05 if frame.high - frame.low <= 0.3 else 0.1 if frame.high - frame.low <= 0.6 else 0.2  # noqa: PLR2004
    first = -int(-frame.low / step // 1)
    rates = [i * step for i in range(first, round(1 / step) + 1)]
    rows = [
        f'<line class="grid" x1="{_n(frame.left)}" x2="{_n(frame.right)}" y1="{_n(frame.y(rate))}"'
        f' y2="{_n(frame.y(rate))}"/><text class="tick" x="{_n(frame.left - 6)}"'
        f' y="{_n(frame.y(rate) + 4)}" text-anchor="end">{100 * rate:.0f} %</text>'
        for rate in rates
    ]
    span_s = frame.to_s - frame.from_s
    form = "%H:%M:%S" if span_s < _HOUR else "%H:%M" if span_s <= _DAY else "%b %d %H:%M"
    columns = [
        f'<text class="tick" data-at="{at:.0f}" x="{_n(frame.x(at))}" y="{_n(frame.bottom + 16)}"'
        f' text-anchor="{_anchor(i, 4)}">{datetime.fromtimestamp(at, UTC):{form}}</text>'
        for i, at in enumerate(frame.from_s + q * (frame.to_s - frame.from_s) / 4 for q in range(5))
    ]
    return rows + columns


def _anchor(position: int, last: int) -> str:
    return "start" if position == 0 else "end" if position == last else "middle"


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


def favicon(status: Status) -> Markup:
    """Return the worst status as a shape of its colour, for the tab of a browser."""
    shapes = {
        Status.HEALTHY: '<circle cx="16" cy="16" r="12" fill="#2f855a"/>',
        Status.WARNING: '<path d="M16 4L30 28H2Z" fill="#b7791f"/>',
        Status.CRITICAL: '<rect x="4" y="4" width="24" height="24" fill="#c53030"/>',
        Status.INSUFFICIENT_DATA: (
            '<circle cx="16" cy="16" r="11" fill="none" stroke="#718096" stroke-width="4"/>'
        ),
        Status.BLIND: (
            '<circle cx="16" cy="16" r="11" fill="none" stroke="#6b46c1" stroke-width="4"'
            ' stroke-dasharray="6 4"/>'
        ),
    }
    return Markup(  # noqa: S704  # constants
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{shapes[status]}</svg>'
    )


def badge(label: str, status: Status, value: str) -> Markup:
    """Return a badge for a README: the app's name, its status in words, its rate."""
    colours = {
        Status.HEALTHY: "#276749", Status.WARNING: "#975a16", Status.CRITICAL: "#c53030",
        Status.INSUFFICIENT_DATA: "#4a5568", Status.BLIND: "#553c9a",
    }  # fmt: skip
    said = f"{ICONS[status]} {WORDS[status]} {value}".strip()
    label = label[:_MOST_LABEL]
    left, right = 12 + 7 * len(label), 12 + 7 * len(said)
    text = 'font-family="system-ui,sans-serif" font-size="12" fill="#fff"'
    return Markup(  # noqa: S704  # what comes from elsewhere is escaped
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="22" role="img"'
        f' aria-label="{escape(label)}: {escape(said)}">'
        f'<rect width="{left}" height="22" fill="#4a5568"/>'
        f'<rect x="{left}" width="{right}" height="22" fill="{colours[status]}"/>'
        f'<text x="6" y="15" {text}>{escape(label)}</text>'
        f'<text x="{left + 6}" y="15" {text}>{escape(said)}</text></svg>'
    )
