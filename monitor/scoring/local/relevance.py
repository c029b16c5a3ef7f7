"""
Measure how well an answer speaks to its question, and settle what is not a plain question.

A model of shared words would fail instructions, small talk, yes or no and numbers: an instruction
names a task and not a subject, and "Yes." shares nothing with its question. Where the words cannot
tell, relevance is skipped.

A question may need the turns before it. "And on Sundays?" names what is different this
time, "the second one" an item of a list in an earlier answer, "why not?" nothing by itself. An
answer is about something if it names it, or if the sentence of the passages from which it is taken
does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import Word, language, listed, words
from monitor.scoring.local.passages import PREFIX, Passages, plain_times
from monitor.scoring.local.reading import MOST_QUERY_CHARS, Reading, ReadSentence

RELEVANCE_FEATURES = (
    "query_covered",  # share of the query's information that the answer takes up
    "query_covered_near",  # the same, where words that begin alike count
    "query_bigrams",  # share of its pairs of words that the answer repeats
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
_MOST_TALK = 10  # words
_BARE, _TERSE = 8, 12  # words of a bare yes or no, and of an answer that is a number or a name
_EVEN = 0.5  # below it words speak against an answer
_FEW_ASKED, _FEW_SAID = 3, 4  # words of a question and an answer that say too little to compare
_FIRST = 4  # words of a question that say what it asks for
_OWN_TEXT = 12  # content words of a request that brings its text along
_NO_FIGURE = 0.15  # relevance of an answer without the number that is asked for, at most
_SHORT = 4  # content words of a question that may need the turns before it
_TURNS_BACK = 6
_TURN_CHARS = 4_000
_REPEATED, _LEAST_REPEATED = 0.9, 3  # share of an answer's words that were said before; of how many
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
Stems = frozenset[str]


class Settled(NamedTuple):
    """A relevance in [0, 1] with its reason, or None with why it is skipped."""

    relevance: float | None
    reason: str


_UNCLEAR = Settled(None, "unclear_reference")


@cache
def pattern(name: str, form: str = r"\b(?:{})\b") -> re.Pattern[str]:
    """Return a turn of phrase of ``language.toml``, by name: as whole words, or within *form*."""
    known = language()["requests"] | language()["conversation"]
    phrases = known[name] if isinstance(known[name], str) else "|".join(known[name])
    return re.compile(form.format(phrases), re.IGNORECASE)


def relevance_features(
    query: str, output: str, sentences: Sequence[ReadSentence], passages: Passages
) -> list[float]:
    """Return the figures of a query and an output, in the order of ``RELEVANCE_FEATURES``."""
    asked, said = words(query[:MOST_QUERY_CHARS]), words(output[:MOST_QUERY_CHARS])
    question = passages.weigh(asked)
    answer = {word.stem for word in said if word.content}
    total = sum(question.values()) or 1.0
    beginnings = {word[:PREFIX] for word in answer}
    covered = sum(weight for word, weight in question.items() if word in answer)
    near = sum(w for word, w in question.items() if word[:PREFIX] in beginnings)
    new = answer - question.keys()
    speaking = {number for word in question for number in passages.holders(word)}
    on_query = sum(not speaking.isdisjoint(passages.holders(word)) for word in new)
    pairs, others = ({*pairwise([w.stem for w in side])} for side in (asked, said))
    fits, misses = type_of_answer(query, output, said)
    return [
        covered / total,
        near / total,
        len(pairs & others) / max(len(pairs), 1),
        len(new) / max(len(answer), 1),
        sum(each.refuses for each in sentences) / max(len(sentences), 1),
        on_query / max(len(new), 1),
        misses,
        float(not (fits or misses)),
        1 - len({word.stem for word in said}) / max(len(said), 1),
        sum(word.stem in listed("first_person") for word in said) / max(len(said), 1),
    ]


def named(query: str) -> str:
    """Return *query* without what asks for a figure and names nothing, such as "how long"."""
    return pattern("how_much").sub(" ", query[:MOST_QUERY_CHARS])


def names_anything(query: str) -> bool:
    """Return whether *query* names what an answer can take up."""
    return any(word.content for word in words(named(query)))


def _asks_yes_or_no(query: str) -> bool:
    return pattern("asks_yes_no", r"\s*(?:{})\b").match(query) is not None


def only_echoes(query: str, asked: Sequence[Word], said: Sequence[Word]) -> bool:
    """Return whether an output adds no word to a query that leaves no choice between its own."""
    known = {word.stem for word in asked}
    if any(word.content and word.stem not in known for word in said):
        return False
    return not (_asks_yes_or_no(query) or "or" in query.lower().split())


def type_of_answer(query: str, output: str, said: Sequence[Word]) -> tuple[float, float]:
    """Return whether the kind of thing asked for (a person, a date, a number) is there, missing."""
    if pattern("asks_name").search(query):
        fits = any(word.capital for word in said)
    elif pattern("asks_number").search(query):
        fits = any(word.number for word in said)
    else:
        says = pattern("says_yes_no", r"\W*(?:{})\b").match(output)
        return float(says is not None and _asks_yes_or_no(query)), 0.0
    return float(fits), float(not fits)


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer to a request of these kinds; None where *query* is none of them.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    plain = query.strip().strip("¿¡").strip()
    if _is_small_talk(plain):
        return Settled(None, "small_talk")
    task = pattern("polite", r"^(?:(?:{})[,\s]+)+").sub("", plain)
    taken = [claim.values[0] for claim in reading.claims]  # share that the passages hold
    if pattern("transform", r"(?:{})\b").match(task):
        return _worked_on(query, task, output, taken)
    retold = max(taken, default=0.0) >= _TAKEN and pattern("retell", r"(?:{})\b").match(task)
    if (creates := pattern("create", r"(?:{})\b").match(task)) or retold:
        certain = (relevance or 0.0) >= (DOES_AT_LEAST if creates else _EVEN)
        return None if certain else Settled(None, "instruction")
    if _only_yes_or_no(plain, output):
        return Settled(DOES_AT_LEAST, "It answers yes or no.")
    return None if relevance is None else _terse(plain, output, reading, relevance)


def _worked_on(query: str, task: str, output: str, taken: list[float]) -> Settled:
    """Judge a summary or another form of a text: of the passages, else of the request itself."""
    if not taken:
        own, said = ({w.stem for w in words(text) if w.content} for text in (query, output))
        taken = [len(said & own) / len(said)] if said and len(own) >= _OWN_TEXT else []
    if not taken or asks_translation(task) or _NOT_TAKEN < max(taken) < _TAKEN:
        return Settled(None, "instruction")
    if max(taken) >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    return Settled(DOES_NOT_AT_MOST, "It takes up nothing of the text that was handed over.")


def asks_translation(query: str) -> bool:
    """Return whether *query* wants a text in other words than those of its passages."""
    return pattern("translate").search(" ".join(query.split()[:_BARE])) is not None


def _is_small_talk(query: str) -> bool:
    """Return whether *query* only greets, thanks, agrees or asks who is there."""
    said = re.findall(r"[\w']+", query.replace("\u2019", "'"))
    only_talks = 0 < len(said) <= _MOST_TALK and all(map(pattern("talk", "{}").fullmatch, said))
    greets = only_talks and pattern("talk_core").search(query)
    return bool(greets or pattern("talk_phrases", r"(?:{})\W*").fullmatch(query))


def _only_yes_or_no(query: str, output: str) -> bool:
    """Return whether *output* says yes or no and nothing else, to a question of that kind."""
    said, known = words(output), {word.stem for word in words(query)}
    yes_or_no = pattern("yes_no", r"\W*(?:unfortunately |leider )?(?:{}|not)\b")
    if len(said) > _BARE or not query.endswith("?") or not yes_or_no.match(output):
        return False
    beyond = [w for w in words(yes_or_no.sub("", output)) if w.content and w.stem not in known]
    asks_what = pattern("wh").search(query) and not _asks_yes_or_no(query)
    return not beyond and not asks_what


def _terse(query: str, output: str, reading: Reading, relevance: float) -> Settled | None:
    """Judge "14" and "In 1987.", and answers that lack the number that is asked for."""
    said = words(plain_times(output))
    asked = {word.stem for word in words(query) if word.content}
    told = {word.stem for claim in reading.claims for word in claim.aligned.found}
    new = [word for word in said if word.content and word.stem not in asked]
    terse = 0 < len(new) <= len(said) <= _TERSE and all(word.stem in told for word in new)
    if pattern("asks_number").search(" ".join(query.split()[:_FIRST])):
        if not any(word.number for word in said):
            if pattern("quantities").search(output):
                return None
            lacks = "It lacks the number or the time that is asked for."
            return Settled(min(relevance, _NO_FIGURE), lacks)
        if terse and not asked.isdisjoint(told) and relevance < DOES_AT_LEAST:
            return Settled(DOES_AT_LEAST, "It is a figure from a sentence about the question.")
    vague = terse and len(said) <= _FEW_SAID and len(asked) <= _FEW_ASKED and relevance < _EVEN
    return Settled(None, "terse_answer") if vague else None


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, relevance: float | None
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *relevance* is that of the question alone, in [0, 1], or None if it names nothing.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    asked, said = _stems(query), _stems(output)
    if not turns or len(asked) > 2 * _SHORT or pattern("again", "{}").search(query):
        return None
    sentences = reading.passages.sentences
    best = [claim.aligned.evidence[0] for claim in reading.claims if claim.aligned.evidence]
    told = _stems(*(sentences[n][1] for n in best))
    earlier = [_stems(turn.content[:_TURN_CHARS]) for turn in turns]
    new = asked.difference(*earlier)
    found = None
    if item := _item(query, turns):
        found = _of_item(item, said, told)
    elif len(asked) <= _SHORT:
        past = frozenset[str]().union(*earlier)
        repeats = len(said & past) >= _REPEATED * len(said) and len(said) >= _LEAST_REPEATED
        if new and repeats and not _named(new, said):
            found = Settled(DOES_NOT_AT_MOST, "It repeats what was said before.")
        elif new and pattern("goes_on", r"[\s¿]*(?:{})").match(query):
            found = _UNCLEAR
            if _named(new, said | told):
                found = Settled(DOES_AT_LEAST, "It takes up what is new in the question.")
            elif _named(new, reading.passages.prefixes):
                found = Settled(
                    DOES_NOT_AT_MOST, "It takes up nothing of what is new in the question."
                )
        else:
            before = [n - 1 for n in best if n and sentences[n - 1][0] == sentences[n][0]]
            around = said | told | _stems(*(sentences[n][1] for n in before))
            goes_on = _named(frozenset[str]().union(*earlier[-2:]), around)
            found = _of_the_subject(query, output, told, goes_on=goes_on)
    if found is None or found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(relevance or 0.0, DOES_AT_LEAST))


def _of_item(item: tuple[Stems, Stems], said: Stems, told: Stems) -> Settled:
    """Judge an answer about one item of a list, by what names it and what names the others."""
    for named in (said, told):
        if _named(item[0], named):
            return Settled(DOES_AT_LEAST, "It is about the item that is asked for.")
        if _named(item[1], named):
            return Settled(DOES_NOT_AT_MOST, "It is about another item of the list.")
    return _UNCLEAR


def _of_the_subject(query: str, output: str, told: Stems, *, goes_on: bool) -> Settled | None:
    """Judge whether an answer goes on with the subject; None where that does not settle it."""
    if names_anything(query):
        says = pattern("yes_no", r"[\s¡]*(?:{})\b").match(output)
        if not goes_on or not (says or _named(_stems(query), _stems(output) | told)):
            return None
    elif not told:
        return _UNCLEAR
    elif not goes_on or (
        pattern("asks_number").search(query) and not any(w.number for w in words(output))
    ):
        return Settled(DOES_NOT_AT_MOST, "It leaves what the earlier turns are about.")
    return Settled(DOES_AT_LEAST, "It goes on with the earlier turns.")


def _stems(*texts: str) -> Stems:
    """Return the stems of the informative words of some texts, and letters that name something."""
    return frozenset(
        word.stem
        for text in texts
        for word in words(text)
        if word.content or (len(word.surface) == 1 and word.surface in _NAMING)
    )


def _named(wanted: Iterable[str], said: Iterable[str]) -> bool:
    """Return whether one of the *wanted* stems, or its beginning, is among those *said*."""
    beginnings = {stem[:PREFIX] for stem in said}
    return any(stem[:PREFIX] in beginnings for stem in wanted)


def _item(query: str, turns: Sequence[Turn]) -> tuple[Stems, Stems] | None:
    """Return what names the item that an ordinal points at, and what names the others."""
    spans, ordinals = language()["conversation"]["spans"], language()["conversation"]["places"]
    places = [
        n
        for n, place in enumerate(ordinals)
        if re.search(rf"\b(?:{place})\b(?!\W+(?:{spans}))", query, re.IGNORECASE)
    ]
    if len(places) != 1:
        return None
    for turn in reversed(turns):
        items = _items(turn.content[:_TURN_CHARS]) if turn.role == "assistant" else []
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            others = frozenset().union(*(each for n, each in enumerate(items) if n != at))
            wanted = items[at] - others
            return (wanted, others - items[at]) if wanted else None
    return None


def _items(text: str) -> list[Stems]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [_stems(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, listed = sentence.rpartition(":")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [[w.stem for w in words(part) if w.content] for part in parts]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []
