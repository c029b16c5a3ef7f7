"""
Streams through a stretch of looks: the bets after each look, and where a status turns.

`CalmWalk` opens incidents, `IncidentWalk` reads the status from the upper bound of the posterior
and ends them. Both take any number of streams, each with as many looks, at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import (
    FALL_SHARE,
    Rules,
    is_doubtful,
    is_known,
    read_status,
    stakes_of,
)
from monitor.rolling.drift import ReferenceSpan
from monitor.rolling.evidence_state import (
    EASED,
    FALL,
    LINE,
    N_BETS,
    N_RISES,
    RECOVERED,
    Bets,
    Certainty,
    Count,
    EvidenceState,
    Looks,
)
from monitor.stats.evidence import (
    BELOW,
    CELLS,
    LOG_PRIOR,
    NOTHING,
    RateGrid,
    accumulate,
    log_mean,
    log_payoffs,
    rate_grid,
    sample_log_payoffs,
)

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Shares by which fewer samples fail in a recovery.
_RISES: Final = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
#: A recovery is one to above the threshold less this.
_CLEAR_SLACK: Final = 0.025
#: Log payoff that samples alone must bring to a recovery: time brings stakes as well.
_CLEAR_GAIN: Final = 3.0
DAY_BUCKETS: Final = 1440
_HOUR_S: Final = 3600
#: In buckets: how long an incident is remembered, so that it stays out of the reference.
_REFERENCE_BUCKETS: Final = 8 * 1440
#: So little below a threshold lies the bound of what was decided and is held.
_JUST: Final = 1e-9
#: Log weight that a cell of the posterior keeps at least.
_LEAST_LOG_P: Final = -600.0


def line_threshold(state: EvidenceState, rules: Rules) -> float:
    """Return the log evidence below the warning threshold that confirms an alarm."""
    return rules.log_threshold(1.0 - FALL_SHARE if has_reference(state, rules) else 1.0)


def has_reference(state: EvidenceState, rules: Rules) -> bool:
    """Return whether a fall from the stream's own reference can be seen."""
    return rules.use_reference and bool(state.baseline.fallen_below)


def posterior_below(grid: RateGrid, size: float, passed: float) -> Floats:
    """Return the posterior of some samples on the cells below the warning threshold."""
    rates = np.clip(grid.below, 0.001, 0.999)
    log_p = passed * np.log(rates) + (size - passed) * np.log(1.0 - rates)
    return np.concatenate([log_p - log_p.max(), np.full(CELLS - BELOW, _LEAST_LOG_P)])


class _Walk:
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
        """Return the reference at each look, of the hour where the day has a course."""
        courses = [
            state.baseline.fallen_below if known else (math.nan,)
            for state, known in zip(self.states, self.known, strict=True)
        ]
        if max(len(course) for course in courses) == 1:
            return np.array(courses)
        hour = (self.time // _HOUR_S).astype(np.int64)
        rows = [np.array(c)[h % len(c)] for c, h in zip(courses, hour, strict=True)]
        return np.stack(rows)

    def tops(self) -> Floats:
        """Return where the grid of each stream ends for quantiles: one place a stream."""
        means = [
            sum(state.baseline.fallen_below) / len(state.baseline.fallen_below)
            if known
            else math.nan
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

        It goes by the sums of unbiased estimates, where the other goes by bets: one is blind to
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
            return rows, accumulate(begun, gains, self.stakes[rows]).log_r
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

    def bets_at(self, last: NDArray[np.int64], old: Bets, log_r: Floats, gains: Floats) -> Bets:
        """
        Return the bets after look *last* of each stream, shapes (s, bets).

        Each bet begins anew at the last of the lowest points of its path: from there on it has
        gained most.
        """
        path = gains + old.gain[:, None]
        rows, looks = np.arange(len(last)), np.arange(path.shape[1])
        shown = np.where((looks <= last[:, None])[..., None], path, np.inf)
        first = path.shape[1] - 1 - shown[:, ::-1].argmin(axis=1)
        lowest = np.take_along_axis(path, first[:, None], axis=1)[:, 0]
        anew = lowest <= 0.0
        row = rows[:, None]

        def since(total: Floats, before: Floats) -> Floats:
            here = total[rows, last][:, None]
            return np.asarray(here + np.where(anew, -total[row, first], before))

        return Bets(
            log_r[rows, last],
            path[rows, last] - np.where(anew, lowest, 0.0),
            since(self.n, old.n),
            since(self.size, old.size),
            since(self.passed, old.passed),
            np.where(anew, self.time[row, first], old.at_s),
        )


class CalmWalk(_Walk):
    """Looks at streams without an incident."""

    def __init__(
        self, states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
    ) -> None:
        super().__init__(states, looks, rules)
        null = self.references()
        top = self.grid.top(null)
        rates = self.grid.rates(top)
        fall = self.payoffs(top[..., None], rates)
        fall[~self.known] = 0.0
        line = self.payoffs(np.full((1, 1, 1), rules.warning_rate), self.grid.below)
        self._sampled, self._log_q = self.quasi(top[..., None], rates, calm=True)
        self._old = _stacked([state.bets for state in states])
        path = accumulate(self._old.log_r, np.concatenate([fall, line], axis=-1), self.stakes)
        self._log_r, self._gained = path
        self._log_r[~self.known, :, FALL] = NOTHING
        self._top = self.tops()
        share = np.where(self.known, 1.0 - FALL_SHARE, 1.0)
        self._line_threshold = (rules.log_threshold() - np.log(share))[:, None]
        self._confirmed = log_mean(self._log_r[..., LINE]) >= self._line_threshold
        fallen = log_mean(self._log_r[..., :BELOW]) >= self.rules.log_threshold(FALL_SHARE)
        fallen &= self.known[:, None]
        if fallen.any():
            row, look = np.nonzero(fallen)
            log_p = self._log_r[row, look][:, FALL] + LOG_PRIOR
            high = self.grid.upper(log_p, self._top[row])
            fallen[row, look] = high < self.rules.warning_rate
            for place, one in enumerate(self._sampled):
                some = np.flatnonzero(fallen[one])
                log_q = self._log_q[place, some] + LOG_PRIOR
                high = self.grid.upper(log_q, np.full(some.size, self._top[one]))
                fallen[one, some] = high < self.rules.warning_rate
        self._probable = np.asarray(fallen)

    def turned(self) -> Bools:
        """Return at which looks a status turns, shape (s, t)."""
        known = is_known(self.n_day, self.rules, healthy=self.healthy)
        doubt = is_doubtful(self.all_size, self.all_passed, self.rules, healthy=self.healthy)
        turned = self._confirmed | self._probable | ((known & ~doubt) != self.healthy)
        return np.asarray(turned)

    def at(self, last: NDArray[np.int64]) -> list[EvidenceState]:
        """Return each state after its look *last*, the status unchanged."""
        found = self.bets_at(last, self._old, self._log_r, self._gained)
        states = [
            self.moved(row, int(look)).but(bets=Bets(*(column[row] for column in found)))
            for row, look in enumerate(last)
        ]
        for place, row in enumerate(self._sampled):
            states[row] = states[row].but(quasi=self._log_q[place, last[row]])
        return states

    def turn(self, row: int, look: int, state: EvidenceState) -> EvidenceState:
        """Turn the status at a look: open an incident, or change between known and unknown."""
        now_s, bets = state.at_s, state.bets
        confirmed = bool(self._confirmed[row, look])
        if not confirmed and not self._probable[row, look]:
            healthy = state.status is Status.HEALTHY
            status = Status.INSUFFICIENT_DATA if healthy else Status.HEALTHY
            return state.but(status=status, status_s=now_s)
        if confirmed:
            log_p = np.r_[bets.log_r[LINE], np.full(CELLS - BELOW, NOTHING)] + LOG_PRIOR
        else:
            log_p = bets.log_r[FALL] + LOG_PRIOR
        lead = int(log_p.argmax()) + (LINE.start if confirmed else 0)
        count = Count(
            *(float(column[lead]) for column in (bets.at_s, bets.n, bets.size, bets.passed))
        )
        log_p = np.maximum(log_p - log_p.max(), _LEAST_LOG_P)
        quasi = state.quasi
        if quasi is not None:
            closed = np.where(np.arange(CELLS) < BELOW, 0.0, NOTHING) if confirmed else 0.0
            quasi = quasi + LOG_PRIOR + closed
            quasi = np.maximum(quasi - quasi.max(), _LEAST_LOG_P)
        top = self._top[row]
        bounds = [self.grid.upper(p, np.asarray(top)) for p in (log_p, quasi) if p is not None]
        bound = float(max(bounds))
        high = float(_held(np.array(bound), np.array(count.rate), state.status, self.rules))
        # Whether samples depend on each other is not known of a young stream.
        sure = confirmed and state.baseline.effect_known
        return state.but(
            status=read_status(high, self.rules),
            certainty=Certainty.CONFIRMED if sure else Certainty.PROBABLE,
            status_s=now_s,
            count=count,
            incident_from_s=count.from_s,
            rises=Bets.none(2 * N_RISES, now_s),
            log_p=log_p,
            quasi=quasi,
            high=high,
        )


class IncidentWalk(_Walk):
    """Looks at streams in an incident."""

    def __init__(
        self, states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
    ) -> None:
        super().__init__(states, looks, rules)
        line = np.full((1, 1, 1), rules.warning_rate)
        old = np.stack([state.bets.log_r[LINE] for state in states])
        gains = self.payoffs(line, self.grid.below)
        self._line_log_r = accumulate(old, gains, self.stakes).log_r
        top = self.grid.top(self.references())[..., None]
        rates = self.grid.rates(top[..., 0])
        begun = np.stack([state.log_p for state in states if state.log_p is not None])
        self._log_p = begun[:, None] + np.cumsum(self.payoffs(top, rates), axis=1)
        self._log_p -= self._log_p.max(axis=-1, keepdims=True)
        self._sampled, self._log_q = self.quasi(top, rates, calm=False)
        self._top = np.broadcast_to(self.tops()[:, None], self.time.shape)
        rate = np.divide(
            self.all_passed, self.all_size, out=np.zeros_like(self.size), where=self.all_size > 0
        )
        critical = np.array([state.status is Status.CRITICAL for state in states])[:, None]
        self._critical = critical
        bound = self.grid.upper(self._log_p, self._top)
        for place, row in enumerate(self._sampled):
            other = self.grid.upper(self._log_q[place], self._top[row])
            bound[row] = np.maximum(bound[row], other)
        self._high = np.where(
            critical,
            _held(bound, rate, Status.CRITICAL, rules),
            _held(bound, rate, Status.WARNING, rules),
        )
        lines = np.repeat([rules.warning_rate, rules.critical_rate], N_RISES) - _CLEAR_SLACK
        rises = 1.0 - (1.0 - lines) * (1.0 - np.tile(_RISES, 2))
        gains = np.concatenate(
            [
                self.payoffs(np.full((1, 1, 1), lines[some][0]), rises[some], up=True)
                for some in (RECOVERED, EASED)
            ],
            axis=-1,
        )
        self._old = _stacked([state.rises for state in states if state.rises is not None])
        self._log_r, self._gained = accumulate(self._old.log_r, gains, self.stakes)
        self._recovered = self._risen(RECOVERED, rules.warning_rate)
        self._eased = self._risen(EASED, rules.critical_rate) & critical

    def _risen(self, bets: slice, line: float) -> Bools:
        risen = log_mean(self._log_r[..., bets]) >= self.rules.log_clear
        if not risen.any():
            return np.asarray(risen)
        # The leading bet must have gained, and the rate since it began be above the threshold.
        path = self._gained[..., bets] + self._old.gain[:, None, bets]
        lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
        looks = np.arange(1, path.shape[1] + 1)[:, None]
        begun = np.maximum.accumulate(np.where(path <= lowest, looks, 0), axis=1)
        lead = self._log_r[..., bets].argmax(axis=-1)
        first, gain = (
            np.take_along_axis(values, lead[..., None], axis=-1)[..., 0]
            for values in (begun, path - lowest)
        )
        rows = np.arange(len(first))[:, None]

        def since(total: Floats, old: Floats) -> Floats:
            before = np.take_along_axis(total, np.maximum(first - 1, 0), axis=1)
            return total + np.where(first > 0, -before, old[:, bets][rows, lead])

        size, passed = since(self.size, self._old.size), since(self.passed, self._old.passed)
        return np.asarray(risen & (passed >= line * size) & (gain >= _CLEAR_GAIN))

    def turned(self) -> Bools:
        """Return at which looks a status turns, or evidence of a recovery is used up."""
        low = self._high < self.rules.critical_rate
        stays = (self._high < self.rules.warning_rate) & (low == self._critical)
        return np.asarray(~stays | self._recovered | self._eased)

    def at(self, last: NDArray[np.int64]) -> list[EvidenceState]:
        """Return each state after its look *last*, the status unchanged."""
        found = self.bets_at(last, self._old, self._log_r, self._gained)
        states = []
        for row, look in enumerate(last):
            state = self.moved(row, int(look))
            log_r = np.r_[state.bets.log_r[FALL], self._line_log_r[row, look]]
            sure = state.baseline.effect_known and (
                float(log_mean(log_r[LINE])) >= line_threshold(state, self.rules)
            )
            states.append(
                state.but(
                    bets=state.bets._replace(log_r=log_r),
                    rises=Bets(*(column[row] for column in found)),
                    log_p=np.maximum(self._log_p[row, look], _LEAST_LOG_P),
                    high=float(self._high[row, look]),
                    certainty=Certainty.CONFIRMED if sure else state.certainty,
                )
            )
        for place, row in enumerate(self._sampled):
            log_q = np.maximum(self._log_q[place, last[row]], _LEAST_LOG_P)
            states[row] = states[row].but(quasi=log_q)
        return states

    def turn(self, row: int, look: int, state: EvidenceState) -> EvidenceState:
        """Turn the status at a look, by the bound or by evidence of a recovery."""
        assert state.rises is not None
        status = read_status(state.high, self.rules)
        if status is Status.HEALTHY:
            return self._ended(state, state.count)
        if self._recovered[row, look]:
            return self._ended(state, _since_lead(state.rises, RECOVERED))
        turned = state if status is state.status else state.but(status=status, status_s=state.at_s)
        if status is not Status.CRITICAL or not self._eased[row, look]:
            return turned
        rises = state.rises
        none = Bets.none(2 * N_RISES, state.at_s)
        kept = Bets(*(np.r_[a[RECOVERED], b[EASED]] for a, b in zip(rises, none, strict=True)))
        count = _since_lead(rises, EASED)
        effect = state.baseline.effect
        log_p = posterior_below(self.grid, count.size / effect, count.passed / effect)
        high = float(self.grid.upper(log_p, np.asarray(self.rules.warning_rate)))
        if high < self.rules.critical_rate:
            return turned.but(rises=kept)
        return state.but(
            status=Status.WARNING,
            status_s=state.at_s,
            rises=kept,
            count=count,
            log_p=log_p,
            quasi=None if state.quasi is None else log_p,
            high=high,
        )

    def _ended(self, state: EvidenceState, count: Count) -> EvidenceState:
        """Begin anew after an incident, and keep it out of what is normal."""
        span = ReferenceSpan(int(state.incident_from_s), int(state.at_s) + 1)
        keep_from_s = state.at_s - _REFERENCE_BUCKETS * self.rules.bucket_s
        return state.with_incident(span, keep_from_s=keep_from_s).but(
            status=Status.HEALTHY,
            certainty=Certainty.NONE,
            status_s=state.at_s,
            owed=1.0,
            bets=Bets.none(N_BETS, state.at_s),
            rises=None,
            log_p=None,
            quasi=None,
            high=1.0,
            count=count,
            recent=(Count(count.from_s), count),
            onset=None,
        )


def _held(bound: Floats, rate: Floats, status: Status, rules: Rules) -> Floats:
    """Keep what was decided until the rate since the change is itself above the threshold."""
    if status is Status.CRITICAL:
        below = np.minimum(bound, rules.critical_rate - _JUST)
        above = np.minimum(bound, rules.warning_rate - _JUST)
        return np.where(rate > rules.critical_rate, above, below)
    return np.where(rate > rules.warning_rate, bound, np.minimum(bound, rules.warning_rate - _JUST))


def _since_lead(bets: Bets, some: slice) -> Count:
    """Return what was counted since the leading one of *some* bets began."""
    lead = some.start + int(bets.log_r[some].argmax())
    return Count(*(float(column[lead]) for column in (bets.at_s, bets.n, bets.size, bets.passed)))


def _stacked(bets: Sequence[Bets]) -> Bets:
    return Bets(*(np.stack(column) for column in zip(*bets, strict=True)))


def _numbers(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
