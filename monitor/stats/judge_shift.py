"""
Did the judge change, or the app? Old samples are judged again, once each, to tell the two apart.

While the judge is what it was, first and second verdict of a sample are exchangeable, whatever
the judge's noise and whatever the sample: "pass, then fail" is as likely as "fail, then pass". So
a bet on the order is a fair game at every look, and the mean difference is the judge's own shift on
this app's traffic. Both sides of a comparison made by today's judge show the app's shift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from monitor.stats.evidence import NOTHING, Floats, accumulate, log_mean

#: Shares of the stake that are bet on "second above first"; negative: below it.
_BETS: Final = np.array([-0.9, -0.6, -0.3, 0.3, 0.6, 0.9])
#: One false finding in so many pairs, on average, while the judge is what it was.
PAIRS_A_FALSE_FINDING: Final = 4_000.0
#: Two-sided 2.5 % for the judge; the app is not blamed lightly: 0.3 %.
_ERRORS, _MORE_ERRORS = 2.24, 3.0
#: A smaller shift is nobody's.
_LEAST_SHIFT: Final = 0.03


class Cause(StrEnum):
    """What moved a judged pass rate."""

    APP = "app"
    JUDGE = "judge"
    BOTH = "both"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class ShiftEvidence:
    """
    Evidence that a judge moved, over all pairs so far: a Shiryaev-Roberts sum of fair games.

    Theorem (see `monitor.stats.evidence`): while first and second verdicts are exchangeable, the
    expected number of pairs until `found` is at least `PAIRS_A_FALSE_FINDING`, however often one
    looks.
    """

    log_sums: tuple[float, ...] = (NOTHING,) * _BETS.size  #: one of each bet
    pairs: int = 0
    worse: int = 0  #: passed at first and fails now
    better: int = 0  #: the reverse

    def add(self, pairs: Sequence[tuple[bool, bool]]) -> ShiftEvidence:
        """Return the evidence after further pairs of (first, second) verdicts, in their order."""
        if not pairs:
            return self
        first_second = np.array(pairs, dtype=np.float64)
        gains = np.log1p(np.outer(first_second[:, 1] - first_second[:, 0], _BETS))
        before = np.maximum(self.log_sums, NOTHING)[None]
        sums = accumulate(before, gains[None], np.ones((1, len(pairs))))[0][0, -1]
        return ShiftEvidence(
            tuple(sums.tolist()),
            self.pairs + len(pairs),
            self.worse + sum(first and not second for first, second in pairs),
            self.better + sum(second and not first for first, second in pairs),
        )

    @property
    def found(self) -> bool:
        """Whether the judge moved."""
        return float(log_mean(np.array(self.log_sums))) >= math.log(PAIRS_A_FALSE_FINDING)

    @property
    def shift(self) -> float:
        """The judge's shift in [-1, 1], negative for a stricter judge; 0 without pairs."""
        return (self.better - self.worse) / self.pairs if self.pairs else 0.0


class Shift(NamedTuple):
    """A change of a pass rate, and its standard error."""

    change: float
    error: float


@dataclass(frozen=True, slots=True)
class ShiftAttribution:
    """Whose a change of a judged pass rate is."""

    cause: Cause
    judge: Shift
    app: Shift
    pairs: int = 0
    after: int = 0  #: verdicts since the change


def attribute_shift(
    first: Sequence[bool], second: Sequence[bool], after: Sequence[bool]
) -> ShiftAttribution:
    """
    Return whose a change of a judged pass rate is: the app's, the judge's, both or unclear.

    The judge's shift is the mean of second - first: the samples cancel. The app's is the mean of
    after - second: both are by today's judge, who cancels. Each must exceed 3 points, the judge's
    2.24 standard errors, the app's 3; and a judge that may have moved by as much as is seen is
    not cleared. Valid for independent samples and one look.

    *first* and *second*: verdicts on the same old samples, then and now; at least one. *after*:
    verdicts on the traffic since the change, by today's judge; at least one.

    Raise ValueError if there are none, or not as many first as second.

    >>> old = [True] * 95 + [False] * 5
    >>> attribute_shift(old, old, [True] * 70 + [False] * 30).cause
    <Cause.APP: 'app'>
    """
    if not first or not after or len(first) != len(second):
        raise ValueError("need pairs of verdicts on old samples, and verdicts since the change")
    then, now, new = (np.asarray(side, dtype=float) for side in (first, second, after))
    difference = now - then
    n = len(difference)
    judge = Shift(
        float(difference.mean()), math.sqrt(max(float(difference.var()), 1 / (n + 4)) / n)
    )
    app = Shift(float(new.mean() - now.mean()), math.sqrt(_variance(new) + _variance(now)))
    judge_moved = abs(judge.change) > max(_LEAST_SHIFT, _ERRORS * judge.error)
    app_moved = abs(app.change) > max(_LEAST_SHIFT, _MORE_ERRORS * app.error)
    cause = Cause.UNCLEAR
    if judge_moved and app_moved:
        cause = Cause.BOTH
    elif judge_moved and abs(app.change) < abs(judge.change) / 2 + app.error:
        cause = Cause.JUDGE
    elif app_moved and not judge_moved:
        hidden = abs(judge.change) + _MORE_ERRORS * judge.error >= abs(app.change)
        cause = Cause.UNCLEAR if hidden else Cause.APP
    return ShiftAttribution(cause, judge, app, n, len(new))


def _variance(side: Floats) -> float:
    """Return the variance of a mean; with half a sample more, a spread of 0 is not believed."""
    return max(float(side.var()), 0.5 / (len(side) + 4)) / len(side)
