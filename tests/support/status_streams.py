"""Streams of evaluations whose truth is known: healthy ones of several sorts, and falls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rate = Callable[[Floats], Floats]
DAY_S = 86_400.0
#: A Monday, so that days and hours begin where people think they do; off the minute.
BEGIN_S = 1_735_516_800.0 + 17.3
BEFORE = 0.92
LINE = 0.85
MONTH_DAYS = 30.0
#: So that a reference is known before the fall.
_LEAD_DAYS = 8.0
#: Samples after a fall below the line, and after one that is still healthy.
_AFTER = {1: 3_000, 10: 6_000, 100: 12_000}
_SETTLED = {1: 7_200, 10: 21_600, 100: 72_000}


class Stream(NamedTuple):
    """Event times in order of arrival, scores, and whether each passed."""

    times_s: Floats
    scores: Floats
    passed: Floats


class Cell(NamedTuple):
    """A row of the table: *runs* streams of one sort, at so many samples a minute."""

    kind: str  #: a healthy sort, or ``-> 0.80`` for a fall from 0.92
    per_minute: float
    runs: int
    rival_runs: int = 0  #: the first so many are shown to the rivals, too

    @property
    def after(self) -> float | None:
        """Give the pass rate after the fall; None for health."""
        return float(self.kind[3:]) if self.kind.startswith("->") else None


class Job(NamedTuple):
    """One stream of a cell."""

    cell: Cell
    seed: int
    run: int


def steady(rate: float) -> Rate:
    """Pass at one rate."""
    return lambda times: np.full(times.shape, rate)


def day_and_night(rate: float, swing: float) -> Rate:
    """Pass at a rate that follows the sun."""
    return lambda times: rate + swing * np.sin(2 * np.pi * times / DAY_S)


def wobbling(rate: float, spread: float, rng: np.random.Generator, days: float) -> Rate:
    """Pass at a rate that wanders about its mean, with a memory of six hours."""
    steps = int(days * 24) + 2
    keep = np.exp(-1 / 6)
    course = np.zeros(steps)
    course[0] = rng.normal(0, spread)
    for hour in range(1, steps):
        course[hour] = keep * course[hour - 1] + rng.normal(0, spread * np.sqrt(1 - keep**2))
    hours = BEGIN_S + 3600 * np.arange(steps)
    return lambda times: rate + np.interp(times, hours, course)


def falling(before: float, after: float, at_s: float) -> Rate:
    """Pass at one rate until a moment, and at another after it."""
    return lambda times: np.where(times < at_s, before, after)


def steady_arrivals(per_minute: float, days: float, rng: np.random.Generator) -> Floats:
    """Arrive independently of each other."""
    n = rng.poisson(per_minute * days * 1440)
    return BEGIN_S + np.sort(rng.random(n)) * days * DAY_S


def bursty_arrivals(per_minute: float, days: float, rng: np.random.Generator) -> Floats:
    """Arrive in bursts of ten minutes, with four hours of silence a night; the mean is kept."""
    blocks = int(days * 144)
    intensity = rng.lognormal(0.0, 1.0, blocks)
    intensity.reshape(-1, 144)[:, :24] = 0.0
    counts = rng.poisson(intensity / intensity.mean() * per_minute * 10)
    start = np.repeat(np.arange(blocks) * 600.0, counts)
    return BEGIN_S + np.sort(start + rng.random(start.size) * 600.0)


def sampled(
    times: Floats, rate: Rate, rng: np.random.Generator, *, session: int = 1, shared: float = 0.0
) -> Stream:
    """
    Draw outcomes.

    With sessions, *session* neighbours in time belong together, twenty seconds apart, and a part
    *shared* of the sessions has one outcome for all.
    """
    if session > 1:
        begun = times[::session]
        gaps = rng.exponential(20.0, (begun.size, session)).cumsum(axis=1)
        times = (begun[:, None] + gaps).ravel()
        draws = rng.random((begun.size, session))
        alike = rng.random(begun.size) < shared
        draws[alike] = draws[alike, :1]
        order = np.argsort(times, kind="stable")
        times, draw = times[order], draws.ravel()[order]
    else:
        draw = rng.random(times.size)
    passed = (draw < rate(times)).astype(float)
    return Stream(times, _scores(passed, rng), passed)


def delayed(
    stream: Stream, rng: np.random.Generator, *, share: float = 0.05, mean_s: float = 600.0
) -> Stream:
    """Let some arrive late."""
    late = rng.random(stream.times_s.size) < share
    arrival = stream.times_s + late * rng.exponential(mean_s, stream.times_s.size)
    order = np.argsort(arrival, kind="stable")
    return Stream(*(column[order] for column in stream))


def draw(job: Job) -> tuple[Stream, float, float]:
    """Draw the stream of a job; return it with the seconds of its fall and recovery (inf: none)."""
    cell = job.cell
    name = sum(ord(letter) * 31**place for place, letter in enumerate(cell.kind)) % 2**31
    rng = np.random.default_rng([job.seed, name, int(cell.per_minute * 60), job.run])
    if cell.after is not None:
        return _falling(cell, cell.after, rng)
    times = steady_arrivals(cell.per_minute, MONTH_DAYS, rng)
    match cell.kind:
        case "day and night":
            stream = sampled(times, day_and_night(0.90, 0.03), rng)
        case "sessions":
            stream = sampled(times, steady(0.90), rng, session=3, shared=0.6)
        case "bursts":
            times = bursty_arrivals(cell.per_minute, MONTH_DAYS, rng)
            stream = sampled(times, steady(0.90), rng)
        case "5 % late":
            stream = delayed(sampled(times, steady(0.90), rng), rng)
        case _:
            stream = sampled(times, steady(float(cell.kind)), rng)
    return stream, np.inf, np.inf


def _falling(cell: Cell, after: float, rng: np.random.Generator) -> tuple[Stream, float, float]:
    # Not at the start of a minute: nobody breaks things on time.
    fall_s = BEGIN_S + _LEAD_DAYS * DAY_S + rng.random() * 600.0
    is_bad = after < LINE
    samples = (_AFTER if is_bad else _SETTLED).get(int(cell.per_minute), 10_000)
    lasting_s = samples / cell.per_minute * 60.0
    healed_s = fall_s + lasting_s if is_bad else np.inf
    end_s = fall_s + lasting_s * (1.5 if is_bad else 1.0)
    days = (end_s - BEGIN_S) / DAY_S
    times = steady_arrivals(cell.per_minute, days, rng)

    def rate(at: Floats) -> Floats:
        return np.where((at >= fall_s) & (at < healed_s), after, BEFORE)

    return sampled(times, rate, rng), fall_s, healed_s


def _scores(passed: Floats, rng: np.random.Generator) -> Floats:
    good, bad = rng.beta(5, 2, passed.size), rng.beta(2, 2, passed.size)
    return np.round(np.where(passed > 0, 0.7 + 0.3 * good, 0.69 * bad), 2)
