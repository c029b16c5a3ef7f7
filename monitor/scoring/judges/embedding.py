"""What the local judge weighs besides, where it may use a sentence-embedding model."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import SettingsError
from monitor.scoring.features.embedded import EMBEDDING_FEATURES, Embeds, compare
from monitor.scoring.features.extract import Features
from monitor.scoring.features.response import response_names
from monitor.scoring.features.support import CLAIM_FEATURES
from monitor.scoring.judges.logistic import ByKind
from monitor.settings import variable

COEFFICIENTS = "local_embedding.v2.json"
#: Least cosine with the vector of the model that the coefficients were fitted to: one whose
#: weights are rounded to 8 bits has 0.9996, and another model about 0.
_ALIKE = 0.99

Array = NDArray[np.float64]


class Model(Embeds, Protocol):
    """A model with a name."""

    version: str


class Embedding:
    """
    A sentence-embedding model with coefficients that were fitted to it.

    Raises
    ------
    SettingsError
        If the coefficients were fitted to a model that places texts elsewhere.
    """

    def __init__(self, model: Model, coefficients: dict[str, Any] | None = None) -> None:
        data = coefficients if coefficients is not None else load_coefficients()
        self._model = model
        self._head = np.array(data["head"]["weights"], dtype=float)
        self._intercept = float(data["head"]["intercept"])
        self._check(data)
        names = (*CLAIM_FEATURES, *EMBEDDING_FEATURES)
        self.claim = ByKind.from_data(data["claim"], names)
        self.response = ByKind.from_data(data["response"], response_names(EMBEDDING_FEATURES))
        shaping = json.dumps(data, sort_keys=True) + model.version
        digest = hashlib.sha256(shaping.encode()).hexdigest()
        self.version = f"{model.version}-{digest[:8]}"

    def figures(self, look: Features) -> Array:
        """Give one row a checkable claim, in the order of ``EMBEDDING_FEATURES``."""
        compared = compare(look, self._model)
        head = compared.pairs @ self._head + self._intercept
        found: Array = np.column_stack([head, compared.alignment])
        return found

    def _check(self, data: dict[str, Any]) -> None:
        expected = np.array(data["probe"]["vector"], dtype=float)
        [found] = self._model.embed([data["probe"]["text"]])
        same = found.vector.shape == expected.shape
        if not same or float(found.vector @ expected / np.linalg.norm(expected)) < _ALIKE:
            raise SettingsError(
                f"{variable('embedding_model')}: the local scorer's coefficients were fitted to"
                f" {data['model']}, and this model places texts elsewhere; use that one, or fit"
                " your own with benchmarks/train_embedding.py"
            )


def load_coefficients() -> dict[str, Any]:
    """Read the coefficients that ship with the package."""
    text = resources.files("monitor.scoring.judges").joinpath(COEFFICIENTS).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
