"""Read one interaction: its claims, with the figures of each and what they are based on."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.local import records
from monitor.scoring.local.alignment import Aligned, Rewrite, as_written, claim_features
from monitor.scoring.local.changes import WordChange, changed_details
from monitor.scoring.local.model import CLAIM_FEATURES, LENGTH
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.records import Records
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    without_mentions,
)
from monitor.scoring.words import compatible, words

#: Characters of a query, and of an output beside it, that are compared: a bound on time.
MOST_QUERY_CHARS = 40_000
_LETTERS_READ = 400
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH"})
_BRIEF, _SHORT = 35, 12  # words
_FEW = 2  # claims
#: Below this share of its information in the passages, word beginnings included, a claim with
#: so many new words is from nowhere.
ABSENT_BELOW, FEWEST_MISSING = 0.1, 2


class AnswerKind(StrEnum):
    """What is asked for, as far as an exchange shows it: what is usual differs between them."""

    STRUCTURED = "structured"  #: the passages are records with attributes
    BRIEF = "brief"  #: no query, a sentence or two
    TEXT = "text"  #: no query, a longer text
    SHORT_ANSWER = "short_answer"  #: a few words
    ANSWER = "answer"  #: a sentence or two
    LONG_ANSWER = "long_answer"


@dataclass(frozen=True, slots=True)
class ReadClaim:
    """A sentence that states something: its figures, and what they are based on."""

    values: tuple[float, ...]  #: in the order of ``CLAIM_FEATURES``
    evidence: tuple[int, ...]  #: sentences of the passages, best first
    covered_two: float  #: share of its information in the evidence, in [0, 1]
    missing: tuple[str, ...]  #: informative words that no passage holds
    changes: tuple[WordChange, ...]  #: details changed in what is otherwise copied
    absent: bool  #: the passages hold (nearly) nothing of it


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence of an output; ``claim`` is None where nothing is stated or compared."""

    text: str
    states: bool
    refuses: bool
    claim: ReadClaim | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to judge in one interaction."""

    passages: Passages
    sentences: tuple[ReadSentence, ...]
    kind: AnswerKind
    not_judged: int  #: sentences after the first ``MOST_SENTENCES``
    read_part: Callable[[str], ReadClaim]  #: reads a statement of a sentence by itself

    @property
    def claims(self) -> list[ReadClaim]:
        """The sentences that state something."""
        return [each.claim for each in self.sentences if each.claim is not None]

    @property
    def values(self) -> NDArray[np.float64]:
        """One row a claim, in the order of ``CLAIM_FEATURES``."""
        rows = [claim.values for claim in self.claims]
        return np.array(rows, dtype=float).reshape(len(rows), len(CLAIM_FEATURES))


def read(
    query: str | None, contexts: Sequence[str], output: str, rewrite: Rewrite = as_written
) -> Reading:
    """Split and measure; without passages nothing is measured."""
    passages, known = Passages(contexts), Records.read(contexts)
    found, unstated = split_sentences(output), headings_and_code(output)
    asked = frozenset(word.stem for word in words((query or "")[:MOST_QUERY_CHARS]) if word.content)

    def read_part(text: str) -> ReadClaim:
        return read_claim(without_mentions(text), passages, known, asked, rewrite)

    sentences = []
    for text in found[:MOST_SENTENCES]:
        states = text not in unstated and is_checkable(text)
        claim = read_part(text) if states and len(passages) else None
        sentences.append(ReadSentence(text, states, not states and is_refusal(text), claim))
    claims = [each.claim for each in sentences if each.claim]
    length = sum(round(np.exp(claim.values[LENGTH])) for claim in claims)
    if known.structured:
        kind = AnswerKind.STRUCTURED
    elif not (query or "").strip():
        kind = AnswerKind.BRIEF if length < _BRIEF else AnswerKind.TEXT
    elif length <= _SHORT:
        kind = AnswerKind.SHORT_ANSWER
    else:
        kind = AnswerKind.ANSWER if len(claims) <= _FEW else AnswerKind.LONG_ANSWER
    return Reading(passages, tuple(sentences), kind, len(found) - len(sentences), read_part)


_NO_RECORDS = Records()


def read_claim(
    claim: str,
    passages: Passages,
    known: Records = _NO_RECORDS,
    query: frozenset[str] = frozenset(),
    rewrite: Rewrite = as_written,
) -> ReadClaim:
    """Compare one claim with the passages; *query* holds the stems of the question."""
    aligned = Aligned.of(claim, passages, rewrite)
    compared = records.compare(claim, aligned.tokens, known, passages)
    values = (*claim_features(aligned, query), *compared.values)
    missing = aligned.missing()
    changes = changed_details(aligned, structured=known.structured)
    weights = aligned.weights
    absent = not known.structured and len(missing) >= FEWEST_MISSING  # records: in other words
    if absent:
        near = sum(weight for stem, weight in weights.items() if passages.near(stem))
        absent = near < ABSENT_BELOW * sum(weights.values())
    return ReadClaim(
        values=values,
        evidence=aligned.evidence,
        covered_two=aligned.shares[1],
        missing=missing,
        changes=(*changes, *(WordChange("", told) for told in compared.certain)),
        absent=absent,
    )


def script(text: str) -> str | None:
    """Return the writing system of most letters of *text*; None when there are no letters."""
    letters = compatible("".join(islice(filter(str.isalpha, text), _LETTERS_READ)))
    if letters.isascii():
        # As names of characters would say, without looking each of them up.
        return "LATIN" if letters else None
    names = Counter(unicodedata.name(char, "?").split()[0].split("-")[0] for char in letters)
    name = max(names, key=lambda each: (names[each], each))
    return "CJK" if name in _EAST_ASIAN else name
