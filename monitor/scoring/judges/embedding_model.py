"""Load a sentence-embedding model, and embed texts with their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from monitor.errors import MissingExtraError, SettingsError
from monitor.scoring.features.embedded import Embedded
from monitor.scoring.words import storable
from monitor.settings import variable

try:
    import tokenizers

    from monitor.scoring.judges.onnx_model import OnnxModel
except ImportError as missing:
    raise MissingExtraError("the embedding model", extra="embedding") from missing

SETTING = "embedding_model"
LONGEST = 128  #: tokens of a sentence; the rest is not read
_BATCH = 16
_TOKEN_AXES = 3  # batch, token, dimension
_LONGEST_NAME = 60
_SMALLEST = 1e-6


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
