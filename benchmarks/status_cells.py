"""One cell of ``benchmarks/status.py``: a sort of stream, how often it is drawn, who judges it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import status_rivals as rivals

import tests.support.status_streams as streams
from monitor.models import Status
from monitor.rolling import backtest
from monitor.rolling.budget import stream_budget

BEFORE = 0.92
LINE = 0.85
MONTH_DAYS = 30.0
#: Streams that share the budget of a project in the cell of that name.
PROJECT_STREAMS = 1_000
PROJECT = "project"
#: Each stream of the project is well, at a rate of its own.
_PROJECT_RATES = (0.86, 0.95)
#: Rules that tell of a change and not of its end.
ONLY_BEGIN = frozenset({"KS", "ADWIN", "PageHinkley", "DDM"})
_BAD = frozenset({Status.WARNING, Status.CRITICAL})
#: So that a reference is known before the fall.
_LEAD_DAYS = 8.0
#: Samples after a fall below the line, and after one that is still healthy.
_AFTER = {1: 3_000, 10: 6_000, 100: 12_000}
_SETTLED = {1: 7_200, 10: 21_600, 100: 72_000}

Rule = Callable[[streams.Stream], list[tuple[float, bool]]]


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


class Outcome(NamedTuple):
    """What one rule made of one stream: alarms, and samples from fall and recovery to notice."""

    rule: str
    alarms: int
    delay: float  #: inf when it was not noticed, nan when there was nothing to notice
    clearing: float


def judge(job: Job) -> list[Outcome]:
    """Draw the stream of a job and show it to the rules."""
    stream, fall_s, healed_s = _stream(job)
    return [
        _outcome(name, rule(stream), stream, fall_s, healed_s) for name, rule in _rules(job).items()
    ]


def rival_names() -> list[str]:
    """Name the rules beside ``anytime`` that can run here, in the order of their columns."""
    return list(_rivals())


def _rules(job: Job) -> Mapping[str, Rule]:
    if job.cell.kind == PROJECT:
        budget = stream_budget(1.0, roots=PROJECT_STREAMS)
        return {"anytime": _policy("anytime", budget), "point": _policy("point")}
    ours = {"anytime": _policy("anytime")}
    return ours | _rivals() if job.run < job.cell.rival_runs else ours


def _rivals() -> dict[str, Rule]:
    rules = {
        "point": _policy("point"),
        "point_min_n": _policy("point_min_n"),
        "wilson": _policy("wilson"),
        "anytime_strict": _policy("anytime_strict"),
        "burn rate": rivals.burn_rate,
        "KS": rivals.ks_of_the_last_hour,
    }
    if find_spec("river"):
        rules |= {"ADWIN": rivals.adwin, "PageHinkley": rivals.page_hinkley, "DDM": rivals.ddm}
    return rules


def _policy(name: str, budget: float = 0.1) -> Rule:
    def rule(stream: streams.Stream) -> list[tuple[float, bool]]:
        changes = backtest(*stream, policy=name, false_alarms_per_month=budget)
        return [(time_s, status in _BAD) for time_s, status in changes]

    return rule


def _stream(job: Job) -> tuple[streams.Stream, float, float]:
    """Make a stream; tell when its rate falls and recovers."""
    cell = job.cell
    name = sum(ord(letter) * 31**place for place, letter in enumerate(cell.kind)) % 2**31
    rng = np.random.default_rng([job.seed, name, int(cell.per_minute * 60), job.run])
    if cell.after is not None:
        return _falling(cell, cell.after, rng)
    times = streams.steady_arrivals(cell.per_minute, MONTH_DAYS, rng)
    match cell.kind:
        case "day and night":
            stream = streams.sampled(times, streams.day_and_night(0.90, 0.03), rng)
        case "sessions":
            stream = streams.sampled(times, streams.steady(0.90), rng, session=3, shared=0.6)
        case "bursts":
            times = streams.bursty_arrivals(cell.per_minute, MONTH_DAYS, rng)
            stream = streams.sampled(times, streams.steady(0.90), rng)
        case "5 % late":
            stream = streams.delayed(streams.sampled(times, streams.steady(0.90), rng), rng)
        case _:
            rate = rng.uniform(*_PROJECT_RATES) if cell.kind == PROJECT else float(cell.kind)
            stream = streams.sampled(times, streams.steady(rate), rng)
    return stream, np.inf, np.inf


def _falling(
    cell: Cell, after: float, rng: np.random.Generator
) -> tuple[streams.Stream, float, float]:
    # Not at the start of a minute: nobody breaks things on time.
    fall_s = streams.BEGIN_S + _LEAD_DAYS * streams.DAY_S + rng.random() * 600.0
    is_bad = after < LINE
    samples = (_AFTER if is_bad else _SETTLED).get(int(cell.per_minute), 10_000)
    lasting_s = samples / cell.per_minute * 60.0
    healed_s = fall_s + lasting_s if is_bad else np.inf
    end_s = fall_s + lasting_s * (1.5 if is_bad else 1.0)
    days = (end_s - streams.BEGIN_S) / streams.DAY_S
    times = streams.steady_arrivals(cell.per_minute, days, rng)

    def rate(at: streams.Floats) -> streams.Floats:
        return np.where((at >= fall_s) & (at < healed_s), after, BEFORE)

    return streams.sampled(times, rate, rng), fall_s, healed_s


def _outcome(
    name: str,
    changes: list[tuple[float, bool]],
    stream: streams.Stream,
    fall_s: float,
    healed_s: float,
) -> Outcome:
    before = [False, *(bad for _, bad in changes)]
    rises = [t for (t, bad), was in zip(changes, before, strict=False) if bad and not was]
    found_s = next((t for t in rises if fall_s <= t < healed_s), np.inf)
    ended = (t for t, bad in changes if not bad and t >= healed_s)
    ill = next((bad for t, bad in reversed(changes) if t < healed_s), False)
    times = stream.times_s
    return Outcome(
        name,
        len(rises),
        _samples(times, fall_s, found_s),
        _samples(times, healed_s, next(ended, np.inf)) if ill else np.nan,
    )


def _samples(times: streams.Floats, from_s: float, to_s: float) -> float:
    if not np.isfinite(from_s):
        return np.nan
    return float(((times >= from_s) & (times <= to_s)).sum()) if np.isfinite(to_s) else np.inf
