"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. What the answer says that was not asked shows which
sentences of the passages it is taken from. These, the question and the turns before are counted
and weighed by a logistic model.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import Any

from monitor.models.interaction import Turn
from monitor.scoring.language import denies, language, light, listed, words
from monitor.scoring.local.changes import GOES_ON
from monitor.scoring.local.logistic import Logistic, probability
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import UNCLEAR, Settled
from monitor.scoring.local.requests import (
    asks,
    asks_again,
    begins_with_yes_or_no,
    leans,
    pattern,
)

#: All are shares in [0, 1], or yes (1) or no, but ``new_words``.
FOLLOW_UP_FEATURES = (
    "asked_nowhere",  # whether the passages have nothing of what the question names
    "other_item",  # whether the answer is from a sentence without the item the question points at
    "copied_elsewhere",  # of a claim, in a sentence with less of the question than the best one
    "other_passage",  # how much less of the conversation its passage has than one that is like it
    "new_words",  # log of the words that the answer has from passages and no turn had before
    "new_there",  # of these, in the sentence with most of the question and the turns before
    "old_numbers",  # of the answer's numbers, in earlier answers
    "repeated",  # of the answer before, in this one
)
#: How a low relevance is explained, by the figure that speaks most against the answer.
_AGAINST = {
    "asked_nowhere": "The passages have nothing of what is asked.",
    "other_item": "It is about another item than the one that is asked about.",
    "copied_elsewhere": "It is from another sentence than the one about what is asked.",
    "other_passage": "It is from another passage than the one that the conversation is about.",
    "old_numbers": "It has the numbers of an earlier answer, and little that is new.",
}
#: Probabilities between which relevance is skipped.
FAILS, PASSES = 0.18, 0.55
_TURNS_BACK, _MOST_CHARS, _MOST_CLAIMS = 6, 4_000, 20  # of a turn, an answer: bounds on time
_ADDS = 0.3  # share that a second sentence must add, to count
# Weight of a word of the turns before, for a sentence and for a passage; one of the question has 1.
_BEFORE, _SPOKEN = 0.5, 0.25
_FINE = 1_000  # steps of what a word tells, so that equal sums are equal
_LINE = re.compile(r"^[^\S\n]*(?:[-*•–]|\(?\d{1,2}[.)])[^\S\n]+(\S.*)$", re.MULTILINE)

Keys = frozenset[str]  #: the stems that name what a text is about


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, model: Logistic
) -> Settled | None:
    """
    Judge an answer by the sentences that it is taken from, as *model* weighs its figures.

    None without a question or turns, for a refusal, and where the answer before is asked for again.
    """
    turns = _latest(history)
    refuses = not reading.claims and any(each.refuses for each in reading.sentences)
    is_question = asks(query) or leans(query)
    if not (turns and is_question) or refuses or asks_again(query):
        return None
    values = follow_up_features(query, turns, output, reading)
    if values is None:
        return None if begins_with_yes_or_no(output) else UNCLEAR
    if FAILS <= (score := probability(model.log_odds(values))) < PASSES:
        return UNCLEAR
    parts = {
        name: weight * value
        for name, value, (weight, *_) in zip(FOLLOW_UP_FEATURES, values, model.terms, strict=True)
    }
    if score >= PASSES:
        return Settled(score, "It comes from the sentences that the conversation is about.")
    worst = min(_AGAINST, key=parts.__getitem__)
    compares = not listed("asking").isdisjoint(word.stem for word in words(query))
    may_repeat = compares or pattern("likewise").search(output)  # "Also from 9 to 7."
    return UNCLEAR if worst == "old_numbers" and may_repeat else Settled(score, _AGAINST[worst])


def follow_up_features(
    query: str, history: Sequence[Turn], output: str, reading: Reading
) -> list[float] | None:
    """
    Return the figures of an answer in a conversation, in the order of ``FOLLOW_UP_FEATURES``.

    None if it is taken from no sentence of the passages.
    """
    passages, keys, turns = reading.passages, _keys_in(reading), _latest(history)
    query, said = query[:_MOST_CHARS], keys(output)
    item = _item(query, turns, keys)
    own = keys(query) | item
    if not (sources := _taken_from(reading, keys(query))):
        return None
    by_user, answers = (
        [keys(turn.content) for turn in turns if turn.role == role]
        for role in ("user", "assistant")
    )
    before, answered = Keys().union(*by_user), Keys().union(*answers)
    spoken = before | answered
    held, of_item = _held(passages, own), _held(passages, item)
    there, best = max(held[number] for number in sources), max(held.values(), default=0)
    copied = max(claim.aligned.shares[1] for claim in reading.claims[:_MOST_CLAIMS])
    for number, part in _held(passages, before - own).items():
        held[number] += round(_BEFORE * part)
    most = max(held.values(), default=0)
    nearest = Keys().union(*(passages.stems[n] for n, part in held.items() if part == most))
    new = {stem for stem in said - own - spoken if passages.holders(stem)}
    numbers, told = (
        {word.stem for text in texts for word in words(text, passages.language) if word.number}
        for texts in ([output], [t.content[:_MOST_CHARS] for t in turns if t.role == "assistant"])
    )
    last = answers[-1] if answers else Keys()
    return [
        float(not best),
        float(bool(of_item) and of_item.keys().isdisjoint(sources)),
        (1.0 - there / best) * copied if best else 0.0,
        # "And the Mini?" is about another item than before, wherever that is
        0.0 if leans(query) and not best else _is_other_passage(passages, own, spoken, sources),
        math.log1p(len(new)),
        len(new & nearest) / max(len(new), 1),
        len(numbers & told) / max(len(numbers), 1),
        len(said & last) / max(len(last), 1),
    ]


def _is_other_passage(passages: Passages, asked: Keys, spoken: Keys, sources: set[int]) -> float:
    """
    Return how far an answer is from another passage than the conversation is about, in [0, 1].

    It is how much less the passage of the *sources* has of what was *asked* and *spoken* of than
    the one that has most, times the share of words that both have: only an item of the same kind
    is mistaken for another.
    """
    places, stems_of = [number for number, _ in passages.sentences], defaultdict[Any, set[str]](set)
    for place, stems in zip(places, passages.stems, strict=True):
        stems_of[place] |= stems
    held = Counter[int | None]()
    for stem in asked | spoken:
        tells = round(_FINE * passages.tells(stem) * (1.0 if stem in asked else _SPOKEN))
        held.update(dict.fromkeys({places[n] for n in passages.holders(stem)}, tells))
    most, own = (
        max(map(held.__getitem__, each)) for each in (places, [places[n] for n in sources])
    )
    if not most:
        return 0.0
    best = [stems_of[place] for place in stems_of if held[place] == most]
    taken = [stems_of[place] for place in {places[n] for n in sources} if held[place] == own]
    alike = max(len(a & b) / (min(len(a), len(b)) or 1) for a, b in product(best, taken))
    return (1.0 - own / most) * alike


def is_from_user(reading: Reading, history: Sequence[Turn]) -> bool:
    """
    Return whether an answer only repeats what the user stated in one of the turns before.

    What a passage has a word of is a matter of the passages.
    """
    turns = [turn.content[:_MOST_CHARS] for turn in _latest(history) if turn.role == "user"]
    remarks = [turn for turn in turns if not asks(turn)]
    stated = [words(turn, reading.passages.language) for turn in remarks]
    known = [{word.stem for word in each} for each in stated if not any(map(denies, each))]
    tokens = [word for claim in reading.claims for word in claim.aligned.tokens]
    said = {word.stem for word in tokens if word.content}
    held = any(claim.covered or claim.changes for claim in reading.claims)
    return not (held or any(map(denies, tokens))) and any(said <= each for each in known)


def _latest(history: Sequence[Turn]) -> list[Turn]:
    """Return the latest turns of user and assistant."""
    return [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]


def _keys_in(reading: Reading) -> Callable[[str], Keys]:
    """Return what reads the keys of a text in the language of the passages."""

    def keys(text: str) -> Keys:
        said = words(text[:_MOST_CHARS], reading.passages.language)
        names = [w.stem for w in said if w.surface.isupper() and len(w.surface) > 1]  # "US"
        return Keys(
            [w.stem for w in said if w.content and w.surface.lower() not in light()] + names
        )

    return keys


def _held(passages: Passages, stems: Iterable[str]) -> Counter[int]:
    """
    Return how much of *stems* each sentence has; rare ones count more.

    A sentence that goes on about the one before it ("It costs ...") has as much as that one.
    """
    held = Counter[int]()
    for stem in stems:
        held.update(dict.fromkeys(passages.holders(stem), round(_FINE * passages.tells(stem))))
    for number, ((of, _), (following, text)) in enumerate(pairwise(passages.sentences)):
        if held[number] and of == following and GOES_ON.match(text):
            held[number + 1] = max(held[number], held[number + 1])
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
        found.update(evidence[: 2 if both - first >= _ADDS else 1])
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
