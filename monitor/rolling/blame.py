"""
Say whose fault a fall is: other questions, contexts that miss the question, or the answers.

Local evidence only: each failing sample belongs to one cause, by the words that its question shares
with earlier questions and with its contexts; the cause whose failures grew explains the fall.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
_WORD = re.compile(r"[^\W_]{2,}")

Floats = NDArray[np.float64]


class Exchange(NamedTuple):
    """A scored sample: what was asked, what was retrieved, and whether the answer passed."""

    question: str
    contexts: Sequence[str]
    passed: bool


class BlameShare(NamedTuple):
    """
    What one cause adds to the fall of the pass rate, in [-1, 1], with a 90 % bootstrap interval.

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
    contexts from those of other questions. A cause is named where its growth is more than half of
    the fall, with 95 % confidence by the bootstrap [1]_. Whether the judge changed has to be known
    beforehand: that looks like generation.

    References
    ----------
    .. [1] B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall, 1993,
       chapter 13.
    """
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return None
    words = _Words(before)
    causes = [words.causes(before, own=1), words.causes(after, own=0)]
    counts = [np.bincount(each, minlength=len(CAUSES) + 1) for each in causes]
    rng = np.random.default_rng(len(before) + len(after))
    rates = [rng.multinomial(n.sum(), n / n.sum(), _RESAMPLED) / n.sum() for n in counts]
    grown = (rates[1] - rates[0])[:, :-1]
    falls = grown.sum(axis=1)
    bounds = np.quantile(grown, (0.05, 0.95), axis=0)
    failing = [n[:-1] / n.sum() for n in counts]
    shares = tuple(map(BlameShare, CAUSES, *(each.tolist() for each in (*failing, *bounds))))
    if np.quantile(falls, 0.05) <= 0:
        return Blame("no fall", shares)
    sure = np.mean(2 * grown > falls[:, None], axis=0) >= _CONFIDENCE
    if not sure.any():
        return Blame("unclear", shares, "no cause explains more than half of the fall")
    cause = CAUSES[int(np.argmax(sure))]
    if cause != "traffic" and not words.informed:
        reason = "the words of the questions do not tell their contexts from others"
        return Blame("unclear", shares, reason)
    return Blame(cause, shares)


class _Words:
    """What earlier questions are made of, and how much of them contexts usually hold."""

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

    def causes(self, side: Sequence[Exchange], *, own: int) -> NDArray[np.int64]:
        """Return the place of each sample's cause in `CAUSES`; one beyond for those that passed."""
        return np.array([self._cause(each, own=own) for each in side])

    def _cause(self, each: Exchange, *, own: int) -> int:
        if each.passed:
            return len(CAUSES)
        if self._familiarity(each.question, own=own) < self._least_familiar:
            return 0
        return 1 if self._held(each.question, each.contexts) < self._least_held else 2

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
    return {word[:_STEM_CHARS] for word in _WORD.findall(text.lower())}
