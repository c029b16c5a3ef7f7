"""Many streams, one look each: the usual case of an evaluation, computed at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.models import Status
from monitor.rolling.anytime import (
    LOG_ODDS,
    Change,
    advance,
    idle,
    is_doubtful,
    is_known,
    thresholds,
)
from monitor.rolling.budget import Rules
from monitor.rolling.evidence_walk import CALM, DAY_BUCKETS, Looks, bet_of, hour_of, stakes_of
from monitor.rolling.memory import Detector, Memory, Since
from monitor.stats.evidence import FALLS, Bets, log_mean

Floats = NDArray[np.float64]
_ROWS: Final = [int(detector) for detector in CALM]


def advance_all(
    memories: Sequence[Memory], looks: Sequence[Looks], rules: Rules
) -> list[tuple[Memory, list[Change]]]:
    """
    Take many streams through their looks, each as `advance` would; far faster.

    Streams that are well, stay so and bring one look go together; every other goes alone.

    Parameters
    ----------
    memories, looks
        Of each stream, of one length.
    rules
        Of all of them.

    Returns
    -------
    list of tuple
        Memory and changes of each stream.
    """
    found: dict[int, tuple[Memory, list[Change]]] = {}
    usual = [
        place
        for place, (memory, look) in enumerate(zip(memories, looks, strict=True))
        if _is_usual(memory, look, rules)
    ]
    if usual:
        step = _Step([memories[i] for i in usual], [looks[i] for i in usual], rules)
        for i, memory in zip(usual, step.after(), strict=True):
            if memory is not None:
                found[i] = memory, []
    return [
        found.get(i) or advance(memory, look, rules)
        for i, (memory, look) in enumerate(zip(memories, looks, strict=True))
    ]


def _is_usual(memory: Memory, look: Looks, rules: Rules) -> bool:
    if memory.alarmed or len(look.n) != 1:
        return False
    return not idle(memory, float(look.time_s[0]), rules)[1]


class _Step:
    """One look at each of some streams without an alarm; s streams, d detectors, k bets."""

    def __init__(self, memories: Sequence[Memory], looks: Sequence[Looks], rules: Rules) -> None:
        self._memories, self._rules = memories, rules
        joined = (np.concatenate(column) for column in zip(*looks, strict=True))
        self._time, counted, passed = joined
        effect = _numbers(memory.baseline.effect for memory in memories)
        self._effect = effect
        self._passed, failed = passed / effect, (counted - passed) / effect
        self._n = self._passed + failed
        bet = self._bets()
        self._gained = (
            self._passed[:, None, None] * bet.on_pass + failed[:, None, None] * bet.on_fail
        )
        at = _numbers(memory.at_s for memory in memories)
        stakes = stakes_of(at, self._time, rules.bucket_s)
        stakes += _numbers(memory.owed for memory in memories)
        with np.errstate(divide="ignore"):
            begun = np.log(stakes)[:, None, None]
        old = np.stack([memory.log_r for memory in memories])[:, _ROWS]
        self._log_r = self._gained + np.logaddexp(begun, old)
        grown = np.exp((self._time - at) / (DAY_BUCKETS * rules.bucket_s))
        n_day = _numbers(memory.n_day for memory in memories)
        self._n_day = (n_day + counted * grown) / grown
        self._spell_n = self._n + _numbers(memory.spell_n for memory in memories)
        self._spell_passed = self._passed + _numbers(memory.spell_passed for memory in memories)

    def after(self) -> list[Memory | None]:
        """Give the memory of each stream; None of one whose status turns."""
        turned = self._turned()
        since = self._since()
        found: list[Memory | None] = []
        for i, memory in enumerate(self._memories):
            if turned[i]:
                found.append(None)
                continue
            log_r = memory.log_r.copy()
            log_r[_ROWS] = self._log_r[i]
            new = [values.copy() for values in memory.since]
            for values, value in zip(new, since, strict=True):
                values[_ROWS] = value[i]
            found.append(
                memory.but(
                    at_s=float(self._time[i]),
                    owed=0.0,
                    n=memory.n + float(self._n[i]),
                    n_day=float(self._n_day[i]),
                    log_r=log_r,
                    since=Since(*new),
                    spell_n=float(self._spell_n[i]),
                    spell_passed=float(self._spell_passed[i]),
                )
            )
        return found

    def _turned(self) -> NDArray[np.bool_]:
        log_m = dict(zip(CALM, np.moveaxis(log_mean(self._log_r), 1, 0), strict=True))
        limits = [thresholds(memory, self._rules) for memory in self._memories]
        below = _numbers(limit[Detector.BELOW_WARNING] for limit in limits)
        fallen = _numbers(limit[Detector.FALLEN] for limit in limits)
        healthy = np.array([memory.status is Status.HEALTHY for memory in self._memories])
        odds = log_m[Detector.FALLEN] - log_m[Detector.SETTLED]
        counts = self._spell_n * self._effect, self._spell_passed * self._effect
        well = is_known(self._n_day, self._rules, healthy=healthy)
        well &= ~is_doubtful(*counts, self._rules, healthy=healthy)
        return np.asarray(
            (log_m[Detector.BELOW_WARNING] >= below)
            | ((log_m[Detector.FALLEN] >= fallen) & (odds >= LOG_ODDS))
            | (well != healthy)
        )

    def _since(self) -> Since:
        """Begin anew each bet that gained nothing since its best moment."""
        old = Since(
            *(
                np.stack(column)[:, _ROWS]
                for column in zip(*(memory.since for memory in self._memories), strict=True)
            )
        )
        gain = self._gained + old.gain
        anew = gain <= 0.0
        n, passed, time = (x[:, None, None] for x in (self._n, self._passed, self._time))
        return Since(
            np.where(anew, 0.0, gain),
            np.where(anew, 0.0, n + old.n),
            np.where(anew, 0.0, passed + old.passed),
            np.where(anew, time, old.at_s),
        )

    def _bets(self) -> Bets:
        """Make the bets of all, of shape (s, d, k); without a reference nothing is bet on it."""
        courses = [memory.baseline.fallen_below or (np.nan,) for memory in self._memories]
        size = np.array([len(course) for course in courses])
        hour = hour_of(self._time, size)
        limits = _numbers(course[i] for course, i in zip(courses, hour, strict=True))
        known = ~np.isnan(limits)
        sides = np.zeros((2, len(CALM), limits.size, len(FALLS)))
        for row, detector in enumerate(CALM):
            if detector not in (Detector.FALLEN, Detector.SETTLED):
                sides[:, row] = np.stack(bet_of(detector, self._rules, limits))[:, None]
            elif known.any():
                sides[:, row, known] = np.stack(bet_of(detector, self._rules, limits[known]))
        on_pass, on_fail = sides.swapaxes(1, 2)
        return Bets(on_pass, on_fail)


def _numbers(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
