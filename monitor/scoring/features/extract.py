"""Look at one interaction: its claims, its passages and the figures of both."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.features.attributes import Attributes
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.relevance import MOST_CHARS
from monitor.scoring.features.support import (
    CLAIM_FEATURES,
    ClaimFeatures,
    claim_features,
    is_sweeping,
)
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings,
    is_checkable,
    split_sentences,
    without_mentions,
)
from monitor.scoring.words import compatible, words

_LETTERS_READ = 400
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH"})
_LENGTH = CLAIM_FEATURES.index("log_length")


# --- kinds ---
# Tell kinds of exchanges apart: what is a bad sign in one is usual in another.


_BRIEF, _SHORT = 35, 12  # words
_FEW = 2  # claims


class Kind(StrEnum):
    """What is asked for, as far as an exchange shows it."""

    STRUCTURED = "structured"  #: the passages are records with attributes
    BRIEF = "brief"  #: no query, a sentence or two
    TEXT = "text"  #: no query, a longer text
    SHORT_ANSWER = "short_answer"  #: a few words
    ANSWER = "answer"  #: a sentence or two
    LONG_ANSWER = "long_answer"


def kind_of(query: str | None, *, structured: bool, claims: int, words: int) -> Kind:
    """Name the kind of an exchange whose output has so many claims with so many words."""
    if structured:
        return Kind.STRUCTURED
    if not (query or "").strip():
        return Kind.BRIEF if words < _BRIEF else Kind.TEXT
    if words <= _SHORT:
        return Kind.SHORT_ANSWER
    return Kind.ANSWER if claims <= _FEW else Kind.LONG_ANSWER


@dataclass(frozen=True, slots=True)
class Features:
    """What there is to judge: every sentence, and the figures of those that state something."""

    passages: Passages
    sentences: tuple[str, ...]
    claims: tuple[ClaimFeatures | None, ...]  #: one a sentence; None where nothing is stated
    kind: Kind
    not_judged: int = 0  #: sentences after the first ``MOST_SENTENCES``

    @property
    def checkable(self) -> tuple[ClaimFeatures, ...]:
        """The figures of the sentences that state something."""
        return tuple(claim for claim in self.claims if claim is not None)

    @property
    def values(self) -> NDArray[np.float64]:
        """One row a checkable claim, in the order of ``CLAIM_FEATURES``."""
        rows = [claim.values for claim in self.checkable]
        return np.array(rows, dtype=float).reshape(len(rows), len(CLAIM_FEATURES))


def look_at(query: str | None, contexts: Sequence[str], output: str) -> Features:
    """Split and measure; without passages the claims are not measured."""
    passages = Passages(contexts)
    attributes = Attributes.read(contexts)
    found, titles = split_sentences(output), headings(output)
    sentences = found[:MOST_SENTENCES]
    asked = frozenset(word.stem for word in words((query or "")[:MOST_CHARS]) if word.content)
    claims = tuple(
        _measured(sentence, passages, asked, attributes)
        if len(passages) and sentence not in titles
        else None
        for sentence in sentences
    )
    stated = [claim for claim in claims if claim is not None]
    kind = kind_of(
        query,
        structured=attributes.structured,
        claims=len(stated),
        words=round(sum(np.exp(claim.values[_LENGTH]) for claim in stated)),
    )
    return Features(passages, sentences, claims, kind, len(found) - len(sentences))


def _measured(
    sentence: str, passages: Passages, asked: frozenset[str], attributes: Attributes
) -> ClaimFeatures | None:
    """Compare what a sentence says with the passages; None if that is nothing."""
    if not is_checkable(sentence):
        return None
    said = without_mentions(sentence)
    return claim_features(said, passages, asked, attributes, sweeping=is_sweeping(sentence))


def script(text: str) -> str | None:
    """Name the writing system of most letters of *text*; None when there are no letters."""
    letters = compatible("".join(islice(filter(str.isalpha, text), _LETTERS_READ)))
    if letters.isascii():
        # As names of characters would say, without looking each of them up.
        return "LATIN" if letters else None
    names = Counter(unicodedata.name(char, "?").split()[0].split("-")[0] for char in letters)
    name = names.most_common(1)[0][0]
    return "CJK" if name in _EAST_ASIAN else name
