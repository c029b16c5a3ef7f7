"""Read a claim in the words of its passages that mean the same, by a sentence-embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from monitor.errors import MissingExtraError, SettingsError
from monitor.scoring.base import storable
from monitor.scoring.language import Word, words
from monitor.scoring.local.passages import Passages, as_written
from monitor.settings import variable

try:
    import tokenizers

    from monitor.contrib.onnx_model import OnnxModel
except ImportError as missing:
    raise MissingExtraError("the embedding model", extra="embedding") from missing

MOST_SENTENCES = 150  #: of the passages that are embedded: a bound on time
_NEAREST = 3  # sentences of the passages in which words of the same meaning are looked for
_ALIKE = 0.7  # least cosine between the tokens of two words that count as the same
SETTING = "embedding_model"
LONGEST = 128  #: tokens of a sentence; the rest is not read
_BATCH = 16
_TOKEN_AXES = 3  # batch, token, dimension
_LONGEST_NAME = 60
_SMALLEST = 1e-6


@dataclass(frozen=True, slots=True)
class Embedded:
    """One text: its unit vector, and one for each token with its place in the text."""

    vector: NDArray[np.float32]  #: shape (d,)
    tokens: NDArray[np.float32]  #: shape (n, d)
    places: tuple[tuple[int, int], ...]


def make_rewriter(name: str) -> EmbeddingRewriter:
    """Make the rewriter of the model *name*, which is loaded, or fetched from its hub."""
    return EmbeddingRewriter(_loaded(name))


def make_similarity(name: str) -> EmbeddingSimilarity:
    """Make the similarity of the model *name*, which is loaded, or fetched from its hub."""
    return EmbeddingSimilarity(_loaded(name))


@lru_cache(maxsize=1)
def _loaded(name: str) -> EmbeddingModel:
    """Load a model once: it is large."""
    return EmbeddingModel(name)


class EmbeddingSimilarity:
    """The cosine of the vectors of two texts, 0 where it is negative."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self.version = model.version

    def __call__(self, one: str, other: str) -> float:
        """Return the cosine of two texts, in [0, 1]."""
        first, second = self._model.embed([one, other])
        return float(np.clip(first.vector @ second.vector, 0.0, 1.0))


class EmbeddingModel:
    """
    An encoder in ONNX whose mean over tokens is the vector of a text, of length 1.

    ``name`` is a folder or an id on the hub, such as
    ``sentence-transformers/all-MiniLM-L6-v2``.

    Raises
    ------
    SettingsError
        If the model is not there, has no ONNX file, or gives no vector a token.
    """

    def __init__(self, name: str) -> None:
        self._model = OnnxModel(name, SETTING)
        self._tokenizer = self._model.tokenizer
        self._tokenizer.enable_truncation(min(self._model.longest, LONGEST))
        short = storable(PurePath(name).name, _LONGEST_NAME)
        self.version = f"{short}-{self._model.fingerprint}"
        shape = self._model.run(self._tokenizer.encode_batch(["a"])).shape
        if len(shape) != _TOKEN_AXES:
            raise SettingsError(
                f"{variable(SETTING)}: {name} does not give one vector a token as its first"
                " output; export the encoder without a head (--task feature-extraction)"
            )

    def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Embed each of *texts*, in order; of a long one the beginning."""
        encodings = self._tokenizer.encode_batch(list(texts))
        # By length, so that little is padded.
        order = sorted(range(len(texts)), key=lambda number: len(encodings[number].ids))
        found: dict[int, Embedded] = {}
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            hidden = self._model.run([encodings[number] for number in batch])
            for number, rows in zip(batch, hidden, strict=True):
                found[number] = _embedded(encodings[number], rows)
        return [found[number] for number in range(len(texts))]


def _embedded(encoding: tokenizers.Encoding, rows: NDArray[np.float32]) -> Embedded:
    length = len(encoding.ids)
    own = [n for n in range(length) if not encoding.special_tokens_mask[n]]
    return Embedded(
        vector=_unit(rows[:length].mean(axis=0)),
        tokens=_unit(rows[own]),
        places=tuple(encoding.offsets[n] for n in own),
    )


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = (rows / np.maximum(length, _SMALLEST)).astype(np.float32)
    return unit


class EmbeddingRewriter:
    """
    Replaces the words of a claim that no passage holds by those closest in meaning.

    A word is replaced by the one of the nearest sentences whose tokens in their context have a
    cosine of at least 0.7 with its own (BERTScore: Zhang et al., 2020); numbers and names stay.
    Everything that the local scorer counts then follows, and its coefficients stay the same.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self.version = f"{model.version}-words1"
        self._embedded: WeakKeyDictionary[Passages, list[Embedded]] = WeakKeyDictionary()

    def __call__(self, claim: str, passages: Passages) -> tuple[Word, ...]:
        """Return the words of *claim*, as the passages write them."""
        tokens = as_written(claim, passages)
        unknown = {
            word
            for place, word in enumerate(tokens)  # the first word is capitalised anyway
            if word.content and not word.number and not (word.capital and place)
        }
        unknown = {word for word in unknown if word.stem not in passages.index}
        if not unknown or not len(passages):
            return tokens
        sentence_texts = [text for _, text in passages.sentences[:MOST_SENTENCES]]
        sentences = self._embedded.get(passages)
        if sentences is None:
            sentences = self._embedded[passages] = self._model.embed(sentence_texts)
        [said] = self._model.embed([claim])
        likeness = np.array([each.vector for each in sentences]) @ said.vector
        known = [
            (word, vector)
            for number in np.argsort(-likeness, kind="stable")[:_NEAREST]
            for word, vector in _word_vectors(
                sentence_texts[number], sentences[number], passages.language
            )
            if word.content and not word.number
        ]
        same: dict[str, Word] = {}
        for word, vector in _word_vectors(claim, said, passages.language):
            if word in unknown and known:
                cosines = np.array([other for _, other in known]) @ vector
                best = int(cosines.argmax())
                if cosines[best] >= _ALIKE:
                    same[word.stem] = known[best][0]
        return tuple(same.get(word.stem, word) for word in tokens)


def _word_vectors(
    text: str, embedded: Embedded, language: str
) -> list[tuple[Word, NDArray[np.float32]]]:
    """Return the words of *text* that were embedded, each with the unit mean of its tokens."""
    found: list[tuple[Word, NDArray[np.float32]]] = []
    start = 0
    for word in words(text, language):
        at = text.find(word.surface, start)
        if at < 0:
            continue
        start = at + len(word.surface)
        own = [n for n, (a, b) in enumerate(embedded.places) if a < start and at < b]
        if own:
            found.append((word, _unit(embedded.tokens[own].mean(axis=0))))
    return found
