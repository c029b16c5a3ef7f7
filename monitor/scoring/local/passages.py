"""Index the passages of one interaction: which sentence holds which word, where, and how rare."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Any

from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import Word, words

BACKGROUND = "background.v1.json"
_PREFIX = 5
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_PLACES = 30  # of one word, for the distance between two
_FARTHEST = 200  # words; farther is all the same, and so is another passage
_BETWEEN_SENTENCES = 6  # places; words of two sentences do not stand together
_MOST_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality


class Passages:
    """The sentences of all passages, with an index from stems to places."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.sentences: list[tuple[int, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        self._starts: list[int] = []  # the place of the first word of each sentence
        place = 0
        for index, context in enumerate(contexts):
            place += _FARTHEST
            text = flatten(context)
            timed = _HINT.search(text) is not None
            for sentence in split_sentences(text):
                if len(self.sentences) == _MOST_SENTENCES:
                    break
                tokens = words(plain_times(sentence) if timed else sentence)
                self.sentences.append((index, sentence))
                self.words.append(tokens)
                self._starts.append(place)
                for word in tokens:
                    self.places[word.stem].append(place)
                    place += 1
                place += _BETWEEN_SENTENCES
        self.places.default_factory = None
        self._holders: dict[str, list[int]] = {}
        #: The information of a word that no passage holds.
        self.unknown = math.log(len(self.sentences) + 9.0)

    def __len__(self) -> int:
        return len(self.sentences)

    def __contains__(self, stem: str) -> bool:
        return stem in self.places

    def holders(self, stem: str) -> list[int]:
        """Return the sentences that hold a word, ascending; of a common one only the first."""
        found = self._holders.get(stem)
        if found is None:
            places = self.places.get(stem, ())
            numbers = (bisect_right(self._starts, place) - 1 for place in places)
            found = self._holders[stem] = [*dict.fromkeys(numbers)][:_MOST_HOLDERS]
        return found

    def next_to(self, number: int) -> tuple[int, ...]:
        """Return a sentence and the one after it in the same passage, by number."""
        after = self.sentences[number + 1 : number + 2]
        together = bool(after) and after[0][0] == self.sentences[number][0]
        return (number, number + 1) if together else (number,)

    def information(self, stem: str) -> float:
        """Return how much a word tells: rare ones more than common ones."""
        held = len(self.holders(stem))
        return math.log(1.0 + (len(self.sentences) + 8.0) / (held + 1.0)) if held else self.unknown

    def rarity(self, stem: str) -> float:
        """Return how rare a word is in general and here together, in [0, 1]."""
        return rarity(stem) * self.information(stem) / self.unknown

    def near(self, stem: str) -> bool:
        """Return whether a word with the same beginning occurs."""
        return len(stem) >= _PREFIX - 1 and stem[:_PREFIX] in self.prefixes

    def adjacent(self, one: str, other: str) -> bool:
        """Return whether *other* stands right behind *one* somewhere."""
        after = self.places.get(other)
        if not after or one not in self.places:
            return False
        for place in self.places[one][:_MOST_HOLDERS]:
            at = bisect_right(after, place)
            if at < len(after) and after[at] == place + 1:
                return True
        return False

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
    def prefixes(self) -> set[str]:
        """The beginnings of all words."""
        return {stem[:_PREFIX] for stem in self.places}

    @cached_property
    def squeezed(self) -> str:
        """All words without spaces: a word that is there in two parts, "half time", is in it."""
        return "".join([word.surface for tokens in self.words for word in tokens]).lower()


def read_background() -> str:
    """Return the list of common stems with their rarity that ships with the package."""
    return resources.files("monitor.scoring.local").joinpath(BACKGROUND).read_text("utf-8")


@cache
def rarities() -> dict[str, float]:
    """Return the rarity of the common stems, in [0, 1)."""
    levels = json.loads(read_background())["levels"]
    return {stem: level["rarity"] for level in levels for stem in level["stems"].split()}


def rarity(stem: str) -> float:
    """Return the rarity of a word in texts in general: near 0 in every text, 1 if not listed."""
    return rarities().get(stem, 1.0)


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
    """Return the object or list that a passage in JSON is; None when it is no JSON."""
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
