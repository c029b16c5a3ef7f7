"""Index the passages of one interaction: which sentence holds which word, where, and how rare."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import Word, words_of

_PREFIX = 5
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_PLACES = 30  # of one word, for the distance between two
_FARTHEST = 200  # words; farther is all the same, and so is another passage
_BETWEEN_SENTENCES = 6  # places; words of two sentences do not stand together
_MOST_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality
_LONGEST_KEPT = 8_000  # characters of a passage that is read once for several interactions

Sentences = tuple[tuple[str, tuple[Word, ...]], ...]


class Passages:
    """The sentences of all passages, with an index from stems to places."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.sentences: list[tuple[int, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []
        self.places: dict[str, list[int]] = {}
        self._starts: list[int] = []  # the place of the first word of each sentence
        places, place = defaultdict[str, list[int]](list), 0
        for index, context in enumerate(contexts):
            place += _FARTHEST
            parts = keep(context) if len(context) <= _LONGEST_KEPT else read_passage(context)
            for sentence, tokens in parts[: _MOST_SENTENCES - len(self.sentences)]:
                self.sentences.append((index, sentence))
                self.words.append(tokens)
                self._starts.append(place)
                for at, word in enumerate(tokens, place):
                    places[word.stem].append(at)
                place += len(tokens) + _BETWEEN_SENTENCES
        self.places = dict(places)
        self._holders: dict[str, list[int]] = {}
        self._unknown = math.log(len(self.sentences) + 9.0)  # information of a word not held

    def __len__(self) -> int:
        return len(self.sentences)

    def __contains__(self, stem: str) -> bool:
        return stem in self.places

    def holders(self, stem: str) -> list[int]:
        """Return the sentences that hold a word, ascending; of a common one only the first."""
        found = self._holders.get(stem)
        if found is None:
            numbers = [bisect_right(self._starts, at) - 1 for at in self.places.get(stem, ())]
            found = self._holders[stem] = [*dict.fromkeys(numbers)][:_MOST_HOLDERS]
        return found

    def information(self, stem: str) -> float:
        """Return how much a word tells: rare ones more than common ones."""
        held = len(self.holders(stem))
        return math.log(1.0 + (len(self.sentences) + 8.0) / (held + 1.0)) if held else self._unknown

    def near(self, stem: str) -> bool:
        """Return whether a word with the same beginning occurs."""
        return len(stem) >= _PREFIX - 1 and stem[:_PREFIX] in self._prefixes

    def adjacent(self, one: str, other: str) -> bool:
        """Return whether *other* stands right behind *one* somewhere."""
        first, second = self.places.get(one), self.places.get(other)
        if not first or not second:
            return False
        if len(second) == 1:
            return second[0] - 1 in first[:_MOST_HOLDERS]
        return not {place + 1 for place in first[:_MOST_HOLDERS]}.isdisjoint(second)

    def distance(self, one: str, other: str) -> int | None:
        """
        Return the words from the closest *one* to *other*; negative when *other* comes first.

        None when one of them is nowhere. Of very common words only the first places
        count, and words of different passages are as far apart as can be.
        """
        first, second = self.places.get(one), self.places.get(other)
        if not first or not second:
            return None
        best = _FARTHEST
        for place in first[:_MOST_PLACES]:
            at = bisect_right(second, place)
            if at < len(second) and second[at] - place <= abs(best):
                best = second[at] - place  # of two as close, the one in order
            if at and second[at - 1] != place and place - second[at - 1] < abs(best):
                best = second[at - 1] - place
        return best

    def best(self, weights: dict[str, float]) -> tuple[list[int], list[float]]:
        """
        Return the sentences that hold most of the weighted stems, and their share of the weight.

        First the one that holds most (of equals the shortest, never by position), then the one
        that adds most to it; the shares are of the first alone, and of both together.
        """
        total = sum(weights.values())
        evidence: list[int] = []
        shares: list[float] = []
        left = weights
        for _ in range(2):
            held: dict[int, float] = defaultdict(float)
            for stem, weight in left.items():
                for number in self.holders(stem):
                    held[number] += weight
            before = shares[-1] if shares else 0.0
            if not held or not total:
                shares.append(before)
                continue
            most = max(held.values())
            found = min(
                (number for number in held if held[number] == most),
                key=lambda number: (len(self.words[number]), self.sentences[number][1]),
            )
            evidence.append(found)
            shares.append(before + most / total)
            left = {s: weight for s, weight in left.items() if found not in self.holders(s)}
        return evidence, shares

    @cached_property
    def _prefixes(self) -> set[str]:
        return {stem[:_PREFIX] for stem in self.places}

    @cached_property
    def squeezed(self) -> str:
        """All words without spaces: a word that is there in two parts, "half time", is in it."""
        return "".join([word.surface for tokens in self.words for word in tokens]).lower()

    @cached_property
    def pairs(self) -> dict[str, int]:
        """Words side by side, by what they would be if joined, with the length of the first."""
        sides = (pair for tokens in self.words for pair in pairwise(tokens))
        return {one.surface.lower() + other.stem: len(one.surface) for one, other in sides}


def read_passage(text: str) -> Sentences:
    """Return the sentences of a passage, each with its words; times of day in one form."""
    flat = flatten(text)
    sentences = split_sentences(flat)
    plain = map(plain_times, sentences) if _HINT.search(flat) else sentences
    return tuple(zip(sentences, words_of([*plain]), strict=True))


#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


_TIME = re.compile(
    r"(?<![\d:])(?:(\d{1,2})(?::(\d{1,2}))? ?(?:([ap])\.?m\b\.?|o'clock)"
    r"|(\d{1,2}):(\d{1,2})(?![\d:])|\bnoon\b|\bmidnight\b)",
    re.IGNORECASE,
)
_HINT = re.compile(r"\d:\d|\d ?[ap]\.?m\b|o'clock|\bnoon|midnight", re.IGNORECASE)


def plain_times(text: str) -> str:
    """Return *text* with its times of day in one form: 8 PM and 20:0 are 20:00."""
    return _TIME.sub(plain_time, text) if _HINT.search(text) else text


def plain_time(match: re.Match[str]) -> str:
    """Return a time of day as hours and minutes of 24 hours; what is none as it is written."""
    if not match[1] and not match[4]:
        return "12:00" if match[0].lower() == "noon" else "0:00"
    hour, minute = int(match[1] or match[4]), int(match[2] or match[5] or 0)
    if hour > 24 or minute > 59:  # noqa: PLR2004 - no time of day
        return match[0]
    if half := match[3]:
        hour = hour % 12 + (12 if half in "pP" else 0)
    return f"{hour}:{minute:02}"


_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_json(context: str) -> Any:
    """Return the object or list that a passage in JSON is; None when it is not JSON."""
    text = context.strip()
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def flatten(context: str) -> str:
    """Return a passage that is JSON with a line for every object in it; others as they are."""
    value = read_json(context)
    try:
        return context if value is None else "\n".join(_lines(value, ""))
    except RecursionError:
        return context


def spaced_key(key: str) -> str:
    """Return a camelCase or snake_case key as words."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(value: Any, path: str) -> Iterator[str]:
    """Yield the plain values of an object beside each other, then what is nested in it."""
    items = value.items() if isinstance(value, dict) else [("", inner) for inner in value]
    nested: list[tuple[str, Any]] = []
    plain: list[str] = []
    for key, inner in items:
        name = spaced_key(str(key))
        if isinstance(inner, dict | list):
            nested.append((f"{path} {name}".strip()[-_LONGEST_PATH:], inner))
        elif isinstance(inner, str) and len(inner) > _LONG_VALUE:
            yield f"{path} {name}: {inner}".strip()
        else:
            said = {None: "not known", True: "yes", False: "no"}
            text = said[inner] if inner is None or isinstance(inner, bool) else str(inner)
            plain.append(f"{name}: {text}" if name else text)
    if plain:
        yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
    for name, inner in nested:
        yield from _lines(inner, name)
