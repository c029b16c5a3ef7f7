"""Cells of ``status.py`` where a judge is asked in part, weights differ, or apps fall together."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

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
    means = 0.86, 0.90

    def times_part(n: float) -> int:
        return max(1, round(n * part))

    for rate in (rate for rate in rates if rate <= _MOST_PER_MINUTE):
        n_months, n_falls = times_part(months / rate), times_part(falls)
        for mean, (useful, word) in product(means, ((True, "good"), (False, "useless"))):
            name = f"cascade, a tenth judged, local score {word}, false alarms at {mean:.2f}"
            yield Mode(name, rate, n_months, partial(_cascade_months, mean, useful, rate), ALARMS)
            name = f"cascade, local score {word}, share judged at {mean:.2f}"
            yield Mode(name, rate, 40, partial(_share_judged, mean, useful, rate), MEAN)
        for useful, follows, word in (
            (True, True, "sees the fall"),
            (True, False, "is blind to it"),
            (False, False, "is useless"),
        ):
            run = partial(_cascade_falls, useful, follows, rate)
            name = f"cascade whose local score {word}, 0.92 -> 0.65"
            yield Mode(name, rate, n_falls, run, SAMPLES)
        for mean in means:
            name, run = (
                f"weights 1 and 20, false alarms at {mean:.2f}",
                partial(_weighted_months, mean),
            )
            yield Mode(name, rate, times_part(months), partial(run, rate), ALARMS)
        for after in (0.80, 0.65):
            name, run = f"weights 1 and 20, 0.92 -> {after:.2f}", partial(_weighted_falls, after)
            yield Mode(name, rate, n_falls, partial(run, rate), SAMPLES)
    if 1 not in rates:
        return
    for (levels_name, levels), after in product(_LEVELS.items(), (0.80, 0.65)):
        name = f"fleet of 50, {levels_name}, x {after:.2f} / 0.92"
        run = partial(_fleet_falls, levels, after)
        yield Mode(name, 1, times_part(falls), run, SAMPLES)
    one_ill = {"one at 0.20": np.r_[0.2, np.full(_APPS - 1, 0.92)]}
    for name, levels in (_LEVELS | one_ill).items():
        run = partial(_fleet_months, levels)
        yield Mode(f"fleet of 50, {name}, false alarms", 1, times_part(shared), run, ALARMS)


def _cascade_months(mean: float, useful: bool, per_minute: int, seed: int, n: int) -> list[float]:
    """More is judged while evidence builds up, as it is live."""
    rng = np.random.default_rng([31, seed, int(mean * 100), useful, per_minute])
    states = judged.with_references(n, mean, judged.worth(mean, useful=useful), seed)
    found = judged.adaptive(
        rng, states, lambda _: (mean, mean),
        minutes=_MONTH_MINUTES, per_minute=per_minute, mean=mean, useful=useful,
    )  # fmt: skip
    return [float(sum(stream == i for _, stream in found.alarms)) for i in range(n)]


def _share_judged(mean: float, useful: bool, per_minute: int, seed: int, n: int) -> list[float]:
    rng = np.random.default_rng([35, seed, int(mean * 100), useful, per_minute])
    states = judged.with_references(n, mean, judged.worth(mean, useful=useful), seed)
    return [
        judged.adaptive(
            rng, [state], lambda _: (mean, mean),
            minutes=_AFTER // per_minute, per_minute=per_minute, mean=mean, useful=useful,
        ).judged
        for state in states
    ]  # fmt: skip


def _cascade_falls(useful: bool, follows: bool, per_minute: int, seed: int, n: int) -> list[float]:
    rng = np.random.default_rng([32, seed, useful, follows, per_minute])
    states = judged.with_references(n, 0.92, judged.worth(0.92, useful=useful), seed)
    lead = _LEAD // per_minute
    fallen = (0.65 if follows else 0.92, 0.65)
    found = judged.adaptive(
        rng, states, lambda minute: (0.92, 0.92) if minute < lead else fallen,
        minutes=lead + _AFTER // per_minute, per_minute=per_minute, mean=0.92, useful=useful,
    )  # fmt: skip
    delays = [[(m - lead + 1) * per_minute for m, s in found.alarms if s == i] for i in range(n)]
    return [next((float(k) for k in ks if k > 0), np.inf) for ks in delays]


def _weighted_months(mean: float, per_minute: int, seed: int, n: int) -> list[float]:
    rng = np.random.default_rng([33, seed, int(mean * 100), per_minute])
    rates = np.full(_MONTH_MINUTES * per_minute, mean)
    return [float(len(_weighted(rng, mean, rates, per_minute, seed + i))) for i in range(n)]


def _weighted_falls(after: float, per_minute: int, seed: int, n: int) -> list[float]:
    rng = np.random.default_rng([34, seed, int(after * 100), per_minute])
    rates = np.r_[np.full(_LEAD, 0.92), np.full(_AFTER, after)]
    found = (_weighted(rng, 0.92, rates, per_minute, seed + i) for i in range(n))
    return [next((k - _LEAD + 1 for k in times if k >= _LEAD), np.inf) for times in found]


def _weighted(
    rng: np.random.Generator, mean: float, rates: judged.Floats, per_minute: int, seed: int
) -> list[float]:
    """Return the alarms of one stream, in samples."""
    every_s = 60.0 / per_minute
    states = judged.with_references(1, mean, judged.worth_of_weights().size, seed)
    looks = judged.weighted_looks_of(rng, rates, every_s)
    ((_, changes),) = advance_all(states, [looks], judged.RULES)
    bad = [False, *(change.status in judged.BAD for change in changes)]
    return [
        round(change.time_s / every_s)
        for change, was, now in zip(changes, bad, bad[1:], strict=False)
        if now and not was
    ]


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
