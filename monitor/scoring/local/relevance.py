"""
Measure how well an answer speaks to its question, and settle what is not a plain question.

A model of shared words would fail instructions, small talk, yes or no and numbers: an instruction
names a task and not a subject, and "Yes." shares nothing with its question. Where the words cannot
tell, relevance is skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from monitor.scoring.local.passages import Passages, plain_times
from monitor.scoring.local.reading import MOST_QUERY_CHARS, Reading, ReadSentence
from monitor.scoring.words import Word, language, listed, words

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


#: What becomes of a relevance that is settled: the answer does what is asked, or it does not.
DOES_AT_LEAST, DOES_NOT_AT_MOST = 0.85, 0.1
_TAKEN, _NOT_TAKEN = 0.4, 0.05  # share of an answer's information that is in the text worked on
_MOST_TALK = 10  # words
_BARE, _TERSE = 8, 12  # words of a bare yes or no, and of an answer that is a number or a name
_EVEN = 0.5  # below it words speak against an answer
_FEW_ASKED, _FEW_SAID = 3, 4  # words of a question and an answer that say too little to compare
_FIRST = 4  # words of a question that say what it asks for
_OWN_TEXT = 12  # content words of a request that brings its text along
_COVERED = 0  # place of the share that the passages hold among a claim's figures
_NO_FIGURE = 0.15  # relevance of an answer without the number that is asked for, at most


class Settled(NamedTuple):
    """A relevance in [0, 1] with its reason, or None with why it is skipped."""

    relevance: float | None
    reason: str


@cache
def pattern(name: str, form: str = "{}") -> re.Pattern[str]:
    """Return a turn of phrase of ``language.toml``, by name, within *form*."""
    known = language()["requests"] | language()["conversation"]
    phrases = known[name] if isinstance(known[name], str) else "|".join(known[name])
    return re.compile(form.format(phrases), re.IGNORECASE)


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer to a request of these kinds; None where *query* is none of them.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    plain = query.strip().strip("¿¡").strip()
    if is_small_talk(plain):
        return Settled(None, "small_talk")
    task = pattern("polite", r"^(?:(?:{})[,\s]+)+").sub("", plain)
    if pattern("transform", r"(?:{})\b").match(task):
        return _worked_on(query, task, output, reading)
    if pattern("create", r"(?:{})\b").match(task):
        return (
            None
            if relevance is not None and relevance >= DOES_AT_LEAST
            else Settled(None, "instruction")
        )
    taken = any(claim.values[_COVERED] >= _TAKEN for claim in reading.claims)
    if taken and pattern("retell", r"(?:{})\b").match(task):
        return None if (relevance or 0.0) >= _EVEN else Settled(None, "instruction")
    if only_yes_or_no(plain, output):
        return Settled(DOES_AT_LEAST, "It answers yes or no.")
    return None if relevance is None else _terse(plain, output, reading, relevance)


def asks_translation(query: str) -> bool:
    """Return whether *query* wants a text in other words than those of its passages."""
    return pattern("translate", r"\b(?:{})\b").search(" ".join(query.split()[:_BARE])) is not None


def is_small_talk(query: str) -> bool:
    """Return whether *query* only greets, thanks, agrees or asks who is there."""
    if pattern("talk_phrases", r"(?:{})\W*").fullmatch(query):
        return True
    said = re.findall(r"[\w']+", query.replace("\u2019", "'"))
    known = pattern("talk", r"(?:{})")
    return (
        0 < len(said) <= _MOST_TALK
        and all(known.fullmatch(word) for word in said)
        and pattern("talk_core", r"\b(?:{})\b").search(query) is not None
    )


def _worked_on(query: str, task: str, output: str, reading: Reading) -> Settled:
    """Judge a summary or another form of a text: of the passages, else of the request itself."""
    if asks_translation(task):
        return Settled(None, "instruction")
    if reading.claims:
        taken = max(claim.values[_COVERED] for claim in reading.claims)
    else:
        brought = {word.stem for word in words(query) if word.content}
        said = {word.stem for word in words(output) if word.content}
        if len(brought) < _OWN_TEXT or not said:
            return Settled(None, "instruction")
        taken = len(said & brought) / len(said)
    if taken >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    if taken <= _NOT_TAKEN:
        return Settled(DOES_NOT_AT_MOST, "It takes up nothing of the text that was handed over.")
    return Settled(None, "instruction")


def only_yes_or_no(query: str, output: str) -> bool:
    """Return whether *output* says yes or no and nothing else, to a question of that kind."""
    said, known = words(output), {word.stem for word in words(query)}
    yes_or_no = pattern("yes_no", r"\W*(?:unfortunately |leider )?(?:{}|not)\b")
    if len(said) > _BARE or not query.endswith("?") or not yes_or_no.match(output):
        return False
    beyond = [w for w in words(yes_or_no.sub("", output)) if w.content and w.stem not in known]
    asks_what = pattern("wh", r"\b(?:{})\b").search(query) and not asks_yes_or_no(query)
    return not beyond and not asks_what


def _terse(query: str, output: str, reading: Reading, relevance: float) -> Settled | None:
    """Judge "14" and "In 1987.", and answers that lack the number that is asked for."""
    said = words(plain_times(output))
    asked = {word.stem for word in words(query) if word.content}
    evidence = [claim.evidence[0] for claim in reading.claims if claim.evidence]
    told = {word.stem for number in evidence for word in reading.passages.words[number]}
    new = [word for word in said if word.content and word.stem not in asked]
    terse = 0 < len(new) <= len(said) <= _TERSE and all(word.stem in told for word in new)
    vague = terse and len(said) <= _FEW_SAID and len(asked) <= _FEW_ASKED and relevance < _EVEN
    if asks_number(" ".join(query.split()[:_FIRST])):
        if not any(word.number for word in said):
            if pattern("quantities", r"\b(?:{})\b").search(output):
                return None
            lacks = "It lacks the number or the time that is asked for."
            return Settled(min(relevance, _NO_FIGURE), lacks)
        if terse and not asked.isdisjoint(told) and relevance < DOES_AT_LEAST:
            return Settled(DOES_AT_LEAST, "It is a figure from a sentence about the question.")
    return Settled(None, "terse_answer") if vague else None
