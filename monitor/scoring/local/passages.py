"""Index the passages of one interaction: which sentence holds which word, and how rare it is."""

from __future__ import annotations

import contextlib
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
        self.order: list[list[str]] = []  #: stems of each sentence, as they stand there
        self.stems: list[set[str]] = []  #: the same, each once
        self.records: list[Any] = []  #: the passages that are JSON
        self.pairs: set[tuple[str, str]] = set()  #: stems side by side
        index: defaultdict[str, list[int]] = defaultdict(list)
        for number, context in enumerate(contexts):
            record, read = (keep if len(context) <= _LONGEST_KEPT else read_passage)(context)
            self.records += [record] if record is not None else []
            read = read[: _MOST_SENTENCES - len(self.words)]
            self.sentences += [(number, sentence) for sentence, _ in read]
            for _, tokens in read:
                stems = [word.stem for word in tokens]
                unique = {*stems}
                for stem in unique:
                    index[stem].append(len(self.words))
                self.pairs.update(pairwise(stems))
                self.order.append(stems)
                self.stems.append(unique)
                self.words.append(tokens)
        if len(self.words) > _MOST_HOLDERS:
            for held in index.values():
                del held[_MOST_HOLDERS:]
        index.default_factory = None
        self.index: dict[str, list[int]] = index  #: first sentences of a stem, ascending
        most, total = min(len(self.words), _MOST_HOLDERS), len(self.words) + 8.0
        self._tells = [math.log(1.0 + total / (n + 1.0)) for n in range(most + 1)]

    def __len__(self) -> int:
        return len(self.words)

    def holders(self, stem: str) -> Sequence[int]:
        """Return the first hundred sentences that hold a word, ascending."""
        return self.index.get(stem, ())

    def weigh(self, tokens: Iterable[Word]) -> dict[str, float]:
        """Return how much every content stem tells, each once: rare ones more than common ones."""
        stems = dict.fromkeys([word.stem for word in tokens if word.content])
        return {stem: self._tells[len(self.holders(stem))] for stem in stems}

    def parts_at(self, word: str) -> int:
        """Return how long the first of two neighbours is that *word* joins; 0 if none do."""
        for at in range(len(word) - 1, 0, -1):
            known = word[at:] in self.index and word in self.squeezed
            if known and (Word.read(word[:at]).stem, word[at:]) in self.pairs:
                return at
        return 0

    def near_each_other(self, one: str, other: str, before: int, behind: int) -> bool:
        """Return whether *other* stands at most so many words before or behind *one* somewhere."""
        for number in {*self.holders(one)}.intersection(self.holders(other)):
            stems = self.order[number]
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
        whole = "".join([text for _, text in self.sentences])
        return whole.replace(" ", "").replace("-", "").lower()


def read_passage(text: str) -> tuple[Any, tuple[tuple[str, tuple[Word, ...]], ...]]:
    """
    Return what a passage is as JSON, or None, and its sentences with their words.

    Of one that is JSON every line is an object; times are in one form.
    """
    record = read_json(text)
    flat = text if record is None else "\n".join(_lines(record))
    sentences = split_sentences(flat)
    plain = map(plain_times, sentences) if plain_times(flat) != flat else sentences
    return record, tuple(zip(sentences, words_of([*plain]), strict=True))


#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


_TIME = re.compile(
    r"(?<![\d:])(?:(\d{1,2})(?::(\d{1,2}))?\s?(?:([ap])\.?m\b\.?|o'clock)"
    r"|(\d{1,2}):(\d{1,2})(?![\d:])|\bnoon\b|\bmidday\b|\bmidnight\b)",
    re.IGNORECASE,
)
#: What every time of day has; ten times as fast as finding it.
_CLOCK = re.compile(r"\d(?::\d|\s?[apAP]\.?[mM]\b|\s?o'clock)")


def plain_times(text: str) -> str:
    """Return *text* with its times of day in one form: 8 PM and 20:0 are 20:00."""
    named = "oon" in text or "idday" in text or "idnight" in text
    return _TIME.sub(_plain_time, text) if named or _CLOCK.search(text) else text


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
_SAID = {None: "not known", True: "yes", False: "no"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_json(context: str) -> Any:
    """Return the object or list that a passage in JSON is; None when it is not JSON."""
    text = context.strip()
    with contextlib.suppress(ValueError, RecursionError):
        if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
            return json.loads(text)
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
                text = _SAID[inner] if inner is None or isinstance(inner, bool) else str(inner)
                plain.append(f"{name}: {text}" if name else text)
        if plain:
            yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
        stack += reversed(nested)
