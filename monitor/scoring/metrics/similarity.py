"""How alike two texts are, by their words: no model, the same on every machine."""

from __future__ import annotations

import math
from collections import Counter

from monitor.scoring.words import words


def lexical_cosine(one: str, other: str) -> float:
    """
    Cosine of the counts of informative word stems, in [0, 1].

    It stands where the seeds say cosine of embeddings. Paraphrases without common words
    score 0; use it to notice change, not to judge one pair.
    """
    a, b = _counts(one), _counts(other)
    norm = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return min(1.0, sum(n * b[stem] for stem, n in a.items()) / norm) if norm else 0.0


def _counts(text: str) -> Counter[str]:
    found = words(text)
    return Counter(w.stem for w in found if w.content) or Counter(w.stem for w in found)
