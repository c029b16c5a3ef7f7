"""The evidence of a stream through a stretch of looks between two changes of its status."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.rolling.budget import Rules
from monitor.rolling.memory import Detector, Memory, Since
from monitor.stats.evidence import FALLS, Bets, bets, falls_below, follow, log_mean

Floats = NDArray[np.float64]

#: Shares by which fewer samples fail in a recovery.
RISES: Final = np.array([0.2, 0.35, 0.5, 0.65, 0.8])
#: Shares by which a rate that fell from its reference is below the warning line.
FALLS_BELOW_LINE: Final = np.array([0.05, 0.10, 0.25, 0.50, 0.85])
#: Where between line and reference a rate may settle and still be well.
SETTLES_AT: Final = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
#: A recovery is one to above the line less this.
CLEAR_SLACK: Final = 0.025
#: Part of the stakes placed when a bucket begins; the rest is placed as time goes by.
_STAKE_AT_BUCKET: Final = 0.5
DAY_BUCKETS: Final = 1440
_HOUR_S: Final = 3600
#: Without an alarm, and with one.
CALM: Final = (
    Detector.BELOW_WARNING,
    Detector.BELOW_CRITICAL,
    Detector.FALLEN,
    Detector.SETTLED,
)
_ALARMED: Final = (
    Detector.BELOW_WARNING,
    Detector.BELOW_CRITICAL,
    Detector.RECOVERED,
    Detector.EASED,
)


class Looks(NamedTuple):
    """
    What each look at a stream found since the one before, in the order of the looks.

    ``time_s`` in epoch seconds, never falling; ``n`` and ``passed`` what the new samples are
    worth if they were independent, 0 <= passed <= n; each of shape (t,).
    """

    time_s: Floats
    n: Floats
    passed: Floats

    def part(self, start: int, end: int | None = None) -> Looks:
        """Take some of the looks."""
        return Looks(*(column[start:end] for column in self))


class Walk:
    """The evidence after each of some looks, computed at once."""

    def __init__(self, memory: Memory, looks: Looks, rules: Rules) -> None:
        self.memory = memory
        self.looks = looks
        self._rules = rules
        self.detectors = _ALARMED if memory.alarmed else CALM
        self._rows = [int(detector) for detector in self.detectors]
        self._width = len(self._rows) * len(FALLS)
        effect = memory.baseline.effect
        passed, failed = looks.passed / effect, (looks.n - looks.passed) / effect
        self.n = np.cumsum(passed + failed)
        self.passed = np.cumsum(passed)
        path = follow(
            memory.log_r[self._rows].ravel(),
            self._bets(),
            passed=passed,
            failed=failed,
            stakes=self._stakes(),
        )
        self._log_r, self._gained = path
        shape = (len(looks.n), len(self._rows), len(FALLS))
        self._log_m = log_mean(path.log_r.reshape(shape))
        self.n_day = self._fading()

    def log_m(self, detector: Detector) -> Floats:
        """Give the log evidence of one detector after each look."""
        return np.asarray(self._log_m[:, self.detectors.index(detector)])

    def since_best(self, detector: Detector) -> tuple[Floats, Floats]:
        """
        Look at the bet that leads since its best moment, after each look.

        Gives the pass rate since then, 0 while there was no sample, and the log likelihood
        ratio that it gained.
        """
        path = self._path(detector)
        lowest = np.minimum.accumulate(np.vstack([np.zeros_like(path[:1]), path]), axis=0)
        points = np.vstack([np.zeros_like(path[:1]), path])
        begun = np.where(points <= lowest, np.arange(len(points))[:, None], 0)
        begun = np.maximum.accumulate(begun, axis=0)[1:]
        look = np.arange(len(path))
        leader = self._log_r[:, self._columns(detector)].argmax(axis=1)
        first = begun[look, leader]
        old = self.memory.since
        row = int(detector)
        before = np.maximum(first - 1, 0)
        n = self.n + np.where(first > 0, -self.n[before], old.n[row][leader])
        passed = self.passed + np.where(first > 0, -self.passed[before], old.passed[row][leader])
        rate = np.divide(passed, n, out=np.zeros_like(n), where=n > 0)
        return rate, path[look, leader] - lowest[look + 1, leader]

    def at(self, look: int) -> Memory:
        """Tell what is remembered after one of the looks, the status unchanged."""
        memory, rows = self.memory, self._rows
        log_r = memory.log_r.copy()
        log_r[rows] = self._log_r[look].reshape(len(rows), -1)
        return memory.but(
            at_s=float(self.looks.time_s[look]),
            owed=0.0,
            n=memory.n + float(self.n[look]),
            n_day=float(self.n_day[look]),
            log_r=log_r,
            since=self._since(look),
            spell_n=memory.spell_n + float(self.n[look]),
            spell_passed=memory.spell_passed + float(self.passed[look]),
        )

    def began_s(self, look: int, detector: Detector) -> float:
        """Tell since when the leading bet of a detector has gained, as of a look."""
        leader = int(self._log_r[look, self._columns(detector)].argmax())
        return float(self._since(look).at_s[int(detector), leader])

    def _since(self, look: int) -> Since:
        """Find the lowest point of each path so far: from there on its bet has gained most."""
        old = self.memory.since
        rows = self._rows
        path = self._gained[: look + 1] + old.gain[rows].ravel()
        # The last of several lowest points: the later, the less is counted that tells nothing.
        first = look - path[::-1].argmin(axis=0)
        column = np.arange(self._width)
        lower = path[first, column] <= 0.0
        new = [values.copy() for values in old]
        found = (
            path[look] - np.where(lower, path[first, column], 0.0),
            self.n[look] + np.where(lower, -self.n[first], old.n[rows].ravel()),
            self.passed[look] + np.where(lower, -self.passed[first], old.passed[rows].ravel()),
            np.where(lower, self.looks.time_s[first], old.at_s[rows].ravel()),
        )
        for values, value in zip(new, found, strict=True):
            values[rows] = value.reshape(len(rows), -1)
        return Since(*new)

    def _path(self, detector: Detector) -> Floats:
        return np.asarray(
            self._gained[:, self._columns(detector)] + self.memory.since.gain[int(detector)]
        )

    def _columns(self, detector: Detector) -> slice:
        start = self.detectors.index(detector) * len(FALLS)
        return slice(start, start + len(FALLS))

    def _stakes(self) -> Floats:
        before = np.concatenate([[self.memory.at_s], self.looks.time_s[:-1]])
        stakes = stakes_of(before, self.looks.time_s, self._rules.bucket_s)
        stakes[0] += self.memory.owed
        return stakes

    def _fading(self) -> Floats:
        age = (self.looks.time_s - self.memory.at_s) / (DAY_BUCKETS * self._rules.bucket_s)
        grown = np.exp(age)
        return np.asarray((self.memory.n_day + np.cumsum(self.looks.n * grown)) / grown)

    def _bets(self) -> Bets:
        table = _table(self.detectors, self._rules, self.memory.baseline.fallen_below)
        hours = len(table.on_pass)
        if hours == 1:
            return table
        hour = hour_of(self.looks.time_s, hours)
        return Bets(table.on_pass[hour], table.on_fail[hour])


def stakes_of(before_s: Floats, time_s: Floats, bucket_s: int) -> Floats:
    """Give the new bets of looks at *time_s*, in buckets that went by since *before_s*."""
    before, now = before_s / bucket_s, time_s / bucket_s
    buckets = np.floor(now) - np.floor(before)
    gone = np.maximum(now - before, 0.0)
    return np.asarray(_STAKE_AT_BUCKET * buckets + (1.0 - _STAKE_AT_BUCKET) * gone)


def hour_of(time_s: Floats, hours: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the place of each time in a course of *hours* values, 1 or 24."""
    return np.asarray((time_s // _HOUR_S).astype(np.int64) % hours)


# One takes 7 kB where the rate has a course of the day, and 0.1 ms to make.
@lru_cache(maxsize=2_048)
def _table(detectors: tuple[Detector, ...], rules: Rules, fallen_below: tuple[float, ...]) -> Bets:
    """Make the bets of some detectors, one row or one for each hour of the day."""
    limits = np.array(fallen_below)
    parts = [bet_of(detector, rules, limits) for detector in detectors]
    rows = max(1, limits.size)
    return Bets(
        *(
            np.concatenate(
                [np.broadcast_to(part[side], (rows, len(FALLS))) for part in parts], axis=1
            )
            for side in (0, 1)
        )
    )


def bet_of(detector: Detector, rules: Rules, limits: Floats) -> Bets:
    """Make the bets of one detector: (k,), or (limits, k) of those on a fall from a reference."""
    match detector:
        case Detector.FALLEN | Detector.SETTLED:
            return _reference_bet(detector, rules, limits)
        case Detector.BELOW_WARNING | Detector.BELOW_CRITICAL:
            line = _line(detector, rules)
            return bets(line, falls_below(line))
        case _:
            line = _line(detector, rules) - CLEAR_SLACK
            return bets(line, 1.0 - (1.0 - line) * (1.0 - RISES))


def _reference_bet(detector: Detector, rules: Rules, limits: Floats) -> Bets:
    if not limits.size:
        nothing = np.zeros((1, len(FALLS)))
        return Bets(nothing, nothing)
    line = rules.warning_rate
    if detector is Detector.FALLEN:
        below = np.broadcast_to(line * (1.0 - FALLS_BELOW_LINE), (limits.size, len(FALLS)))
        return bets(limits, below)
    return bets(limits, line + (limits[:, None] - line) * SETTLES_AT)


def _line(detector: Detector, rules: Rules) -> float:
    warning = detector in (Detector.BELOW_WARNING, Detector.RECOVERED)
    return rules.warning_rate if warning else rules.critical_rate
