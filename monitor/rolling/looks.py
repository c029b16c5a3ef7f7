"""
Looks at streams: what each brings, and how the bets of many streams go through them.

Plain samples are known by sums. Where a judge is asked about some samples only, or weights are
unequal, sums do not determine the payoffs of samples, and these are kept one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import Baseline, History
from monitor.rolling.evidence_state import (
    DAY_BUCKETS,
    FALL,
    Bets,
    Count,
    EvidenceState,
    has_reference,
)
from monitor.rolling.policies import Rules
from monitor.stats.evidence import (
    CELLS,
    Samples,
    Worth,
    accumulate,
    gain_of_share,
    log_payoffs,
    rate_grid,
    sample_log_payoffs,
)
from monitor.stats.intervals import answered_probability, difference_estimate

Floats = NDArray[np.float64]

_HOUR_S: Final = 3600
#: Part of the stakes placed when a bucket begins; the rest is placed as time passes.
_STAKE_AT_BUCKET: Final = 0.5


class Looks(NamedTuple):
    """
    What each look at a stream found since the one before, in the order of the looks.

    ``time_s`` in epoch seconds, never falling; ``n`` samples; ``size`` what they are worth if they
    were independent, and ``passed`` the weight that passed; each of shape (t,). Where the judge is
    asked about some samples only, or weights are unequal, ``samples`` holds them one by one.
    """

    time_s: Floats
    n: Floats
    size: Floats
    passed: Floats
    samples: Samples | None = None
    worth: Worth = Worth()

    @classmethod
    def of_samples(cls, time_s: Floats, samples: Samples, worth: Worth) -> Looks:
        """Return looks at samples, of which each look may have any number."""
        size = worth.size * samples.weight / worth.mean_weight
        if samples.gain is not None:
            size = size * samples.gain
        n, sizes, passed = (
            np.asarray(np.bincount(samples.look, weights, time_s.size), dtype=np.float64)
            for weights in (np.ones_like(size), size, size * samples.estimates())
        )
        return cls(time_s, n, sizes, passed, samples, worth)

    def part(self, start: int, end: int | None = None) -> Looks:
        """Return some of the looks."""
        end = len(self.time_s) if end is None else min(end, len(self.time_s))
        samples = None if self.samples is None else self.samples.between(start, end)
        time_s, n, size, passed = (column[start:end] for column in self[:4])
        return Looks(time_s, n, size, passed, samples, self.worth)


#: Evaluators whose judge is asked about a part of the samples only.
CASCADE: Final = "cascade-"
#: Beyond rounding, weights differ.
_UNEQUAL: Final = 1.0 + 1e-6


def goes_by_samples(version: str, *, n: float, sum_w: float, sum_w2: float) -> bool:
    """Return whether sums do not determine payoffs: a judge is sampled, or weights differ."""
    return version.startswith(CASCADE) or bool(goes_by_weights(n, sum_w, sum_w2))


def goes_by_weights(
    n: float | Floats, sum_w: float | Floats, sum_w2: float | Floats
) -> bool | np.bool_ | NDArray[np.bool_]:
    """Return whether the samples of these sums differ in weight."""
    return n * sum_w2 > sum_w * sum_w * _UNEQUAL


class StreamSample(NamedTuple):
    """
    What one stored evaluation adds to a stream's sums.

    ``at_s`` is when it arrived, ``occurred_s`` when it happened, in epoch seconds; ``share`` of the
    samples were judged then, and ``usual_share`` are usually; the others as in
    `monitor.stats.evidence.Samples`.
    """

    at_s: float
    occurred_s: float
    prediction: float
    probability: float
    asked: bool
    passed: bool
    weight: float
    share: float = 1.0
    usual_share: float = 1.0


def stream_sample(
    at_s: float, occurred_s: float, *, passed: bool, weight: float, noted: Mapping[str, Any] | None
) -> StreamSample:
    """Read a completed evaluation; *noted* is its metadata, in which a cascade keeps its odds."""
    if not noted or "pass_estimate" not in noted:
        return StreamSample(at_s, occurred_s, float(passed), 1.0, True, passed, weight)
    asked = bool(noted["judged"])
    probability = answered_probability(noted["judge_probability"], noted.get("answered_share", 1.0))
    prediction = noted.get("expected_pass", noted["pass_estimate"])
    if asked and "expected_pass" not in noted and probability < 1.0:
        # The estimate is f + (y - f) / pi.
        prediction = passed + (noted["pass_estimate"] - passed) / (1.0 - 1.0 / probability)
    prediction = min(max(float(prediction), 0.0), 1.0)
    share, usual = noted.get("judge_share", 1.0), noted.get("usual_share", 1.0)
    return StreamSample(
        at_s, occurred_s, prediction, probability, asked, passed, weight, share, usual
    )


#: What a sample is taken to be worth before that is measured, and at least.
_FIRST_WORTH: Final = 0.2
_LEAST_WORTH: Final = 0.01


def looks_of(samples: Sequence[StreamSample], time_s: Sequence[float], baseline: Baseline) -> Looks:
    """
    Return looks at samples, one look for each different time; *time_s* never falls.

    What they are worth, and the largest weight, are those of the baseline: fixed before they
    came. Before there is one, all weigh the same.
    """
    times, look = np.unique(np.asarray(time_s, dtype=np.float64), return_inverse=True)
    _, _, prediction, probability, asked, passed, weight, share, usual = zip(*samples, strict=True)
    worth = Worth(_FIRST_WORTH)
    if baseline.worth is not None:
        size = min(max(baseline.worth * baseline.mean_weight, _LEAST_WORTH), 1.0)
        worth = Worth(size, baseline.mean_weight, max(baseline.most_weight, baseline.mean_weight))
    elif min(probability) == 1.0 and max(weight) <= min(weight) * _UNEQUAL:
        worth = Worth()  # they tell what sums would
    gain = None
    if any(share != u for share, u in zip(share, usual, strict=True)):
        gain = np.ones(len(samples))
        for one in set(usual):
            some = np.array(usual) == one
            gain[some] = gain_of_share(worth.size, one, np.array(share)[some])
    return Looks.of_samples(
        times,
        Samples(
            look,
            np.array(prediction),
            np.array(probability),
            np.array(asked, dtype=bool),
            np.array(passed, dtype=bool),
            np.array(weight) if baseline.worth is not None else np.ones(len(samples)),
            gain,
        ),
        worth,
    )


def history_columns(samples: Sequence[StreamSample], bucket_s: int) -> History:
    """Return what each sample adds to the bucket in which it happened."""
    moment = np.array([sample.occurred_s for sample in samples]) // bucket_s
    w = np.array([sample.weight for sample in samples])
    y = np.array([
        difference_estimate(s.prediction, float(s.passed) if s.asked else None, s.probability)
        for s in samples
    ])  # fmt: skip
    columns = (np.ones_like(w), w, w * w, w * y, w * w * y, w * w * y * y)
    return History(moment.astype(np.int64), *columns)


def weighted_looks(
    time_s: Floats, n: Floats, sum_w: Floats, sum_w2: Floats, sum_wy: Floats, baseline: Baseline
) -> Looks:
    """Return looks at weighted sums, tempered to what they are worth: none for more than one."""
    kish = np.divide(sum_w, sum_w2, out=np.ones_like(sum_w), where=sum_w2 > 0)
    worth = kish if baseline.worth is None else np.full(n.shape, baseline.worth)
    size = np.minimum(np.maximum(sum_w, 0.0) * worth, n)
    rate = np.divide(sum_wy, sum_w, out=np.zeros_like(sum_w), where=sum_w > 0)
    return Looks(time_s, n, size, np.clip(rate, 0.0, 1.0) * size)


def stakes_of(before_s: Floats, time_s: Floats, bucket_s: int) -> Floats:
    """
    Return the new bets of looks at *time_s*, in buckets that went by since *before_s*.

    None while a clock that was set back has not caught up.
    """
    before, now = before_s / bucket_s, time_s / bucket_s
    buckets = np.maximum(np.floor(now) - np.floor(before), 0.0)
    gone = np.maximum(now - before, 0.0)
    return np.asarray(_STAKE_AT_BUCKET * buckets + (1.0 - _STAKE_AT_BUCKET) * gone)


class BetsWalk:
    """Streams through as many looks each, all of them calm or all in an incident: (s, t, bets)."""

    def __init__(
        self, states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
    ) -> None:
        self.states, self.rules = states, rules
        self.grid = rate_grid(rules.warning_rate, rules.critical_rate)
        self.time, n, size, passed = (
            np.stack(column) for column in zip(*(look[:4] for look in looks), strict=True)
        )
        self.samples = {i: look for i, look in enumerate(looks) if look.samples is not None}
        self.healthy = np.array([state.status is Status.HEALTHY for state in states])[:, None]
        self.effect = _numbers(state.baseline.effect for state in states)[:, None]
        self.good, self.bad = passed / self.effect, (size - passed) / self.effect
        self.n, self.size, self.passed = (np.cumsum(x, axis=1) for x in (n, size, passed))
        at = _numbers(state.at_s for state in states)[:, None]
        before = np.concatenate([at, self.time[:, :-1]], axis=1)
        self.stakes = stakes_of(before, self.time, rules.bucket_s)
        self.stakes[:, 0] += _numbers(state.owed for state in states)
        self.known = np.array([has_reference(state, rules) for state in states])
        grown = np.exp((self.time - at) / (DAY_BUCKETS * rules.bucket_s))
        day = _numbers(state.n_day for state in states)[:, None]
        self.n_day = (day + np.cumsum(size * grown, axis=1)) / grown
        count = np.array([state.count for state in states])
        self.all_size, self.all_passed = self.size + count[:, 2:3], self.passed + count[:, 3:4]

    def references(self) -> Floats:
        """Return the reference at each look, of the hour where the day is seasonal."""
        limits = [
            state.baseline.fallen_below if known else (math.nan,)
            for state, known in zip(self.states, self.known, strict=True)
        ]
        if max(len(limit) for limit in limits) == 1:
            return np.array(limits)
        hour = (self.time // _HOUR_S).astype(np.int64)
        rows = [np.array(c)[h % len(c)] for c, h in zip(limits, hour, strict=True)]
        return np.stack(rows)

    def tops(self) -> Floats:
        """Return where the grid of each stream ends for quantiles: one place a stream."""
        means = [
            float(np.mean(state.baseline.fallen_below)) if known else math.nan
            for state, known in zip(self.states, self.known, strict=True)
        ]
        return np.asarray(self.grid.top(np.array(means)))

    def payoffs(self, null: Floats, rates: Floats, *, up: bool = False) -> Floats:
        """
        Return the log payoffs of each look, shape (s, t, bets).

        *null* and *rates* of shapes that broadcast with (s, t, bets); rates lie above the null
        where bets are on a rise.
        """
        gains = log_payoffs(self.good, self.bad, null, rates)
        shape = self.time.shape
        for row, look in self.samples.items():
            assert look.samples is not None
            m = np.broadcast_to(null, (*shape, 1))[row, look.samples.look]
            q = np.broadcast_to(rates, gains.shape)[row, look.samples.look]
            samples = look.samples
            if up:
                samples, m, q = samples.mirrored(), 1.0 - m, 1.0 - q
            paid = sample_log_payoffs(samples, m, q, look.worth)
            total = np.concatenate([np.zeros((1, paid.shape[1])), np.cumsum(paid, axis=0)])
            first = np.searchsorted(samples.look, np.arange(shape[1] + 1))
            gains[row] = np.diff(total[first], axis=0) / self.effect[row]
        return gains

    def quasi(self, null: Floats, rates: Floats, *, calm: bool) -> tuple[list[int], Floats]:
        """
        Return the streams that have a second posterior, and its log weights at each look.

        It uses the sums of unbiased estimates, where the other uses bets: one is blind to
        heavy tails, the other to predictions that follow a fall.
        """
        rows = list(self.samples)
        if not rows:
            return rows, np.zeros((0, self.time.shape[1], CELLS))
        states = [self.states[row] for row in rows]
        spans = (
            np.broadcast_to(values, (len(self.states), *values.shape[1:]))
            for values in (null, rates)
        )
        m, q = (values[rows] for values in spans)
        gains = np.clip(log_payoffs(self.good[rows], self.bad[rows], m, q), -300.0, 300.0)
        begun = np.stack([s.bets.log_r[FALL] if s.quasi is None else s.quasi for s in states])
        if calm:
            return rows, accumulate(begun, gains, self.stakes[rows])[0]
        log_q = begun[:, None] + np.cumsum(gains, axis=1)
        return rows, log_q - log_q.max(axis=-1, keepdims=True)

    def moved(self, row: int, look: int) -> EvidenceState:
        """Return the state after one of the looks, without its bets."""
        state = self.states[row]
        time_s = float(self.time[row, look])
        news = (self.n[row, look], self.size[row, look], self.passed[row, look])
        n, size, passed = (float(value) for value in news)
        older, newer = state.recent
        if self.time[row, 0] >= newer.from_s + self.rules.bucket_s * DAY_BUCKETS / 2:
            older, newer = newer, Count(float(self.time[row, 0]))
        return state.but(
            at_s=time_s,
            owed=0.0,
            n_day=float(self.n_day[row, look]),
            count=state.count.plus(n, size, passed),
            recent=(older, newer.plus(n, size, passed)),
        )

    def bets_at(self, last: NDArray[np.int64], old: Bets, log_r: Floats, gained: Floats) -> Bets:
        """Return the bets after look *last* of each stream, shapes (s, bets)."""
        row, bet = np.arange(len(last))[:, None], np.arange(gained.shape[-1])
        return self.since(old, log_r, gained, row, last[:, None], bet)

    def since(
        self,
        old: Bets,
        log_r: Floats,
        gained: Floats,
        row: NDArray[np.int64],
        look: NDArray[np.int64],
        bet: NDArray[np.int64],
    ) -> Bets:
        """
        Return what bets are after some looks of some streams; indices broadcast to one shape.

        Each bet starts over at the last of the lowest points of its path: from there on it has
        gained most.
        """
        path = gained + old.gain[:, None]
        lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
        looks = np.arange(1, path.shape[1] + 1)[:, None]
        first = np.maximum.accumulate(np.where(path <= lowest, looks, 0), axis=1)[row, look, bet]
        again, at = first > 0, np.maximum(first - 1, 0)

        def counted(total: Floats, before: Floats) -> Floats:
            return np.asarray(total[row, look] + np.where(again, -total[row, at], before[row, bet]))

        return Bets(
            log_r[row, look, bet],
            (path - lowest)[row, look, bet],
            counted(self.n, old.n),
            counted(self.size, old.size),
            counted(self.passed, old.passed),
            np.where(again, self.time[row, at], old.at_s[row, bet]),
        )


def stacked(bets: Sequence[Bets]) -> Bets:
    """Return the bets of many streams as one, each column of shape (streams, bets)."""
    return Bets(*(np.stack(column) for column in zip(*bets, strict=True)))


def _numbers(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
