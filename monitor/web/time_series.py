"""A pass rate over time, step by step with its bounds, and what happened beside it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from monitor.models import Status, Tally
from monitor.models.alerting import Alert
from monitor.report.model import SEVERITY
from monitor.rolling.tallies import window_stats

#: A chart of less would be a few dots.
_LEAST_STEPS = 12


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One step of a chart; ``rate``, ``low`` and ``high`` are None where nothing was scored."""

    start_s: int
    n: int = 0
    rate: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """Steps of equal width, without holes: a step without scores stands there, empty."""

    step_s: int
    steps: tuple[SeriesPoint, ...]

    @property
    def from_s(self) -> int:
        """Where it begins, in epoch seconds."""
        return self.steps[0].start_s if self.steps else 0

    @property
    def to_s(self) -> int:
        """Where it ends, in epoch seconds."""
        return self.steps[-1].start_s + self.step_s if self.steps else 0

    @property
    def n(self) -> int:
        """How many scores it is based on."""
        return sum(step.n for step in self.steps)

    @property
    def gaps(self) -> int:
        """How many steps have no score."""
        return sum(step.rate is None for step in self.steps)

    @property
    def first_scored_s(self) -> int | None:
        """Where the first step with a score begins, in epoch seconds; None without any score."""
        return next((step.start_s for step in self.steps if step.rate is not None), None)

    def fitted(self) -> TimeSeries:
        """Return it without the empty steps before the first score, but for a few."""
        if self.first_scored_s is None:
            return self
        empty = (self.first_scored_s - self.from_s) // self.step_s
        start = max(0, min(empty - 1, len(self.steps) - _LEAST_STEPS))
        return TimeSeries(self.step_s, self.steps[start:])


@dataclass(frozen=True, slots=True)
class ShadedSpan:
    """A time range with a level, in epoch seconds: an incident on a chart."""

    from_s: float
    to_s: float
    level: str


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A moment with a name: a release on a chart."""

    at_s: float
    label: str


def time_series(
    steps: Mapping[int, SeriesPoint], *, now_s: float, span_s: int, step_s: int
) -> TimeSeries:
    """Return steps by their start over the last *span_s* seconds; missing ones are gaps."""
    last = int(now_s) // step_s * step_s
    first = last - max(1, span_s // step_s) * step_s + step_s
    starts = range(first, last + 1, step_s)
    return TimeSeries(step_s, tuple(steps.get(start_s) or _gap(start_s) for start_s in starts))


@lru_cache(maxsize=4096)  # all series of a page have the same ones
def _gap(start_s: int) -> SeriesPoint:
    return SeriesPoint(start_s)


def steps_of(tallies: Mapping[int, Tally]) -> dict[int, SeriesPoint]:
    """Return rates with bounds of the sums of steps, both keyed by their start in epoch seconds."""
    steps = {}
    for start_s, tally in tallies.items():
        found = window_stats(tally)
        low, high = found.interval or (None, None)
        steps[start_s] = SeriesPoint(start_s, tally.n, found.pass_rate, low, high)
    return steps


def spans_of(incidents: Sequence[Alert], now: datetime) -> list[ShadedSpan]:
    """Return incidents as shaded spans; an open one reaches to *now*."""
    return [
        ShadedSpan(i.since.timestamp(), (i.resolved_at or now).timestamp(), str(i.peak_level))
        for i in incidents
    ]


def strip(
    changes: Sequence[tuple[float, Status]], *, now_s: float, cells: int, cell_s: int
) -> tuple[Status | None, ...]:
    """
    Cut the past into cells of *cell_s* seconds, each the worst status in it.

    *changes* are when each status began, in epoch seconds, oldest first. Before the first one
    nothing is known, which is not the same as healthy: None.
    """
    end = (int(now_s) // cell_s + 1) * cell_s
    starts = range(end - cells * cell_s, end, cell_s)
    found: list[Status | None] = []
    status: Status | None = None
    place = 0
    for start in starts:
        while place < len(changes) and changes[place][0] <= start:
            status, place = changes[place][1], place + 1
        worst = status
        while place < len(changes) and changes[place][0] < min(start + cell_s, now_s):
            status, place = changes[place][1], place + 1
            worst = status if worst is None else min(worst, status, key=SEVERITY.index)
        found.append(worst)
    return tuple(found)
