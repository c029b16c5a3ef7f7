"""
How the status policies do on streams whose truth is known, beside rules of other tools.

    python benchmarks/status.py --quick
    python benchmarks/status.py --rates 1,10,100 --seed 7 --processes 2

Every rule sees the same streams in one run. Rivals that are not installed are left out
(``pip install 'groundwatch[benchmark]'`` brings river); the Evidently-like rule is its default
test, two-sample KS at p <= 0.05 on the last hour against 1,000 samples of the first day.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import status_rivals as rivals
import status_streams as streams

from monitor.models import Status
from monitor.rolling import backtest
from monitor.stats.power import lorden_delay

_BAD = frozenset({Status.WARNING, Status.CRITICAL})
_LEAD_DAYS = 8.0
_MONTH_S = 30 * streams.DAY_S
_GOALS = {
    0.80: {1: 250, 10: 315, 100: 425},
    0.65: {1: 52, 10: 66, 100: 80},
    0.20: {1: 11, 10: 12, 100: 15},
}
_HEALTHY = {
    "0.90": 0.1,
    "0.86": 0.1,
    "day and night": 0.3,
    "sessions": 0.3,
    "bursts": 0.3,
    "5 % late": 0.3,
    "0.85": 0.15,
}
_LINE = 0.85
#: Samples after a fall, and after one that is still healthy, by samples a minute.
_AFTER = {1: 3_000, 10: 6_000, 100: 12_000}
_SETTLED = {1: 7_200, 10: 21_600, 100: 72_000}
_CLEARING = {1: 110, 10: 160}
_MONTHS = {1: 40, 10: 20, 100: 4}
_RUNS = {1: 200, 10: 100, 100: 30}
#: So many streams are shown to the rivals that need a Python step a sample.
_SLOW_RUNS = 20

Rule = Callable[[streams.Stream], list[tuple[float, bool]]]


class Job(NamedTuple):
    """One stream, judged by every rule."""

    kind: str
    per_minute: int
    seed: tuple[int, ...]
    slow: bool  #: with the rivals that need a Python step a sample


class Outcome(NamedTuple):
    """What one rule made of one stream: alarms, and samples from fall and recovery to notice."""

    rule: str
    job: Job
    alarms: int
    delay: float
    clearing: float


def main() -> None:
    """Run everything and print the tables."""
    options = _options()
    rates = [int(rate) for rate in options.rates.split(",")]
    jobs = list(_jobs(rates, options.seed, quick=options.quick))
    started_s = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        found = [item for items in pool.map(_judge, jobs, chunksize=1) for item in items]
    for line in _tables(found, rates):
        print(line)
    print(f"\n{len(jobs)} streams, seed {options.seed}, {time.monotonic() - started_s:.0f} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the streams")
    parser.add_argument("--rates", default="1,10,100", help="samples a minute, by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _jobs(rates: list[int], seed: int, *, quick: bool) -> Iterator[Job]:
    part = 10 if quick else 1
    for per_minute in rates:
        for kind, i in product(_HEALTHY, range(max(1, _MONTHS.get(per_minute, 4) // part))):
            yield Job(kind, per_minute, (seed, per_minute, i), slow=i == 0 and per_minute == 1)
        for after, i in product((0.80, 0.65, 0.20, 0.88), range(_RUNS.get(per_minute, 30) // part)):
            yield Job(
                f"-> {after}",
                per_minute,
                (seed, per_minute, i),
                slow=i < _SLOW_RUNS and per_minute == 1,
            )


def _stream(job: Job) -> tuple[streams.Stream, float, float]:
    """Make a stream; tell when its rate falls and recovers."""
    rng = np.random.default_rng([*job.seed, hash_of(job.kind)])
    if job.kind.startswith("->"):
        return _falling(job, rng)
    times = streams.steady_arrivals(job.per_minute, 30.0, rng)
    match job.kind:
        case "day and night":
            stream = streams.sampled(times, streams.day_and_night(0.90, 0.03), rng)
        case "sessions":
            stream = streams.sampled(times, streams.steady(0.90), rng, session=3, shared=0.6)
        case "bursts":
            times = streams.bursty_arrivals(job.per_minute, 30.0, rng)
            stream = streams.sampled(times, streams.steady(0.90), rng)
        case "5 % late":
            stream = streams.delayed(streams.sampled(times, streams.steady(0.90), rng), rng)
        case rate:
            stream = streams.sampled(times, streams.steady(float(rate)), rng)
    return stream, np.inf, np.inf


def _falling(job: Job, rng: np.random.Generator) -> tuple[streams.Stream, float, float]:
    after = float(job.kind[3:])
    # Not at the start of a minute: nobody breaks things on time.
    fall_s = streams.BEGIN_S + _LEAD_DAYS * streams.DAY_S + rng.random() * 600.0
    is_bad = after < _LINE
    samples = (_AFTER if is_bad else _SETTLED).get(job.per_minute, 10_000)
    lasting_s = samples / job.per_minute * 60.0
    healed_s = fall_s + lasting_s if is_bad else np.inf
    end_s = fall_s + lasting_s * (1.5 if is_bad else 1.0)
    days = (end_s - streams.BEGIN_S) / streams.DAY_S
    times = streams.steady_arrivals(job.per_minute, days, rng)

    def rate(at: streams.Floats) -> streams.Floats:
        return np.where((at >= fall_s) & (at < healed_s), after, 0.92)

    return streams.sampled(times, rate, rng), fall_s, healed_s


def hash_of(text: str) -> int:
    """Make a number of a text, the same in every process."""
    return sum(ord(letter) * 31**place for place, letter in enumerate(text)) % 2**31


def _policy(name: str) -> Rule:
    return lambda stream: [(t, s in _BAD) for t, s in backtest(*stream, policy=name)]


def _rules(job: Job) -> dict[str, Rule]:
    rules = {
        "anytime": _policy("anytime"),
        "anytime_strict": _policy("anytime_strict"),
        "point (naive)": _policy("point"),
        "point_min_n": _policy("point_min_n"),
        "wilson": _policy("wilson"),
        "burn rate": rivals.burn_rate,
        "KS (Evidently)": rivals.ks_of_the_last_hour,
    }
    if job.slow and find_spec("river"):
        rules |= {"ADWIN": rivals.adwin, "PageHinkley": rivals.page_hinkley}
    return rules


def _judge(job: Job) -> list[Outcome]:
    stream, fall_s, healed_s = _stream(job)
    return [
        _outcome(name, job, rule(stream), stream, fall_s, healed_s)
        for name, rule in _rules(job).items()
    ]


def _outcome(
    name: str,
    job: Job,
    changes: list[tuple[float, bool]],
    stream: streams.Stream,
    fall_s: float,
    healed_s: float,
) -> Outcome:
    before = [bad for _, bad in changes]
    rises = [t for (t, bad), was in zip(changes, [False, *before], strict=False) if bad and not was]
    found_s = next((t for t in rises if fall_s <= t < healed_s), np.inf)
    ended = (t for t, bad in changes if not bad and t >= healed_s)
    times = stream.times_s
    return Outcome(
        name,
        job,
        len(rises),
        _samples(times, fall_s, found_s),
        _samples(times, healed_s, next(ended, np.inf)) if np.isfinite(found_s) else np.nan,
    )


def _samples(times: streams.Floats, from_s: float, to_s: float) -> float:
    if not np.isfinite(from_s):
        return np.nan
    return float(((times >= from_s) & (times <= to_s)).sum()) if np.isfinite(to_s) else np.inf


def _tables(found: list[Outcome], rates: list[int]) -> Iterator[str]:
    names = list(dict.fromkeys(item.rule for item in found))
    head = "| | goal | " + " | ".join(names) + " |"
    rule = "|---" * (len(names) + 2) + "|"
    yield "False alarms per 30 days of health\n\n" + head + "\n" + rule
    for kind, rate in product(_HEALTHY, rates):
        cells = [_mean([o.alarms for o in _of(found, name, kind, rate)]) for name in names]
        yield f"| {kind}, {rate} a minute | {_HEALTHY[kind]} | " + " | ".join(cells) + " |"
    yield "\nSamples to the alarm, median (90 %); the bound is Lorden's\n\n" + head + "\n" + rule
    for after, rate in product(_GOALS, rates):
        cells = [
            _median([o.delay for o in _of(found, name, f"-> {after}", rate)]) for name in names
        ]
        ours = np.median([o.delay for o in _of(found, "anytime", f"-> {after}", rate)])
        bound = lorden_delay(0.92, after, 432_000 * rate)
        label = f"0.92 -> {after}, {rate} a minute, bound {bound:.0f}, ratio {ours / bound:.2f}"
        yield f"| {label} | {_GOALS[after].get(rate, '')} | " + " | ".join(cells) + " |"
    yield "\nStill healthy, 0.92 -> 0.88: share of runs with an alarm\n\n" + head + "\n" + rule
    for rate in rates:
        cells = [
            _mean([float(np.isfinite(o.delay)) for o in _of(found, name, "-> 0.88", rate)])
            for name in names
        ]
        yield f"| {rate} a minute | 0.15 | " + " | ".join(cells) + " |"
    yield "\nSamples to the all-clear after recovery, median (90 %)\n\n" + head + "\n" + rule
    for after, rate in product(_GOALS, rates):
        cells = [
            _median([o.clearing for o in _of(found, name, f"-> {after}", rate)]) for name in names
        ]
        yield (
            f"| from {after}, {rate} a minute | {_CLEARING.get(rate, '')} | "
            + " | ".join(cells)
            + " |"
        )


def _of(found: list[Outcome], name: str, kind: str, rate: int) -> list[Outcome]:
    return [o for o in found if o.rule == name and o.job.kind == kind and o.job.per_minute == rate]


def _mean(values: list[float] | list[int]) -> str:
    return f"{np.mean(values):.3g} ({len(values)})" if values else "–"


def _median(values: list[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "–"
    middle, far = np.quantile(known, [0.5, 0.9], method="higher")
    return f"{middle:.0f} ({far:.0f})"


if __name__ == "__main__":
    main()
