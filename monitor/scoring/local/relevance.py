"""
Measure how well an answer speaks to its question, and settle what is not a plain question.

A model of shared words would fail instructions, small talk, yes or no and numbers: an instruction
names a task and not a subject, and "Yes." shares nothing with its question. Where the words cannot
tell, relevance is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

from monitor.format import percent
from monitor.scoring.declaration import Similarity
from monitor.scoring.language import common_words, is_ordinal, language_of, listed, words
from monitor.scoring.local.logistic import Logistic, probability
from monitor.scoring.local.passages import PREFIX, Aligned, Passages
from monitor.scoring.local.reading import MOST_QUERY_CHARS, Reading, ReadSentence
from monitor.scoring.local.requests import (
    asks_nothing,
    asks_translation,
    asks_yes_or_no,
    begins_with_yes_or_no,
    creates,
    is_small_talk,
    only_yes_or_no_is_asked,
    pattern,
    retells,
    transforms,
    type_of_answer,
    without_yes_or_no,
)
from monitor.scoring.local.times import plain_times

RELEVANCE_FEATURES = (
    "query_covered",  # share of the query's information that the answer takes up
    "query_covered_near",  # the same, where words that begin alike count
    "novel_share",  # share of the answer's informative words that the query does not have
    "refusal",  # share of its sentences that decline
    "passages_on_query",  # share of its new words from passages that speak of the query
    "type_misses",  # the kind of thing that is asked for (a person, a number) is not there
    "no_type",  # no such kind is asked for
    "repeats",  # share of the answer's words that it said before
    "first_person",
)
#: A figure of relevance where an embedding model is configured, see `Meaning`.
MEANING = "meaning"
#: What becomes of a relevance that is settled: the answer does what is asked, or it does not.
DOES_AT_LEAST, DOES_NOT_AT_MOST = 0.85, 0.1
_TAKEN, _NOT_TAKEN = 0.4, 0.05  # share of an answer's information that is in the text worked on
_FEW_COMMON = 2  # common words that do not show a language
_KNOWN = 0.3  # share of a request's information that the passages have, to tell by words
_HALF = 0.5  # share of a question from which on a sentence surely is about it
_ROUNDING = 1e-9
_EVEN = 0.5  # below it words speak against an answer
_TERSE = 12  # words of an answer that is a number or a name
_FEW_ASKED, _FEW_SAID = 3, 4  # words of a question and an answer that say too little to compare
_BRIEF = 8  # words of an answer that is a figure, and hardly more
_BEGUN = 4  # letters by which the few words of a terse answer are those of the passages
_CHOICE = re.compile(r"/|\b(?:or|oder|ou|o)\b", re.IGNORECASE)
#: "2 × 9.80 = 19.60"
_CALCULATION = re.compile(
    r"\d[^\w\n]{0,6}[×x*·+=–-][^\w\n]{0,6}\d[^\n]{0,40}?=|\d\s?[×·]\s?[^\w\n]{0,3}\d"
)
_DIFFERENCE = pattern("more", r"\d\s?(?:[^\W\d]+\s|[%€$£]\s?){{0,2}}(?:{})\b")  # "2 GB more"
_FIGURE = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_MOST_FIGURES, _RARE = 60, 10
_PERIODS = (2.0, 7.0, 12.0, 24.0, 52.0, 60.0, 100.0, 365.0)  # of how many others one consists
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


ELSEWHERE = "The passages speak of it elsewhere."
YES_NO = "It answers yes or no."
INSTRUCTION, UNCLEAR = Settled(None, "instruction"), Settled(None, "unclear_reference")
CALCULATED = Settled(None, "calculated")


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer that is very short, or to what is not a plain question; None for all others.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    if is_small_talk(query):
        return Settled(None, "small_talk")
    if transforms(query):
        return _judge_transformed_text(query, output, reading)
    if _only_chooses(query, reading) or (creates(query) and (relevance or 0.0) < DOES_AT_LEAST):
        return INSTRUCTION
    if calculates(query, output, reading):
        return CALCULATED
    judged = _judge_short_answer(query, output, reading, relevance)
    doubtful = judged is None and relevance is not None and 0.0 < relevance < _EVEN  # no echo
    return UNCLEAR if doubtful and _cannot_be_compared(query, reading) else judged


def _judge_transformed_text(query: str, output: str, reading: Reading) -> Settled:
    """Judge a summary or another form of the passages."""
    taken = most_taken(reading)
    translates = asks_translation(query) or is_in_another_language(
        f"{query} {output}", reading.passages
    )
    if translates or not reading.claims or _NOT_TAKEN < taken < _TAKEN:
        return INSTRUCTION
    if taken >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    return Settled(DOES_NOT_AT_MOST, "It takes up nothing of the text that was handed over.")


def most_taken(reading: Reading) -> float:
    """Return how much of one claim of an answer the passages hold, at most, in [0, 1]."""
    return max((claim.values[0] for claim in reading.claims), default=0.0)


def _judge_short_answer(
    query: str, output: str, reading: Reading, relevance: float | None
) -> Settled | None:
    """Judge an answer that has too few words to share some with its question."""
    in_language = reading.passages.language
    said, asked = (words(plain_times(text, in_language), in_language) for text in (output, query))
    known = {word.stem for word in asked if word.content}
    if begins_with_yes_or_no(output) and only_yes_or_no_is_asked(query):
        rest = words(without_yes_or_no(output), in_language)
        bare = not any(word.content and word.stem not in known for word in rest)
        if bare or most_taken(reading) >= _TAKEN:
            return Settled(max(relevance or 0.0, DOES_AT_LEAST), YES_NO)
    if relevance is None or relevance >= _EVEN or len(said) > _TERSE:
        return None
    told = {word.stem for claim in reading.claims for word in claim.aligned.found}
    begun = {stem[:_BEGUN] for stem in told}
    new = [word for word in said if word.content and word.stem not in known]
    copied = bool(new) and all(word.stem[:_BEGUN] in begun for word in new)
    asks_figure = pattern("asks_figure").search(query) is not None
    is_figure = asks_figure and any(word.number for word in new)
    if copied and is_figure and not known.isdisjoint(told):
        return Settled(DOES_AT_LEAST, "It is a figure from a sentence about the question.")
    says_little = copied and len(said) <= _FEW_SAID and len(known) <= _FEW_ASKED
    is_brief = is_figure and len(said) <= _BRIEF and most_taken(reading) > _NOT_TAKEN
    return Settled(None, "terse_answer") if says_little or is_brief else None


def _cannot_be_compared(query: str, reading: Reading) -> bool:
    """
    Return whether a request hardly has a word of its passages, so that words cannot tell of it.

    It asks nothing, or what it gets states nothing and declines nothing.
    """
    if len(reading.passages) == 0 or _known(query, reading.passages) >= _KNOWN:
        return False
    if not any(each.claim or each.refuses for each in reading.sentences):
        return True
    return asks_nothing(query) and most_taken(reading) > _NOT_TAKEN


def is_near(reading: Reading, query: str) -> bool:
    """
    Return whether an answer is from the sentence about a question, or from the one beside it.

    No sentence may hold half of the question.
    """
    passages, asked = reading.passages, Aligned(query, reading.passages)
    if not asked.evidence or asked.shares[0] >= _HALF:
        return False
    least = asked.shares[0] - _ROUNDING
    about = {n for each in asked.weights for n in passages.holders(each)}
    about = {n for n in about if asked.share(sentence=n) >= least}
    taken = {n for claim in reading.claims for n in claim.aligned.evidence[:1]}
    passage = [number for number, _ in passages.sentences]
    return any(abs(n - m) <= 1 and passage[n] == passage[m] for n in about for m in taken)


def _known(query: str, passages: Passages) -> float:
    """Return the share of the information of *query* that the passages have, or begin alike."""
    asked = passages.weigh(words(query[:MOST_QUERY_CHARS], passages.language))
    held = [
        weight
        for stem, weight in asked.items()
        if stem in passages.index or stem[:PREFIX] in passages.prefixes
    ]
    return sum(held) / sum(asked.values()) if asked else 1.0


# --- answers that are not meant to be in the words of their passages ---


def in_other_words(query: str, output: str, reading: Reading, skipped: str) -> bool:
    """
    Return whether *output* is not meant to be in the words of its passages.

    It is in another language, a translation, a calculation, or a label or a text of its own that a
    request asks for, of which no statement is changed. *skipped* is why relevance is skipped.
    """
    taken, instructed = most_taken(reading), skipped == INSTRUCTION.reason
    brief = len(words(output)) <= _FEW_SAID
    changes = [change for claim in reading.claims for change in claim.changes]
    changed, certain = changes or reading.passages.has_records, any(c.certain for c in changes)
    return (
        (taken < _TAKEN and is_in_another_language(f"{query} {output}", reading.passages))
        or (instructed and (asks_translation(query) or (brief and creates(query))))
        or _only_chooses(query, reading)
        or (calculates(query, output, reading) and not certain)
        or (not changed and retells(query))
        or (not changed and taken > _NOT_TAKEN and (asks_nothing(query) or creates(query)))
    )


def is_in_another_language(output: str, passages: Passages) -> bool:
    """Return whether *output* and the passages are surely of two languages."""
    theirs = language_of(" ".join([text for _, text in passages.sentences]))
    counts = common_words(output.lower())
    most = max(counts.values())
    return theirs is not None and most > max(_FEW_COMMON, 2 * counts[theirs])


def _only_chooses(query: str, reading: Reading) -> bool:
    """Return whether an answer has only words of *query*, such as a label, none of a passage."""
    in_language = reading.passages.language
    said = [w for each in reading.sentences for w in words(each.text, in_language)]
    label = {word.stem for word in said if word.content}
    asked = {word.stem for word in words(query[:MOST_QUERY_CHARS], in_language)}
    is_label = bool(label) and label <= asked and label.isdisjoint(reading.passages.index)
    of_text = creates(query) or pattern("of_text").search(query)
    return is_label and of_text is not None and not any(word.number for word in said)


def calculates(query: str, output: str, reading: Reading) -> bool:
    """
    Return whether all new figures of an answer may be calculated, each from two others or one.

    There must be cause: it shows how, or *query* asks for a sum or has figures of its own.
    """
    passages = reading.passages
    said_by_user = words(query[:MOST_QUERY_CHARS], passages.language)
    asked = {w.stem for w in said_by_user if w.number and not is_ordinal(w)}
    said = {w.stem for c in reading.claims for w in c.aligned.tokens if w.number}
    new = _values(said - passages.index.keys() - asked)
    if not new or _CALCULATION.search(output):
        return bool(new)
    asks = pattern("calculates").search(query) or _DIFFERENCE.search(output)
    # small whole figures come out by chance
    counts = not asked <= passages.index.keys() and all(each >= _RARE or each % 1 for each in new)
    if not (asks or counts):
        return False
    told = [word.stem for each in passages.words for word in each if word.number]
    held = {*_values([*sorted(asked), *dict.fromkeys(told)])[:_MOST_FIGURES]}
    results = {each for a, b in permutations(held, 2) for each in (a + b, a - b)}
    for b in {*held, *_PERIODS} - {0.0}:
        factors = (b, 1 / b, b / 100, 1 - b / 100, 1 + b / 100)
        results |= {a * each for a in held for each in factors if a != b}
    exact = {round(each, 2) for each in results}
    return all(round(each, 2) in exact for each in new)


def _values(stems: Iterable[str]) -> list[float]:
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
    if not (adds or asks_yes_or_no(query) or _CHOICE.search(query)):
        return Settled(0.0, "It adds nothing to the question.")
    values = relevance_features(query, output, reading.sentences, reading.passages)
    features = dict(zip(RELEVANCE_FEATURES, values, strict=True))
    score = probability(model.log_odds(values if meaning is None else [*values, meaning]))
    if features["refusal"] >= 1:
        return Settled(score, "It declines to answer.", counted=True)
    covered, near = features["query_covered_near"], features["passages_on_query"]
    reason = f"It takes up {percent(covered, 0)} of what the question names"
    if near > covered:
        reason += f"; {percent(near, 0)} of its other words are in sentences about that"
    if meaning is not None:
        reason += f"; {percent(meaning, 0)} similar in meaning"
    reason += ", without the kind of thing that is asked for." if features["type_misses"] else "."
    return Settled(score, reason, counted=not features["type_misses"])


def relevance_features(
    query: str, output: str, sentences: Sequence[ReadSentence], passages: Passages
) -> list[float]:
    """Return the figures of a query and an output, in the order of ``RELEVANCE_FEATURES``."""
    asked, said = (words(t[:MOST_QUERY_CHARS], passages.language) for t in (query, output))
    question = passages.weigh(asked)
    answer = {word.stem for word in said if word.content}
    total = sum(question.values()) or 1.0
    beginnings = {word[:PREFIX] for word in answer}
    covered = sum(weight for word, weight in question.items() if word in answer)
    near = sum(w for word, w in question.items() if word[:PREFIX] in beginnings)
    new = answer - question.keys()
    speaking = {number for word in question for number in passages.holders(word)}
    on_query = sum(not speaking.isdisjoint(passages.holders(word)) for word in new)
    first_person = listed("first_person")
    fits, misses = type_of_answer(query, output, said)
    return [
        covered / total,
        near / total,
        len(new) / max(len(answer), 1),
        sum(each.refuses for each in sentences) / max(len(sentences), 1),
        on_query / max(len(new), 1),
        misses,
        float(not (fits or misses)),
        1 - len({word.stem for word in said}) / max(len(said), 1),
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
