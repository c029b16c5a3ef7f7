"""
Why answers fail, by the words of the samples: the cause of a fall, what changed, failure modes.

No model and no language resources. Each failing sample belongs to one cause, by the words that its
question shares with earlier questions and with its contexts; the cause whose failures grew explains
a fall. A failure mode is a word, or a pair of words, that occurs in more failures than chance
allows, with the words that occur in the same failures.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson

from monitor.models.insight import ComponentChange, ScoredExchange
from monitor.rolling.component_changes import component_changes
from monitor.stats.intervals import newcombe_interval


class Faults(NamedTuple):
    """
    What the samples say of a fall.

    ``blame`` is None with fewer than 30 samples on either side; ``components`` changed meanwhile,
    the likeliest to have brought the fall first. ``modes`` are of the samples after.
    """

    n_before: int
    n_after: int
    n_failed: int
    blame: Blame | None
    components: tuple[ComponentChange, ...]
    modes: tuple[FailureMode, ...]


def find_faults(before: Sequence[ScoredExchange], after: Sequence[ScoredExchange]) -> Faults:
    """Compare the samples of two times; failure modes are of the later ones."""
    sides = [
        [
            Exchange(s.interaction.query or "", [c.text for c in s.interaction.contexts], s.passed)
            for s in side
        ]
        for side in (before, after)
    ]
    found = blame(*sides)
    texts = [ScoredText.of(each) for each in after]
    failed = [text for text, each in zip(texts, after, strict=True) if not each.passed]
    passed = [text for text, each in zip(texts, after, strict=True) if each.passed]
    return Faults(
        n_before=len(before),
        n_after=len(after),
        n_failed=len(failed),
        blame=found,
        components=tuple(component_changes(before, after, found.cause if found else "")),
        modes=tuple(failure_modes(failed, passed)),
    )


CAUSES = ("traffic", "retrieval", "generation")
#: Samples of either side from which a fall is explained at all.
LEAST_SAMPLES = 30
_RESAMPLED = 1_000
_CONFIDENCE = 0.95
#: A question is unfamiliar below this quantile of earlier ones.
_UNFAMILIAR = 0.1
#: Contexts of other questions must miss a question so much more often than its own (Youden's J),
#: or they say nothing of the retrieval.
_LEAST_INFORMED = 0.5
#: Words of so many questions say nothing of what is asked.
_COMMON = 0.2
#: A word counts by its beginning, so that its forms are one in most languages.
_STEM_CHARS = 6
_STEM = re.compile(r"[^\W_]{2,}")


class Exchange(NamedTuple):
    """A scored sample: what was asked, what was retrieved, and whether the answer passed."""

    question: str
    contexts: Sequence[str]
    passed: bool


class BlameShare(NamedTuple):
    """
    What one cause adds to the fall of the pass rate, in [-1, 1], with its 90 % Newcombe interval.

    ``before`` and ``after`` are the shares of all samples that fail for this cause.
    """

    cause: str
    before: float
    after: float
    low: float
    high: float


class Blame(NamedTuple):
    """
    A fall and its cause: one of `CAUSES`, "unclear", or "no fall" where it may be chance.

    ``reason`` says in a sentence why it is unclear; else it is empty.
    """

    cause: str
    shares: tuple[BlameShare, ...]
    reason: str = ""


def blame(before: Sequence[Exchange], after: Sequence[Exchange]) -> Blame | None:
    """
    Return what the fall of the pass rate is due to; None with fewer than 30 samples on either side.

    A failing sample is due to *traffic* where its question shares fewer words with earlier
    questions than nine in ten of them do; else to *retrieval* where no context holds enough of the
    question; else to *generation*. "Enough" is the cut that best separates earlier questions' own
    contexts from those of other questions; contexts with which the same question passed earlier
    hold enough, whatever their words. A cause is named where its growth is more than half of
    the fall, with 95 % confidence by the bootstrap. Where no cut separates, generation is named
    only if failures with contexts that sufficed earlier are alone more than half of the fall.
    Whether the judge changed has to be known beforehand: that looks like generation.

    Source: B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall,
    1993, chapter 13.
    """
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return None
    words = _Vocabulary(before)
    causes = [words.causes(before, own=1), words.causes(after, own=0)]
    counts = [np.bincount(each, minlength=len(CAUSES) + 1) for each in causes]
    rng = np.random.default_rng(len(before) + len(after))
    rates = [rng.multinomial(n.sum(), n / n.sum(), _RESAMPLED) / n.sum() for n in counts]
    grown = (rates[1] - rates[0])[:, :-1]
    falls = grown.sum(axis=1)
    sizes = len(before), len(after)
    shares = tuple(
        BlameShare(
            cause, was / sizes[0], now / sizes[1],
            *newcombe_interval((was, sizes[0]), (now, sizes[1]), alpha=0.1),
        ) for cause, was, now in zip(CAUSES, *(n.tolist() for n in counts), strict=False)
    )  # fmt: skip
    if np.quantile(falls, 0.05) <= 0:
        return Blame("no fall", shares)
    sure = np.mean(2 * grown > falls[:, None], axis=0) >= _CONFIDENCE
    if not sure.any():
        return Blame("unclear", shares, "no cause explains more than half of the fall")
    cause = CAUSES[int(np.argmax(sure))]
    proven = sum(not each.passed and words.sufficed(each) for each in after) / len(after)
    is_proven = cause == "generation" and 2 * proven > np.quantile(falls, _CONFIDENCE)
    if cause == "traffic" or words.informed or is_proven:
        return Blame(cause, shares)
    reason = (
        "the words of the questions do not tell their contexts from others, and too few failed"
        " with contexts with which they passed before"
    )
    return Blame("unclear", shares, reason)


class _Vocabulary:
    """The words of earlier questions, and what share of them contexts usually hold."""

    def __init__(self, before: Sequence[Exchange]) -> None:
        self._asked = Counter(stem for each in before for stem in _stems(each.question))
        self._common = {stem for stem, n in self._asked.items() if n > _COMMON * len(before)}
        familiar = [self._familiarity(each.question, own=1) for each in before]
        self._least_familiar = float(np.quantile(familiar, _UNFAMILIAR))
        own = np.array([self._held(each.question, each.contexts) for each in before])
        shuffled = np.random.default_rng(len(before)).permutation(len(before))
        others = np.array([
            self._held(each.question, before[other].contexts)
            for each, other in zip(before, shuffled, strict=True)
        ])  # fmt: skip
        cuts = np.unique(np.concatenate((own, others)))
        gains = [float((others < cut).mean() - (own < cut).mean()) for cut in cuts]
        best = int(np.argmax(gains))
        self._least_held, self.informed = float(cuts[best]), gains[best] >= _LEAST_INFORMED
        self._passed = {(each.question, *each.contexts) for each in before if each.passed}

    def causes(self, side: Sequence[Exchange], *, own: int) -> NDArray[np.int64]:
        """Return the place of each sample's cause in `CAUSES`; one beyond for those that passed."""
        found = []
        for each in side:
            if each.passed:
                found.append(len(CAUSES))
            elif self._familiarity(each.question, own=own) < self._least_familiar:
                found.append(0)
            else:
                holds = self._held(each.question, each.contexts) >= self._least_held
                found.append(2 if holds or self.sufficed(each) else 1)
        return np.array(found)

    def sufficed(self, each: Exchange) -> bool:
        """Return whether the same question passed earlier with the same contexts."""
        return bool(each.contexts) and (each.question, *each.contexts) in self._passed

    def _familiarity(self, question: str, *, own: int) -> float:
        """Return the share of a question's words that other, earlier questions have."""
        words = _stems(question)
        return sum(self._asked[word] > own for word in words) / len(words) if words else 1.0

    def _held(self, question: str, contexts: Sequence[str]) -> float:
        """Return the share of a question's telling words that its best context has."""
        words = _stems(question) - self._common
        if not words:
            return 1.0
        return max((len(words & _stems(text)) / len(words) for text in contexts), default=0.0)


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in _STEM.findall(text.lower())}


#: Chance of naming any mode where failures have no words of their own.
FALSE_MODE_RATE = 0.05
_FEWEST_FAILURES = 5
_LENGTH_GROUPS = 8
#: Two words belong to one mode where so much of the rarer one's failures are the other's as well.
_SAME_FAILURES = 0.6
#: A word of so many passed answers says nothing in a pair of words.
_COMMON_IN_PASSED = 0.2
_MOST_NAMES = 3
_WORD = re.compile(r"[^\W_]+")


class ScoredText(NamedTuple):
    """What was asked, and what was wrong or, of an answer that passed, all that was said."""

    sample_id: str
    at: datetime
    text: str

    @classmethod
    def of(cls, sample: ScoredExchange) -> Self:
        """Return the question with the claims that are wrong, or else with the whole answer."""
        listed = (sample.evaluation.metadata or {}).get("claims")
        claims = listed if isinstance(listed, list) and not sample.passed else []
        wrong_ones = {"not_found", "undecided", "unverified", "contradicted", "wrong_refusal"}
        wrong = [
            str(each.get("text"))
            for each in claims
            if isinstance(each, dict) and each.get("verdict") in wrong_ones
        ]
        said = wrong or [sample.interaction.output]
        text = " ".join([sample.interaction.query or "", *said])
        return cls(sample.sample_id, sample.at, text)


class FailureMode(NamedTuple):
    """
    Failures that share words.

    ``name`` joins up to three of these words; ``n`` failures of ``n_failed`` belong to it, where
    ``expected`` would by chance; ``p_value`` bounds the chance of that over all words tested.
    ``growing`` says whether its share of all samples rose from the first to the second half of the
    time, at 5 % over all modes. ``sample_ids`` are those of the failures, the newest first.
    """

    name: str
    n: int
    n_failed: int
    expected: float
    p_value: float
    first_seen: datetime
    last_seen: datetime
    growing: bool
    sample_ids: tuple[str, ...]

    @property
    def examples(self) -> tuple[str, ...]:
        """The newest five."""
        return self.sample_ids[:5]


def failure_modes(
    failed: Sequence[ScoredText], passed: Sequence[ScoredText], *, most: int = 10
) -> list[FailureMode]:
    """
    Return the modes of *failed*, the largest first.

    A word's failures are compared with what samples of the same length would have if failing and
    passing answers used the same words: hypergeometric given the margins within each group of
    lengths, whose tail beyond the mean a Poisson tail bounds. Bonferroni over the words
    keeps the chance of any mode at `FALSE_MODE_RATE` where there is none. The strongest word and
    those that occur in the same failures are one mode; the rest is tested again without its
    failures.

    Valid for independent samples. Each counts once, whatever its weight.

    Sources: W. Hoeffding, "Probability inequalities for sums of bounded random variables",
    Journal of the American Statistical Association 58 (1963), 13-30, section 6; T. W. Anderson,
    S. M. Samuels, "Some inequalities among binomial and Poisson probabilities", Fifth Berkeley
    Symposium, volume 1 (1967), 1-12.
    """
    if len(failed) < _FEWEST_FAILURES or not passed:
        return []
    words = _Terms(failed, passed)
    left = np.ones(len(failed), dtype=bool)
    found: list[tuple[list[str], NDArray[np.int64], float, float]] = []
    while len(found) < most and (mode := words.strongest(left)):
        found.append(mode)
        left[mode[1]] = False
    times = [each.at for each in (*failed, *passed)]
    half = min(times) + (max(times) - min(times)) / 2
    late = sum(at >= half for at in times) / len(times)
    modes = []
    for names, members, expected, p_value in found:
        texts = sorted((failed[i] for i in members), key=lambda each: each.at, reverse=True)
        recent = sum(each.at >= half for each in texts)
        modes.append(
            FailureMode(
                name=" · ".join(names), n=len(texts), n_failed=len(failed), expected=expected,
                p_value=p_value, first_seen=texts[-1].at, last_seen=texts[0].at,
                growing=bool(binom.sf(recent - 1, len(texts), late) < 0.05 / len(found)),
                sample_ids=tuple(each.sample_id for each in texts),
            )
        )  # fmt: skip
    return sorted(modes, key=lambda mode: -mode.n)


class _Terms:
    """Which failures have which words, and what chance would give them."""

    def __init__(self, failed: Sequence[ScoredText], passed: Sequence[ScoredText]) -> None:
        texts = [_WORD.findall(each.text.lower()) for each in (*failed, *passed)]
        in_passed = Counter(w for words in texts[len(failed) :] for w in set(words))
        common = {word for word, n in in_passed.items() if n > _COMMON_IN_PASSED * len(passed)}
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


def _terms(words: Sequence[str], common: set[str]) -> set[str]:
    """Return the words of a text and its pairs of neighbouring words that are not common."""
    pairs = (f"{a} {b}" for a, b in pairwise(words) if a not in common and b not in common)
    return {*(word for word in words if word not in common), *pairs}
