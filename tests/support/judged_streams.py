"""Streams whose samples are judged in part or weighted, and fleets; their truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, evidence_rises
from monitor.rolling.fleet import AppNews, Pool, advance_pool
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.stats.evidence import Samples, Worth, gain_of_share
from monitor.stats.intervals import wilson_interval

Floats = NDArray[np.float64]
Columns = tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]
BAD = frozenset({Status.WARNING, Status.CRITICAL})
RULES = Rules(false_alarms_per_month=0.1)
#: The share of a cascade's samples that are judged, usually and while evidence builds up.
USUAL_SHARE, RISING_SHARE = 0.1, 0.5
_MINUTE_S = 60.0


def predictions(
    rng: np.random.Generator, shape: tuple[int, ...], mean: float, *, useful: bool
) -> tuple[Floats, Floats]:
    """Return local predictions, and the pass probabilities of the judge."""
    if not useful:
        return np.full(shape, mean), np.full(shape, mean)
    found = np.clip(rng.beta(5 * mean, 5 * (1 - mean), shape), 0.02, 0.98)
    return found, found * (mean / _mean_prediction(mean))


def asked(
    rng: np.random.Generator,
    f: Floats,
    p: Floats,
    *,
    share: Floats | float = USUAL_SHARE,
    spread: float | None = None,
) -> Columns:
    """Ask in proportion to the *spread* that is usual; return samples without their looks."""
    own = np.sqrt(f * (1 - f))
    pi = np.clip(share * own / (own.mean() if spread is None else spread), 0.1 * share, 1)
    return f, pi, rng.random(f.shape) < pi, rng.random(f.shape) < p


@cache
def worth(mean: float, *, useful: bool, share: float = USUAL_SHARE) -> float:
    """Return what a sample of a cascade is worth in plain ones."""
    rng = np.random.default_rng(5)
    columns = asked(rng, *predictions(rng, (100_000,), mean, useful=useful), share=share)
    f, pi, is_asked, passed = columns
    estimate = f + np.where(is_asked, passed - f, 0) / pi
    return float(mean * (1 - mean) / estimate.var())


def with_references(n: int, mean: float, size: float, seed: int) -> list[EvidenceState]:
    """Return streams that learned their reference from a week of one sample a minute."""
    rng = np.random.default_rng(seed)
    known = 10_080 * size
    rates = np.clip(rng.normal(mean, np.sqrt(mean * (1 - mean) / known), n), 0, 1)
    limits = [wilson_interval(rate * known, known, alpha=0.04).low - 0.012 for rate in rates]
    return [
        EvidenceState.fresh(0.0).but(
            baseline=Baseline((x,) if x > 0.852 else (), mean, known, size, 1.0, effect_known=True),
            n_day=1440.0 * size,
        )
        for x in limits
    ]


def alarms(
    states: list[EvidenceState], columns: Columns, value: float, per_look: int, every_s: float
) -> list[list[float]]:
    """Return the times of the alarms of each stream, in samples."""
    n = columns[0].shape[1]
    look = np.arange(n) // per_look
    time_s = every_s * np.arange(look[-1] + 1)
    looks = [
        Looks.of_samples(time_s, Samples(look, *row, np.ones(n)), Worth(value))
        for row in zip(*columns, strict=True)
    ]
    return [
        [change.time_s / every_s * per_look for change in changes if change.status in BAD]
        for _, changes in advance_all(states, looks, RULES)
    ]


class Adaptive(NamedTuple):
    """What became of a cascade: alarms (minute, stream), and the share judged while calm."""

    alarms: list[tuple[int, int]]
    judged: float


def adaptive(
    rng: np.random.Generator,
    states: list[EvidenceState],
    pass_rate: Callable[[int], tuple[float, float]],
    *,
    minutes: int,
    per_minute: int,
    mean: float,
    useful: bool,
    minute_s: float = _MINUTE_S,
) -> Adaptive:
    """
    Take cascades minute by minute; more is judged while the evidence of a fall builds up.

    With *minute_s* all takes longer: 600 for *per_minute* samples in ten minutes.

    *pass_rate* gives, for a minute, the mean that predictions have and the pass rate of the judge.
    """
    value, spread = worth(mean, useful=useful), _spread(mean, useful=useful)
    found, judged, n = [], 0, 0
    shape, one = (len(states), per_minute), np.ones(per_minute)
    for minute in range(minutes):
        rises = [evidence_rises(state, bucket_s=RULES.bucket_s) for state in states]
        share = np.where(rises, RISING_SHARE, USUAL_SHARE)
        predicted, rate = pass_rate(minute)
        f, p = predictions(rng, shape, predicted, useful=useful)
        columns = asked(rng, f, p * (rate / predicted), share=share[:, None], spread=spread)
        time_s, look = np.array([minute_s * minute]), np.zeros(per_minute, dtype=np.int64)
        gains = gain_of_share(value, USUAL_SHARE, share)
        looks = [
            Looks.of_samples(
                time_s, Samples(look, *row, one, gain * one if gain > 1 else None), Worth(value)
            )
            for *row, gain in zip(*columns, gains, strict=True)
        ]
        judged += int(columns[2].sum())
        n += columns[2].size
        for i, (state, changes) in enumerate(advance_all(states, looks, RULES)):
            if state.alarmed and not states[i].alarmed:
                found.append((minute, i))
            states[i] = state
            del changes
    return Adaptive(found, judged / n)


def weighted(rng: np.random.Generator, n: int, mean: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Sample a twentieth of the traffic always, which passes less often, and the rest at 5 %."""
    first = rng.random(n) < 0.05 / (0.05 + 0.95 * 0.05)
    rest = mean / (0.05 * 0.6 + 0.95)
    return np.where(first, 1.0, 20.0), rng.random(n) < np.where(first, 0.6 * rest, rest)


@cache
def worth_of_weights() -> Worth:
    """Return what samples of `weighted` are worth."""
    w, y = weighted(np.random.default_rng(23), 200_000, 0.92)
    spread = (w * w * (y - 0.92) ** 2).sum()
    return Worth(float(0.92 * 0.08 * w.sum() ** 2 / spread / w.size), float(w.mean()), 20.0)


def weighted_looks_of(rng: np.random.Generator, rates: Floats, every_s: float) -> Looks:
    """Return looks at one weighted sample each, at pass rates *rates*."""
    drawn = [weighted(rng, int((rates == rate).sum()), rate) for rate in dict.fromkeys(rates)]
    weight, passed = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    one = np.ones(rates.size)
    samples = Samples(np.arange(rates.size), one, one, one > 0, passed, weight)
    return Looks.of_samples(every_s * np.arange(rates.size), samples, worth_of_weights())


class Fleet:
    """Apps with a sample a minute each, one look at them *looks* times a minute."""

    def __init__(self, levels: Floats, seed: int, *, budget: float, looks: int = 5) -> None:
        self.rng = np.random.default_rng(seed)
        self.levels, self.looks = np.asarray(levels, dtype=np.float64), looks
        self.rules = Rules(false_alarms_per_month=budget)
        self.states = {
            f"app-{i}": with_references(1, level, 1.0, 1000 * seed + i)[0]
            for i, level in enumerate(self.levels)
        }
        self.pool, self.minute, self.alarms = Pool(at_s=0.0), 0, 0

    def go_on(self, minutes: int, rates: Floats, *, until_found: bool = False) -> float:
        """Go on for some minutes; return those to the first alarm, infinite if there is none."""
        for passed_minutes in range(minutes):
            for now_s, news in self._news(np.asarray(rates)):
                calm = self.pool.incident is None
                self.pool = advance_pool(self.pool, news, now_s, self.rules)
                if calm and self.pool.incident is not None:
                    self.alarms += 1
                    if until_found:
                        return passed_minutes + 1
            self.minute += 1
        return np.inf

    def _news(self, rates: Floats) -> Iterator[tuple[float, list[AppNews]]]:
        order, passed = self.rng.permutation(rates.size), self.rng.random(rates.size) < rates
        none = Looks(*np.zeros((4, 0)))
        one = np.ones(1)
        for turn, part in enumerate(np.array_split(order, self.looks)):
            now_s = _MINUTE_S * (self.minute + (turn + 0.5) / self.looks)
            here = set(part.tolist())
            yield (
                now_s,
                [
                    AppNews(
                        name,
                        state,
                        Looks(one * now_s, one, one, one * passed[i]) if i in here else none,
                    )
                    for i, (name, state) in enumerate(self.states.items())
                ],
            )


@cache
def _mean_prediction(mean: float) -> float:
    draws = np.random.default_rng(0).beta(5 * mean, 5 * (1 - mean), 100_000)
    return float(np.clip(draws, 0.02, 0.98).mean())


@cache
def _spread(mean: float, *, useful: bool) -> float:
    f, _ = predictions(np.random.default_rng(0), (100_000,), mean, useful=useful)
    return float(np.sqrt(f * (1 - f)).mean())
