"""
The policy ``anytime``: a status that stays true however often one looks.

Bets are placed on a grid of pass rates, against the stream's own reference and against the
warning threshold (`monitor.stats.evidence`). A stream turns bad by one of two routes. *Confirmed*:
the evidence that the rate is below the warning threshold is so strong that chance would bring it
less often than the budget allows. *Probable*: the evidence that it fell from its reference is
that strong, and the posterior of the present rate puts 9 in 10 below the threshold.

From then on the posterior goes on with every sample, and the status is read from its upper bound
``high`` and nothing else: critical below the critical threshold, warning below the warning
threshold, else healthy. So a status and the interval beside it cannot disagree. What was decided
stays decided until the rate since the change itself is above the threshold, and a recovery needs
evidence of its own.

The budget bounds the mean number of false alarms: "below the threshold" for confirmed ones,
"below the reference" for probable ones. Many streams go together as one does alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.evidence_state import (
    CLEAR_GAIN,
    CLEAR_SLACK,
    DAY_BUCKETS,
    EASED,
    FALL,
    LEAST_LOG_P,
    LINE,
    N_BETS,
    N_RISES,
    RECOVERED,
    RISES,
    SILENT_BUCKETS,
    Advanced,
    Bets,
    Certainty,
    Count,
    EvidenceState,
    StatusTurn,
    held,
    idle,
    is_doubtful,
    is_known,
    line_threshold,
    posterior_below,
    restarted,
)
from monitor.rolling.looks import BetsWalk, Looks, stacked
from monitor.rolling.policies import FALL_SHARE, Rules, status_of
from monitor.stats.evidence import (
    BELOW,
    CELLS,
    LOG_PRIOR,
    NOTHING,
    Onset,
    accumulate,
    find_onset,
    log_mean,
)

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: In buckets: how long an incident is remembered, so that it stays out of the reference.
_REFERENCE_BUCKETS: Final = 8 * 1440
_MOST_INCIDENTS: Final = 40
#: Looks that are computed at once: enough to be fast, few enough to waste little after a change.
_AT_ONCE: Final = 4096


def advance(state: EvidenceState, looks: Looks, rules: Rules) -> Advanced:
    """Take one stream through more looks; see `advance_all`."""
    return advance_all([state], [looks], rules)[0]


def advance_all(
    states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
) -> list[Advanced]:
    """
    Take streams, as remembered after the look before, through any number of looks each.

    Return of each what is remembered now, and the statuses that began. Cutting the looks anywhere,
    and going on from what was remembered, gives the same.
    """
    moved = [restarted(state, rules) for state in states]
    changes: list[list[StatusTurn]] = [[] for _ in states]
    done = [0] * len(states)
    while True:
        alike: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for i, look in enumerate(looks):
            if done[i] < len(look.time_s):
                moved[i], silent = idle(moved[i], float(look.time_s[done[i]]), rules)
                changes[i] += silent
                end = _end(moved[i], look, done[i], rules)
                alike[moved[i].alarmed, end - done[i]].append(i)
        if not alike:
            return list(zip(moved, changes, strict=True))
        for (alarmed, n), places in alike.items():
            parts = [looks[i].part(done[i], done[i] + n) for i in places]
            walk = (IncidentWalk if alarmed else CalmWalk)([moved[i] for i in places], parts, rules)
            turned = walk.turned()
            last = np.where(turned.any(axis=1), turned.argmax(axis=1), n - 1)
            after = walk.at(last)
            for row, i in enumerate(places):
                moved[i] = after[row]
                if turned[row, last[row]]:
                    moved[i] = walk.turn(row, int(last[row]), moved[i])
                    if moved[i].status is not after[row].status:
                        state = moved[i]
                        changes[i].append(StatusTurn(state.status_s, state.status, state.certainty))
                done[i] += int(last[row]) + 1


def _end(state: EvidenceState, looks: Looks, start: int, rules: Rules) -> int:
    """Return where to stop: before a long silence, as then what follows starts over."""
    if len(looks.time_s) == start + 1:
        return start + 1
    time = np.r_[state.at_s, looks.time_s[start : start + _AT_ONCE]]
    quiet = np.diff(time) > SILENT_BUCKETS * rules.bucket_s
    block = rules.bucket_s * DAY_BUCKETS / 2
    begun = state.recent[1].from_s
    fresh = time[1:] >= (begun + block if time[1] < begun + block else time[1] + block)
    stops = np.flatnonzero((quiet | fresh)[1:])
    return start + (int(stops[0]) + 1 if stops.size else len(time) - 1)


def onset_of_fall(rows: Floats, count: Count, bucket_s: int) -> Onset | None:
    """
    Return when the fall that an alarm is about began.

    *rows*: sums of buckets (`bucket_sums`), shape (t, 7). The bucket in which *count* begins, what
    was counted since the change, is split there: a fall begins within a bucket too.
    """
    start_s, n, weight = rows[:, 0], rows[:, 1], rows[:, 2]
    worth = np.divide(n, weight, out=np.zeros_like(weight), where=weight > 0)
    passed = np.clip(rows[:, 4], 0, weight) * worth
    k = int(np.searchsorted(start_s, count.from_s, side="right")) - 1
    if k >= 0 and 0 < count.from_s - start_s[k] < bucket_s:
        since_n = float(np.clip(count.n - n[k + 1 :].sum(), 0, n[k]))
        since_passed = float(np.clip(
            count.rate * count.n - passed[k + 1 :].sum(),
            max(0.0, passed[k] - n[k] + since_n), min(passed[k], since_n),
        ))  # fmt: skip
        start_s = np.insert(start_s, k + 1, count.from_s)
        n, passed = np.insert(n, k + 1, since_n), np.insert(passed, k + 1, since_passed)
        n[k], passed[k] = n[k] - since_n, passed[k] - since_passed
    return find_onset(start_s, passed, n)


class CalmWalk(BetsWalk):
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
        self._old = stacked([state.bets for state in states])
        gains = np.concatenate([fall, line], axis=-1)
        self._log_r, self._gained = accumulate(self._old.log_r, gains, self.stakes)
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
        count = bets.since(lead)
        log_p = np.maximum(log_p - log_p.max(), LEAST_LOG_P)
        quasi = state.quasi
        if quasi is not None:
            closed = np.where(np.arange(CELLS) < BELOW, 0.0, NOTHING) if confirmed else 0.0
            quasi = quasi + LOG_PRIOR + closed
            quasi = np.maximum(quasi - quasi.max(), LEAST_LOG_P)
        top = self._top[row]
        bounds = [self.grid.upper(p, np.asarray(top)) for p in (log_p, quasi) if p is not None]
        bound = float(max(bounds))
        high = float(held(np.array(bound), np.array(count.rate), state.status, self.rules))
        # Whether samples depend on each other is not known of a young stream.
        sure = confirmed and state.baseline.effect_known
        return state.but(
            status=status_of(high, self.rules),
            certainty=Certainty.CONFIRMED if sure else Certainty.PROBABLE,
            status_s=now_s,
            count=count,
            incident_from_s=count.from_s,
            rises=Bets.none(2 * N_RISES, now_s),
            log_p=log_p,
            quasi=quasi,
            high=high,
        )


class IncidentWalk(BetsWalk):
    """Looks at streams in an incident."""

    def __init__(
        self, states: Sequence[EvidenceState], looks: Sequence[Looks], rules: Rules
    ) -> None:
        super().__init__(states, looks, rules)
        line = np.full((1, 1, 1), rules.warning_rate)
        self._line_old = Bets(
            *(column[:, LINE] for column in stacked([state.bets for state in states]))
        )
        gains = self.payoffs(line, self.grid.below)
        self._line_log_r, self._line_gained = accumulate(self._line_old.log_r, gains, self.stakes)
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
            held(bound, rate, Status.CRITICAL, rules),
            held(bound, rate, Status.WARNING, rules),
        )
        lines = np.repeat([rules.warning_rate, rules.critical_rate], N_RISES) - CLEAR_SLACK
        rises = 1.0 - (1.0 - lines) * (1.0 - np.tile(RISES, 2))
        gains = np.concatenate(
            [
                self.payoffs(np.full((1, 1, 1), lines[some][0]), rises[some], up=True)
                for some in (RECOVERED, EASED)
            ],
            axis=-1,
        )
        self._old = stacked([state.rises for state in states if state.rises is not None])
        self._log_r, self._gained = accumulate(self._old.log_r, gains, self.stakes)
        self._changed_again = self._new_span(rate)
        self._recovered = self._risen(RECOVERED, rules.warning_rate)
        self._eased = self._risen(EASED, rules.critical_rate) & critical

    def _risen(self, bets: slice, line: float) -> Bools:
        risen = log_mean(self._log_r[..., bets]) >= self.rules.log_clear
        if not risen.any():
            return np.asarray(risen)
        # The leading bet must have gained, and the rate since it began be above the threshold.
        lead = bets.start + self._log_r[..., bets].argmax(axis=-1)
        led = self._led(lead, self._old, self._log_r, self._gained)
        return np.asarray(risen & (led.passed >= line * led.size) & (led.gain >= CLEAR_GAIN))

    def _new_span(self, rate: Floats) -> Bools:
        """
        Return where the rate changed again: what was counted lies above the bound by now.

        The likeliest rate then has a later beginning, from which the figures count.
        """
        above = rate > self._high
        if not above.any():
            return np.asarray(above)
        lead = self._log_p[..., :BELOW].argmax(axis=-1)
        led = self._led(lead, self._line_old, self._line_log_r, self._line_gained)
        began = np.array([[state.count.from_s] for state in self.states])
        changed = above & (led.at_s > began) & (led.size > 0)
        return np.asarray(changed & (led.passed <= self._high * led.size))

    def _led(self, lead: NDArray[np.int64], old: Bets, log_r: Floats, gained: Floats) -> Bets:
        """Return what was counted since the *lead* bet of each look began."""
        row, look = np.arange(len(lead))[:, None], np.arange(lead.shape[1])
        return self.since(old, log_r, gained, row, look, lead)

    def turned(self) -> Bools:
        """Return at which looks a status turns, or evidence of a recovery is used up."""
        low = self._high < self.rules.critical_rate
        stays = (self._high < self.rules.warning_rate) & (low == self._critical)
        return np.asarray(~stays | self._recovered | self._eased | self._changed_again)

    def at(self, last: NDArray[np.int64]) -> list[EvidenceState]:
        """Return each state after its look *last*, the status unchanged."""
        found = self.bets_at(last, self._old, self._log_r, self._gained)
        line = self.bets_at(last, self._line_old, self._line_log_r, self._line_gained)
        states = []
        for row, look in enumerate(last):
            state = self.moved(row, int(look))
            bets = Bets(*(np.r_[a[FALL], b[row]] for a, b in zip(state.bets, line, strict=True)))
            sure = state.baseline.effect_known and (
                float(log_mean(bets.log_r[LINE])) >= line_threshold(state, self.rules)
            )
            states.append(
                state.but(
                    bets=bets,
                    rises=Bets(*(column[row] for column in found)),
                    log_p=np.maximum(self._log_p[row, look], LEAST_LOG_P),
                    high=float(self._high[row, look]),
                    certainty=Certainty.CONFIRMED if sure else state.certainty,
                )
            )
        for place, row in enumerate(self._sampled):
            log_q = np.maximum(self._log_q[place, last[row]], LEAST_LOG_P)
            states[row] = states[row].but(quasi=log_q)
        return states

    def turn(self, row: int, look: int, state: EvidenceState) -> EvidenceState:
        """Turn the status at a look, by the bound or by evidence of a recovery."""
        assert state.rises is not None
        status = status_of(state.high, self.rules)
        if status is Status.HEALTHY:
            return self._ended(state, state.count)
        if self._recovered[row, look]:
            return self._ended(state, state.rises.since(int(state.rises.log_r[RECOVERED].argmax())))
        turned = state if status is state.status else state.but(status=status, status_s=state.at_s)
        if self._changed_again[row, look]:
            assert state.log_p is not None
            lead = LINE.start + int(state.log_p[:BELOW].argmax())
            turned = turned.but(count=state.bets.since(lead))
        if status is not Status.CRITICAL or not self._eased[row, look]:
            return turned
        rises = state.rises
        none = Bets.none(2 * N_RISES, state.at_s)
        kept = Bets(*(np.r_[a[RECOVERED], b[EASED]] for a, b in zip(rises, none, strict=True)))
        count = rises.since(EASED.start + int(rises.log_r[EASED].argmax()))
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
        """Start over after an incident, and keep it out of what is normal."""
        span = ReferenceSpan(int(state.incident_from_s), int(state.at_s) + 1)
        keep_from_s = state.at_s - _REFERENCE_BUCKETS * self.rules.bucket_s
        kept = [old for old in state.incidents if old.to_s > keep_from_s]
        return state.but(
            incidents=(*kept, span)[-_MOST_INCIDENTS:],
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
