"""A time series as a picture that mail clients show: a PNG, drawn with Pillow if installed."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from monitor.format import percent
from monitor.models import Status
from monitor.report.digest import Digest, DigestSeries
from monitor.report.model import ChartFrame, scored_runs

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

#: In pixels of the page; drawn four times as large and shrunk to twice, for sharp screens.
WIDTH, HEIGHT = 560, 110
_DRAWN, _SHOWN = 4, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 8, 22
_FONT_PX = 11
_LEAST_SPAN = 0.1

_WHITE, _QUIET, _GRID = "#ffffff", "#57606a", "#eaeef2"
_WARNING, _CRITICAL = "#bf8700", "#b42318"
_LINES: Final = {
    Status.HEALTHY: ("#1a7f37", "#d5eedb"),
    Status.WARNING: ("#9a6700", "#f6ebc8"),
    Status.CRITICAL: ("#b42318", "#f8dcd8"),
    Status.INSUFFICIENT_DATA: ("#57606a", "#e6e9ed"),
    Status.BLIND: ("#8250df", "#ebe1fb"),
}


def can_draw() -> bool:
    """Return whether Pillow is installed; without it, a digest has charts of characters."""
    return find_spec("PIL") is not None


def draw_series(series: DigestSeries, digest: Digest) -> bytes:
    """
    Draw pass rate, 90 % band and both lines over the period, as a PNG.

    A step without scores is a gap in line and band. The axis does not begin at zero; the
    lines of warning and critical are always on it. All letters are ASCII: names stand
    beside the picture, in the message.
    """
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  # an extra

    known = [p.low for p in series.points if p.low is not None]
    lowest = min([*known, digest.critical_rate, digest.warning_rate, 1.0 - _LEAST_SPAN])
    # A step is drawn in the middle of its width.
    frame = ChartFrame(
        left=_DRAWN * _LEFT, right=_DRAWN * (WIDTH - _RIGHT), top=_DRAWN * _TOP,
        bottom=_DRAWN * (HEIGHT - _BOTTOM), begin=-0.5, end=len(series.points) - 0.5,
        low=max(0.0, lowest - 0.02),
    )  # fmt: skip
    image = Image.new("RGB", (WIDTH * _DRAWN, HEIGHT * _DRAWN), _WHITE)
    canvas = ImageDraw.Draw(image)
    for rate in (frame.low, frame.high):
        y = frame.y(rate)
        canvas.line([(frame.left, y), (frame.right, y)], fill=_GRID, width=_DRAWN)
    for rate, colour in ((digest.warning_rate, _WARNING), (digest.critical_rate, _CRITICAL)):
        y = frame.y(rate)
        for start in range(int(frame.left), int(frame.right), 8 * _DRAWN):
            end = min(start + 4 * _DRAWN, frame.right)
            canvas.line([(start, y), (end, y)], fill=colour, width=_DRAWN)
    _draw_points(canvas, frame, series)
    image = image.resize((WIDTH * _SHOWN, HEIGHT * _SHOWN), Image.Resampling.LANCZOS)
    canvas = ImageDraw.Draw(image)
    canvas.font = ImageFont.load_default(_FONT_PX * _SHOWN)
    marks = [(1.0, _QUIET), (digest.warning_rate, _WARNING), (digest.critical_rate, _CRITICAL)]
    taken: list[float] = []
    for rate, colour in marks:
        y = frame.y(rate) / _DRAWN * _SHOWN
        if all(abs(y - other) >= _FONT_PX * _SHOWN for other in taken):
            taken.append(y)
            place = ((_LEFT - 6) * _SHOWN, y)
            canvas.text(place, percent(rate, 0), fill=colour, anchor="rm")
    foot, zone = (HEIGHT - 4) * _SHOWN, ZoneInfo(digest.zone)
    for x, at, anchor in ((_LEFT, digest.start, "ls"), (WIDTH - _RIGHT, digest.end, "rs")):
        said = f"{at.astimezone(zone):%Y-%m-%d %H:%M}"
        canvas.text((x * _SHOWN, foot), said, fill=_QUIET, anchor=anchor)
    file = BytesIO()
    image.quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()


def _draw_points(canvas: ImageDraw, frame: ChartFrame, series: DigestSeries) -> None:
    line, band = _LINES[series.status]
    runs = scored_runs(series.points)
    for first, points in runs:
        top = [(frame.x(first + i), frame.y(p.high or 0.0)) for i, p in enumerate(points)]
        foot = [(frame.x(first + i), frame.y(p.low or 0.0)) for i, p in enumerate(points)]
        if len(points) > 1:
            canvas.polygon([*top, *reversed(foot)], fill=band)
        else:
            canvas.line([*top, *foot], fill=band, width=4 * _DRAWN)
    # Lines over all bands, so that none is hidden.
    for first, points in runs:
        places = [(frame.x(first + i), frame.y(p.rate or 0.0)) for i, p in enumerate(points)]
        canvas.line(places, fill=line, width=2 * _DRAWN, joint="curve")
        if len(points) == 1 or (first, points) == runs[-1]:
            (x, y), dot = places[-1], 2.5 * _DRAWN
            canvas.ellipse([(x - dot, y - dot), (x + dot, y + dot)], fill=line)
