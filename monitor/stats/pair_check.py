"""
Did the pass rate fall? An exact test of labels from before and after, in four looks.

Labels come in pairs, one of each side, drawn at random. At 10, 20, 30 and 50 pairs Boschloo's
one-sided test answers, or the check goes on; where "before" is not ahead it gives up early.
Everything here is exact: sizes and powers are sums over all tables, not simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from monitor.stats.intervals import Floats, binomial, log_choose

#: Common rates at which a table's p-value is taken; the largest counts.
_RATES: Final = np.linspace(0.005, 0.995, 199)
_TINY: Final = 1e-12


class Look(NamedTuple):
    """A look after so many pairs."""

    pairs: int
    level: float  #: a p-value up to this says "worse"
    least_ahead: int | None  #: by how many passes "before" must lead to go on; None: the last look


#: Their levels add up to 6.5 %, but looks hang together, and with giving up the size is 3.9 %.
LOOKS: Final = (Look(10, 0.010, 0), Look(20, 0.015, 1), Look(30, 0.020, 3), Look(50, 0.020, None))


class CheckAnswer(StrEnum):
    """What a check found."""

    WORSE = "worse"
    NO_CHANGE = "no change seen"
    GO_ON = "go on"


class PairCheck(NamedTuple):
    """The answer, and what it is based on."""

    answer: CheckAnswer
    pairs: int  #: used; later ones were not needed
    good_before: int
    good_after: int
    p_value: float | None  #: of the last look; None before the first
    next_look: int | None  #: pairs needed to go on; None once it is decided


class Power(NamedTuple):
    """How often a check says "worse", and how many labels of both sides it needs on average."""

    worse: float
    mean_labels: float


def check_pairs(before: Sequence[bool], after: Sequence[bool]) -> PairCheck:
    """
    Go through labels of both sides, in the order in which they were drawn.

    Valid for samples drawn at random from before and from after, whoever labels them, blind to
    the side; not for samples chosen by their scores. Labels may come one by one: the answer
    changes at looks only, and a decided check stays decided. The probability of "worse" is at
    most 3.9 % at equal rates, whatever the rate.

    Parameters
    ----------
    before, after
        Whether each sample is good; what one side has more than the other waits.

    Returns
    -------
    PairCheck
        Its ``answer`` is "worse", "no change seen" or "go on".

    References
    ----------
    .. [1] R. D. Boschloo, "Raised conditional level of significance for the 2 x 2-table when
       testing the equality of two probabilities", Statistica Neerlandica 24 (1970), 1-9.

    Examples
    --------
    >>> check_pairs([True] * 10, [False] * 10).answer
    <CheckAnswer.WORSE: 'worse'>
    >>> check_pairs([True] * 9, [False] * 9).next_look
    10
    """
    found = PairCheck(CheckAnswer.GO_ON, 0, 0, 0, None, LOOKS[0].pairs)
    for number, look in enumerate(LOOKS):
        if min(len(before), len(after)) < look.pairs:
            return found._replace(next_look=look.pairs)
        good = sum(map(bool, before[: look.pairs])), sum(map(bool, after[: look.pairs]))
        p_value = float(p_values(look.pairs, look.pairs)[good])
        answer, following = CheckAnswer.GO_ON, None
        if p_value <= look.level:
            answer = CheckAnswer.WORSE
        elif look.least_ahead is None or good[0] - good[1] < look.least_ahead:
            answer = CheckAnswer.NO_CHANGE
        else:
            following = LOOKS[number + 1].pairs
        found = PairCheck(answer, look.pairs, *good, p_value, following)
        if answer is not CheckAnswer.GO_ON:
            break
    return found


def power(before: float, after: float) -> Power:
    """
    Return how often a check says "worse" at these true rates, and its mean number of labels.

    Exact: the sum over all ways in which labels can come.

    Examples
    --------
    >>> found = power(0.95, 0.70)
    >>> round(found.worse, 2), round(found.mean_labels)
    (0.9, 57)
    """
    alive, seen, worse, labels = np.ones((1, 1)), 0, 0.0, 0.0

    def steps(more: int, rate: float) -> Floats:
        """Return how passes go from 0..seen to 0..seen+more, as a matrix of probabilities."""
        chances = binomial(more, rate)
        return np.stack([np.pad(chances, (start, seen - start)) for start in range(seen + 1)])

    for look in LOOKS:
        more = look.pairs - seen
        alive = steps(more, before).T @ alive @ steps(more, after)
        labels += 2 * more * float(alive.sum())
        seen = look.pairs
        rejected = p_values(seen, seen) <= look.level
        worse += float(alive[rejected].sum())
        ahead = np.subtract.outer(np.arange(seen + 1), np.arange(seen + 1))
        over = rejected | (ahead < (seen + 1 if look.least_ahead is None else look.least_ahead))
        alive = np.where(over, 0.0, alive)
    return Power(worse, labels)


@lru_cache(maxsize=16)
def p_values(n_before: int, n_after: int) -> Floats:
    """
    Return Boschloo's one-sided p-values of all tables, of shape (n_before + 1, n_after + 1).

    The entry [i, j] is for i good before and j good after: the largest probability, over all
    common rates, of a table at least as extreme by Fisher's exact p-value. One look, sizes fixed.
    """
    table = np.ones((n_before + 1, n_after + 1))  # p-values of Fisher's exact test
    for total in range(n_before + n_after + 1):
        good = np.arange(max(0, total - n_after), min(total, n_before) + 1)
        ways = log_choose(n_before, good) + log_choose(n_after, total - good)
        logs = ways - log_choose(n_before + n_after, np.array([total]))
        table[good, total - good] = np.exp(logs)[::-1].cumsum()[::-1]
    fisher = table.ravel()
    order = np.argsort(fisher, kind="stable")
    most = np.zeros(fisher.size)
    for rate in _RATES:
        chance = np.outer(binomial(n_before, rate), binomial(n_after, rate)).ravel()[order]
        most = np.maximum(most, chance.cumsum())
    ends = np.searchsorted(fisher[order], fisher[order] * (1 + 1e-9) + _TINY, side="right") - 1
    found = np.empty(fisher.size)
    found[order] = np.minimum(1.0, most[ends])
    return found.reshape(n_before + 1, n_after + 1)
