"""Compare texts in meaning by a sentence-embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from monitor.errors import MissingExtraError, SettingsError
from monitor.scoring.base import storable
from monitor.settings import variable

try:
    from monitor.contrib.onnx_model import OnnxModel
except ImportError as missing:
    raise MissingExtraError("the embedding model", extra="embedding") from missing

SETTING = "embedding_model"
LONGEST = 128  #: tokens of a text; the rest is not read
_TOKEN_AXES = 3  # batch, token, dimension
_LONGEST_NAME = 60
_SMALLEST = 1e-6


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
        return float(np.clip(first @ second, 0.0, 1.0))


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

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of *texts*, of a long one of its beginning; shape (n, d)."""
        encodings = self._tokenizer.encode_batch(list(texts))
        pairs = zip(encodings, self._model.run(encodings), strict=True)
        means = np.array([rows[: len(each.ids)].mean(axis=0) for each, rows in pairs])
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        unit: NDArray[np.float32] = means / np.maximum(lengths, _SMALLEST)
        return unit
