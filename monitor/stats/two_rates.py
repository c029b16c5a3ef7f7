"""
Two sides compared: before and after, or case by case.

- sequential evidence about the difference of two pass rates, valid at every look
- a check of labels in pairs, in four looks, exact: sizes and powers are sums over all tables
- paired differences at one look: how far a mean fell, and whether that is noise

Sequential evidence. Samples come in blocks: some of each side, outcomes independent, rates p
(before) and q (after). A null is a half plane of drops, "p - q <= d" or "p - q >= d". A bet is a
pair of rates (a, b) outside the null, fixed before the block; (a*, b*) is the point of the null
that is nearest to it::

    payoff of the block = likelihood of (a, b) / likelihood of (a*, b*),
    (a*, b*) minimises  m KL(a | a*) + n KL(b | b*)  for m samples before and n after

Theorem [1]_. Under every (p, q) of the null the payoff has a mean of at most 1, whatever m and n.
So the product over blocks, and its average over bets, exceeds 1/alpha at any time with a
probability of at most alpha: one may look as often as one likes, and stop when one likes.

Proof. A pass before has the mean payoff 1 + x, x = (p - a*) (a - a*) / (a* (1 - a*)), and y is the
same of the side after. The block's mean is (1 + x)^m (1 + y)^n <= exp(m x + n y), and since
(a*, b*) is the minimum over a convex set, m x + n y <= 0 for every (p, q) in it.

References
----------
.. [1] R. J. Turner, A. Ly, P. Grünwald, "Generic E-variables for exact sequential k-sample tests
   that allow for optional stopping", Journal of Statistical Planning and Inference 230 (2024),
   arXiv 2106.02693; R. J. Turner, P. Grünwald, "Exact anytime-valid confidence intervals for
   contingency tables and beyond", Statistics and Probability Letters 198 (2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, stdtrit, xlogy

from monitor.stats.evidence import bernoulli_kl, log_mean, log_payoffs, samples_to_decide
from monitor.stats.intervals import binomial, log_choose

Floats = NDArray[np.float64]

#: Rates bet on, and those of a null, keep away from 0 and 1.
_LEAST: Final = 0.002
_EDGE: Final = 0.001
#: What the rate before is taken to be until samples say so, and for how many samples that counts.
_USUAL_RATE, _USUAL_N = 0.9, 4.0
_HALVINGS: Final = 50


class Blocks(NamedTuple):
    """Passes and samples of the two sides, in order, each of shape (k,); sizes may be 0."""

    passed_before: Floats
    n_before: Floats
    passed_after: Floats
    n_after: Floats


def drop_evidence(blocks: Blocks, *, above: float, bets: Sequence[float]) -> Floats:
    """
    Return the log evidence that the rate dropped by more than *above*.

    After each of k blocks, shape (k,): the logarithm of an e-process. The null is "the drop is at
    most *above*", in (-1, 1), and *bets* are drops above it; the rates around them are learned from
    earlier blocks. A block with samples of one side only says nothing.

    >>> block = Blocks(*(np.array([count]) for count in (95.0, 100.0, 70.0, 100.0)))
    >>> bool(drop_evidence(block, above=0.0, bets=[0.1, 0.2])[0] > np.log(50))
    True
    """
    return _log_evidence(blocks, above, np.maximum(np.asarray(bets, dtype=float), above))


def no_drop_evidence(blocks: Blocks, *, below: float, bets: Sequence[float]) -> Floats:
    """Return the log evidence that the drop is less than *below*; *bets* lie below it."""
    return _log_evidence(blocks, below, np.minimum(np.asarray(bets, dtype=float), below))


def _log_evidence(blocks: Blocks, null: float, drops: Floats) -> Floats:
    if not blocks.n_before.size:
        return np.zeros(0)
    s, m, r, n = (np.asarray(column, dtype=float)[:, None] for column in blocks)
    seen_s, seen_m, seen_r, seen_n = (np.cumsum(column, axis=0) - column for column in (s, m, r, n))
    base = (seen_s + seen_r + drops * seen_n + _USUAL_RATE * _USUAL_N) / (
        seen_m + seen_n + _USUAL_N
    )
    a = np.clip(base, np.maximum(drops, 0.0) + _LEAST, 1.0 - _LEAST + np.minimum(drops, 0.0))
    b = np.clip(a - drops, _LEAST, 1.0 - _LEAST)
    both = (m > 0) & (n > 0)
    t, u = _nearest(a, b, m, n, null)
    gains = xlogy(s, a / t) + xlogy(m - s, (1.0 - a) / (1.0 - t))
    gains += xlogy(r, b / u) + xlogy(n - r, (1.0 - b) / (1.0 - u))
    return log_mean(np.cumsum(np.where(both, gains, 0.0), axis=0))


def _nearest(a: Floats, b: Floats, m: Floats, n: Floats, null: float) -> tuple[Floats, Floats]:
    """Return the pair with a drop of *null* nearest to (a, b), for m and n samples."""
    low, high = np.minimum(a, b + null), np.maximum(a, b + null)
    for _ in range(_HALVINGS if null else 0):
        t = (low + high) / 2
        u = np.clip(t - null, _EDGE, 1.0 - _EDGE)
        t = np.clip(t, _EDGE, 1.0 - _EDGE)
        falls = m * (t - a) / (t * (1.0 - t)) + n * (u - b) / (u * (1.0 - u)) < 0
        low, high = np.where(falls, t, low), np.where(falls, high, t)
    t = (low + high) / 2 if null else (m * a + n * b) / np.maximum(m + n, 1e-300)
    return np.clip(t, _EDGE, 1.0 - _EDGE), np.clip(t - null, _EDGE, 1.0 - _EDGE)


def expected_gain(before: float, after: float, *, null: float, ratio: float) -> float:
    """
    Return the log evidence against a drop of *null* that a sample after brings at most, on average.

    *before* and *after* are pass rates that are supposed to go on, *null* the drop at the edge of
    the null, and *ratio*, above 0, the samples before for each one after.
    """
    pair = np.clip(np.array([[before], [after]]), _LEAST, 1.0 - _LEAST)
    t, u = _nearest(pair[:1], pair[1:], np.array([[ratio]]), np.array([[1.0]]), null)
    a, b = float(pair[0, 0]), float(pair[1, 0])
    return ratio * bernoulli_kl(a, float(t[0, 0])) + bernoulli_kl(b, float(u[0, 0]))


#: Common rates at which a table's p-value is taken; the largest counts.
_COMMON_RATES: Final = np.linspace(0.005, 0.995, 199)
_ROUNDING: Final = 1e-12


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

    *before* and *after*: whether each sample is good; what one side has more than the other
    waits.

    Source: R. D. Boschloo, "Raised conditional level of significance for the 2 x 2-table when
    testing the equality of two probabilities", Statistica Neerlandica 24 (1970), 1-9.

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
    for rate in _COMMON_RATES:
        chance = np.outer(binomial(n_before, rate), binomial(n_after, rate)).ravel()[order]
        most = np.maximum(most, chance.cumsum())
    ends = np.searchsorted(fisher[order], fisher[order] * (1 + 1e-9) + _ROUNDING, side="right") - 1
    found = np.empty(fisher.size)
    found[order] = np.minimum(1.0, most[ends])
    return found.reshape(n_before + 1, n_after + 1)


#: Shares that are bet on, against a half.
_MORE_THAN_HALF: Final = np.linspace(0.55, 0.95, 9)


class HalfFixed(NamedTuple):
    """
    Whether a change fixes more than half of what fails: explains, does not, or undecided.

    ``more`` pairs would decide it if they go on as so far; None where that cannot be said.
    """

    answer: Literal["explains", "does not", "undecided"]
    more: int | None


def half_fixed(fixed: int, not_fixed: int, *, alpha: float = 0.05) -> HalfFixed:
    """
    Decide by pairs, one after the other, whether a change fixes more than half of the failures.

    A pair is one question answered without and with the change; those that pass both times do not
    count. If each pair, given those before it, is fixed with a probability of at most a half, then
    the mean of the bets on more is a nonnegative martingale or less, and exceeds 1/alpha at any
    time with a probability of at most alpha (Ville). So one may look after each pair and stop. The
    same holds for "does not", with the sides exchanged.

    Valid for questions in random order; answers may depend on anything but later ones.

    Source: J. Ville, "Étude critique de la notion de collectif", Gauthier-Villars, 1939.

    >>> half_fixed(9, 0).answer, half_fixed(0, 9).answer, half_fixed(3, 3).answer
    ('explains', 'does not', 'undecided')
    """
    counts = np.array([[fixed, not_fixed], [not_fixed, fixed]], dtype=np.float64)
    explains, does_not = log_mean(log_payoffs(counts[0], counts[1], 0.5, _MORE_THAN_HALF))
    line = math.log(1.0 / alpha)
    if explains >= line:
        return HalfFixed("explains", 0)
    if does_not >= line:
        return HalfFixed("does not", 0)
    n = fixed + not_fixed
    share = (min(fixed, not_fixed) + 0.5) / (n + 1)
    leading = float(max(explains, does_not))
    return HalfFixed("undecided", samples_to_decide(share, 0.5, line - leading))


class PairedFall(NamedTuple):
    """A mean fall of *n* pairs; the truth is within *half_width* of it, at the level asked for."""

    n: int
    mean: float
    half_width: float


def paired_fall(differences: Sequence[float], *, alpha: float = 0.05) -> PairedFall:
    """
    Bound the mean of paired differences, before minus after, on each side.

    Student's interval for one mean: exact for normal differences, good from about 20 pairs for
    others. Valid for one look at independent pairs; each side misses with probability *alpha*.

    At least one difference; *alpha* is one-sided, in (0, 0.5). The half width is infinite for one
    pair, and 0 where all differences are equal.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908), 1-25.

    >>> fall = paired_fall([0.1, 0.2, 0.3])
    >>> round(fall.mean, 3), round(fall.half_width, 3)
    (0.2, 0.169)
    """
    values = np.asarray(differences, dtype=float)
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return PairedFall(1, mean, math.inf)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    error = 0.0 if error < 1e-9 else error  # noqa: PLR2004 - rounding
    return PairedFall(n, mean, float(stdtrit(n - 1, 1 - alpha)) * error)


def pairs_needed(fall: PairedFall, half_width: float) -> int | None:
    """Return about how many pairs narrow the bound to *half_width*; None if one pair is all."""
    if fall.n == 1:
        return None
    return math.ceil(fall.n * max(1.0, (fall.half_width / half_width) ** 2))


def sign_test(worse: int, better: int) -> float:
    """
    Return the probability of at least so many *worse* among all changes, if either is as likely.

    McNemar's exact test on one side; 1 for no change. Valid for independent pairs and one look.

    Source: Q. McNemar, "Note on the sampling error of the difference between correlated
    proportions or percentages", Psychometrika 12 (1947), 153-157.

    >>> sign_test(5, 0)
    0.03125
    """
    return float(betainc(worse, better + 1, 0.5)) if worse > 0 else 1.0
