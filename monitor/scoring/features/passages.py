"""Index the passages of one interaction: which sentence holds which word, and how rare it is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from monitor.scoring.features.background import rarity
from monitor.scoring.features.clock import TIME, minutes_of_day
from monitor.scoring.features.flatten import flatten
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
