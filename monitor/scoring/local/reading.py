"""Read one interaction: the figures of its claims, and how well it speaks to its query."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.local import records
from monitor.scoring.local.alignment import Aligned, Rewrite, as_written, claim_features
from monitor.scoring.local.changes import WordChange, changed_details
from monitor.scoring.local.model import CLAIM_FEATURES
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.records import Records
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    split_statements,
    without_mentions,
)
from monitor.scoring.words import Word, compatible, listed, words

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
    """A sentence that states something: its figures, and what they rest on."""

    values: tuple[float, ...]  #: in the order of ``CLAIM_FEATURES``
    evidence: tuple[int, ...]  #: sentences of the passages, best first
    covered_two: float  #: share of its information in the evidence, in [0, 1]
    missing: tuple[str, ...]  #: informative words that no passage holds
    changes: tuple[WordChange, ...]  #: details changed in what is otherwise copied
    absent: bool  #: the passages hold (nearly) nothing of it


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """
    A sentence of an output; ``claim`` is None where nothing is stated or compared.

    ``parts`` reads the statements that it joins, each by itself; empty where it makes one.
    """

    text: str
    states: bool
    refuses: bool
    claim: ReadClaim | None
    parts: Callable[[], list[tuple[str, ReadClaim]]] = list


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to judge in one interaction."""

    passages: Passages
    sentences: tuple[ReadSentence, ...]
    kind: AnswerKind
    not_judged: int = 0  #: sentences after the first ``MOST_SENTENCES``

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

    def read_parts(text: str) -> list[tuple[str, ReadClaim]]:
        parts = split_statements(text)
        return [(each, read_part(each)) for each in parts] if len(parts) > 1 else []

    sentences = []
    for text in found[:MOST_SENTENCES]:
        states = text not in unstated and is_checkable(text)
        refuses = not states and is_refusal(text)
        claim = read_part(text) if states and len(passages) else None
        sentences.append(ReadSentence(text, states, refuses, claim, partial(read_parts, text)))
    claims = [each.claim for each in sentences if each.claim]
    length = sum(round(np.exp(claim.values[_LENGTH])) for claim in claims)
    if known.structured:
        kind = AnswerKind.STRUCTURED
    elif not (query or "").strip():
        kind = AnswerKind.BRIEF if length < _BRIEF else AnswerKind.TEXT
    elif length <= _SHORT:
        kind = AnswerKind.SHORT_ANSWER
    else:
        kind = AnswerKind.ANSWER if len(claims) <= _FEW else AnswerKind.LONG_ANSWER
    return Reading(passages, tuple(sentences), kind, len(found) - len(sentences))


_LENGTH = CLAIM_FEATURES.index("log_length")
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
    near = sum(weight for stem, weight in weights.items() if passages.near(stem))
    absent = len(missing) >= FEWEST_MISSING and near < ABSENT_BELOW * sum(weights.values())
    return ReadClaim(
        values=values,
        evidence=aligned.evidence,
        covered_two=aligned.shares[1],
        missing=missing,
        changes=(*changes, *(WordChange("", told) for told in compared.certain)),
        # what a record holds is told in words that are not in it
        absent=absent and not known.structured,
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


RELEVANCE_FEATURES = (
    "query_covered", "query_covered_near", "query_any", "query_bigrams", "echo", "all_echo",
    "novel_share", "log_new_words", "refusal", "nothing_stated", "parroted",
    "passages_on_query", "type_fits", "type_misses", "no_type", "length_short", "name_shared",
    "repeats", "first_person",
)  # fmt: skip

_PREFIX = 5
_SHORT_OUTPUT = 4  # content words
_VERBATIM = 0.95
_ASKS_NAME = re.compile(
    r"\b(?:who|whom|whose|where|(?:which|what) (?:country|city|state))\b", re.IGNORECASE
)
_ASKS_NUMBER = re.compile(
    r"\b(?:when|(?:at )?what time|what (?:year|date|day)|which (?:year|date|day)|in what year"
    r"|how (?:many|much|old|long|far|tall|high|often|big))\b",
    re.IGNORECASE,
)
#: Asks for a figure, and names nothing.
HOW_MUCH = re.compile(r"\bhow (?:many|much|old|long|far|tall|high|often|big)\b", re.IGNORECASE)
_ASKS_YES_NO = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may)\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(rf"\bor\b|{_ASKS_YES_NO.pattern}", re.IGNORECASE)
_YES_OR_NO = re.compile(r"^\W*(?:yes|no|yeah|yep|nope|not)\b", re.IGNORECASE)


def names_anything(query: str) -> bool:
    """Return whether *query* names what an answer can take up, as "how long?" does not."""
    return any(word.content for word in words(HOW_MUCH.sub(" ", query[:MOST_QUERY_CHARS])))


def asks_number(query: str) -> bool:
    """Return whether *query* asks for a number, a date or an amount."""
    return _ASKS_NUMBER.search(query) is not None


def asks_yes_or_no(query: str) -> bool:
    """Return whether *query* begins as a question does that "yes" can answer."""
    return _ASKS_YES_NO.search(query.strip()) is not None


def only_echoes(query: str, asked: Sequence[Word], said: Sequence[Word]) -> bool:
    """Return whether an output adds no word to a query that leaves no choice between its own."""
    known = {word.stem for word in asked}
    new = any(word.content and word.stem not in known for word in said)
    return not new and not _CHOICE.search(query.strip())


def relevance_features(
    query: str, output: str, sentences: Sequence[ReadSentence], passages: Passages
) -> list[float]:
    """Return the figures of a query and an output, in the order of ``RELEVANCE_FEATURES``."""
    asked, said = words(query[:MOST_QUERY_CHARS]), words(output[:MOST_QUERY_CHARS])
    question = {word.stem: passages.information(word.stem) for word in asked if word.content}
    answer = dict.fromkeys(word.stem for word in said if word.content)
    prefixes = {word[:_PREFIX] for word in answer}
    total = sum(question.values()) or 1.0
    shared = [word for word in question if word in answer]
    near = [word for word in question if word in answer or word[:_PREFIX] in prefixes]
    new = [word for word in answer if word not in question]
    speaking = {number for word in question for number in passages.holders(word)}
    on_query = sum(not speaking.isdisjoint(passages.holders(word)) for word in new)
    pairs, others = ({*pairwise([w.stem for w in side])} for side in (asked, said))
    verbatim = len(pairs & others) / max(len(pairs), 1)
    names = {word.stem for word in asked[1:] if word.capital}
    fits, misses = type_of_answer(query, output, said)
    return [
        sum(question[word] for word in shared) / total,
        sum(question[word] for word in near) / total,
        float(bool(near)),
        verbatim,
        len(shared) / max(len(answer), 1),
        float(verbatim >= _VERBATIM or only_echoes(query, asked, said)),
        len(new) / max(len(answer), 1),
        math.log1p(len(new)),
        sum(each.refuses for each in sentences) / max(len(sentences), 1),
        sum(not each.states for each in sentences) / max(len(sentences), 1),
        len(pairs & others) / max(len(others), 1),
        on_query / len(new) if new else 0.0,
        fits,
        misses,
        float(not (fits or misses)),
        float(len(answer) <= _SHORT_OUTPUT),
        len(names & answer.keys()) / max(len(names), 1),
        1 - len({word.stem for word in said}) / max(len(said), 1),
        sum(word.stem in listed("first_person") for word in said) / max(len(said), 1),
    ]


def type_of_answer(query: str, output: str, said: Sequence[Word]) -> tuple[float, float]:
    """Return whether the kind of thing asked for (a person, a date, a number) is there, missing."""
    if _ASKS_NAME.search(query):
        fits = any(word.capital for word in said)
    elif asks_number(query):
        fits = any(word.number for word in said)
    else:
        yes_no = _ASKS_YES_NO.search(query.strip()) and _YES_OR_NO.search(output)
        return float(bool(yes_no)), 0.0
    return float(fits), float(not fits)
