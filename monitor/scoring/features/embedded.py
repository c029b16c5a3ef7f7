"""Compare claims with passages by what a sentence-embedding model makes of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.scoring.features.extract import Features
from monitor.scoring.features.passages import Passages
from monitor.scoring.sentences import without_mentions
from monitor.scoring.words import Word, words

ALIGNMENT_FEATURES = (
    "recall", "recall_informed", "low", "least", "novel", "novel_least", "same", "same_least",
    "precision",
)  # fmt: skip
#: ``head`` comes of the pair of claim and nearest sentence, the rest of their tokens.
EMBEDDING_FEATURES = ("head", *ALIGNMENT_FEATURES)
MOST_SENTENCES = 150  #: of the passages that are embedded: a bound on time
_NEAREST = 3  # sentences whose tokens a claim is aligned with, beside its evidence by words
_MOST_CHARS, _MOST_WORDS = 5_000, 400
_SCALE = 20.0  # differences and products of unit vectors are small

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Embedded:
    """One text: its unit vector, and one for each token with its place in the text."""

    vector: NDArray[np.float32]  #: shape (d,)
    tokens: NDArray[np.float32]  #: shape (n, d)
    places: tuple[tuple[int, int], ...]


class Embeds(Protocol):
    """What turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Embed each of *texts*, in order."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The claims of a response beside the passages: one row a claim."""

    pairs: Array  #: shape (n, 2d): |u - v| and u * v of claim u and nearest sentence v
    alignment: Array  #: shape (n, 9), in the order of ``ALIGNMENT_FEATURES``


def compare(look: Features, model: Embeds) -> Compared:
    """
    Embed the claims and the first sentences of the passages, and compare them.

    Tokens of a claim are aligned with their most similar tokens in the nearest sentences
    (BERTScore: Zhang et al., 2020), and summed up by the words they belong to: all, weighted
    by information, the least similar ones, words that no passage holds, words that one does.
    """
    stated = [
        (without_mentions(text), claim)
        for text, claim in zip(look.sentences, look.claims, strict=True)
        if claim is not None
    ]
    told = [text for _, text in look.passages.sentences[:MOST_SENTENCES]]
    texts = list(dict.fromkeys((*(text for text, _ in stated), *told)))
    found = dict(zip(texts, model.embed(texts), strict=True))
    sentences = [found[text] for text in told]
    vectors = np.array([each.vector for each in sentences])
    pairs, rows = [], []
    for text, claim in stated:
        said = found[text]
        nearest = np.argsort(-(vectors @ said.vector), kind="stable")[:_NEAREST]
        beside = [number for number in claim.evidence if number < len(told)]
        used = dict.fromkeys((*beside, *(int(number) for number in nearest)))
        tokens = np.concatenate([sentences[number].tokens for number in used])
        pairs.append(_pair(said.vector, vectors[nearest[0]]))
        rows.append(_aligned(text, said, tokens, look.passages))
    return Compared(np.array(pairs), np.array(rows))


def _pair(one: NDArray[np.float32], other: NDArray[np.float32]) -> Array:
    u, v = one.astype(float), other.astype(float)
    return np.concatenate([np.abs(u - v), u * v]) * _SCALE


def _aligned(
    text: str, said: Embedded, told: NDArray[np.float32], passages: Passages
) -> tuple[float, ...]:
    if not len(said.tokens) or not len(told):
        return (0.0,) * len(ALIGNMENT_FEATURES)
    similar = said.tokens @ told.T
    best = similar.max(axis=1)
    by_word = _by_word(text, said.places, best)
    content = [(word, value) for word, value in by_word if word.content]
    values = np.array([value for _, value in content] or [float(best.mean())])
    information = np.array([passages.information(w.stem) for w, _ in content] or [1.0])
    novel = [value for word, value in content if word.stem not in passages.where]
    same = [value for word, value in content if word.stem in passages.where]
    return (
        float(best.mean()),
        float(values @ information / information.sum()),
        float(np.sort(values)[: max(1, len(values) // 4)].mean()),
        float(values.min()),
        float(np.mean(novel)) if novel else 1.0,
        min(novel, default=1.0),
        float(np.mean(same)) if same else 1.0,
        min(same, default=1.0),
        float(similar.max(axis=0).mean()),
    )


def _by_word(
    text: str, places: Sequence[tuple[int, int]], values: NDArray[np.float32]
) -> list[tuple[Word, float]]:
    """Give each word of *text* the mean of the values of its tokens; words without any are out."""
    found: list[tuple[Word, float]] = []
    start = token = 0
    for word in words(text[:_MOST_CHARS])[:_MOST_WORDS]:
        at = text.find(word.surface, start)
        if at < 0:
            continue
        start = at + len(word.surface)
        while token < len(places) and places[token][1] <= at:
            token += 1
        end = token
        while end < len(places) and places[end][0] < start:
            end += 1
        if end > token:
            found.append((word, float(values[token:end].mean())))
    return found
