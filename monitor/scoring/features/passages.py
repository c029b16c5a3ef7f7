"""Index the passages of one interaction: which sentence holds which word, and how rare it is."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from typing import Any

from monitor.scoring.features.clock import TIME, minutes_of_day
from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import Word, words

_PREFIX = 5
_NOWHERE: list[int] = []
_MAX_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MAX_PLACES = 30  # of one word, for the distance between two
_FARTHEST = 200  # words; farther is all the same, and so is another passage
_BETWEEN_SENTENCES = 6  # places; words of two sentences do not stand together
_MAX_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality


class Passages:
    """The sentences of all passages, with an index from stems to sentences."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.sentences: list[tuple[int, str]] = []
        self.words: list[tuple[Word, ...]] = []
        for index, context in enumerate(contexts):
            for sentence in split_sentences(flatten(context)):
                if len(self.sentences) < _MAX_SENTENCES:
                    self.sentences.append((index, sentence))
                    self.words.append(words(sentence))
        self.stems = [frozenset(word.stem for word in tokens) for tokens in self.words]
        self.where: dict[str, list[int]] = {}
        for number, stems in enumerate(self.stems):
            for stem in stems:
                self.where.setdefault(stem, []).append(number)
        self.bigrams: set[tuple[str, str]] = set()
        self.places: dict[str, list[int]] = {}
        place, before = 0, 0
        for (passage, _), tokens in zip(self.sentences, self.words, strict=True):
            place += _BETWEEN_SENTENCES if passage == before else 2 * _FARTHEST
            before = passage
            stems_in_order = [word.stem for word in tokens]
            self.bigrams.update(pairwise(stems_in_order))
            for stem in stems_in_order:
                self.places.setdefault(stem, []).append(place)
                place += 1
        #: The information of a word that no passage holds.
        self.unknown = math.log(len(self.sentences) + 9.0)
        #: Asked for many times a sample, and there are few different answers.
        self._information: dict[int, float] = {}
        self.prefixes = {stem[:_PREFIX] for stem in self.where if len(stem) >= _PREFIX - 1}

    @cached_property
    def times(self) -> dict[int | None, str]:
        """The times of day that are told, by minutes since midnight, as they are first written."""
        found = (match[0] for _, text in self.sentences for match in TIME.finditer(text))
        told = {minutes_of_day(text): text for text in reversed([*found])}
        told.pop(None, None)
        return told

    def __len__(self) -> int:
        return len(self.sentences)

    def information(self, stem: str) -> float:
        """Say how much a word tells: rare ones more than common ones."""
        held = len(self.where.get(stem, ()))
        found = self._information.get(held)
        if found is None:
            found = math.log(1.0 + (len(self.sentences) + 8.0) / (held + 1.0))
            self._information[held] = found
        return found

    def rarity(self, stem: str) -> float:
        """Say how rare a word is in general and here together, in [0, 1]."""
        return rarity(stem) * self.information(stem) / self.unknown

    def distance(self, one: str, other: str) -> int | None:
        """
        Count the words from the closest *one* to *other*; negative when *other* comes first.

        None when one of them is nowhere. Of very common words only the first places
        count, and words of different passages are as far apart as can be.
        """
        first = self.places.get(one, _NOWHERE)[:_MAX_PLACES]
        second = self.places.get(other, _NOWHERE)[:_MAX_PLACES]
        if not first or not second:
            return None
        best = _FARTHEST
        j = 0
        for place in first:
            while j < len(second) and second[j] <= place:
                j += 1
            if j < len(second) and second[j] - place <= abs(best):
                best = second[j] - place  # of two as close, the one in order
            before = next((at for at in reversed(second[max(j - 2, 0) : j]) if at != place), None)
            if before is not None and place - before < abs(best):
                best = before - place
        return best

    def follows(self, number: int) -> tuple[int, ...]:
        """Give a sentence and the one after it in the same passage, by number."""
        after = number + 1
        if after < len(self) and self.sentences[after][0] == self.sentences[number][0]:
            return number, after
        return (number,)

    def holders(self, stem: str) -> list[int]:
        """List the sentences that hold a word; of a very common one only the first."""
        return self.where.get(stem, _NOWHERE)[:_MAX_HOLDERS]

    def near(self, stem: str) -> bool:
        """Say whether a word with the same beginning occurs."""
        return len(stem) >= _PREFIX - 1 and stem[:_PREFIX] in self.prefixes

    def best(self, weights: dict[str, float]) -> tuple[list[int], list[float]]:
        """
        Find the sentences that hold most of the weighted stems.

        Returns the best one, then the one that adds most to it, and the share of the
        weight that the first holds and that both hold together.
        """
        total = sum(weights.values())
        if not total or not self.sentences:
            return [], [0.0, 0.0]
        held = self._held(weights)
        if not held:
            return [], [0.0, 0.0]
        first = self._most(held)
        one = held[first] / total
        added = self._held({s: w for s, w in weights.items() if s not in self.stems[first]})
        if not added:
            return [first], [one, one]
        second = self._most(added)
        return [first, second], [one, one + added[second] / total]

    def _most(self, held: dict[int, float]) -> int:
        """Choose the sentence with most weight, then the shortest; never by its position."""
        return max(held, key=lambda n: (held[n], -len(self.stems[n]), self.sentences[n][1]))

    def _held(self, weights: dict[str, float]) -> dict[int, float]:
        """Sum the weights that each sentence holds."""
        held: dict[int, float] = defaultdict(float)
        for stem, weight in weights.items():
            for number in self.holders(stem):
                held[number] += weight
        return held


# --- background ---
# How rare words are in general, counted over many texts; ships as data.


BACKGROUND = "background.v1.json"


def read_background() -> str:
    """Read the list that ships with the package."""
    return resources.files("monitor.scoring.features").joinpath(BACKGROUND).read_text("utf-8")


@cache
def _levels() -> tuple[dict[str, float], float]:
    data = json.loads(read_background())
    known = {word: level["rarity"] for level in data["levels"] for word in level["stems"].split()}
    return known, data["unknown"]


def rarity(stem: str) -> float:
    """Give the rarity of a word: near 0 where every text has it, 1 where it is not listed."""
    known, unknown = _levels()
    return known.get(stem, unknown)


# --- flatten ---
# Write a passage that is JSON as sentences, so that it can be compared like any text.


_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_json(context: str) -> Any:
    """Read a passage that is a JSON object or list; None when it is not."""
    text = context.strip()
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def flatten(context: str) -> str:
    """Write a passage that is JSON as a line for every object in it; leave others alone."""
    value = read_json(context)
    if value is None:
        return context
    try:
        return "\n".join(_lines(value, ""))
    except RecursionError:
        return context


def spaced_key(key: str) -> str:
    """Take camelCase and snake_case keys apart."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(value: Any, path: str) -> Iterator[str]:
    """Write the plain values of an object beside each other, then what is nested in it."""
    items = value.items() if isinstance(value, dict) else (("", inner) for inner in _list(value))
    nested: list[tuple[str, Any]] = []
    plain: list[str] = []
    for key, inner in items:
        name = spaced_key(str(key))
        if isinstance(inner, dict | list):
            nested.append((f"{path} {name}".strip()[-_LONGEST_PATH:], inner))
        elif isinstance(inner, str) and len(inner) > _LONG_VALUE:
            yield f"{path} {name}: {inner}".strip()
        else:
            plain.append(f"{name}: {_plain(inner)}" if name else _plain(inner))
    if plain:
        yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
    for name, inner in nested:
        yield from _lines(inner, name)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    if value is None:
        return "not known"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


# --- spelling ---
# Write a claim as the passages write it: times of day, and words joined or apart.


_SHORTEST_JOINED, _LONGEST_JOINED = 4, 30
_SHORTEST_PART = 2


def as_told(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Split *claim* into words, each in the form in which the passages have it, if they do.

    "8 PM" becomes "20:00", "takeout" "take out" and "half time" "halftime" where only that
    is in the passages; what they have in no form stays.
    """
    return tuple(_joined_or_apart(words(_times(claim, passages)), passages))


def _times(claim: str, passages: Passages) -> str:
    if not TIME.search(claim) or not (told := passages.times):
        return claim
    return TIME.sub(lambda match: told.get(minutes_of_day(match[0]), match[0]), claim)


def _joined_or_apart(tokens: tuple[Word, ...], passages: Passages) -> Iterator[Word]:
    waiting = iter(range(len(tokens)))
    for place in waiting:
        one, after = tokens[place], tokens[place + 1 : place + 2]
        if after and (joined := _joined(one, after[0], passages)):
            next(waiting)
            yield joined
        elif one.stem in passages.where:
            yield one
        else:
            yield from _apart(one, passages) or (one,)


def _joined(one: Word, other: Word, passages: Passages) -> Word | None:
    """Give both as one word that the passages have; None if they have the two beside each other."""
    if one.number or other.number or (one.stem, other.stem) in passages.bigrams:
        return None
    if not _SHORTEST_JOINED <= len(one.surface) + len(other.surface) <= _LONGEST_JOINED:
        return None
    joined = words(one.surface + other.surface)
    known = len(joined) == 1 and joined[0].content and joined[0].stem in passages.where
    return joined[0] if known else None


def _apart(word: Word, passages: Passages) -> tuple[Word, ...]:
    """Give the two words, beside each other in the passages, of which *word* is made."""
    surface = word.surface
    if word.number or not _SHORTEST_JOINED <= len(surface) <= _LONGEST_JOINED:
        return ()
    for at in range(_SHORTEST_PART, len(surface) - _SHORTEST_PART + 1):
        parts = words(f"{surface[:at]} {surface[at:]}")
        if tuple(part.stem for part in parts) in passages.bigrams:
            return parts
    return ()
