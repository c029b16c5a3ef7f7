"""Index the passages of one interaction: which sentence holds which word, and how rare it is."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import Word, words_of

PREFIX = 5  #: letters by which words begin alike
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality
_LONGEST_KEPT = 8_000  # characters of a passage that is read once for several interactions


class Passages:
    """The sentences of all passages, with an index from stems to sentences."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.sentences: list[tuple[int, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []  #: of each sentence
        self.stems: list[set[str]] = []  #: of each sentence
        self.records: list[Any] = []  #: the passages that are JSON
        self.index: dict[str, list[int]] = {}  #: the sentences that hold a stem, ascending
        self.pairs: set[tuple[str, str]] = set()  #: stems side by side
        for index, context in enumerate(contexts):
            record, read = (keep if len(context) <= _LONGEST_KEPT else read_passage)(context)
            self.records += [record] if record is not None else []
            for sentence, tokens in read[: _MOST_SENTENCES - len(self.words)]:
                stems = [word.stem for word in tokens]
                unique = {*stems}
                for stem in unique:
                    self.index.setdefault(stem, []).append(len(self.words))
                self.pairs.update(pairwise(stems))
                self.stems.append(unique)
                self.sentences.append((index, sentence))
                self.words.append(tokens)

    def __len__(self) -> int:
        return len(self.words)

    def holders(self, stem: str) -> Sequence[int]:
        """Return the first hundred sentences that hold a word, ascending."""
        return self.index.get(stem, [])[:_MOST_HOLDERS]

    def weigh(self, tokens: Iterable[Word]) -> dict[str, float]:
        """Return how much every content stem tells, each once: rare ones more than common ones."""
        total, index = len(self.words) + 8.0, self.index
        unique = dict.fromkeys([word.stem for word in tokens if word.content])
        held = [min(len(index[each]), _MOST_HOLDERS) if each in index else 0 for each in unique]
        return {
            stem: math.log(1.0 + total / (number + 1.0))
            for stem, number in zip(unique, held, strict=True)
        }

    def parts_at(self, word: str) -> int:
        """Return how long the first of two neighbours is that *word* joins; 0 if none do."""
        for at in range(len(word) - 1, 0, -1) if word in self.squeezed else ():
            if word[at:] in self.index and (Word.read(word[:at]).stem, word[at:]) in self.pairs:
                return at
        return 0

    def near_each_other(self, one: str, other: str, before: int, behind: int) -> bool:
        """Return whether *other* stands at most so many words before or behind *one* somewhere."""
        for number in {*self.holders(one)}.intersection(self.holders(other)):
            stems = [word.stem for word in self.words[number]]
            for at in [n for n, stem in enumerate(stems) if stem == one][:_MOST_HOLDERS]:
                if other in stems[max(at - before, 0) : at + behind + 1]:
                    return True
        return False

    def best(self, weights: dict[str, float]) -> tuple[tuple[int, ...], tuple[float, float]]:
        """
        Return the sentences that hold most of the weighted stems, and their share of the weight.

        First the one that holds most (of equals the shortest, never by position), then the one
        that adds most to it; the shares are of the first alone, and of both together.
        """
        total = sum(weights.values()) or 1.0
        evidence: list[int] = []
        shares: list[float] = []
        left = {stem: self.holders(stem) for stem in weights if stem in self.index}
        for _ in range(2):
            held: dict[int, float] = defaultdict(float)
            for stem, numbers in left.items():
                weight = weights[stem]
                for number in numbers:
                    held[number] += weight
            most = max(held.values(), default=0.0)
            shares.append((shares[-1] if shares else 0.0) + most / total)
            if held:
                equals = [number for number, weight in held.items() if weight == most]
                found = min(equals, key=lambda n: (len(self.words[n]), self.sentences[n][1]))
                evidence.append(found)
                left = {stem: numbers for stem, numbers in left.items() if found not in numbers}
        return tuple(evidence), (shares[0], shares[1])

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first five letters of all words."""
        return frozenset(stem[:PREFIX] for stem in self.index)

    @cached_property
    def squeezed(self) -> str:
        """All letters without spaces: a word that is there in two parts is in it."""
        return (
            "".join([text for _, text in self.sentences]).replace(" ", "").replace("-", "").lower()
        )


def read_passage(text: str) -> tuple[Any, tuple[tuple[str, tuple[Word, ...]], ...]]:
    """
    Return what a passage is as JSON, or None, and its sentences with their words.

    Of one that is JSON every line is an object; times are in one form.
    """
    record = read_json(text)
    flat = text if record is None else "\n".join(_lines(record))
    sentences = split_sentences(flat)
    plain = map(plain_times, sentences) if _may_hold_time(flat) else sentences
    return record, tuple(zip(sentences, words_of([*plain]), strict=True))


#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


_TIME = re.compile(
    r"(?<![\d:])(?:(\d{1,2})(?::(\d{1,2}))?\s?(?:([ap])\.?m\b\.?|o'clock)"
    r"|(\d{1,2}):(\d{1,2})(?![\d:])|\bnoon\b|\bmidday\b|\bmidnight\b)",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\d(?::\d|\s?[apAP]\.?[mM]\b|\s?o'clock)")


def _may_hold_time(text: str) -> bool:
    """Return whether *text* may name a time of day; ten times as fast as finding it."""
    return "oon" in text or "idday" in text or "idnight" in text or _CLOCK.search(text) is not None


def plain_times(text: str) -> str:
    """Return *text* with its times of day in one form: 8 PM and 20:0 are 20:00."""
    return _TIME.sub(_plain_time, text) if _may_hold_time(text) else text


def _plain_time(match: re.Match[str]) -> str:
    """Return a time of day as hours and minutes of 24 hours; what is none as it is written."""
    if not match[1] and not match[4]:
        return "0:00" if match[0].lower() == "midnight" else "12:00"
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
    record = read_json(context)
    return context if record is None else "\n".join(_lines(record))


@lru_cache(maxsize=4096)
def spaced_key(key: str) -> str:
    """Return a camelCase or snake_case key as words."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(record: Any) -> Iterator[str]:
    """Yield the plain values of an object beside each other, then what is nested in it."""
    stack: list[tuple[str, Any]] = [("", record)]
    while stack:
        path, value = stack.pop()
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
        stack += reversed(nested)
