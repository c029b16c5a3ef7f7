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

import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
from common import print_head, print_row, script
from scipy.stats import chi2
from status_modes import ALARMS, BATCH, MEAN, SAMPLES, SHARE, modes, rises
from status_rivals import RIVALS

from monitor.models import Status
from monitor.rolling import backtest
from monitor.stats.intervals import exact_interval
from support import status_streams as streams
from support.status_streams import Cell, Job, Stream

_HEALTHY = ("0.90", "0.86", "0.85", "day and night", "sessions", "bursts", "5 % late")
_STILL_HEALTHY = "-> 0.88"
_FALLS = ("-> 0.80", "-> 0.65", "-> 0.50", "-> 0.20", _STILL_HEALTHY)
_LEAST_CRITICAL = 0.7  #: a fall to less than this becomes critical
_RULES = ("point", "point_min_n", "wilson", "anytime_strict")
_COLUMNS = (*_RULES, *RIVALS)
#: Rules that tell of a change and not of its end.
_ONLY_BEGIN = frozenset({"KS", "ADWIN", "PageHinkley", "DDM"})
#: Months and falls of each sort by samples a minute, and on how many of each the rivals run. Where
#: no alarm is expected, months narrow the interval; of delays, 200 give the median to 10 %.
_FULL = {1: (100, 200, 10, 50), 10: (100, 200, 4, 20), 100: (8, 50, 1, 5)}
_QUICK = {1: (10, 20, 2, 10), 10: (4, 10, 1, 5), 100: (1, 3, 0, 0)}


Turns = list[tuple[float, bool]]


class Outcome(NamedTuple):
    """What one rule made of one stream: alarms, and samples from fall and recovery to notice."""

    alarms: int
    delay: float  #: inf when it was not noticed, nan when there was nothing to notice
    clearing: float
    critical: float = np.nan  #: likewise, from the fall until the status is critical


def judge(job: Job) -> dict[str, Outcome]:
    """Draw the stream of a job and show it to the rules; return an outcome a rule."""
    stream, fall_s, healed_s = streams.draw(job)

    def outcome(changes: Turns) -> Outcome:
        begun = rises(changes)
        found_s = next((t for t in begun if fall_s <= t < healed_s), np.inf)
        ended_s = next((t for t, bad in changes if not bad and t >= healed_s), np.inf)
        ill = next((bad for t, bad in reversed(changes) if t < healed_s), False)
        return Outcome(
            len(begun),
            _samples(stream, fall_s, found_s),
            _samples(stream, healed_s, ended_s) if ill else np.nan,
        )

    ours = backtest(*stream)
    critical = (t for t, status in ours if status is Status.CRITICAL and fall_s <= t < healed_s)
    to_critical = _samples(stream, fall_s, next(critical, np.inf))
    turns: dict[str, Turns] = {}
    if job.run < job.cell.rival_runs:
        turns |= {name: _turns(backtest(*stream, policy=name)) for name in _RULES}
        turns |= {name: rival(stream) for name, rival in RIVALS.items()}
    found = {name: outcome(changes) for name, changes in turns.items()}
    found["anytime"] = outcome(_turns(ours))._replace(critical=to_critical)
    return found | {
        name: found[name]._replace(clearing=np.nan) for name in _ONLY_BEGIN & found.keys()
    }


def _turns(changes: list[tuple[float, Status]]) -> Turns:
    return [(time_s, status in {Status.WARNING, Status.CRITICAL}) for time_s, status in changes]


def _samples(stream: Stream, from_s: float, to_s: float) -> float:
    if not np.isfinite(from_s):
        return np.nan
    if not np.isfinite(to_s):
        return np.inf
    return float(((stream.times_s >= from_s) & (stream.times_s <= to_s)).sum())


def _print_cell(cell: Cell, outcomes: Sequence[dict[str, Outcome]]) -> None:
    by_rule = defaultdict[str, list[Outcome]](list)
    for each in outcomes:
        for rule, outcome in each.items():
            by_rule[rule].append(outcome)
    n = f"{cell.runs}, n {cell.rival_runs}" if cell.rival_runs else f"{cell.runs}"
    for name, unit, of in _figures(cell):
        ours, *others = (
            _summarize(unit, [of(each) for each in by_rule[rule]])
            for rule in ("anytime", *_COLUMNS)
        )
        row = f"{name}, {cell.per_minute:g} a minute"
        print_row(row, *ours, n, *(middle for middle, _ in others))


def _figures(cell: Cell) -> Iterator[tuple[str, str, Callable[[Outcome], float]]]:
    """Yield name, unit and value of the figures of a cell."""
    fall = f"0.92 {cell.kind}"
    if cell.after is None:
        yield f"false alarms a month, {cell.kind}", ALARMS, lambda one: one.alarms
    elif cell.kind == _STILL_HEALTHY:
        yield f"{fall} called a warning", SHARE, lambda one: np.isfinite(one.delay)
    else:
        yield f"samples to alarm, {fall}", SAMPLES, lambda one: one.delay
        if cell.after < _LEAST_CRITICAL:
            yield f"samples to critical, {fall}", SAMPLES, lambda one: one.critical
            name = f"critical with the first alarm, {fall}"
            yield name, SHARE, lambda o: np.nan if np.isnan(o.critical) else o.critical <= o.delay
        yield f"samples to clear after {cell.after:.2f}", SAMPLES, lambda one: one.clearing


def _summarize(unit: str, values: Sequence[float]) -> tuple[str, str]:
    """
    Write the figure of all streams, and its 95 % interval.

    Of a count that of a Poisson mean (Garwood), of a share Clopper and Pearson's, of a median the
    order statistics that hold it.
    """
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "–", "–"
    n, total = len(known), float(np.sum(known))
    if unit == ALARMS:
        low = chi2.ppf(0.025, 2 * total) / 2 if total else 0.0
        high = chi2.ppf(0.975, 2 * total + 2) / 2
        return f"{total / n:,.3g}", f"{low / n:.3f} to {high / n:.3f}"
    if unit == SHARE:
        low, high = exact_interval(total, n)
        return f"{total / n:.3f}", f"{low:.3f} to {high:.3f}"
    if unit == MEAN:
        mean, error = np.mean(known), np.std(known, ddof=1) / np.sqrt(n)
        return f"{mean:.3f}", f"{mean - 1.96 * error:.3f} to {mean + 1.96 * error:.3f}"
    middle, far = np.quantile(known, [0.5, 0.9], method="higher")
    half = 0.98 / np.sqrt(n)
    ends = [max(0.0, 0.5 - half), min(1.0, 0.5 + half)]
    low, high = np.quantile(known, ends, method="nearest")
    return f"{middle:.0f} ({far:.0f})", f"{low:.0f} to {high:.0f}"


@script
def main(
    *, quick: bool = False, part: float = 1.0, without_rivals: bool = False,
    rates: str = "1,10,100", only: str = "", seed: int = 1, processes: int = 1,
) -> None:  # fmt: skip
    """Judge the streams, and print each row as it comes."""
    per_minute = [int(rate) for rate in rates.split(",")]
    jobs = []
    for rate in per_minute:
        months, falls, *rivals = (_QUICK if quick else _FULL)[rate]
        for kinds, n, of_rivals in ((_HEALTHY, months, rivals[0]), (_FALLS, falls, rivals[1])):
            n_rivals = 0 if without_rivals else round(of_rivals * min(1.0, part))
            for cell in (Cell(kind, rate, max(1, round(n * part)), n_rivals) for kind in kinds):
                jobs += [Job(cell, seed, run) for run in range(cell.runs) if only in cell.kind]
    began_s = time.monotonic()
    print_head("", "anytime", "95 % of 100", "streams", *_COLUMNS)
    with ProcessPoolExecutor(processes) as pool:
        judged = zip(jobs, pool.map(judge, jobs), strict=True)
        for cell, group in groupby(judged, key=lambda pair: pair[0].cell):
            _print_cell(cell, [outcomes for _, outcomes in group])
        for mode in modes(per_minute, quick=quick, part=part):
            if only in mode.name:
                sizes = [min(BATCH, mode.runs - done) for done in range(0, mode.runs, BATCH)]
                seeds = range(1000 * seed, 1000 * seed + BATCH * len(sizes), BATCH)
                found = list(chain.from_iterable(pool.map(mode.run, seeds, sizes)))
                where, none = f"{mode.name}, {mode.per_minute} a minute", ["–"] * len(_COLUMNS)
                print_row(where, *_summarize(mode.unit, found), mode.runs, *none)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"\n{len(jobs):,} streams, seed {seed}, {time.monotonic() - began_s:.0f} s"
        f" in {processes} processes, {used.ru_utime + used.ru_stime:.0f} s of CPU."
        " In brackets the 90th percentile; n: on so many of the streams."
    )
