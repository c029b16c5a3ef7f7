"""A claim laid beside the sentences of the passages that hold most of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.scoring.features.passages import Passages, as_told
from monitor.scoring.words import Word

_MOST_CHARS, _MOST_WORDS = 5_000, 400  # bound the time: hardly a sentence has more


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words of several sentences; joining their sets for every claim would be slow."""

    sentences: Sequence[frozenset[str]]

    def __contains__(self, word: object) -> bool:
        return any(word in stems for stems in self.sentences)


@dataclass(frozen=True, slots=True)
class Aligned:
    """What all features of a claim share."""

    claim: str
    tokens: tuple[Word, ...]
    content: tuple[str, ...]  #: stems of the content words, each once
    weights: dict[str, float]  #: information of every content stem
    evidence: tuple[int, ...]  #: sentences of the passages, best first
    shares: tuple[float, float]  #: of the information: in the best sentence, in both
    held: Alignment
    passages: Passages
    found: tuple[Word, ...]  #: the words of the best sentence

    @classmethod
    def lay(cls, claim: str, passages: Passages) -> Aligned:
        """Find the evidence of one claim."""
        tokens = as_told(claim[:_MOST_CHARS], passages)[:_MOST_WORDS]
        content = tuple(dict.fromkeys(word.stem for word in tokens if word.content))
        weights = {stem: passages.information(stem) for stem in content}
        evidence, (one, two) = passages.best(weights)
        held = Alignment([passages.stems[number] for number in evidence])
        found = passages.words[evidence[0]][:_MOST_WORDS] if evidence else ()
        return cls(
            claim, tokens, content, weights, tuple(evidence), (one, two), held, passages, found
        )

    @property
    def total(self) -> float:
        """The information of the whole claim."""
        return sum(self.weights.values()) or 1.0
