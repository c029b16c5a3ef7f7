"""Count how well an output speaks to its query."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.passages import Passages
from monitor.scoring.refusals import is_refusal
from monitor.scoring.sentences import is_checkable
from monitor.scoring.words import Word, stem, words

RELEVANCE_FEATURES = (
    "query_covered", "query_covered_near", "query_any", "query_bigrams", "echo", "all_echo",
    "novel_share", "log_new_words", "refusal", "nothing_stated", "parroted",
    "passages_on_query", "type_fits", "type_misses", "no_type", "length_short", "name_shared",
    "repeats", "first_person",
)  # fmt: skip

#: Characters of a query, and of an output, that are compared: a bound on time.
MOST_CHARS = 40_000
_PREFIX = 5
_SHORT = 4
_FIRST_PERSON = frozenset(stem(word) for word in ("i", "me", "my", "mine", "we", "our"))
_VERBATIM = 0.95
_WHO = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_WHERE = re.compile(
    r"\b(?:where|which (?:country|city|state)|what (?:country|city|state))\b", re.IGNORECASE
)
_WHEN = re.compile(
    r"\b(?:when|what (?:year|date|day)|which (?:year|date|day)|in what year)\b", re.IGNORECASE
)
_NUMBER = re.compile(r"\bhow (?:many|much|old|long|far|tall|high|often|big)\b", re.IGNORECASE)
_YES_NO = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may)\b",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"^\W*(?:yes|no|yeah|yep|nope|not)\b", re.IGNORECASE)
_CHOICE = re.compile(
    r"\bor\b|^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may)\b",
    re.IGNORECASE,
)
_ASKED_BACK = re.compile(r"\?\s*$")


def names_anything(query: str) -> bool:
    """Say whether *query* names something that an answer can take up, as "how long?" does not."""
    rest = _NUMBER.sub(" ", query[:MOST_CHARS])
    return any(word.content for word in words(rest))


def only_echoes(query: str, output: str) -> bool:
    """Say whether *output* adds no word to a query that leaves no choice between its own words."""
    return _only_echoes(query, words(query[:MOST_CHARS]), words(output[:MOST_CHARS]))


def relevance_features(
    query: str, output: str, sentences: Sequence[str], passages: Passages
) -> tuple[float, ...]:
    """Compare a query with an output; the figures are in the order of ``RELEVANCE_FEATURES``."""
    query, output = query[:MOST_CHARS], output[:MOST_CHARS]
    asked, said = words(query), words(output)
    question = {word.stem: passages.information(word.stem) for word in asked if word.content}
    answer = list(dict.fromkeys(word.stem for word in said if word.content))
    answered = set(answer)
    prefixes = {word[:_PREFIX] for word in answered}
    total = sum(question.values()) or 1.0
    shared = [word for word in question if word in answered]
    near = [word for word in question if word in answered or word[:_PREFIX] in prefixes]
    new = [word for word in answer if word not in question]
    verbatim = _bigrams(asked, said)
    fits, misses = type_of_answer(query, output, said)
    refusals = sum(is_refusal(sentence) for sentence in sentences)
    share = len(shared) / max(len(answer), 1)
    return (
        sum(question[word] for word in shared) / total,
        sum(question[word] for word in near) / total,
        float(bool(near)),
        verbatim,
        share,
        float(verbatim >= _VERBATIM or _only_echoes(query, asked, said)),
        len(new) / max(len(answer), 1),
        math.log1p(len(new)),
        refusals / max(len(sentences), 1),
        sum(not is_checkable(sentence) for sentence in sentences) / max(len(sentences), 1),
        _bigrams(said, asked),
        _on_query(set(question), new, passages),
        fits,
        misses,
        float(not (fits or misses)),
        float(len(answer) <= _SHORT),
        _names(asked, answered),
        1 - len({word.stem for word in said}) / max(len(said), 1),
        sum(word.stem in _FIRST_PERSON for word in said) / max(len(said), 1),
    )


def _only_echoes(query: str, asked: Sequence[Word], said: Sequence[Word]) -> bool:
    known = {word.stem for word in asked}
    new = any(word.content and word.stem not in known for word in said)
    return not new and not _CHOICE.search(query.strip())


def _bigrams(asked: Sequence[Word], said: Sequence[Word]) -> float:
    pairs = set(pairwise([word.stem for word in asked]))
    return len(pairs & set(pairwise([word.stem for word in said]))) / max(len(pairs), 1)


def _names(asked: Sequence[Word], answered: set[str]) -> float:
    names = {word.stem for word in asked[1:] if word.capital}
    return len(names & answered) / len(names) if names else 0.0


def _on_query(question: set[str], new: Sequence[str], passages: Passages) -> float:
    """Share of the new words that stand in sentences of the passages that the question names."""
    if not new or not len(passages):
        return 0.0
    speak = {number for word in question for number in passages.where.get(word, ())}
    close = sum(not speak.isdisjoint(passages.where.get(word, ())) for word in new)
    return close / len(new)


def type_of_answer(query: str, output: str, said: Sequence[Word]) -> tuple[float, float]:
    """Say whether the kind of thing asked for (a person, a date, a number) is there or missing."""
    fits: bool | None = None
    if _WHO.search(query) or _WHERE.search(query):
        fits = any(word.capital for word in said)
    elif _WHEN.search(query) or _NUMBER.search(query):
        fits = any(word.number for word in said)
    elif _YES_NO.search(query.strip()):
        fits = bool(_YES_OR_NO.search(output))
        return float(fits), 0.0
    elif _ASKED_BACK.search(query) is None:
        return 0.0, 0.0
    if fits is None:
        return 0.0, 0.0
    return float(fits), float(not fits)


# --- answerable ---
# Say whether the passages hold what a question asks for, to judge an "I don't know".


_MOST_CHARS = 2_000  # of a question


def answer_held(query: str | None, passages: Passages) -> tuple[float, tuple[int, ...]]:
    """
    Measure how far two sentences of the passages hold what *query* asks for.

    Returns the share of its information in [0, 1], which is 0 when the kind of thing
    that is asked for (a person, a date, a number) is missing there, and the sentences.
    """
    if not query or not len(passages):
        return 0.0, ()
    aligned = Aligned.lay(query[:_MOST_CHARS], passages)
    told = [passages.sentences[number][1] for number in aligned.evidence]
    found = [word for number in aligned.evidence for word in passages.words[number]]
    _, misses = type_of_answer(query, " ".join(told), found)
    return (0.0 if misses else aligned.shares[1]), aligned.evidence
