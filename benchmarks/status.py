"""
How the status policies do on streams whose truth is known, beside rules of other tools.

    python benchmarks/status.py --quick --processes 2
    python benchmarks/status.py --only "day and night" --rates 10 --part 2.5
    python benchmarks/status.py --only "->" --rates 10 --without-rivals

One table: the policy ``anytime`` with its goal and interval, and on the first of the same streams
the other rules. Rivals that are not installed are left out (``pip install
'groundwatch[benchmark]'`` brings river). KS is the default test of Evidently for numbers, two
samples at p <= 0.05: the last hour against 1,000 samples of the first day. The full run takes
about an hour of CPU, ``--quick`` six minutes; each row is printed when its streams are judged.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, groupby
from typing import Final, NamedTuple

import numpy as np
from common import make_parser, print_head, print_row
from scipy.stats import chi2
from status_modes import BATCH, Mode, modes
from status_rivals import RIVALS

from monitor.models import Status
from monitor.rolling import backtest
from monitor.stats.intervals import exact_interval
from support import status_streams as streams
from support.status_streams import Cell, Job, Stream

#: Goals: false alarms a month, median samples to alarm and to clear, share of calls at 0.88.
_HEALTHY: Final = {"0.90": 0.1, "0.86": 0.1, "0.85": 0.15}
_HEALTHY_ANYHOW: Final = dict.fromkeys(("day and night", "sessions", "bursts", "5 % late"), 0.3)
_FALLS: Final = {
    "-> 0.80": {1: 220, 10: 235},
    "-> 0.65": {1: 50, 10: 54},
    "-> 0.50": {},
    "-> 0.20": {1: 10, 10: 12},
}
#: A fall to 0.20 is critical with its first alarm.
_CRITICAL: Final = {"-> 0.65": {1: 170, 10: 170}, "-> 0.50": {1: 30, 10: 30}, "-> 0.20": {}}
_CLEARING: Final = {1: 90, 10: 160}
_STILL_HEALTHY, _STILL_HEALTHY_GOAL = "-> 0.88", 0.15
_RULES: Final = ("point", "point_min_n", "wilson", "anytime_strict")
_COLUMNS: Final = (*_RULES, *RIVALS)
#: Rules that tell of a change and not of its end.
_ONLY_BEGIN: Final = frozenset({"KS", "ADWIN", "PageHinkley", "DDM"})


class Size(NamedTuple):
    """How many streams of each sort, by samples a minute, for ``anytime`` and for its rivals."""

    months: dict[int, int]
    runs: dict[int, int]
    rival_months: dict[int, int]
    rival_runs: dict[int, int]


#: Where no alarm is expected, months narrow the interval; of delays, 200 give the median to 10 %.
_FULL: Final = Size(
    {1: 100, 10: 100, 100: 8},
    {1: 200, 10: 200, 100: 50},
    {1: 10, 10: 4, 100: 1},
    {1: 50, 10: 20, 100: 5},
)
_QUICK: Final = Size({1: 10, 10: 4, 100: 1}, {1: 20, 10: 10, 100: 3}, {1: 2, 10: 1}, {1: 10, 10: 5})


def main() -> None:
    """Judge the streams, and print each row as it comes."""
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="few streams: wide intervals")
    parser.add_argument("--part", type=float, default=1.0, help="times as many streams")
    parser.add_argument("--without-rivals", action="store_true", help="only the policy anytime")
    parser.add_argument("--rates", default="1,10,100", help="samples a minute, by commas")
    parser.add_argument("--only", default="", help="rows whose name holds this: 0.90, ->, project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    rates = [int(rate) for rate in asked.rates.split(",")]
    size = _QUICK if asked.quick else _FULL
    if asked.without_rivals:
        size = size._replace(rival_months={}, rival_runs={})
    cells = _cells(rates, size, asked.part)
    jobs = [
        Job(cell, asked.seed, run)
        for cell in cells
        if asked.only in cell.kind
        for run in range(cell.runs)
    ]
    began_s = time.monotonic()
    print_head("", "goal", "anytime", "95 % of 100", "streams", *_COLUMNS)
    with ProcessPoolExecutor(asked.processes) as pool:
        judged = zip(jobs, pool.map(judge, jobs), strict=True)
        for cell, group in groupby(judged, key=lambda pair: pair[0].cell):
            by_rule: dict[str, list[Outcome]] = {}
            for _, outcomes in group:
                for name, outcome in outcomes.items():
                    by_rule.setdefault(name, []).append(outcome)
            for name, goal, found, interval, figure in _rows(cell, by_rule.pop("anytime")):
                n = f"{cell.runs}, n {cell.rival_runs}" if cell.rival_runs else f"{cell.runs}"
                others = [figure(by_rule[rule]) if rule in by_rule else "–" for rule in _COLUMNS]
                where = f"{name}, {cell.per_minute:g} a minute"
                print_row(where, goal, found, interval, n, *others)
        for mode in modes(rates, quick=asked.quick, part=asked.part):
            if asked.only in mode.name:
                sizes = [min(BATCH, mode.runs - done) for done in range(0, mode.runs, BATCH)]
                seeds = range(1000 * asked.seed, 1000 * asked.seed + BATCH * len(sizes), BATCH)
                _print_mode(mode, list(chain.from_iterable(pool.map(mode.run, seeds, sizes))))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"\n{len(jobs):,} streams, seed {asked.seed}, {time.monotonic() - began_s:.0f} s"
        f" in {asked.processes} processes, {used.ru_utime + used.ru_stime:.0f} s of CPU."
        " In brackets the 90th percentile; n: on so many of the streams."
    )


def _print_mode(mode: Mode, found: Sequence[float]) -> None:
    """Print alarms a month, samples to an alarm (of each app in a fleet), or the share judged."""
    match mode.unit:
        case "alarms a month":
            alarms = int(sum(found))
            low, high = (end / mode.runs for end in poisson_interval(alarms))
            figure, interval = f"{alarms / mode.runs:.3g}", f"{low:.3f} to {high:.3f}"
        case "share judged":
            mean, error = np.mean(found), np.std(found, ddof=1) / np.sqrt(len(found))
            figure = f"{mean:.3f}"
            interval = f"{mean - 1.96 * error:.3f} to {mean + 1.96 * error:.3f}"
        case "samples to alarm":
            figure, interval = _median(found), _median_interval(found)
    none = ["–"] * len(_COLUMNS)
    print_row(
        f"{mode.name}, {mode.per_minute} a minute", mode.goal, figure, interval, mode.runs, *none
    )


def _cells(rates: Sequence[int], size: Size, part: float) -> Iterator[Cell]:
    def cell(kind: str, rate: int, runs: dict[int, int], rival_runs: dict[int, int]) -> Cell:
        n_rivals = round(rival_runs.get(rate, 0) * min(1.0, part))
        return Cell(kind, rate, max(1, round(runs[rate] * part)), n_rivals)

    for rate in rates:
        for kind in (*_HEALTHY, *_HEALTHY_ANYHOW):
            yield cell(kind, rate, size.months, size.rival_months)
        for kind in (*_FALLS, _STILL_HEALTHY):
            yield cell(kind, rate, size.runs, size.rival_runs)


class Outcome(NamedTuple):
    """What one rule made of one stream: alarms, and samples from fall and recovery to notice."""

    alarms: int
    delay: float  #: inf when it was not noticed, nan when there was nothing to notice
    clearing: float
    critical: float = np.nan  #: likewise, from the fall until the status is critical


def judge(job: Job) -> dict[str, Outcome]:
    """Draw the stream of a job and show it to the rules; return an outcome a rule."""
    stream, fall_s, healed_s = streams.draw(job)

    def outcome(changes: list[tuple[float, bool]]) -> Outcome:
        before = [False, *(bad for _, bad in changes)]
        rises = [t for (t, bad), was in zip(changes, before, strict=False) if bad and not was]
        found_s = next((t for t in rises if fall_s <= t < healed_s), np.inf)
        ended_s = next((t for t, bad in changes if not bad and t >= healed_s), np.inf)
        ill = next((bad for t, bad in reversed(changes) if t < healed_s), False)
        return Outcome(
            len(rises),
            _samples(stream, fall_s, found_s),
            _samples(stream, healed_s, ended_s) if ill else np.nan,
        )

    ours = backtest(*stream)
    critical = (t for t, status in ours if status is Status.CRITICAL and fall_s <= t < healed_s)
    to_critical = _samples(stream, fall_s, next(critical, np.inf))
    turns: dict[str, list[tuple[float, bool]]] = {}
    if job.run < job.cell.rival_runs:
        turns |= {name: _turns(backtest(*stream, policy=name)) for name in _RULES}
        turns |= {name: rival(stream) for name, rival in RIVALS.items()}
    found = {name: outcome(changes) for name, changes in turns.items()}
    found["anytime"] = outcome(_turns(ours))._replace(critical=to_critical)
    return found | {
        name: found[name]._replace(clearing=np.nan) for name in _ONLY_BEGIN & found.keys()
    }


def _turns(changes: list[tuple[float, Status]]) -> list[tuple[float, bool]]:
    return [(time_s, status in {Status.WARNING, Status.CRITICAL}) for time_s, status in changes]


def _samples(stream: Stream, from_s: float, to_s: float) -> float:
    if not np.isfinite(from_s):
        return np.nan
    if not np.isfinite(to_s):
        return np.inf
    return float(((stream.times_s >= from_s) & (stream.times_s <= to_s)).sum())


Row = tuple[str, object, str, str, Callable[[Sequence[Outcome]], str]]


def _rows(cell: Cell, ours: Sequence[Outcome]) -> Iterator[Row]:
    """Yield name, goal, our figure, its interval, and what computes the figure of a rival."""
    rate, n = int(cell.per_minute), cell.runs
    if cell.after is None:
        alarms = sum(one.alarms for one in ours)
        low, high = (end / n for end in poisson_interval(alarms))
        yield (
            f"false alarms a month, {cell.kind}",
            (_HEALTHY | _HEALTHY_ANYHOW)[cell.kind],
            f"{alarms / n:.3g}",
            f"{low:.3f} to {high:.3f}",
            lambda found: f"{sum(one.alarms for one in found) / len(found):,.3g}",
        )
    elif cell.kind == _STILL_HEALTHY:
        called = int(sum(np.isfinite(one.delay) for one in ours))
        yield (
            "0.92 -> 0.88 called a warning",
            _STILL_HEALTHY_GOAL,
            f"{called / n:.3f}",
            _share_interval(called, n),
            lambda found: f"{np.mean([np.isfinite(one.delay) for one in found]):.3g}",
        )
    else:
        delays = [one.delay for one in ours]
        yield (
            f"samples to alarm, 0.92 {cell.kind}",
            _FALLS[cell.kind].get(rate, "–"),
            _median(delays),
            _median_interval(delays),
            lambda found: _median([one.delay for one in found]),
        )
        if cell.kind in _CRITICAL:
            critical = [one.critical for one in ours]
            at_once = sum(one.critical <= one.delay for one in ours)
            yield (
                f"samples to critical, 0.92 {cell.kind}",
                _CRITICAL[cell.kind].get(rate, "–"),
                _median(critical),
                _median_interval(critical),
                lambda _: "–",
            )
            yield (
                f"critical with the first alarm, 0.92 {cell.kind}",
                "–",
                f"{at_once / n:.3f}",
                _share_interval(at_once, n),
                lambda _: "–",
            )
        clearing = [one.clearing for one in ours]
        yield (
            f"samples to clear after {cell.after:.2f}",
            _CLEARING.get(rate, "–"),
            _median(clearing),
            _median_interval(clearing),
            lambda found: _median([one.clearing for one in found]),
        )


def _share_interval(some: int, n: int) -> str:
    low, high = exact_interval(some, n)
    return f"{low:.3f} to {high:.3f}"


def poisson_interval(count: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a Poisson mean (Garwood)."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def _median(values: Sequence[float]) -> str:
    """Write the median of what there was to notice, and the 90th percentile in brackets."""
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "–"
    middle, far = np.quantile(known, [0.5, 0.9], method="higher")
    return f"{middle:.0f} ({far:.0f})"


def _median_interval(values: Sequence[float]) -> str:
    """Write the interval between order statistics that holds the median in 95 of 100 cases."""
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "–"
    half = 0.98 / np.sqrt(len(known))
    low, high = np.quantile(known, [max(0.0, 0.5 - half), min(1.0, 0.5 + half)], method="nearest")
    return f"{low:.0f} to {high:.0f}"


if __name__ == "__main__":
    main()
