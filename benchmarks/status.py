"""
How the status policies do on streams whose truth is known, beside rules of other tools.

    python benchmarks/status.py --quick --processes 2
    python benchmarks/status.py --only "day and night" --rates 10 --part 2.5

One table: the policy ``anytime`` with its goal and interval, and on the first of the same streams
the other rules. Rivals that are not installed are left out (``pip install
'groundwatch[benchmark]'`` brings river). KS is the default test of Evidently for numbers, two
samples at p <= 0.05: the last hour against 1,000 samples of the first day. The full run takes
about an hour of CPU, ``--quick`` six minutes; each row is printed when its streams are judged.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
import status_cells as cells
from scipy.stats import beta, chi2
from status_cells import Cell, Job, Outcome

from monitor.stats.power import lorden_delay

_HEALTHY: Final = {
    "0.90": 0.1,
    "0.86": 0.1,
    "0.85": 0.15,
    "day and night": 0.3,
    "sessions": 0.3,
    "bursts": 0.3,
    "5 % late": 0.3,
}
_FALLS: Final = {
    "-> 0.80": {1: 250, 10: 315, 100: 425},
    "-> 0.65": {1: 52, 10: 66, 100: 80},
    "-> 0.20": {1: 11, 10: 12, 100: 15},
}
_STILL_HEALTHY: Final = "-> 0.88"
_STILL_HEALTHY_GOAL: Final = 0.15
_CLEARING: Final = {1: 110, 10: 160}
#: Of the project: more traffic would show the same, later.
_PROJECT_PER_MINUTE: Final = 1
#: Clopper and Pearson: each end's probability, and what is added to the successes there.
_TAILS: Final = ((0.025, 0), (0.975, 1))
#: Samples in ten months, which is what a stream's share of the budget comes to.
_MINUTES_TO_FALSE_ALARM: Final = 432_000


class Size(NamedTuple):
    """How many streams of each sort, by samples a minute, for ``anytime`` and for its rivals."""

    months: dict[int, int]
    runs: dict[int, int]
    rival_months: dict[int, int]
    rival_runs: dict[int, int]
    project: int


#: Where no alarm is expected, months narrow the interval; of delays, 200 give the median to 10 %.
_FULL: Final = Size(
    {1: 100, 10: 100, 100: 8},
    {1: 200, 10: 200, 100: 50},
    {1: 10, 10: 4, 100: 1},
    {1: 50, 10: 20, 100: 5},
    cells.PROJECT_STREAMS,
)
_QUICK: Final = Size(
    {1: 10, 10: 4, 100: 1}, {1: 20, 10: 10, 100: 3}, {1: 2, 10: 1}, {1: 10, 10: 5}, 50
)


def main() -> None:
    """Judge the streams, and print each row as it comes."""
    options = _options()
    rates = [int(rate) for rate in options.rates.split(",")]
    size = _QUICK if options.quick else _FULL
    ordered = [cell for cell in _cells(rates, size, options.part) if options.only in cell.kind]
    jobs = [Job(cell, options.seed, run) for cell in ordered for run in range(cell.runs)]
    columns = ["", "goal", "anytime", "95 % of 100", "streams", *cells.rival_names()]
    began_s = time.monotonic()
    print(f"{_row(columns)}\n|{'---|' * len(columns)}", flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        judged = zip(jobs, pool.map(cells.judge, jobs), strict=True)
        for cell, group in groupby(judged, key=lambda pair: pair[0].cell):
            by_rule = _by_rule([outcome for _, outcomes in group for outcome in outcomes])
            for row in _rows(cell, by_rule):
                print(_row(row), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"\n{len(jobs):,} streams, seed {options.seed}, {time.monotonic() - began_s:.0f} s"
        f" in {options.processes} processes, {used.ru_utime + used.ru_stime:.0f} s of CPU."
        " In brackets the 90th percentile; n: on so many of the streams."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few streams: wide intervals")
    parser.add_argument("--part", type=float, default=1.0, help="times as many streams")
    parser.add_argument("--rates", default="1,10,100", help="samples a minute, by commas")
    parser.add_argument("--only", default="", help="rows whose name holds this: 0.90, ->, project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _cells(rates: Sequence[int], size: Size, part: float) -> Iterator[Cell]:
    def cell(kind: str, rate: int, runs: dict[int, int], rivals: dict[int, int]) -> Cell:
        n_rivals = round(rivals.get(rate, 0) * min(1.0, part))
        return Cell(kind, rate, max(1, round(runs[rate] * part)), n_rivals)

    for rate in rates:
        for kind in _HEALTHY:
            yield cell(kind, rate, size.months, size.rival_months)
        for kind in (*_FALLS, _STILL_HEALTHY):
            yield cell(kind, rate, size.runs, size.rival_runs)
        if rate == _PROJECT_PER_MINUTE:
            streams = min(cells.PROJECT_STREAMS, round(size.project * part))
            yield Cell(cells.PROJECT, rate, max(1, streams))


def _by_rule(found: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    names = dict.fromkeys(one.rule for one in found)
    return {name: [one for one in found if one.rule == name] for name in names}


def _rows(cell: Cell, by_rule: dict[str, list[Outcome]]) -> Iterator[list[str]]:
    ours = by_rule.pop("anytime")
    rate = int(cell.per_minute)
    where = f"{rate} a minute"
    n = f"{cell.runs}, n {cell.rival_runs}" if cell.rival_runs else f"{cell.runs}"
    if cell.after is None:
        is_project = cell.kind == cells.PROJECT
        scale = cells.PROJECT_STREAMS if is_project else 1
        name = "project of 1,000 streams" if is_project else f"false alarms a month, {cell.kind}"
        alarms = sum(one.alarms for one in ours)
        ends = (f"{end / cell.runs * scale:.3f}" for end in poisson_interval(alarms))
        told = [f"{alarms * scale / cell.runs:.3g}", " to ".join(ends), n]
        rivals = _told(by_rule, lambda one: sum(x.alarms for x in one) * scale / len(one))
        yield [f"{name}, {where}", str(_HEALTHY.get(cell.kind, 1)), *told, *rivals]
    elif cell.kind == _STILL_HEALTHY:
        called = int(sum(np.isfinite(one.delay) for one in ours))
        ends = (f"{beta.ppf(p, called + a, cell.runs - called + 1 - a):.3f}" for p, a in _TAILS)
        told = [f"{called / cell.runs:.3f}", " to ".join(ends).replace("nan", "0"), n]
        rivals = _told(by_rule, lambda one: float(np.mean([np.isfinite(x.delay) for x in one])))
        yield [f"0.92 -> 0.88 called a warning, {where}", str(_STILL_HEALTHY_GOAL), *told, *rivals]
    else:
        yield from _of_fall(cell, cell.after, ours, by_rule, n)


def _of_fall(
    cell: Cell, after: float, ours: Sequence[Outcome], by_rule: dict[str, list[Outcome]], n: str
) -> Iterator[list[str]]:
    rate = int(cell.per_minute)
    delays = [one.delay for one in ours]
    horizon = _MINUTES_TO_FALSE_ALARM * rate
    middle = float(np.quantile(delays, 0.5, method="higher"))
    ratios = [f"{middle / lorden_delay(m, after, horizon):.2f}" for m in (cells.BEFORE, cells.LINE)]
    yield [
        f"samples to alarm, 0.92 {cell.kind}, {rate} a minute",
        str(_FALLS[cell.kind][rate]),
        f"{_median(delays)}, × {' and '.join(ratios)} of the bound",
        _median_interval(delays),
        n,
        *(_median([one.delay for one in by_rule.get(name, ())]) for name in cells.rival_names()),
    ]
    clearing = {
        name: [one.clearing for one in found if not np.isnan(one.clearing)]
        for name, found in (("anytime", ours), *by_rule.items())
        if name not in cells.ONLY_BEGIN
    }
    yield [
        f"samples to clear after {after:.2f}, {rate} a minute",
        str(_CLEARING.get(rate, "–")),
        _median(clearing["anytime"]),
        _median_interval(clearing["anytime"]),
        n,
        *(_median(clearing.get(name, [])) for name in cells.rival_names()),
    ]


def _told(
    by_rule: dict[str, list[Outcome]], figure: Callable[[list[Outcome]], float]
) -> Iterator[str]:
    """Give a figure of each rival, in the order of the columns."""
    for name in cells.rival_names():
        if name not in by_rule:
            yield "–"
        else:
            found = figure(by_rule[name])
            yield f"{found:,.0f}" if found >= 100 else f"{found:.3g}"  # noqa: PLR2004 - digits


def poisson_interval(count: int) -> tuple[float, float]:
    """Give the exact 95 % interval of a Poisson mean (Garwood)."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def _median(values: Sequence[float]) -> str:
    """Give the median, and the 90th percentile in brackets."""
    if not values:
        return "–"
    middle, far = np.quantile(values, [0.5, 0.9], method="higher")
    return f"{middle:.0f} ({far:.0f})"


def _median_interval(values: Sequence[float]) -> str:
    """Give the interval between order statistics that holds the median in 95 of 100 cases."""
    if not values:
        return "–"
    half = 0.98 / np.sqrt(len(values))
    low, high = np.quantile(values, [max(0.0, 0.5 - half), min(1.0, 0.5 + half)], method="nearest")
    return f"{low:.0f} to {high:.0f}"


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


if __name__ == "__main__":
    main()
