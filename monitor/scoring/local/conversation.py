"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. So the question is expanded: its own words, the item
it points at, and, with less weight, the question and answer before it. Each sentence of the
passages is scored by how much it holds of these. An answer is relevant if the sentence from which
it is taken scores about as high as the best one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import language, words
from monitor.scoring.local.passages import PREFIX
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import (
    DOES_AT_LEAST,
    DOES_NOT_AT_MOST,
    UNCLEAR,
    Settled,
    begins_with_yes_or_no,
    figure_asked,
    has_figure,
    lacks_place,
    light,
    named,
    only_yes_or_no_is_asked,
    pattern,
)

_SHORT = 4  # content words of a question that may need the turns before it
_TURNS_BACK, _TURN_CHARS = 6, 4_000
_MOST_SENTENCES, _MOST_CLAIMS = 400, 20  # bound the time
_ENOUGH = 0.7  # share of the best sentence's score
_NEARLY = 0.9  # share of the best alignment from which an answer may be taken from there as well
_KNOWN = 0.2  # share of a question's information that the passages must hold to tell
# Weight of the turns before: where the question leans on them, and where it has words of its own.
_LEANING, _STANDING = 0.6, 0.3
_OTHER_ITEM = -0.5
# What a word counts that is only elsewhere in the passage. An item or a topic is often named once.
_OWN_AROUND, _TOPIC_AROUND = 0.4, 0.8
_MOST_HEAD_WORDS = 5  # of what a colon sets before a passage
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
Keys = frozenset[str]  #: beginnings of stems, and groups of related words in brackets


class FollowUp(NamedTuple):
    """A question, with what it takes from the turns before it."""

    query: str
    own: tuple[Keys, ...]  #: of each of its informative words
    item: tuple[Keys, Keys] | None  #: what names the item it points at, and the other items
    before: str  #: the question before
    answered: str  #: the answer before
    leans: bool  #: it only names what is different this time, or nothing at all

    @property
    def keys(self) -> Keys:
        """The keys of its own words."""
        return frozenset().union(*self.own)


class ScoredSentence(NamedTuple):
    """A sentence of the passages: its keys, and those of its whole passage."""

    keys: Keys
    passage: Keys
    text: str


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, alone: Settled
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *alone* is the relevance to the question without them.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    query = pattern("thanking", r"^(?:(?:{})[\s,.!]+)+").sub("", query)
    refuses = not reading.claims and any(each.refuses for each in reading.sentences)
    if not turns or refuses or pattern("again", r"^\W*(?:{})").search(query):
        return None
    own, item = tuple(_word_keys(named(query))), _item(query, turns)
    if len(own) > (2 * _SHORT if item and alone.reason != "instruction" else _SHORT):
        return None
    if alone.reason == "instruction" and not item:
        return None
    before, answered = (
        next((t.content[:_TURN_CHARS] for t in reversed(turns) if t.role == role), "")
        for role in ("user", "assistant")
    )
    goes_on = pattern("goes_on", r"[\s¿]*(?:{})").match(query)
    question = FollowUp(query, own, item, before, answered, leans=bool(goes_on) or not own)
    found = _judge(question, output, reading)
    if found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(alone.relevance or 0.0, DOES_AT_LEAST))


def _judge(question: FollowUp, output: str, reading: Reading) -> Settled:
    """Judge by the kind of thing that is asked for, then by where the answer is taken from."""
    said = _keys(output)
    kind = figure_asked(question.query)
    elliptic = question.leans and not pattern("wh").search(question.query)
    if kind is None and elliptic and question.keys.isdisjoint(said):
        kind = figure_asked(question.before)  # "And in winter?" asks for the same once more
    has = has_figure(kind, output) if kind else None
    if has is False:
        return Settled(DOES_NOT_AT_MOST, f"It lacks the {kind} that is asked for.")
    if reason := _shortcoming(question, output, said):
        return Settled(DOES_NOT_AT_MOST, reason)
    return _by_evidence(question, output, reading, kind if has else None)


def _by_evidence(question: FollowUp, output: str, reading: Reading, kind: str | None) -> Settled:
    """Judge by the sentences an answer is taken from; it gives a figure of *kind*, if any."""
    said, sentences = _keys(output), _sentences(reading)
    yes_no, answers = only_yes_or_no_is_asked(question.query), begins_with_yes_or_no(output)
    taken = [sentences[n]._replace(keys=sentences[n].keys | said) for n in _taken_from(reading)]
    if not taken:
        return Settled(DOES_AT_LEAST, "It answers yes or no.") if yes_no and answers else UNCLEAR
    fitting = [each for each in sentences if kind and has_figure(kind, each.text)] or sentences
    counts = Counter(key for each in sentences for key in each.keys)
    weights = {key: math.log(1.0 + len(sentences) / n) for key, n in counts.items()}
    ours, best = _compare(question, weights, taken, fitting)
    told = [max([weights.get(key, 0.0) for key in keys]) for keys in question.own]
    total = sum(each or math.log(1.0 + len(sentences)) for each in told)
    tells = question.item is not None or sum(told) >= _KNOWN * total
    if (tells or kind) and ours >= _ENOUGH * best > 0:
        return Settled(DOES_AT_LEAST, "It takes up what the conversation is about.")
    if tells and (question.own or question.item):
        return Settled(DOES_NOT_AT_MOST, "The passages speak of it elsewhere.")
    evades = not (
        tells or kind or question.leans or answers or pattern("conditions").search(output)
    )
    if yes_no and evades and question.keys.isdisjoint(said):
        return Settled(DOES_NOT_AT_MOST, "It says neither yes nor no.")
    return UNCLEAR


def _shortcoming(question: FollowUp, output: str, said: Keys) -> str | None:
    """Return why an answer cannot be right, whatever the passages say; None if it can."""
    if lacks_place(question.query, output):
        return "It lacks the place that is asked for."
    if question.item or not question.keys.isdisjoint(said):
        return None
    if only_yes_or_no_is_asked(question.query) and begins_with_yes_or_no(output):
        return None
    informative, known = (
        {word.stem for word in words(text) if word.content} for text in (output, question.answered)
    )
    return "It repeats the answer before." if informative and informative <= known else None


def _compare(
    question: FollowUp,
    weights: Mapping[str, float],
    taken: list[ScoredSentence],
    fit: list[ScoredSentence],
) -> tuple[float, float]:
    """Return the highest scores of the sentences an answer is taken from, and of all that fit."""
    own, item = question.keys, question.item or (frozenset(), frozenset())
    topic = (_keys(named(question.before)) | _keys(question.answered)) - own
    parts = (
        (dict.fromkeys(own, 1.0), 1.0, _OWN_AROUND),
        (dict.fromkeys(topic, 1.0), _LEANING if question.leans else _STANDING, _TOPIC_AROUND),
        (dict.fromkeys(item[1], _OTHER_ITEM) | dict.fromkeys(item[0], 1.0), 1.0, _TOPIC_AROUND),
    )
    totals = [0.0] * (len(taken) + len(fit))
    for signs, scale, around in parts:
        wanted = {key: n * weights[key] for key, n in signs.items() if key in weights}
        scores = [
            sum(
                w * (1.0 if key in c.keys else around * (key in c.passage))
                for key, w in wanted.items()
            )
            for c in (*taken, *fit)
        ]
        if (most := max(scores)) > 0:
            totals = [t + scale * s / most for t, s in zip(totals, scores, strict=True)]
    return max(totals[: len(taken)]), max(totals[len(taken) :])


def _sentences(reading: Reading) -> list[ScoredSentence]:
    """Return the sentences of the passages; what a colon sets before one belongs to all of it."""
    heads: dict[int, Keys] = {}
    passages: dict[int, Keys] = {}
    found = []
    for n, text in reading.passages.sentences[:_MOST_SENTENCES]:
        head, colon, _ = text.partition(":")
        short = colon and len(head.split()) <= _MOST_HEAD_WORDS
        keys = _keys(text) | heads.setdefault(n, _keys(head) if short else frozenset())
        passages[n] = passages.get(n, frozenset()) | keys
        found.append((n, keys, text))
    return [ScoredSentence(keys, passages[n], text) for n, keys, text in found]


def _taken_from(reading: Reading) -> set[int]:
    """Return the sentences of the passages, by number, that hold most of a claim of the answer."""
    found = set[int]()
    for claim in reading.claims[:_MOST_CLAIMS]:
        aligned = claim.aligned
        numbers = {n for stem in aligned.weights for n in reading.passages.holders(stem)}
        least = _NEARLY * aligned.shares[0]
        found |= {n for n in numbers if n < _MOST_SENTENCES and aligned.share(sentence=n) >= least}
    return found


def _keys(*texts: str) -> Keys:
    """Return the keys of texts: what tells one subject from another."""
    return frozenset[str]().union(*(keys for text in texts for keys in _word_keys(text)))


def _word_keys(text: str) -> Iterator[Keys]:
    """
    Yield the keys of each informative word: the beginning of its stem.

    Words that belong together, such as "heavy" and "weighs", share one more. Capitals make a name
    of what is a word of no information otherwise: "US", "hall B".
    """
    for word in words(text):
        lower = word.surface.lower()
        capitals = word.surface.isupper() and (len(lower) > 1 or word.surface in _NAMING)
        if lower not in light() or capitals:
            own = {word.stem[:PREFIX]} if word.content or capitals else set[str]()
            if keys := _related(lower) | own:
                yield keys


@lru_cache(maxsize=20_000)
def _related(word: str) -> Keys:
    """Return the groups of words that belong together which have *word*, by names no word has."""
    groups = language()["related"].items()
    return frozenset(f"({name})" for name, like in groups if re.fullmatch(like, word))


def _item(query: str, turns: Sequence[Turn]) -> tuple[Keys, Keys] | None:
    """Return what names the item that a question points at, and what names the others."""
    spans, ordinals = language()["conversation"]["spans"], language()["conversation"]["places"]
    places = [
        n
        for n, place in enumerate(ordinals)
        if re.search(rf"\b(?:{place})\b(?!\W+(?:{spans}))", query, re.IGNORECASE)
    ]
    for turn in reversed(turns if len(places) == 1 else []):
        items = _items(turn.content[:_TURN_CHARS]) if turn.role == "assistant" else []
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            others = frozenset().union(*(each for n, each in enumerate(items) if n != at))
            wanted = items[at] - others
            return (wanted, others - items[at]) if wanted else None
    return None


def _items(text: str) -> list[Keys]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [_keys(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, listed = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [[w.stem[:PREFIX] for w in words(part) if w.content] for part in parts]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []
