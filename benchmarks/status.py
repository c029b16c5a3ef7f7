"""
How the status policies do on streams whose truth is known, beside rules of other tools.

    python benchmarks/status.py --quick --processes 2
    python benchmarks/status.py --rates 1,10,100 --seed 7 --processes 2

Each row is printed as soon as its streams are judged: first the policy ``anytime`` on many streams,
then all rules on the first of the same streams. Rivals that are not installed are left out
(``pip install 'groundwatch[benchmark]'`` brings river); KS is the default test of Evidently for
numbers, two samples at p <= 0.05: the last hour against 1,000 samples of the first day.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import status_cells as cells
from scipy.stats import beta, chi2
from status_cells import Cell, Job, Outcome

from monitor.stats.power import lorden_delay

_HEALTHY = {
    "0.90": 0.1,
    "0.86": 0.1,
    "0.85": 0.15,
    "day and night": 0.3,
    "sessions": 0.3,
    "bursts": 0.3,
    "5 % late": 0.3,
}
_FALLS = {
    "-> 0.80": {1: 250, 10: 315, 100: 425},
    "-> 0.65": {1: 52, 10: 66, 100: 80},
    "-> 0.20": {1: 11, 10: 12, 100: 15},
}
_STILL_HEALTHY = "-> 0.88"
_STILL_HEALTHY_GOAL = 0.15
_CLEARING = {1: 110, 10: 160}
#: Healthy months and falls of each sort, by samples a minute, for ``anytime`` and for all rules.
_MONTHS = {1: 100, 10: 40, 100: 8}
_RUNS = {1: 400, 10: 200, 100: 50}
_RIVAL_MONTHS = {1: 10, 10: 4}
_RIVAL_RUNS = {1: 50, 10: 20}
_PROJECT_PER_MINUTE = 1 / 3
#: Clopper and Pearson: each end's probability, and what is added to the successes there.
_TAILS = ((0.025, 0), (0.975, 1))
#: Samples in ten months, which is what a stream's share of the budget comes to.
_MINUTES_TO_FALSE_ALARM = 432_000


def main() -> None:
    """Judge the streams, and print each row as it comes."""
    options = _options()
    rates = [int(rate) for rate in options.rates.split(",")]
    part = 0.1 if options.quick else options.part
    ordered = [*_cells(rates, part, rivals=False), *_cells(rates, part, rivals=True)]
    jobs = [Job(cell, options.seed, run) for cell in ordered for run in range(cell.runs)]
    began_s = time.monotonic()
    section = ""
    with ProcessPoolExecutor(options.processes) as pool:
        judged = zip(jobs, pool.map(cells.judge, jobs), strict=True)
        for cell, group in groupby(judged, key=lambda pair: pair[0].cell):
            found = [outcome for _, outcomes in group for outcome in outcomes]
            rows = _versus(cell, found) if cell.rivals else _rows(cell, found)
            if (head := _head(cell, found)) != section:
                section = head
                print(f"\n{head}", flush=True)
            for row in rows:
                print(row, flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"\n{len(jobs):,} streams, seed {options.seed}, {time.monotonic() - began_s:.0f} s"
        f" in {options.processes} processes, {used.ru_utime + used.ru_stime:.0f} s of CPU"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the streams")
    parser.add_argument("--part", type=float, default=1.0, help="part of the streams, in (0, 1]")
    parser.add_argument("--rates", default="1,10,100", help="samples a minute, by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _cells(rates: list[int], part: float, *, rivals: bool) -> Iterator[Cell]:
    months, runs = (_RIVAL_MONTHS, _RIVAL_RUNS) if rivals else (_MONTHS, _RUNS)
    for rate in rates:
        if rate not in months:
            continue
        for kind in _HEALTHY:
            yield Cell(kind, rate, max(1, round(months[rate] * part)), rivals)
        for kind in (*_FALLS, _STILL_HEALTHY):
            yield Cell(kind, rate, max(3, round(runs[rate] * part)), rivals)
        if rate == 1 and not rivals:
            streams = round(cells.PROJECT_STREAMS * min(1.0, 2.5 * part))
            yield Cell(cells.PROJECT, _PROJECT_PER_MINUTE, max(3, streams), rivals)


def _head(cell: Cell, found: list[Outcome]) -> str:
    if not cell.rivals:
        titles = ["anytime", "goal", "measured", "95 % of 100", "from"]
    else:
        titles = [f"all rules, {cell.per_minute:g} a minute", *_by_rule(found)]
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"


def _rows(cell: Cell, found: list[Outcome]) -> Iterator[str]:
    """Tell how ``anytime`` did."""
    where = f"{cell.per_minute:g} a minute"
    if cell.after is None:
        yield _false_alarms(cell, sum(one.alarms for one in found), where)
    elif cell.kind == _STILL_HEALTHY:
        called = int(sum(np.isfinite(one.delay) for one in found))
        low, high = (beta.ppf(p, called + a, cell.runs - called + 1 - a) for p, a in _TAILS)
        low, high = np.nan_to_num([low, high], nan=0.0)
        yield _row(
            f"0.92 -> 0.88 called a warning, {where}",
            _STILL_HEALTHY_GOAL,
            f"{called / cell.runs:.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{cell.runs} runs",
        )
    else:
        yield _delays(cell, [one.delay for one in found], where)
        clearing = [one.clearing for one in found if not np.isnan(one.clearing)]
        yield _row(
            f"cleared after 0{cell.kind[4:]}, {where}",
            _CLEARING.get(int(cell.per_minute), ""),
            _median(clearing),
            _median_interval(clearing),
            f"{len(clearing)} runs",
        )


def _false_alarms(cell: Cell, alarms: int, where: str) -> str:
    months = cell.runs
    low, high = poisson_interval(alarms)
    is_project = cell.kind == cells.PROJECT
    scale = cells.PROJECT_STREAMS if is_project else 1
    name = f"project of 1,000 streams at 0.90, {1 / cell.per_minute:.0f} minutes a sample"
    return _row(
        name if is_project else f"false alarms a month, {cell.kind}, {where}",
        1 if is_project else _HEALTHY[cell.kind],
        f"{alarms / months * scale:.3g}",
        f"{low / months * scale:.3f} to {high / months * scale:.3f}",
        f"{alarms} in {months} months of a stream",
    )


def _delays(cell: Cell, delays: list[float], where: str) -> str:
    assert cell.after is not None
    horizon = _MINUTES_TO_FALSE_ALARM * cell.per_minute
    middle = float(np.quantile(delays, 0.5, method="higher"))
    ratios = [
        middle / lorden_delay(null, cell.after, horizon) for null in (cells.BEFORE, cells.LINE)
    ]
    return _row(
        f"samples to alarm, 0.92 {cell.kind}, {where}",
        _FALLS[cell.kind].get(int(cell.per_minute), ""),
        f"{_median(delays)}; {ratios[0]:.2f} and {ratios[1]:.2f} times the bound",
        _median_interval(delays),
        f"{len(delays)} runs",
    )


def _versus(cell: Cell, found: list[Outcome]) -> Iterator[str]:
    """Set the rules side by side."""
    rules = _by_rule(found).values()
    if cell.after is None:
        values = [f"{sum(one.alarms for one in rule) / cell.runs:.3g}" for rule in rules]
        yield _row(f"false alarms a month, {cell.kind} ({cell.runs} months)", *values)
    elif cell.kind == _STILL_HEALTHY:
        values = [f"{np.mean([np.isfinite(one.delay) for one in rule]):.2f}" for rule in rules]
        yield _row(f"0.92 -> 0.88 called a warning ({cell.runs} runs)", *values)
    else:
        values = [_median([one.delay for one in rule]) for rule in rules]
        yield _row(f"samples to alarm, 0.92 {cell.kind} ({cell.runs} runs)", *values)


def _by_rule(found: list[Outcome]) -> dict[str, list[Outcome]]:
    names = dict.fromkeys(one.rule for one in found)
    return {name: [one for one in found if one.rule == name] for name in names}


def poisson_interval(count: int) -> tuple[float, float]:
    """Give the exact 95 % interval of a Poisson mean (Garwood)."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def _median(values: list[float]) -> str:
    """Give the median, and the 90th percentile in brackets."""
    if not values:
        return "–"
    middle, far = np.quantile(values, [0.5, 0.9], method="higher")
    return f"{middle:.0f} ({far:.0f})"


def _median_interval(values: list[float]) -> str:
    """Give the interval between order statistics that holds the median in 95 of 100 cases."""
    if not values:
        return "–"
    half = 0.98 / np.sqrt(len(values))
    low, high = np.quantile(values, [max(0.0, 0.5 - half), min(1.0, 0.5 + half)], method="nearest")
    return f"{low:.0f} to {high:.0f}"


def _row(*values: object) -> str:
    return f"| {' | '.join(str(value) for value in values)} |"


if __name__ == "__main__":
    main()
