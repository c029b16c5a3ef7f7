"""Count how well an output speaks to its query."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import MOST_QUERY_CHARS, ReadSentence
from monitor.scoring.words import Word, listed, words

FEATURES = (
    "query_covered", "query_covered_near", "query_any", "query_bigrams", "echo", "all_echo",
    "novel_share", "log_new_words", "refusal", "nothing_stated", "parroted",
    "passages_on_query", "type_fits", "type_misses", "no_type", "length_short", "name_shared",
    "repeats", "first_person",
)  # fmt: skip

_PREFIX = 5
_SHORT = 4  # content words
_VERBATIM = 0.95
_ASKS_NAME = re.compile(
    r"\b(?:who|whom|whose|where|(?:which|what) (?:country|city|state))\b", re.IGNORECASE
)
_ASKS_NUMBER = re.compile(
    r"\b(?:when|what (?:year|date|day)|which (?:year|date|day)|in what year"
    r"|how (?:many|much|old|long|far|tall|high|often|big))\b",
    re.IGNORECASE,
)
_HOW_MUCH = re.compile(r"\bhow (?:many|much|old|long|far|tall|high|often|big)\b", re.IGNORECASE)
_ASKS_YES_NO = re.compile(
    r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may)\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(rf"\bor\b|{_ASKS_YES_NO.pattern}", re.IGNORECASE)
_YES_OR_NO = re.compile(r"^\W*(?:yes|no|yeah|yep|nope|not)\b", re.IGNORECASE)


def names_anything(query: str) -> bool:
    """Return whether *query* names what an answer can take up, as "how long?" does not."""
    return any(word.content for word in words(_HOW_MUCH.sub(" ", query[:MOST_QUERY_CHARS])))


def only_echoes(query: str, asked: Sequence[Word], said: Sequence[Word]) -> bool:
    """Return whether an output adds no word to a query that leaves no choice between its own."""
    known = {word.stem for word in asked}
    new = any(word.content and word.stem not in known for word in said)
    return not new and not _CHOICE.search(query.strip())


def relevance_features(
    query: str, output: str, sentences: Sequence[ReadSentence], passages: Passages
) -> list[float]:
    """Return the figures of a query and an output, in the order of ``FEATURES``."""
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
        float(len(answer) <= _SHORT),
        len(names & answer.keys()) / max(len(names), 1),
        1 - len({word.stem for word in said}) / max(len(said), 1),
        sum(word.stem in listed("first_person") for word in said) / max(len(said), 1),
    ]


def type_of_answer(query: str, output: str, said: Sequence[Word]) -> tuple[float, float]:
    """Return whether the kind of thing asked for (a person, a date, a number) is there, missing."""
    if _ASKS_NAME.search(query):
        fits = any(word.capital for word in said)
    elif _ASKS_NUMBER.search(query):
        fits = any(word.number for word in said)
    else:
        yes_no = _ASKS_YES_NO.search(query.strip()) and _YES_OR_NO.search(output)
        return float(bool(yes_no)), 0.0
    return float(fits), float(not fits)
