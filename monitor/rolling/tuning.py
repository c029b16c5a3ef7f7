"""
The sample rate that follows the evidence: more where a fall is suspected, fewer where all is calm.

Theorem. Let the rate p_t of the next interaction be fixed by what came before it (predictable), and
let chance alone decide, with p_t, whether it is sampled. Then for every value y_t in [0, 1]

1. the weighted value 1{sampled} y_t / p_t has mean y_t given the past, so sums with weights 1 / p_t
   are unbiased however the rate moves (Horvitz-Thompson; a martingale around the true sum);
2. given the past, a sample that was taken has the same distribution as any interaction, so a bet
   whose stake is fixed beforehand pays on average what it pays at a constant rate: the evidence and
   its budget of false alarms hold as they are.

By the second part, evidence may count each sample in full, whatever the rate in force, and divides
only what a rule of the app adds (`RateSchedule.weight`): with the raw weights 1 / p_t a rate four
times as high would bring hardly more evidence. Shown figures of a window keep the weights 1 / p_t.

Not valid where the rate looks at the interaction itself: rules of the app do, and are weighted for.

Sources: D. G. Horvitz, D. J. Thompson, "A generalization of sampling without replacement from a
finite universe", JASA 47 (1952); T. Banerjee, V. V. Veeravalli, "Data-efficient quickest change
detection with on-off observation control", Sequential Analysis 31 (2012), which samples more where
the detector's statistic is high; I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random
variables by betting", JRSS B 86 (2024).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

from monitor.rolling.evidence_state import EvidenceState, log_evidence

_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
#: Part of the planned rate that is sampled while all is calm; the rest is saved for what is not.
_CALM: Final = 0.8
#: How many times the planned rate is sampled for a reason.
_MORE: Final = {"fall": 8.0, "young": 2.0, "release": 4.0, "incident": 1.0, "calm": _CALM}
_SAID: Final = {
    "fall": "a fall is suspected",
    "young": "evidence is young",
    "release": "release {} is new",
    "incident": "an incident is open",
    "calm": "all is calm",
    "spent": "the plan's samples are used up",
}
#: Log evidence, in scores that come meanwhile, from which and down to which a fall is suspected:
#: calm streams are above the first in 5 of 100 moments.
_SUSPECTED, _DISMISSED = 3.9, 2.9
#: How long a release is new.
_NEW_S: Final = 6 * _HOUR_S
#: Saved samples are at most those of a day; with a thirtieth of a month's less to spend, no 30 days
#: bring more than planned.
_SAVED_HOURS: Final = 24.0
_PAID: Final = 30 / 31
#: What is used up is used again from this part of a day's samples on.
_ENOUGH: Final = 0.25
#: Part of the rate that is left where a day's samples or more are overdrawn.
_OVERDRAWN: Final = 0.02
#: A rate that differs less stays as it is.
_SAME: Final = 1.25
#: Hooks pick a rate up within so long.
_FOLLOWED_S: Final = 60.0
#: A rate in force is met by a sample's probability but for rounding.
_EQUAL: Final = 1e-9


class TuningState(NamedTuple):
    """
    What an app's tuning remembers: the plan, and the part that is left.

    ``per_hour`` samples are planned, to watch ``metric``; ``saved`` are left of them, at most a
    day's. ``seen`` and ``sampled`` are the app's counters at ``at_s``, in epoch seconds;
    ``seen_per_hour`` its traffic, averaged over about a day; ``kind`` and ``rate`` are of the last
    decision.
    """

    metric: str
    per_hour: float
    saved: float
    at_s: float
    seen: int
    sampled: int
    seen_per_hour: float
    kind: str = "calm"
    rate: float = 0.0

    @classmethod
    def begin(
        cls, metric: str, *, per_hour: float, seen_per_hour: float, seen: int, sampled: int,
        now_s: float,
    ) -> Self:  # fmt: skip
        """Return the state of an app whose tuning begins, with a day's samples ahead."""
        saved = per_hour * _SAVED_HOURS
        return cls(metric, per_hour, saved, now_s, seen, sampled, seen_per_hour)

    def counted(self, *, seen: int, sampled: int, now_s: float) -> Self:
        """Return the state after what was seen and sampled since; both are counters that grow."""
        hours = max(0.0, now_s - self.at_s) / _HOUR_S
        came, taken = max(0, seen - self.seen), max(0, sampled - self.sampled)
        part = 1.0 - math.exp(-hours * _HOUR_S / _DAY_S)
        saved = self.saved + self.per_hour * _PAID * hours - taken
        return self._replace(
            saved=min(saved, self.per_hour * _SAVED_HOURS), at_s=max(now_s, self.at_s), seen=seen,
            sampled=sampled,
            seen_per_hour=self.seen_per_hour + part * (came / hours - self.seen_per_hour)
            if hours else self.seen_per_hour,
        )  # fmt: skip


class AppEvidence(NamedTuple):
    """
    What is known of an app.

    ``suspicion`` is in log evidence (`suspicion`); ``young``: there is no reference yet;
    ``release`` is the newest one and ``released_s`` when it came, in epoch seconds.
    """

    suspicion: float
    young: bool
    alarmed: bool
    release: str = ""
    released_s: float = -math.inf


class RateDecision(NamedTuple):
    """The rate to ask for, in [0, 1], and why; ``state`` remembers both."""

    rate: float
    reason: str
    state: TuningState


def suspicion(state: EvidenceState, *, per_hour: float, bucket_s: int) -> float:
    """
    Return the log evidence of a fall, beyond what quiet time brings.

    Bets begin with time, so sums are higher the fewer scores come in a bucket: the planned ones
    *per_hour*, or those of the last day if they are fewer.
    """
    per_hour = min(per_hour, state.n_day * _HOUR_S / _DAY_S)
    return log_evidence(state) + math.log(max(per_hour, 1e-9) * bucket_s / _HOUR_S)


def decide_rate(
    state: TuningState,
    evidence: AppEvidence,
    *,
    now_s: float,
    least: float = 0.0,
    most: float = 1.0,
) -> RateDecision:
    """
    Return the rate for what comes next; by the past alone, as the theorem above asks.

    The planned rate brings the planned samples an hour at the present traffic. Of it, calm takes
    0.8; a suspected fall 8 times, a new release 4 times and young evidence twice as much, while
    samples are saved. It is never below *least* nor above *most*, whatever else is so.
    """
    spent_below = state.per_hour * _SAVED_HOURS * _ENOUGH if state.kind == "spent" else 0.0
    line = _DISMISSED if state.kind == "fall" else _SUSPECTED
    kind = "calm"
    if evidence.alarmed:
        kind = "incident"
    elif evidence.suspicion >= line:
        kind = "fall"
    elif now_s - evidence.released_s < _NEW_S:
        kind = "release"
    elif evidence.young:
        kind = "young"
    if _MORE[kind] >= 1.0 and state.saved <= spent_below:
        kind = "spent"
    planned = state.per_hour / state.seen_per_hour if state.seen_per_hour > 0 else 1.0
    rate = planned * _MORE.get(kind, _CALM)
    # Traffic that jumped is known to its average a day later; what was overdrawn is paid back.
    rate *= min(1.0, max(1.0 + state.saved / (state.per_hour * _SAVED_HOURS), _OVERDRAWN))
    rate = min(max(rate, least), most, 1.0)
    is_same = kind == state.kind and state.rate / _SAME < rate < state.rate * _SAME
    if is_same and least <= state.rate <= most:
        rate = state.rate
    rate = float(f"{rate:.3g}")
    reason = _SAID[kind].format(evidence.release)
    return RateDecision(rate, reason, state._replace(kind=kind, rate=rate))


class RateSchedule(NamedTuple):
    """
    The rates that an app's hooks were asked for.

    ``from_s`` rises, in epoch seconds; from each on, ``rate`` was in force, ``factor`` times the
    app's own.
    """

    from_s: Sequence[float] = ()
    rate: Sequence[float] = ()
    factor: Sequence[float] = ()

    @classmethod
    def of(cls, asked: Iterable[tuple[float, float, float, float]]) -> Self:
        """Return the schedule of what was asked for: from, until, rate, and the app's own rate."""
        found: list[tuple[float, float, float]] = []
        ends_s = math.inf
        for from_s, until_s, rate, own in sorted(asked):
            if ends_s < from_s:
                found.append((ends_s, own, 1.0))
            found.append((from_s, rate, rate / own if own > 0 else 1.0))
            ends_s = until_s
        if found and ends_s < math.inf:
            found.append((ends_s, own, 1.0))
        return cls(*zip(*found, strict=True)) if found else cls()

    def weight(self, at_s: float, probability: float) -> float:
        """
        Return what a sample taken at *at_s* weighs as evidence: 1 / probability but for the tuning.

        A rate from a little before may still have been in force, as hooks follow in their own time.
        """
        place = bisect_right(self.from_s, at_s) - 1
        factor = self.factor[place] if place >= 0 else 1.0
        for i in range(place, -1, -1):
            if abs(self.rate[i] - probability) <= _EQUAL:
                factor = self.factor[i]
                break
            if self.from_s[i] < at_s - _FOLLOWED_S:
                break
        return factor / probability

    def least_factor(self, from_s: float, to_s: float) -> float:
        """Return the least factor in force from a little before *from_s* until *to_s*."""
        first = bisect_right(self.from_s, from_s - _FOLLOWED_S) - 1
        last = bisect_right(self.from_s, to_s)
        factors = [1.0] if first < 0 else []
        return min([*factors, *self.factor[max(first, 0) : last]])

    def rows(self, rows: Iterable[tuple[float, ...]], *, width_s: float) -> list[tuple[float, ...]]:
        """Return bucket sums (start, n, w, w2, wy, w2y, w2yy) as the evidence weighs them."""
        if not self.from_s:
            return list(rows)
        found: list[tuple[float, ...]] = []
        for start_s, n, w, w2, wy, w2y, w2yy in rows:
            # Of older times there are sums of whole hours.
            length_s = width_s if start_s % _HOUR_S else max(width_s, _HOUR_S)
            c = self.least_factor(start_s, start_s + length_s)
            found.append((start_s, n, c * w, c * c * w2, c * wy, c * c * w2y, c * c * w2yy))
        return found
