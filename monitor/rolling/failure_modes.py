"""
Name the groups into which failures fall, by words that failures have and other answers lack.

No model and no language resources: a mode is a word, or a pair of words, that occurs in more
failures than chance allows, with the words that occur in the same failures.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson

#: Chance of naming any mode where failures have no words of their own.
FALSE_MODE_RATE = 0.05
_FEWEST_FAILURES = 5
_LENGTH_GROUPS = 8
#: Two words belong to one mode where so much of the rarer one's failures are the other's as well.
_SAME_FAILURES = 0.6
#: A word of so many passed answers says nothing in a pair of words.
_COMMON = 0.2
_MOST_NAMES = 3
_WORD = re.compile(r"[^\W_]+")


class ScoredText(NamedTuple):
    """What was asked, and what was wrong or, of an answer that passed, all that was said."""

    sample_id: str
    at: datetime
    text: str


class FailureMode(NamedTuple):
    """
    Failures that share words.

    ``name`` joins up to three of these words; ``n`` failures of ``n_failed`` belong to it, where
    ``expected`` would by chance; ``p_value`` bounds the chance of that over all words tested.
    ``growing`` says whether its share of all samples rose from the first to the second half of the
    time, at 5 % over all modes. ``examples`` are sample ids, the newest first.
    """

    name: str
    n: int
    n_failed: int
    expected: float
    p_value: float
    first_seen: datetime
    last_seen: datetime
    growing: bool
    examples: tuple[str, ...]


def failure_modes(
    failed: Sequence[ScoredText], passed: Sequence[ScoredText], *, most: int = 10
) -> list[FailureMode]:
    """
    Return the modes of *failed*, the largest first.

    A word's failures are compared with what samples of the same length would have if failing and
    passing answers used the same words: hypergeometric given the margins within each group of
    lengths, whose tail beyond the mean a Poisson tail bounds [1]_ [2]_. Bonferroni over the words
    keeps the chance of any mode at `FALSE_MODE_RATE` where there is none. The strongest word and
    those that occur in the same failures are one mode; the rest is tested again without its
    failures.

    Valid for independent samples. Each counts once, whatever its weight.

    References
    ----------
    .. [1] W. Hoeffding, "Probability inequalities for sums of bounded random variables", Journal of
       the American Statistical Association 58 (1963), 13-30, section 6.
    .. [2] T. W. Anderson, S. M. Samuels, "Some inequalities among binomial and Poisson
       probabilities", Fifth Berkeley Symposium, volume 1 (1967), 1-12.
    """
    if len(failed) < _FEWEST_FAILURES or not passed:
        return []
    words = _Words(failed, passed)
    left = np.ones(len(failed), dtype=bool)
    found: list[tuple[list[str], NDArray[np.int64], float, float]] = []
    while len(found) < most and (mode := words.strongest(left)):
        found.append(mode)
        left[mode[1]] = False
    half = _middle([each.at for each in (*failed, *passed)])
    late = sum(each.at >= half for each in (*failed, *passed)) / (len(failed) + len(passed))
    modes = []
    for names, members, expected, p_value in found:
        texts = sorted((failed[i] for i in members), key=lambda each: each.at, reverse=True)
        recent = sum(each.at >= half for each in texts)
        modes.append(
            FailureMode(
                name=" · ".join(names), n=len(texts), n_failed=len(failed), expected=expected,
                p_value=p_value, first_seen=texts[-1].at, last_seen=texts[0].at,
                growing=bool(binom.sf(recent - 1, len(texts), late) < 0.05 / len(found)),
                examples=tuple(each.sample_id for each in texts[:5]),
            )
        )  # fmt: skip
    return sorted(modes, key=lambda mode: -mode.n)


class _Words:
    """Which failures have which words, and what chance would give them."""

    def __init__(self, failed: Sequence[ScoredText], passed: Sequence[ScoredText]) -> None:
        texts = [_WORD.findall(each.text.lower()) for each in (*failed, *passed)]
        in_passed = Counter(w for words in texts[len(failed) :] for w in set(words))
        common = {word for word, n in in_passed.items() if n > _COMMON * len(passed)}
        terms = Counter(t for words in texts[: len(failed)] for t in _terms(words, common))
        tested = {term for term, n in terms.items() if n >= _FEWEST_FAILURES}
        holders: dict[str, list[int]] = defaultdict(list)
        for i, words in enumerate(texts):
            for term in tested.intersection(_terms(words, common)):
                holders[term].append(i)
        lengths = np.array([len(set(words)) for words in texts])
        edges = np.quantile(lengths, np.linspace(0, 1, _LENGTH_GROUPS + 1)[1:-1])
        self._group = np.searchsorted(edges, lengths)
        self._n_failed = len(failed)
        self._sizes = np.bincount(self._group, minlength=_LENGTH_GROUPS)
        self._holders = {term: np.array(at) for term, at in holders.items()}

    def strongest(
        self, left: NDArray[np.bool_]
    ) -> tuple[list[str], NDArray[np.int64], float, float] | None:
        """Return the words, failures, expected number and p-value of the strongest mode, if any."""
        gone = np.bincount(self._group[: self._n_failed][~left], minlength=_LENGTH_GROUPS)
        sizes = self._sizes - gone
        failing = np.bincount(self._group[: self._n_failed][left], minlength=_LENGTH_GROUPS)
        share = np.divide(failing, sizes, out=np.zeros(_LENGTH_GROUPS), where=sizes > 0)
        tested: list[tuple[float, float, str, NDArray[np.int64]]] = []
        n_tested = 0
        for term, at in self._holders.items():
            mine = at[at < self._n_failed]
            mine = mine[left[mine]]
            if len(mine) < _FEWEST_FAILURES:
                continue
            n_tested += 1
            others = at[at >= self._n_failed]
            held = np.bincount(
                self._group[np.concatenate((mine, others))], minlength=_LENGTH_GROUPS
            )
            expected = float(held @ share)
            if len(mine) > expected + 1:
                tested.append((float(poisson.logsf(len(mine) - 1, expected)), expected, term, mine))
        limit = np.log(FALSE_MODE_RATE / max(n_tested, 1))
        tested = sorted(each for each in tested if each[0] < limit) if tested else []
        if not tested:
            return None
        log_p, expected, lead, members = tested[0]
        same, inside = [lead], set(members.tolist())
        for _, _, other, at in tested[1:]:
            shared = len(inside.intersection(at.tolist()))
            if shared >= _SAME_FAILURES * min(len(at), len(inside)):
                inside.update(at.tolist())
                same.append(other)
        names: list[str] = []
        for term in sorted(same, key=lambda each: " " not in each):  # pairs say more than words
            if not any(word in kept.split() for kept in names for word in term.split()):
                names.append(term)
        p_value = min(1.0, float(np.exp(log_p)) * n_tested)
        return names[:_MOST_NAMES], np.array(sorted(inside)), expected, p_value


def _terms(words: Sequence[str], common: set[str]) -> Iterable[str]:
    """Return the words of a text and its pairs of neighbouring words that are not common."""
    pairs = (f"{a} {b}" for a, b in pairwise(words) if a not in common and b not in common)
    return {*(word for word in words if word not in common), *pairs}


def _middle(times: Sequence[datetime]) -> datetime:
    first, last = min(times), max(times)
    return first + (last - first) / 2
