"""
Measure how well an answer speaks to its question, and settle what is not a plain question.

A model of shared words would fail instructions, small talk, yes or no and numbers: an instruction
names a task and not a subject, and "Yes." shares nothing with its question. Where the words cannot
tell, relevance is skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from monitor.format import percent
from monitor.scoring.declaration import Similarity
from monitor.scoring.language import common_words, is_ordinal, language_of, listed, words
from monitor.scoring.local.changes import WordChange
from monitor.scoring.local.logistic import Logistic, probability
from monitor.scoring.local.passages import PREFIX, Passages
from monitor.scoring.local.reading import MOST_QUERY_CHARS, Reading, ReadSentence
from monitor.scoring.local.requests import (
    CREATE,
    LABEL,
    TALK,
    TRANSFORM,
    asks,
    asks_yes_or_no,
    begins_with_yes_or_no,
    lacks_figure,
    only_yes_or_no_is_asked,
    pattern,
    without_yes_or_no,
)

RELEVANCE_FEATURES = (
    "query_covered",  # share of the query's information in the answer; beginnings of words count
    "refusal",  # share of its sentences that decline
    "passages_on_query",  # share of its new words from passages that speak of the query
    "first_person",
)
#: A figure of relevance where an embedding model is configured, see `Meaning`.
MEANING = "meaning"
#: What becomes of a relevance that is settled: the answer does what is asked, or it does not.
DOES_AT_LEAST, DOES_NOT_AT_MOST = 0.85, 0.1
_EVEN = 0.5  # below it words speak against an answer
_TAKEN, _NOT_TAKEN = 0.4, 0.05  # share of an answer's information that is in the text worked on
_BRIEF = 4  # words
_LONGEST_GREETING = 50  # characters
_PLAIN_AT_LEAST = 3  # of so many words one is in lower case, in a text that is no list of names
_FEW_COMMON = 2  # common words that do not show a language
_CHOICE = re.compile(r"/|\b(?:or|oder|ou|o)\b", re.IGNORECASE)
#: "2 × 9.80 = 19.60", "(28 + 14)", "240 / 12", "6 kg × 4"
_CALCULATION = re.compile(
    r"\d[^\w\n]{0,6}[×x*·+=–-][^\w\n]{0,6}\d[^\n]{0,40}?=|\d\s[\u2212/]\s\d"
    r"|\d\s?(?:[·+]|(?:[^\W\d]{1,8}(?:/[^\W\d]{1,3})?\s)?[×÷])\s?[^\w\n]{0,3}\d"
)
_RESULT = re.compile(r"[×÷x*·+/–-][^\w\n=]{0,6}\d[^\n=]{0,20}=[^\n]{0,9}\d")
_DIFFERENCE = pattern("more", r"\d\s?(?:[^\W\d]+\s|[%€$£]\s?){{0,2}}(?:{})\b")  # "2 GB more"
_FIGURE, _MOST_FIGURES = re.compile(r"\d{1,12}(?:\.\d{1,6})?"), 60
_NEARLY = 0.05  # by what scaled figures are rounded
#: Questions, each paired with the answer to another one.
UNRELATED = (
    ("How do I reset my password?", "The museum is closed on Mondays."),
    ("When does the next train to Bern leave?", "Water the plant once a week."),
    ("Is the deposit refunded?", "The recipe needs two eggs and some butter."),
    ("Who wrote the report?", "Press the red button until the light is off."),
    ("Why is the sky blue?", "Parcels are delivered within three working days."),
    ("Which vaccines do I need?", "The invoice lists all hours of the electrician."),
)
_LEAST_SPREAD = 0.01  # between unrelated texts and the same ones


class Settled(NamedTuple):
    """A relevance in [0, 1] with its reason, or None with why it is skipped."""

    relevance: float | None
    reason: str
    counted: bool = False  #: shared words alone say so


INSTRUCTION, UNCLEAR = Settled(None, "instruction"), Settled(None, "unclear_reference")
CALCULATED = Settled(None, "calculated")


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer to what is not a plain question; None for all others.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    if reading.request == TRANSFORM:
        return _judge_transformed_text(reading)
    if reading.request in {CREATE, LABEL} and (relevance or 0.0) < DOES_AT_LEAST:
        return INSTRUCTION
    greets = len(query) <= _LONGEST_GREETING and pattern("greets").search(query)
    if reading.request == TALK and (len(reading.passages) or greets):
        return Settled(None, "small_talk")
    return CALCULATED if may_be_calculated(query, output, reading) else None


def judge_yes_or_no(
    query: str, output: str, reading: Reading, relevance: float | None
) -> Settled | None:
    """Judge an answer to such a question, from the passages or in a word; None for all others."""
    if not (begins_with_yes_or_no(output) and only_yes_or_no_is_asked(query)):
        return None
    asked = {word.stem for word in words(query, reading.passages.language)}
    rest = words(without_yes_or_no(output), reading.passages.language)
    adds_nothing = all(word.stem in asked for word in rest if word.content)
    if not (adds_nothing or most_taken(reading) >= _TAKEN):
        return None
    return Settled(max(relevance or 0.0, DOES_AT_LEAST), "It answers yes or no.")


def _judge_transformed_text(reading: Reading) -> Settled:
    """Judge a summary, or another form of the passages, by how much of them it uses."""
    taken = most_taken(reading)
    if not reading.claims or _NOT_TAKEN <= taken < _TAKEN:
        return INSTRUCTION
    if taken >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    if is_in_another_language(reading):
        return INSTRUCTION
    return Settled(DOES_NOT_AT_MOST, "It uses nothing of the text that was handed over.")


def most_taken(reading: Reading) -> float:
    """Return how much of one claim of an answer the passages hold, at most, in [0, 1]."""
    return max((claim.covered for claim in reading.claims), default=0.0)


# --- answers that are not meant to be in the words of their passages ---


def in_other_words(query: str, output: str, reading: Reading) -> bool:
    """
    Return whether *output* is not meant to be in the words of its passages.

    It is in another language, calculated, or does something else than answer a question: of such
    outputs, wrong ones change a detail or have a figure that nobody named.
    """
    in_language, known = reading.passages.language, reading.passages.index.keys()
    named = {word.stem for word in words(query[:MOST_QUERY_CHARS], in_language)}
    tokens = [word for claim in reading.claims for word in claim.aligned.tokens]
    new = {word.stem for word in tokens if word.surface[0].isdigit()} - known - named
    changed = any(claim.changes for claim in reading.claims)
    takes_up = most_taken(reading) > _NOT_TAKEN
    is_own = {TALK: not new, LABEL: not new, CREATE: takes_up or not new, TRANSFORM: takes_up}
    return (
        (is_own.get(reading.request, False) and not (changed or reading.passages.has_records))
        or is_in_another_language(reading)
        or may_be_calculated(query, output, reading)
    )


def is_in_another_language(reading: Reading) -> bool:
    """
    Return whether an answer and its passages are surely of two languages.

    A translation may also be into a language of which no common words are known.
    """
    passages, output = reading.passages, " ".join([each.text for each in reading.sentences])
    tokens = output.split()
    # a capital within a sentence is that of a name, such as "Las Vegas"
    said = common_words(f"{output[:1].lower()}{output[1:]}")
    translates = (
        pattern("translates", r"\b(?:{})").search(reading.query[:MOST_QUERY_CHARS]) is not None
    )
    if not (translates or any(said.values())):
        return False
    text = " ".join([text for _, text in passages.sentences])
    if (theirs := language_of(text)) is None:
        told = common_words(text.lower())
        second, theirs = sorted(told, key=told.__getitem__)[-2:]
        if told[theirs] == told[second]:
            return False  # such as Swedish and Danish
    if max(said.values()) > max(_FEW_COMMON, 2 * said[theirs]):
        return True
    in_lower_case = _PLAIN_AT_LEAST * sum(word.islower() for word in tokens)
    is_plain = in_lower_case >= len(tokens) >= _BRIEF  # "Die Hard" is a name
    # the Finnish "on" is a word of English as well
    return is_plain and common_words(output.lower())[theirs] <= translates


def may_be_calculated(query: str, output: str, reading: Reading) -> bool:
    """
    Return whether the new figures of an answer may be calculated.

    They are the differences that *query* asks for, in other units, or in the proportion that it
    asks for ("for eight people"); or nothing is surely changed, and each results from a figure of
    *query* and one of the query or the passages, the answer shows how, or calls them a difference,
    or *query* asks for a sum.
    """
    in_language, known = reading.passages.language, reading.passages.index.keys()
    changes = [change for claim in reading.claims for change in claim.changes]
    if len(changes) > 1 and _is_scaled(query, changes, reading):
        return True
    said_by_user = words(query[:MOST_QUERY_CHARS], in_language)
    asked = {word.stem for word in said_by_user if word.number and not is_ordinal(word)}
    said = {w.stem for claim in reading.claims for w in claim.aligned.tokens if w.number}
    new = said - known - asked
    if not new:
        return False
    told, own, figures = (_figures(sorted(each))[:_MOST_FIGURES] for each in (known, asked, new))
    differences = {round(abs(a - b), 2) for a in told for b in told}
    are_plain = len(figures) == len(new)
    if pattern("difference").search(query) and are_plain and differences.issuperset(figures):
        return True
    if reading.request == TRANSFORM and pattern("converts").search(query):
        return True
    results = {
        round(result, 2)
        for a in own
        for b in (*told, *own)
        for result in (a + b, abs(a - b), a * b, a * b / 100, b / (a or 1.0))
    }
    differing = {w.stem for match in _DIFFERENCE.finditer(output) for w in words(match[0])}
    may_be = (
        new <= differing
        or (are_plain and results.issuperset(figures))
        or (len(told) + len(own) > 1 and pattern("calculates").search(query))
        or _CALCULATION.search(output)
    )
    shown = [_RESULT.search(claim.aligned.text) is not None for claim in reading.claims]
    stated = [claim for claim, is_shown in zip(reading.claims, shown, strict=True) if not is_shown]
    return bool(may_be) and not any(change.certain for c in stated for change in c.changes)


def _is_scaled(query: str, changes: Sequence[WordChange], reading: Reading) -> bool:
    """Return whether all *changes* are figures in the proportion that *query* asks for."""
    in_language, known = reading.passages.language, reading.passages.index
    pairs = [
        [_figures(w.stem for w in words(text, in_language)) for text in (each.said, each.told)]
        for each in changes
    ]
    if not all(said and told and said[0] * told[0] for said, told in pairs):
        return False
    factor = pairs[0][0][0] / pairs[0][1][0]
    own = _figures(w.stem for w in words(query[:MOST_QUERY_CHARS], in_language))
    told = _figures(sorted(known))[:_MOST_FIGURES]
    asked = pattern("scales").search(query) or any(
        math.isclose(a, b * factor, rel_tol=_NEARLY) for a in own for b in told
    )
    return bool(asked) and all(math.isclose(a[0], b[0] * factor, rel_tol=_NEARLY) for a, b in pairs)


def _figures(stems: Iterable[str]) -> list[float]:
    """Return the values of those stems that are plain figures."""
    plain = [each.replace(",", ".") for each in stems]
    return [float(each) for each in plain if _FIGURE.fullmatch(each)]


# --- the model of shared words ---


def by_shared_words(
    query: str, output: str, reading: Reading, model: Logistic, meaning: float | None
) -> Settled:
    """
    Judge by the words that query, output and passages share, as *model* weighs them.

    *meaning* is the similarity of query and output, in [0, 1], if an embedding model is configured.
    """
    asked, said = (words(text[:MOST_QUERY_CHARS]) for text in (query, output))
    if not any(word.content and word.stem not in listed("asking") for word in asked):
        return Settled(None, "nothing_asked")
    known = {word.stem for word in asked}
    adds = any(word.content and word.stem not in known for word in said)
    confirms = not asks(query) and any(word.stem not in known for word in said)  # "I've done it"
    if not (adds or confirms or asks_yes_or_no(query) or _CHOICE.search(query)):
        return Settled(0.0, "It adds nothing to the question.")
    values = relevance_features(query, output, reading.sentences, reading.passages)
    covered, refusal, near, _ = values
    score = probability(model.log_odds(values if meaning is None else [*values, meaning]))
    if refusal >= 1:
        return Settled(score, "It declines to answer.")
    mentions = f"It mentions {percent(covered, 0)} of what the question names"
    beside = f"{percent(near, 0)} of what it adds is from sentences about what is asked"
    if score < _EVEN:
        reason = f"{mentions}, and {beside}"
    elif max(covered, near) > 0:
        reason = beside if near > covered else mentions
    elif len(said) <= _BRIEF:
        reason = "It is brief, and need not repeat the question"
    else:
        reason = "It shares no words with the question, which tells little"
    if meaning is not None:
        reason += f"; {percent(meaning, 0)} similar in meaning"
    if score >= _EVEN and len(reading.passages) and lacks_figure(query, said):
        return UNCLEAR
    return Settled(score, f"{reason}.", counted=meaning is None)


def relevance_features(
    query: str, output: str, sentences: Sequence[ReadSentence], passages: Passages
) -> list[float]:
    """Return the figures of a query and an output, in the order of ``RELEVANCE_FEATURES``."""
    asked, said = (words(t[:MOST_QUERY_CHARS], passages.language) for t in (query, output))
    question = passages.weigh(asked)
    answer = {word.stem for word in said if word.content}
    beginnings = {word[:PREFIX] for word in answer}
    covered = sum(weight for word, weight in question.items() if word[:PREFIX] in beginnings)
    new = answer - question.keys()
    speaking = {number for word in question for number in passages.holders(word)}
    on_query = sum(not speaking.isdisjoint(passages.holders(word)) for word in new)
    first_person = listed("first_person")
    return [
        covered / (sum(question.values()) or 1.0),
        sum(each.refuses for each in sentences) / max(len(sentences), 1),
        on_query / max(len(new), 1),
        sum([word.stem in first_person for word in said]) / max(len(said), 1),
    ]


class Meaning:
    """
    The similarity in meaning of a question and an answer: 0 for unrelated texts, 1 for equal ones.

    Unrelated texts have a cosine near 0 in one model and near 0.7 in another, so cosines are
    rescaled by the mean of ``UNRELATED``.
    """

    def __init__(self, similarity: Similarity) -> None:
        self._similarity = similarity
        self._unrelated = sum(similarity(*pair) for pair in UNRELATED) / len(UNRELATED)

    def __call__(self, query: str, output: str) -> float:
        """Return the rescaled cosine of two texts, in [0, 1]."""
        near = self._similarity(query, output) - self._unrelated
        return max(near, 0.0) / max(1.0 - self._unrelated, _LEAST_SPREAD)
