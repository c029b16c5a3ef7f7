"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. So the question is expanded: its own words, the item
it points at, and, with less weight, the question before. Each sentence of the passages is scored
by how much it holds of these. An answer is relevant if the sentence that it is taken from scores
about as high as the best one.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import language, light, listed, words
from monitor.scoring.local.passages import PREFIX, Passages
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import (
    DOES_AT_LEAST,
    DOES_NOT_AT_MOST,
    ELSEWHERE,
    UNCLEAR,
    YES_NO,
    Settled,
)
from monitor.scoring.local.requests import (
    asks_again,
    begins_with_yes_or_no,
    leans,
    only_yes_or_no_is_asked,
    pattern,
)

_MOST_ASKED = 10  # content words of a question that may need the turns before it
_TURNS_BACK, _MOST_CHARS = 6, 4_000  # characters of a turn, a sentence or an answer
_MOST_SENTENCES, _MOST_CLAIMS = 400, 20  # bound the time
_ENOUGH, _BARELY = 0.8, 0.6  # shares of the best score that pass, and below which it fails
_COPIES = 0.5  # share of an answer that one or two sentences hold: it is surely from there
_ADDS = 0.3  # share that a second sentence must add, to count
_TOPIC = 0.1  # weight of the question before
_AROUND = 0.35  # what a word counts that only another sentence of the passage has
_GOES_ON = pattern("goes_on_about", r"\s*(?:{})\b")
_AGAIN, _LITTLE_NEW = 0.5, 0.3  # share of the answer before that is repeated; share that is new
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)

Keys = frozenset[str]  #: how words begin, by stem


class Wanted(NamedTuple):
    """What a question wants of a sentence: keys of its own words, and of the turns before."""

    own: Keys
    item: Keys  #: of a list that it points at
    before: Keys  #: the question before
    answered: Keys  #: the answer before


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, alone: Settled
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *alone* is the relevance to the question without them.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    refuses = not reading.claims and any(each.refuses for each in reading.sentences)
    if not turns or refuses or asks_again(query):
        return None
    before, answered = (
        next((_keys(t.content[:_MOST_CHARS]) for t in reversed(turns) if t.role == role), Keys())
        for role in ("user", "assistant")
    )
    query = query[:_MOST_CHARS]
    wanted = Wanted(_keys(query), _item(query, turns), before, answered)
    if len(wanted.own) > _MOST_ASKED or (alone.reason == "instruction" and not wanted.item):
        return None
    found = _judge(query, output, reading, wanted)
    if found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(alone.relevance or 0.0, DOES_AT_LEAST))


def _judge(query: str, output: str, reading: Reading, wanted: Wanted) -> Settled:
    """Compare the sentences that an answer is taken from with all sentences of the passages."""
    taken = _taken_from(reading, wanted.own)
    if not taken:
        answers = only_yes_or_no_is_asked(query) and begins_with_yes_or_no(output)
        return Settled(DOES_AT_LEAST, YES_NO) if answers else UNCLEAR
    scores = _scores(reading.passages, wanted)
    best, best_own = (max(column) for column in zip(*scores, strict=True))
    ours, ours_own = (max(column) for column in zip(*map(scores.__getitem__, taken), strict=True))
    points = wanted.item or leans(query) or "?" in query
    if points and (not ours_own or ours_own < best_own) and _repeats(query, output, wanted):
        return Settled(DOES_NOT_AT_MOST, "It repeats the answer before.")
    tells = wanted.item or best_own > 0  # else the passages have none of its words
    if tells and ours >= _ENOUGH * best:
        return Settled(DOES_AT_LEAST, "It takes up what the conversation is about.")
    copied = max(claim.aligned.shares[1] for claim in reading.claims) >= _COPIES
    fails = tells and points and copied and ours < _BARELY * best
    return Settled(DOES_NOT_AT_MOST, ELSEWHERE) if fails else UNCLEAR


def _scores(passages: Passages, wanted: Wanted) -> list[tuple[float, float]]:
    """Return how much each sentence holds of all that is wanted, and of its own words."""
    sentences = passages.sentences[:_MOST_SENTENCES]
    held, around = list[Keys](), defaultdict[int, set[str]](set)
    for number, text in sentences:
        goes_on = number in around and _GOES_ON.match(text)  # "It costs 5 euros."
        held.append(_keys(text[:_MOST_CHARS]) | (held[-1] if goes_on else Keys()))
        around[number] |= held[-1]
    tells = {key: math.log(1.0 + len(held) / n) for key, n in Counter(chain(*held)).items()}
    parts = [
        [
            sum(tells[key] * (1.0 if key in keys else _AROUND) for key in each & around[number])
            for each in (wanted.own, wanted.item, wanted.before - wanted.own)
        ]
        for (number, _), keys in zip(sentences, held, strict=True)
    ]
    most = [max(column) or 1.0 for column in zip(*parts, strict=True)]
    shares = [[part / top for part, top in zip(each, most, strict=True)] for each in parts]
    return [(own + 2 * item + _TOPIC * before, own) for own, item, before in shares]


def _repeats(query: str, output: str, wanted: Wanted) -> bool:
    """Return whether *output* says the answer before once more, and nothing of what is new."""
    said, old = _keys(output[:_MOST_CHARS]), wanted.before | wanted.answered
    compares = not listed("asking").isdisjoint(word.stem for word in words(query))
    if (
        wanted.item
        or compares  # "Which one is cheaper?"
        or (only_yes_or_no_is_asked(query) and not leans(query))
        or said & wanted.own - old
        or pattern("likewise").search(output)  # "Also from 9 to 7."
    ):
        return False
    again = len(said & wanted.answered) >= _AGAIN * len(wanted.answered)
    return again and len(said - old) < _LITTLE_NEW * len(said)


def _taken_from(reading: Reading, asked: Keys) -> set[int]:
    """
    Return the sentences that an answer is taken from, by the words that were not *asked*.

    After "And the Mini?", "The Mini has four ports" is from where four ports are, not the Mini.
    """
    found, passages = set[int](), reading.passages
    for aligned in [claim.aligned for claim in reading.claims[:_MOST_CLAIMS]]:
        repeated = {w.stem for w in aligned.tokens if not _keys(w.surface).isdisjoint(asked)}
        new = {stem: w for stem, w in aligned.weights.items() if stem not in repeated}
        evidence, (first, both) = passages.best(new or aligned.weights)
        found.update(evidence[1:] if both - first >= _ADDS else ())
        held = Counter[int]()
        for each, weight in (new or aligned.weights).items():
            held.update({number: round(1000 * weight) for number in passages.holders(each)})
        most = max(held.values(), default=0)
        found.update(number for number, weight in held.items() if weight == most)
    return {number for number in found if number < _MOST_SENTENCES}


def _item(query: str, turns: Sequence[Turn]) -> Keys:
    """Return what names the item of a list that a question points at, and no other item."""
    articles, spans, ordinals = (
        language()["conversation"][name] for name in ("articles", "spans", "places")
    )
    places = [
        n
        for n, place in enumerate(ordinals)
        if re.search(rf"(?i)\b(?:{articles})\W*(?:{place})\b(?!\W+(?:{spans}))", query)
    ]
    for turn in reversed(turns if len(places) == 1 else []):
        items = _items(turn.content[:_MOST_CHARS]) if turn.role == "assistant" else []
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            return items[at].difference(*(each for n, each in enumerate(items) if n != at))
    return Keys()


def _items(text: str) -> list[Keys]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [_keys(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, rest = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(rest.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            if not colon:  # the first part begins with what leads to the list
                parts[0] = " ".join(parts[0].split()[-max(len(p.split()) for p in parts[1:]) :])
            return [*map(_keys, parts)]
    return []


@lru_cache(maxsize=4096)
def _keys(text: str) -> Keys:
    """Return how the informative words of a text begin; capitals make a name of any word: "US"."""
    found = set()
    for word in words(text):
        capitals = word.surface.isupper() and len(word.surface) > 1
        if capitals or (word.content and word.surface.lower() not in light()):
            decomposed = unicodedata.normalize("NFD", word.stem)
            found.add("".join(c for c in decomposed if not unicodedata.combining(c))[:PREFIX])
    return frozenset(found)
