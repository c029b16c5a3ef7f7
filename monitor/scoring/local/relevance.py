"""
Measure how well an answer speaks to its question, and settle what is not a plain question.

A model of shared words would fail instructions, small talk, yes or no and numbers: an instruction
names a task and not a subject, and "Yes." shares nothing with its question. Where the words cannot
tell, relevance is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from monitor.format import percent
from monitor.scoring.declaration import Similarity
from monitor.scoring.language import (
    ENGLISH,
    Word,
    common_words,
    language_of,
    listed,
    words,
)
from monitor.scoring.local.answer_type import (
    YES_OR_NO,
    asks_yes_or_no,
    begins_with_yes_or_no,
    figure_asked,
    has_figure,
    named,
    only_yes_or_no_is_asked,
    pattern,
    type_of_answer,
)
from monitor.scoring.local.calculations import CALCULATES, CALCULATION
from monitor.scoring.local.logistic import Logistic, probability
from monitor.scoring.local.passages import PREFIX, Aligned, Passages, plain_times
from monitor.scoring.local.reading import MOST_QUERY_CHARS, Reading, ReadSentence

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
#: What becomes of a relevance that is settled: the answer does what is asked, or it does not.
DOES_AT_LEAST, DOES_NOT_AT_MOST = 0.85, 0.1
_TAKEN, _NOT_TAKEN = 0.4, 0.05  # share of an answer's information that is in the text worked on
_MOST_TALK = 10  # words of small talk, and of a brief request
_FEW_COMMON = 2  # common words that do not show a language
_BARE, _TERSE = 8, 12  # words of a bare yes or no, and of an answer that is a number or a name
_KNOWN = 0.3  # share of a request's information that the passages have, to tell by words
_ABOUT, _HALF = 0.15, 0.5  # shares of a question: passages are about it, a sentence holds half
_ROUNDING = 1e-9
_EVEN = 0.5  # below it words speak against an answer
_FEW_ASKED, _FEW_SAID = 3, 4  # words of a question and an answer that say too little to compare
_BEGUN = 4  # letters by which the few words of a terse answer are those of the passages
_COUNTED = frozenset({"1", "2"})  # stems of "one" and "two": "in two steps"
_OWN_TEXT = 12  # content words of a request that brings its text along
_CHOICE = re.compile(r"/|\b(?:or|oder|ou|o)\b", re.IGNORECASE)
#: Three or more words, such as "low, medium or high" or "yes/no/unclear".
_LABELS = re.compile(
    r"[\w-]{1,30}\s?(?:[,/]\s?[\w-]{1,30}\s?){1,20}(?:[,/]\s?|,?\s?\b(?:or|oder|ou|o)\s)[\w-]+",
    re.IGNORECASE,
)
_LABEL_ENDS = re.compile(r":\s|[.,;\n(]|\s[–—-]\s")
_MOST_ASKED = 1_000  # characters of a request
_NO_FIGURE = 0.15  # relevance of an answer without the number that is asked for, at most


#: A figure of relevance where an embedding model is configured, see `Meaning`.
MEANING = "meaning"
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


def only_echoes(query: str, asked: Sequence[Word], said: Sequence[Word]) -> bool:
    """Return whether an output adds no word to a query that leaves no choice between its own."""
    known = {word.stem for word in asked}
    if any(word.content and word.stem not in known for word in said):
        return False
    return not (asks_yes_or_no(query) or _CHOICE.search(query))


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer to a request of these kinds; None for any other *query*.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    plain = query.strip().strip("¿¡").strip()
    if _is_small_talk(plain):
        return Settled(None, "small_talk")
    if _chooses_label(query, output, reading.passages):
        return INSTRUCTION
    task = _task(query)
    taken = [claim.values[0] for claim in reading.claims]  # share that the passages hold
    if pattern("transform", r"(?:{})\b").match(task) or _names_language(task):
        translates = asks_translation(task) or is_in_another_language(
            f"{query} {output}", reading.passages
        )
        return INSTRUCTION if translates else _judge_transformed_text(query, output, taken)
    if _creates(task):
        return None if (relevance or 0.0) >= DOES_AT_LEAST else INSTRUCTION
    if _bare_yes_or_no(plain, output):
        return Settled(DOES_AT_LEAST, YES_NO)
    judged = None if relevance is None else _judge_by_type(plain, output, reading, relevance)
    doubtful = judged is None and relevance is not None and 0.0 < relevance < _EVEN  # no echo
    return UNCLEAR if doubtful and _cannot_be_compared(query, reading) else judged


def _judge_transformed_text(query: str, output: str, taken: list[float]) -> Settled:
    """Judge a summary or another form of a text: of the passages, else of the request itself."""
    if not taken:
        own, said = ({w.stem for w in words(text) if w.content} for text in (query, output))
        taken = [len(said & own) / len(said)] if said and len(own) >= _OWN_TEXT else []
    if not taken or _NOT_TAKEN < max(taken) < _TAKEN:
        return INSTRUCTION
    if max(taken) >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    return Settled(DOES_NOT_AT_MOST, "It takes up nothing of the text that was handed over.")


def _cannot_be_compared(query: str, reading: Reading) -> bool:
    """
    Return whether a request hardly has a word of its passages, so that words cannot tell of it.

    It asks nothing, or what it gets states nothing and declines nothing.
    """
    if len(reading.passages) == 0 or known(query, reading.passages) >= _KNOWN:
        return False
    if not any(each.claim or each.refuses for each in reading.sentences):
        return True
    taken = max((claim.values[0] for claim in reading.claims), default=0.0)
    return asks_nothing(query) and taken > _NOT_TAKEN


def known(query: str, passages: Passages) -> float:
    """Return the share of the information of *query* that the passages have, or begin alike."""
    asked = passages.weigh(words(query[:MOST_QUERY_CHARS], passages.language))
    held = [
        weight
        for stem, weight in asked.items()
        if stem in passages.index or stem[:PREFIX] in passages.prefixes
    ]
    return sum(held) / sum(asked.values()) if asked else 1.0


def asks_nothing(query: str) -> bool:
    """Return whether *query* works on a text or makes one: no question, complaint or keywords."""
    query = query[:_MOST_ASKED].strip()
    task = _task(query)
    task = task.rstrip("? ") if task != query else task  # "Could you shorten that?"
    return not asks(task) and pattern("of_sentences").search(query) is not None


def asks(query: str) -> bool:
    """Return whether *query* asks for something: a question, "Tell me ...", "I need ..."."""
    query = query.strip().strip("¿¡").strip()
    begins = pattern("wh", r"\W*(?:\w+\W+){{0,2}}(?:{})\b").match(query)
    begins = begins or pattern("asks", r"(?:{})").match(query)
    return begins is not None or "?" in query or asks_yes_or_no(query)


def in_other_words(query: str, output: str, reading: Reading, skipped: str) -> bool:
    """
    Return whether *output* is not meant to be in the words of its passages.

    It is in another language, a translation, a calculation, or a label or a text of its own that a
    request asks for, of which no figure or name is new and no statement changed. *skipped* is why
    relevance is skipped.
    """
    taken = max((claim.values[0] for claim in reading.claims), default=0.0)
    if taken < _TAKEN and is_in_another_language(f"{query} {output}", reading.passages):
        return True
    if skipped == INSTRUCTION.reason and asks_translation(query):
        return True
    task = _task(query)
    brief = skipped == INSTRUCTION.reason and len(words(output)) <= _FEW_SAID
    if (brief and _creates(task)) or _computes(query, output, reading):
        return True
    changed = any(claim.changes for claim in reading.claims)
    if changed or reading.passages.has_records or _brings_details(query, reading):
        return False
    retells = pattern("audience", r"(?:{})\b").match(task[:_MOST_ASKED]) is not None
    label = _chooses_label(query, output, reading.passages)
    writes = asks_nothing(query) or _creates(task)
    return retells or label or (writes and taken > _NOT_TAKEN)


def _creates(task: str) -> bool:
    """Return whether a request asks for something new, which words cannot judge."""
    return any(
        pattern(name, r"(?:{})\b").match(task[:_MOST_ASKED]) for name in ("create", "audience")
    )


def _chooses_label(query: str, output: str, passages: Passages) -> bool:
    """
    Return whether *output* has only labels that *query* offers, or begins with one of them.

    It offers three or more words in a row, of which no passage has any.
    """
    offered = _LABELS.search(query[:_MOST_ASKED])
    if offered is None or len(words(output)) > _TERSE:
        return False
    said = (_LABEL_ENDS.split(output.strip(" *`\"'"), maxsplit=1)[0], output)
    labels = {word.stem for word in words(offered[0], passages.language) if word.content}
    chosen = (
        {w.stem for w in words(each, passages.language) if w.content and not w.number}
        for each in said
    )
    return labels.isdisjoint(passages.index) and any(each and each <= labels for each in chosen)


def _brings_details(query: str, reading: Reading) -> bool:
    """Return whether an answer has a figure or a name that neither passages nor *query* have."""
    known = reading.passages.index.keys() | {word.stem for word in words(query)}
    english = reading.passages.language == ENGLISH  # nouns of other languages have capitals
    for claim in reading.claims:
        after_name = True  # the first word has a capital anyway
        for n, word in enumerate(claim.aligned.tokens):
            is_name = english and word.capital and not after_name
            counted = word.stem in _COUNTED and not word.surface[0].isdigit()
            is_figure = word.number and not counted
            if word.stem not in known and (is_figure or is_name):
                return True
            after_name = n > 0 and word.capital
    return False


def _computes(query: str, output: str, reading: Reading) -> bool:
    """
    Return whether an answer has a figure of its own that it seems to calculate.

    It shows how, or names a figure of the passages beside it where *query* asks for a sum or has
    figures of its own.
    """
    index, asked = reading.passages.index, {w.stem for w in words(query) if w.number}
    said = {w.stem for c in reading.claims for w in c.aligned.tokens if w.number} - asked
    gives_cause = CALCULATES.search(query) or not asked <= index.keys()
    shown = CALCULATION.search(output) or (gives_cause and said & index.keys())
    return bool(shown) and any(":" not in each for each in said - index.keys())


def _task(query: str) -> str:
    """Return *query* without the words that make a request polite."""
    return pattern("polite", r"^(?:(?:{})[,\s]+)+").sub("", query.strip().strip("¿¡").strip())


def is_in_another_language(output: str, passages: Passages) -> bool:
    """Return whether *output* and the passages are surely of two languages."""
    theirs = language_of(" ".join([text for _, text in passages.sentences]))
    counts = common_words(output.lower())
    most = max(counts.values())
    return theirs is not None and most > max(_FEW_COMMON, 2 * counts[theirs])


def asks_translation(query: str) -> bool:
    """Return whether *query* wants a text in other words than those of its passages."""
    beginning = " ".join(query.split()[:_BARE])
    return pattern("translate").search(beginning) is not None or _names_language(query)


def _names_language(query: str) -> bool:
    """Return whether *query* asks nothing, and wants the answer in a language that it names."""
    beginning = " ".join(query.split()[:_BARE])
    polite = pattern("polite", r"[\s¿]*(?:{})\b").match(beginning)
    asks = pattern("wh").match(beginning) or (query.rstrip().endswith("?") and not polite)
    return not asks and pattern("in_language").search(beginning) is not None


def _is_small_talk(query: str) -> bool:
    """Return whether *query* only greets, thanks, agrees or asks who is there."""
    said = re.findall(r"[\w']+", query.replace("\u2019", "'"))
    only_talks = 0 < len(said) <= _MOST_TALK and all(map(pattern("talk", "{}").fullmatch, said))
    greets = only_talks and pattern("talk_core").search(query)
    return bool(greets or pattern("talk_phrases", r"(?:{})\W*").fullmatch(query))


def _bare_yes_or_no(query: str, output: str) -> bool:
    """Return whether *output* says yes or no and nothing else, to a question of that kind."""
    said, known = words(output), {word.stem for word in words(query)}
    if len(said) > _BARE or not query.endswith("?") or not begins_with_yes_or_no(output):
        return False
    bare = pattern("plain_yes_no", YES_OR_NO).sub("", output)
    beyond = [w for w in words(bare) if w.content and w.stem not in known]
    asks_what = pattern("wh").search(query) and not asks_yes_or_no(query)
    return not beyond and not asks_what


def _judge_by_type(query: str, output: str, reading: Reading, relevance: float) -> Settled | None:
    """Judge by the kind of thing that is asked for: yes or no, or a figure such as a price."""
    in_language = reading.passages.language
    said, request = (words(plain_times(t, in_language), in_language) for t in (output, query))
    asked = {word.stem for word in request if word.content}
    told = {word.stem for claim in reading.claims for word in claim.aligned.found}
    begun = {stem[:_BEGUN] for stem in told}
    new = [word for word in said if word.content and word.stem not in asked]
    terse = 0 < len(new) <= len(said) <= _TERSE and all(w.stem[:_BEGUN] in begun for w in new)
    kind = figure_asked(query)
    has = None if kind is None else has_figure(kind, output)
    if has is False:
        return Settled(min(relevance, _NO_FIGURE), f"It lacks the {kind} that is asked for.")
    if has and terse and not asked.isdisjoint(told) and relevance < DOES_AT_LEAST:
        return Settled(DOES_AT_LEAST, "It is a figure from a sentence about the question.")
    if only_yes_or_no_is_asked(query) and begins_with_yes_or_no(output):
        taken = max((claim.values[0] for claim in reading.claims), default=0.0)
        if taken >= _TAKEN and relevance < DOES_AT_LEAST:
            return Settled(DOES_AT_LEAST, YES_NO)
    vague = terse and len(said) <= _FEW_SAID and len(asked) <= _FEW_ASKED
    brief = has and len(said) <= _TERSE  # a figure of the kind, in words of its own
    return Settled(None, "terse_answer") if (vague or brief) and relevance < _EVEN else None


def is_near(reading: Reading, query: str) -> bool:
    """
    Return whether an answer is from the sentence about a question, or from the one beside it.

    The passages must be about the question, but no sentence hold half of it.
    """
    passages, asked = reading.passages, Aligned(named(query), reading.passages)
    if known(query, passages) < _ABOUT or not asked.evidence or asked.shares[0] >= _HALF:
        return False
    least = asked.shares[0] - _ROUNDING
    about = {n for each in asked.weights for n in passages.holders(each)}
    about = {n for n in about if asked.share(sentence=n) >= least}
    taken = {n for claim in reading.claims for n in claim.aligned.evidence[:1]}
    passage = [number for number, _ in passages.sentences]
    return any(abs(n - m) <= 1 and passage[n] == passage[m] for n in about for m in taken)


# --- the model of shared words ---


def by_shared_words(
    query: str, output: str, reading: Reading, model: Logistic, meaning: float | None
) -> Settled:
    """
    Judge by the words that query, output and passages share, as *model* weighs them.

    *meaning* is the similarity of query and output, in [0, 1], if an embedding model is configured.
    """
    if not any(word.content for word in words(named(query))):
        return Settled(None, "nothing_asked")
    if only_echoes(query, words(query[:MOST_QUERY_CHARS]), words(output[:MOST_QUERY_CHARS])):
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
