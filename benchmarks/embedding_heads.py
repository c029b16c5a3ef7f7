"""What a sentence-embedding model adds to the figures of claims, learnt without looking ahead."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fitting import Array, fit_plain
from labelled import document
from train_local import Measured, claim_labels

from monitor.scoring.features.embedded import EMBEDDING_FEATURES, Compared, compare
from monitor.scoring.judges.embedding_model import EmbeddingModel

RIDGE = 300.0
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Head:
    """A weighted sum of what claim and nearest sentence differ in and share, as log odds."""

    weights: Array
    intercept: float

    def odds(self, pairs: Array) -> Array:
        """Judge one claim a row, up to slope and intercept."""
        found: Array = pairs @ self.weights + self.intercept
        return found


@dataclass
class Heads:
    """
    The figures of all claims, and heads fitted to some of them.

    Called with a part that is seen and one that is not, it adds the figures of the model to
    both: the head of the part not seen is fitted to the other; within the one that is seen,
    each quarter of the documents gets a head fitted to the other three, so that the models
    which weigh it learn how good it is on documents that it has not seen.
    """

    measured: Measured
    model: str
    cache: Path | None = None
    compared: dict[str, Compared] = field(init=False)

    def __post_init__(self) -> None:
        kept = None if self.cache is None else self.cache / "compared.pickle"
        if kept is not None and kept.exists():
            self.compared = pickle.loads(kept.read_bytes())  # noqa: S301 - our own
            return
        encoder = EmbeddingModel(self.model)
        pairs = zip(self.measured.rows, self.measured.looks, strict=True)
        self.compared = {row["id"]: compare(look, encoder) for row, look in pairs}
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(pickle.dumps(self.compared))

    def __call__(self, seen: Measured, unseen: Measured) -> tuple[Measured, Measured]:
        """Add the figures of the model to both parts."""
        head = self.fit(seen)
        return self._with(seen, self._crossed(seen)), self._with(unseen, self._odds(unseen, head))

    def crossed(self, seen: Measured) -> Measured:
        """Add the figures of the model, each head fitted to other documents."""
        return self._with(seen, self._crossed(seen))

    def fit(self, seen: Measured) -> Head:
        """Fit a head to the claims whose label is certain."""
        known = [
            (row, j, y, source)
            for row, look, source in zip(seen.rows, seen.looks, seen.sources, strict=True)
            for j, y in claim_labels(row, look)
        ]
        pairs = np.array([self.compared[row["id"]].pairs[j] for row, j, _, _ in known])
        middle = pairs.mean(axis=0)
        good = np.array([y for _, _, y, _ in known])
        weights = fit_plain(pairs - middle, good, [source for *_, source in known], RIDGE)
        return Head(weights, -float(middle @ weights))

    def _odds(self, measured: Measured, head: Head) -> list[Array]:
        return [head.odds(self.compared[row["id"]].pairs) for row in measured.rows]

    def _crossed(self, seen: Measured) -> list[Array]:
        found: dict[str, Array] = {}
        for part in range(_PARTS):
            head = self.fit(seen.where(lambda row, part=part: _part(row) != part))
            rest = seen.where(lambda row, part=part: _part(row) == part)
            ids = [row["id"] for row in rest.rows]
            found |= dict(zip(ids, self._odds(rest, head), strict=True))
        return [found[row["id"]] for row in seen.rows]

    def _with(self, measured: Measured, heads: Sequence[Array]) -> Measured:
        more = [
            np.column_stack([head, self.compared[row["id"]].alignment])
            for row, head in zip(measured.rows, heads, strict=True)
        ]
        return measured.with_more(more, EMBEDDING_FEATURES)


def _part(row: dict[str, object]) -> int:
    digest = hashlib.sha256(b"head\0" + document(row).encode()).digest()
    return digest[0] % _PARTS
