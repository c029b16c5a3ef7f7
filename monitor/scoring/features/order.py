"""Compare which words of a claim stand together, and in which order, with the passages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.passages import Passages
from monitor.scoring.words import Word

ORDER_FEATURES = (
    "bigrams", "trigrams", "runs", "pairs", "pairs_near", "pairs_in_order", "pairs_far",
    "pairs_near_weighted", "rare_pair_far", "swapped", "in_sequence", "gaps_wide", "gap",
    "repeated",
)  # fmt: skip

_NEAR, _WIDE, _FAR = 6, 10, 25  # words
_RARE = 0.6
_MOST_ALIGNED = 60  # words laid beside each other; the table grows with the square


def order_features(aligned: Aligned) -> tuple[float, ...]:
    """Compare order and neighbourhood; in the order of ``ORDER_FEATURES``."""
    tokens, passages = aligned.tokens, aligned.passages
    stems = [word.stem for word in tokens]
    bigrams = list(pairwise(stems))
    known = [pair in passages.bigrams for pair in bigrams]
    trigrams = [a and b for a, b in pairwise(known)]
    distances = _distances(aligned)
    near = [d for _, d in distances if d is not None and abs(d) <= _NEAR]
    far = [d for _, d in distances if d is not None and abs(d) > _FAR]
    # A claim of one word has no pairs: it is told by whether the word is there.
    alone = float(any(s in passages.where for s in aligned.content or stems))
    count = max(len(distances), 1)
    weight = sum(w for w, _ in distances) or 1.0
    return (
        _mean(known, alone),
        _mean(trigrams, _mean(known, alone)),
        _runs(tokens, passages) if len(stems) > 1 else alone,
        _pairs(aligned.content, passages),
        len(near) / count if distances else alone,
        sum(d > 0 for d in near) / count if distances else alone,
        len(far) / count,
        sum(w for w, d in distances if d is not None and abs(d) <= _NEAR) / weight
        if distances
        else alone,
        float(sum(d is not None and abs(d) > _NEAR and w > _RARE for w, d in distances)),
        sum(d < 0 for d in near) / count,
        _in_sequence(aligned),
        *_gaps(aligned),
        float(_repeated(aligned)),
    )


def _gaps(aligned: Aligned) -> tuple[float, float]:
    """Measure how scattered the known words of a claim stand: share of wide gaps, mean gap."""
    passages = aligned.passages
    known = [word for word in aligned.content if word in passages.where]
    distances = [passages.distance(a, b) for a, b in pairwise(known)]
    gaps = [abs(distance) for distance in distances if distance is not None]
    if not gaps:
        return 0.0, 0.0
    return sum(gap > _WIDE for gap in gaps) / len(gaps), math.log1p(sum(gaps) / len(gaps))


def _repeated(aligned: Aligned) -> bool:
    """Say whether a claim uses a rare word twice that its evidence has once."""
    said = Counter(word.stem for word in aligned.tokens if word.content)
    found = Counter(word.stem for word in aligned.found)
    return any(
        count > 1 and found[word] == 1 and aligned.passages.rarity(word) > _RARE
        for word, count in said.items()
    )


def _distances(aligned: Aligned) -> list[tuple[float, int | None]]:
    """Measure, for neighbouring content words, how far apart the passages have them."""
    passages = aligned.passages
    return [
        (min(passages.rarity(a), passages.rarity(b)), passages.distance(a, b))
        for a, b in pairwise(aligned.content)
    ]


def _mean(found: Sequence[bool], otherwise: float) -> float:
    return sum(found) / len(found) if found else otherwise


def _runs(tokens: Sequence[Word], passages: Passages) -> float:
    """Measure how much is copied in long pieces: squared lengths of shared runs, in [0, 1]."""
    length, squares = 1, 0
    for a, b in pairwise(tokens):
        if (a.stem, b.stem) in passages.bigrams:
            length += 1
        else:
            squares += length * length if length > 1 else 0
            length = 1
    squares += length * length if length > 1 else 0
    return math.sqrt(squares) / max(len(tokens), 1)


def _pairs(content: Sequence[str], passages: Passages) -> float:
    """Share of neighbouring content words that some sentence of the passages holds together."""
    pairs = list(pairwise(content))
    if not pairs:
        return float(bool(content) and content[0] in passages.where)
    return sum(
        not set(passages.holders(a)).isdisjoint(passages.holders(b)) for a, b in pairs
    ) / len(pairs)


def _in_sequence(aligned: Aligned) -> float:
    """Share of the words of the claim that the best sentence has in the same order."""
    said = [word.stem for word in aligned.tokens[:_MOST_ALIGNED]]
    found = [word.stem for word in aligned.found[: _MOST_ALIGNED * 2]]
    return _longest_common(said, found) / len(said) if said else 0.0


def _longest_common(said: Sequence[str], found: Iterable[str]) -> int:
    """Length of the longest common subsequence, with one bit a word of *said*."""
    masks: dict[str, int] = {}
    for place, word in enumerate(said):
        masks[word] = masks.get(word, 0) | 1 << place
    row = 0
    for word in found:
        matched = row | masks.get(word, 0)
        row = matched & ~(matched - (row << 1 | 1))
    return row.bit_count()
