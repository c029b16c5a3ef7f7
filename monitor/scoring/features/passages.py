"""Index the passages of one interaction: which sentence holds which word, and how rare it is."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import Word, words

_PREFIX = 5
_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOWHERE: list[int] = []
_MAX_HOLDERS = 200  # bounds the time: a word in more sentences tells hardly anything
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
        for tokens in self.words:
            stems_in_order = [word.stem for word in tokens]
            self.bigrams.update(pairwise(stems_in_order))
        self.prefixes = {stem[:_PREFIX] for stem in self.where if len(stem) >= _PREFIX - 1}

    def __len__(self) -> int:
        return len(self.sentences)

    def information(self, stem: str) -> float:
        """Say how much a word tells: rare ones more than common ones."""
        return math.log(1.0 + (len(self) + 8.0) / (len(self.where.get(stem, ())) + 1.0))

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


def flatten(context: str) -> str:
    """Write a passage that is JSON as a line for every object in it; leave others alone."""
    text = context.strip()
    if text[:1] not in {"{", "["} or text[-1:] not in {"}", "]"}:
        return context
    try:
        return "\n".join(_lines(json.loads(text), ""))
    except (ValueError, RecursionError):
        return context


def _lines(value: Any, path: str) -> Iterator[str]:
    """Write the plain values of an object beside each other, then what is nested in it."""
    items = value.items() if isinstance(value, dict) else (("", inner) for inner in _list(value))
    nested: list[tuple[str, Any]] = []
    plain: list[str] = []
    for key, inner in items:
        name = _spaced(str(key))
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


def _spaced(key: str) -> str:
    """Take camelCase and snake_case keys apart."""
    return _HUMP.sub(" ", key).replace("_", " ")
