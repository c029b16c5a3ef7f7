"""Cells of ``status.py`` where a judge is asked in part, weights differ, or apps fall together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from monitor.rolling.anytime import advance_all
from support import judged_streams as judged

ALARMS, SAMPLES, SHARE, MEAN = "alarms a month", "samples to alarm", "share", "mean share"
_MONTH_MINUTES = 43_200
_LEAD, _AFTER = 300, 2_500
_APPS = 50
_MOST_PER_MINUTE = 10
#: Streams that go through the fold at once.
BATCH = 40
_LEVELS = {
    "all at 0.92": np.full(_APPS, 0.92),
    "0.87 to 0.97": np.linspace(0.87, 0.97, _APPS),
    "half at the threshold": np.r_[np.full(25, 0.85), np.full(25, 0.92)],
}
_ONE_ILL = {"one at 0.20": np.r_[0.2, np.full(_APPS - 1, 0.92)]}


class Mode(NamedTuple):
    """A cell: *run* takes a seed and a number of streams, and returns a figure of each."""

    name: str
    per_minute: int
    runs: int
    run: Callable[[int, int], list[float]]
    unit: str


def modes(rates: Sequence[int], *, quick: bool, part: float) -> Iterator[Mode]:
    """Yield the cells at these samples a minute."""
    months, falls, shared = (4, 20, 1) if quick else (20, 60, 3)

    def cell(name: str, unit: str, rate: int, n: float, run: Callable[[int, int], Any]) -> Mode:
        return Mode(name, rate, max(1, round(n * part)), run, unit)

    for rate in (rate for rate in rates if rate <= _MOST_PER_MINUTE):
        for mean, (useful, word) in product((0.86, 0.90), ((True, "good"), (False, "useless"))):
            name = f"cascade, local score {word}, a tenth judged, false alarms at {mean:.2f}"
            run = partial(_cascade_months, mean, useful, rate)
            yield cell(name, ALARMS, rate, months / rate, run)
        for useful, local_rate, word in (
            (True, 0.65, "sees the fall"), (True, 0.92, "is blind to it"),
            (False, 0.92, "is useless"),
        ):  # fmt: skip
            run = partial(_cascade_falls, useful, local_rate, rate)
            name = f"cascade whose local score {word}, 0.92 -> 0.65"
            yield cell(name, SAMPLES, rate, falls, run)
        for mean in (0.86, 0.92):
            run = partial(_share_judged, mean, rate)
            yield cell(f"cascade, share judged at {mean:.2f}", MEAN, rate, 40, run)
        for mean in (0.86, 0.90):
            run = partial(_weighted_months, mean, rate)
            name = f"weights 1 and 20, false alarms at {mean:.2f}"
            yield cell(name, ALARMS, rate, months, run)
    if 1 in rates:
        for (name, levels), after in product(_LEVELS.items(), (0.80, 0.65)):
            run = partial(_fleet_falls, levels, after)
            yield cell(f"fleet of 50, {name}, x {after:.2f} / 0.92", SAMPLES, 1, falls, run)
        for name, levels in (_LEVELS | _ONE_ILL).items():
            run = partial(_fleet_months, levels)
            yield cell(f"fleet of 50, {name}, false alarms", ALARMS, 1, shared, run)


def rises(turns: Iterable[tuple[float, bool]]) -> list[float]:
    """Return when an alarm began, of the moments at which it was on or off."""
    found, was_on = [], False
    for at_s, is_on in turns:
        found += [at_s] * (is_on and not was_on)
        was_on = is_on
    return found


def _cascade(
    key: list[float], mean: float, useful: bool, n: int, minutes: int,
    rates: Callable[[int], tuple[float, float]] | None = None,
) -> judged.Adaptive:  # fmt: skip
    """Run cascades of which more is judged while evidence builds up, as it is live."""
    whole = [int(part) for part in key]
    return judged.adaptive(
        np.random.default_rng(whole),
        judged.with_references(n, mean, judged.worth(mean, useful=useful), whole[1]),
        rates or (lambda _: (mean, mean)),
        minutes=minutes, per_minute=whole[-1], mean=mean, useful=useful,
    )  # fmt: skip


def _cascade_months(mean: float, useful: bool, per_minute: int, seed: int, n: int) -> list[float]:
    key = [31, seed, mean * 100, useful, per_minute]
    found = _cascade(key, mean, useful, n, _MONTH_MINUTES)
    return [float(sum(stream == i for _, stream in found.alarms)) for i in range(n)]


def _share_judged(mean: float, per_minute: int, seed: int, n: int) -> list[float]:
    keys = ([35, seed + i, mean * 100, True, per_minute] for i in range(n))
    return [_cascade(key, mean, True, 1, _AFTER // per_minute).judged for key in keys]


def _cascade_falls(
    useful: bool, local_rate: float, per_minute: int, seed: int, n: int
) -> list[float]:
    key, lead = [32, seed, useful, local_rate < 0.92, per_minute], _LEAD // per_minute
    found = _cascade(
        key, 0.92, useful, n, lead + _AFTER // per_minute,
        lambda minute: (0.92, 0.92) if minute < lead else (local_rate, 0.65),
    )  # fmt: skip
    delays = [[(m - lead + 1) * per_minute for m, s in found.alarms if s == i] for i in range(n)]
    return [next((float(k) for k in ks if k > 0), np.inf) for ks in delays]


def _weighted_months(mean: float, per_minute: int, seed: int, n: int) -> list[float]:
    rng = np.random.default_rng([33, seed, int(mean * 100), per_minute])
    rates, size = np.full(_MONTH_MINUTES * per_minute, mean), judged.worth_of_weights().size
    found = []
    for i in range(n):
        states = judged.with_references(1, mean, size, seed + i)
        looks = judged.weighted_looks_of(rng, rates, 60.0 / per_minute)
        ((_, changes),) = advance_all(states, [looks], judged.RULES)
        found.append(float(len(rises((c.time_s, c.status in judged.BAD) for c in changes))))
    return found


def _fleet_falls(levels: judged.Floats, after: float, seed: int, n: int) -> list[float]:
    found = []
    for i in range(n):
        fleet = judged.Fleet(levels, seed + i, budget=1 / (_APPS + 1))
        fleet.go_on(60, levels)
        found.append(fleet.go_on(100, levels * (after / 0.92), until_found=True))
    return found


def _fleet_months(levels: judged.Floats, seed: int, n: int) -> list[float]:
    fleets = [judged.Fleet(levels, seed + i, budget=0.1, looks=1) for i in range(n)]
    for fleet in fleets:
        fleet.go_on(_MONTH_MINUTES, levels)
    return [float(fleet.alarms) for fleet in fleets]
