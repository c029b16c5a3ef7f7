"""
How much sooner a fall is found when the sample rate follows the evidence, at equal dollars.

Simulated streams of 600 requests an hour: two calm days at a pass rate of 0.92, then a fall. The
best fixed rate spends the plan evenly; the tuned one goes by `monitor.rolling.tuning`, decided each
minute. Both may take the same number of samples. ``--false-alarms`` counts alarms of healthy
streams while their rate moves, at a budget large enough to count.
"""

from typing import NamedTuple

import numpy as np
from common import print_head, print_row, script

from monitor.rolling.anytime import advance_all
from monitor.rolling.evidence_state import ALARMED, EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules
from monitor.rolling.tuning import AppEvidence, TuningState, decide_rate, suspicion
from monitor.stats.evidence import Floats

_SEEN, _STEP_S, _DAY_S, _CALM, _HEALTHY_DAYS = 600, 60.0, 86_400.0, 0.92, 10


class Outcome(NamedTuple):
    """What streams did: samples an hour while calm, hours until the alarm, alarms while calm."""

    per_hour: float
    delay_h: Floats
    false_alarms: int


class Streams:
    """Streams side by side, each with its own rate, which follows the evidence if *tuned*."""

    def __init__(self, n: int, planned: float, rules: Rules, seed: int, *, tuned: bool) -> None:
        self.rng, self.rules, self.planned = np.random.default_rng(seed), rules, planned
        self.tuned, self.now_s, self.ended = False, 0.0, np.zeros(n, bool)
        self.states = [EvidenceState.fresh(0.0)] * n
        self.rates = np.full(n, planned / _SEEN)
        self.seen, self.sampled = 0, np.zeros(n)
        for _ in range(48):
            self.step(_CALM, 3600.0)
        known = {"effect": 1.0, "effect_known": True, "rate": _CALM, "fallen_below": (0.90,)}
        self.fresh = [s.but(baseline=s.baseline._replace(**known)) for s in self.states]
        self.tuned, self.states = tuned, list(self.fresh)
        self.seen, self.sampled = 0, np.zeros(n)
        begun = TuningState.begin(
            "", per_hour=planned, seen_per_hour=_SEEN, seen=0, sampled=0, now_s=self.now_s
        )
        self.tunings = [begun] * n

    def step(self, rate: float, length_s: float = _STEP_S) -> Floats:
        """Let time pass; return when each stream raised an alarm."""
        if self.tuned:
            self._tune()
        self.rates[self.ended] = 0.0
        n = self.rng.binomial(int(_SEEN * length_s / 3600), self.rates)
        alarms, looks, some = np.full(len(n), np.inf), [], np.flatnonzero(n)
        for i in some:
            times = np.sort(self.now_s + self.rng.random(n[i]) * length_s)
            passed = (self.rng.random(n[i]) < rate) * 1.0
            looks.append(Looks(times, np.ones(n[i]), np.ones(n[i]), passed))
        moved = advance_all([self.states[i] for i in some], looks, self.rules)
        for i, (state, turns) in zip(some, moved, strict=True):
            self.states[i] = state
            alarms[i] = min((t.time_s for t in turns if t.status in ALARMED), default=np.inf)
        self.seen, self.sampled = self.seen + int(_SEEN * length_s / 3600), self.sampled + n
        self.now_s += length_s
        return alarms

    def _tune(self) -> None:
        """Decide all rates again, by what was seen so far."""
        for i, state in enumerate(self.states):
            known = self.tunings[i].counted(
                seen=self.seen, sampled=int(self.sampled[i]), now_s=self.now_s
            )
            suspected = suspicion(state, per_hour=self.planned, bucket_s=60)
            evidence = AppEvidence(suspected, young=False, alarmed=state.alarmed)
            decision = decide_rate(known, evidence, now_s=self.now_s)
            self.tunings[i], self.rates[i] = decision.state, decision.rate


def play(
    n: int, planned: float, after: float, *, tuned: bool, calm_days: float, seed: int,
    budget: float = 0.1,
) -> Outcome:  # fmt: skip
    """Run streams through calm days and one fall; with *after* the calm rate there is none."""
    rules = Rules(false_alarms_per_month=budget)
    streams = Streams(n, planned, rules, seed, tuned=tuned)
    false_alarms = 0
    for _ in range(int(calm_days * _DAY_S / _STEP_S)):
        for i in np.flatnonzero(np.isfinite(streams.step(_CALM))):
            false_alarms += 1
            streams.states[i] = streams.fresh[i].but(at_s=streams.now_s)
    per_hour, began_s = float(streams.sampled.mean() / (calm_days * 24)), streams.now_s
    delay = np.full(n, np.inf)
    while after < _CALM and np.isinf(delay).any() and streams.now_s - began_s < 10 * _DAY_S:
        alarms = streams.step(after)
        new = np.isfinite(alarms) & np.isinf(delay)
        delay[new] = (alarms[new] - began_s) / 3600
        streams.ended |= new
    return Outcome(per_hour, delay, false_alarms)


@script
def main(*, streams: int = 40, false_alarms: bool = False) -> None:
    """Print one of both tables."""
    if false_alarms:
        print_head("rate", "false alarms a month", "samples an hour")
        for tuned, name in ((False, "fixed"), (True, "tuned")):
            calm = play(
                streams, 30, _CALM, tuned=tuned, calm_days=_HEALTHY_DAYS, seed=7, budget=2.0
            )
            a_month = calm.false_alarms / streams * 30 / _HEALTHY_DAYS
            print_row(name, f"{a_month:.2f}", f"{calm.per_hour:.1f}")
        return
    print_head("planned an hour", "fall to", "fixed, h", "tuned, h", "less", "samples, calm")
    for planned, after in ((30, 0.77), (30, 0.60), (10, 0.70), (60, 0.80)):
        fixed, tuned = (
            play(streams, planned, after, tuned=each, calm_days=2, seed=planned)
            for each in (False, True)
        )
        medians = [float(np.median(each.delay_h)) for each in (fixed, tuned)]
        less, spent = 1.0 - medians[1] / medians[0], tuned.per_hour / fixed.per_hour
        print_row(planned, after, *(f"{m:.2f}" for m in medians), f"{less:.0%}", f"{spent:.2f}")
