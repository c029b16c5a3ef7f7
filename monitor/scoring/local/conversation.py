"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. Each sentence of the passages is scored by how much
it holds of the words of the question and of the item that it points at. An answer is relevant if
the sentence that it is taken from scores about as high as the best one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from monitor.models.interaction import Turn
from monitor.scoring.language import language, light, listed, words
from monitor.scoring.local.passages import Passages
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

_TURNS_BACK, _MOST_CHARS, _MOST_CLAIMS = 6, 4_000, 20  # of a turn, an answer: bounds on time
_ENOUGH, _BARELY = 0.8, 0.6  # shares of the best score that pass, and below which it fails
_COPIES = 0.5  # share of an answer that one or two sentences hold: it is surely from there
_ADDS = 0.3  # share that a second sentence must add, to count
_ITEM = 2  # weight of the item that a question points at; its own words weigh 1
_AGAIN, _LITTLE_NEW = 0.5, 0.2  # share of the answer before that is repeated; share that is new
_GOES_ON = pattern("goes_on_about", r"\s*(?:{})\b")  # "It costs 5 euros."
_FINE = 1_000  # steps of what a word tells, so that equal sums are equal
_LINE = re.compile(r"^[^\S\n]*(?:[-*•–]|\(?\d{1,2}[.)])[^\S\n]+(\S.*)$", re.MULTILINE)

Keys = frozenset[str]  #: the stems that name what a text is about


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, alone: Settled
) -> Settled | None:
    """
    Judge an answer by the sentences that it is taken from.

    None without a question or turns, for a refusal, and where the answer before is asked for again.
    *alone* is the relevance to the question without the turns before.
    """

    def keys(text: str) -> Keys:
        said = words(text[:_MOST_CHARS], reading.passages.language)
        names = [w.stem for w in said if w.surface.isupper() and len(w.surface) > 1]  # "US"
        return Keys(
            [w.stem for w in said if w.content and w.surface.lower() not in light()] + names
        )

    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    refuses = not reading.claims and any(each.refuses for each in reading.sentences)
    item = _item(query[:_MOST_CHARS], turns, keys)
    is_question = item or leans(query) or "?" in query
    if not (turns and is_question) or refuses or asks_again(query):
        return None
    own = keys(query)
    taken = _taken_from(reading, own)
    if not taken:
        answers = only_yes_or_no_is_asked(query) and begins_with_yes_or_no(output)
        return Settled(DOES_AT_LEAST, YES_NO) if answers else UNCLEAR
    before, answered = (
        next((keys(turn.content) for turn in reversed(turns) if turn.role == role), Keys())
        for role in ("user", "assistant")
    )
    said, own_held = keys(output), _held(reading.passages, own)
    compares = not listed("asking").isdisjoint(word.stem for word in words(query))
    if (
        not (item or compares or pattern("likewise").search(output))  # "Also from 9 to 7."
        and len(said & answered) >= _AGAIN * len(answered)
        and len(said - before - answered) < _LITTLE_NEW * len(said)
        and max(own_held[number] for number in taken) < max(own_held.values(), default=1)
    ):
        return Settled(DOES_NOT_AT_MOST, "It repeats the answer before.")
    scores = _scores(reading.passages, own, item)
    if not scores:  # the passages have none of its words
        return UNCLEAR
    share = max(scores[number] for number in taken) / max(scores.values())
    if share >= _ENOUGH:
        relevance = max(alone.relevance or 0.0, DOES_AT_LEAST)
        return Settled(relevance, "It takes up what the conversation is about.")
    copied = max(claim.aligned.shares[1] for claim in reading.claims) >= _COPIES
    return Settled(DOES_NOT_AT_MOST, ELSEWHERE) if copied and share < _BARELY else UNCLEAR


def _scores(passages: Passages, own: Keys, item: Keys) -> Counter[int]:
    """Return how much sentences hold of a question's own words, and of the item it points at."""
    scores = Counter[int]()
    for keys, weight in ((own, 1), (item, _ITEM)):
        held = _held(passages, keys)
        most = max(held.values(), default=1)
        scores.update({number: weight * part / most for number, part in held.items()})
    for number, ((passage, _), (following, text)) in enumerate(pairwise(passages.sentences)):
        if number in scores and passage == following and _GOES_ON.match(text):
            scores[number + 1] = max(scores[number], scores[number + 1])
    return scores


def _held(passages: Passages, stems: Iterable[str]) -> Counter[int]:
    """Return how much of *stems* each sentence has that has any; rare ones count more."""
    held = Counter[int]()
    for stem in stems:
        held.update(dict.fromkeys(passages.holders(stem), round(_FINE * passages.tells(stem))))
    return held


def _taken_from(reading: Reading, asked: Keys) -> set[int]:
    """
    Return the sentences that an answer is taken from, by the words that were not *asked*.

    After "And the Mini?", "The Mini has four ports" is from where four ports are, not the Mini.
    """
    found = set[int]()
    for aligned in [claim.aligned for claim in reading.claims[:_MOST_CLAIMS]]:
        new = {stem: w for stem, w in aligned.weights.items() if stem not in asked}
        evidence, (first, both) = reading.passages.best(new or aligned.weights)
        found.update(evidence[1:] if both - first >= _ADDS else ())
        held = _held(reading.passages, new or aligned.weights)
        most = max(held.values(), default=0)
        found.update(number for number, part in held.items() if part == most)
    return found


def _item(query: str, turns: Sequence[Turn], keys: Callable[[str], Keys]) -> Keys:
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
        found = _items(turn.content[:_MOST_CHARS]) if turn.role == "assistant" else []
        items = [*map(keys, found)]
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            return items[at].difference(*(each for n, each in enumerate(items) if n != at))
    return Keys()


def _items(text: str) -> list[str]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [re.split(r"[:–—(]|\s-\s", line)[0] for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, rest = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|(?<!\s)\s+(?:{0})\s+")
        parts = [part for part in joins.split(rest.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            if not colon:  # the first part begins with what leads to the list
                parts[0] = " ".join(parts[0].split()[-max(len(p.split()) for p in parts[1:]) :])
            return parts
    return []
