"""Whether the questions changed: the fingerprints of a window against those of the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from monitor.models.insight import InputDrift
from monitor.rolling.inputs import (
    CONTEXTS,
    LANGUAGE,
    LANGUAGES,
    OUTPUT_CHARS,
    QUERIES,
    QUERY_CHARS,
    TOPIC,
    TOPIC_GROUPS,
    length_of_bin,
)
from monitor.stats.divergence import g_test
from monitor.stats.ks import ks_test

Bins = Mapping[int, int]

_LEAST: Final = 30
#: A distance, between 0 and 1, that is worth telling.
_WORTH: Final = 0.10
_LEAST_EXPECTED: Final = 5.0


class _Found(NamedTuple):
    distance: float
    p_value: float
    before: str
    after: str


def compare_inputs(
    before: Mapping[str, Bins], after: Mapping[str, Bins], *, alpha: float
) -> list[InputDrift]:
    """
    Compare what was asked in a window with what was asked before.

    Lengths and numbers of passages are compared by the Kolmogorov-Smirnov test, languages
    by the G test, and topics group by group: the share of the questions in which a group
    of words occurs, with the p-values of all groups put together by Bonferroni.

    Parameters
    ----------
    before, after
        Histograms by feature, as `fingerprint` counts them.
    alpha
        The level, in (0, 1), at which a feature counts as moved; small where the
        comparison is repeated.

    Returns
    -------
    list[InputDrift]
        One a feature that has at least 30 on both sides.
    """
    found = []
    for feature in (QUERY_CHARS, OUTPUT_CHARS, CONTEXTS, LANGUAGE, TOPIC):
        sizes = _size(before, feature), _size(after, feature)
        if min(sizes) < _LEAST:
            continue
        result = _compare(feature, before, after)
        found.append(
            InputDrift(
                feature=feature,
                before=result.before,
                after=result.after,
                n_before=sizes[0],
                n_after=sizes[1],
                distance=result.distance,
                p_value=result.p_value,
                moved=result.p_value <= alpha and result.distance >= _WORTH,
            )
        )
    return found


def _size(bins: Mapping[str, Bins], feature: str) -> int:
    return sum(bins.get(QUERIES if feature == TOPIC else feature, {}).values())


def _compare(feature: str, before: Mapping[str, Bins], after: Mapping[str, Bins]) -> _Found:
    first, second = before[feature], after[feature]
    if feature == TOPIC:
        return _topics(first, _size(before, TOPIC), second, _size(after, TOPIC))
    if feature == LANGUAGE:
        return _languages(first, second)
    counts = _array(first, 64), _array(second, 64)
    ks = ks_test(*counts, exact_below=0.05)
    middles = [int(np.searchsorted(np.cumsum(c), c.sum() / 2)) for c in counts]
    old, new = (
        f"median {m}" if feature == CONTEXTS else f"median about {length_of_bin(m)} characters"
        for m in middles
    )
    return _Found(ks.distance, ks.p_value, old, new)


def _languages(first: Bins, second: Bins) -> _Found:
    counts = _array(first, len(LANGUAGES)), _array(second, len(LANGUAGES))
    shares = [c / c.sum() for c in counts]
    pooled = counts[0] + counts[1]
    least = min(c.sum() for c in counts) / pooled.sum()
    common = pooled * least >= _LEAST_EXPECTED
    # What is rare is joined, so that the chi-square distribution holds.
    joined = [np.append(c[common], c[~common].sum()) for c in counts]
    p_value = g_test(joined[0], joined[1]).p_value
    moved = int(np.argmax(np.abs(shares[1] - shares[0])))
    old, new = (f"{LANGUAGES[moved]} {100 * share[moved]:.0f} %" for share in shares)
    distance = float(np.abs(shares[1] - shares[0]).sum() / 2)
    return _Found(distance, 1.0 if p_value is None else p_value, old, new)


def _topics(first: Bins, n_first: int, second: Bins, n_second: int) -> _Found:
    """Compare the share of the questions in which each group of words occurs."""
    p, q = _array(first, TOPIC_GROUPS) / n_first, _array(second, TOPIC_GROUPS) / n_second
    pooled = (p * n_first + q * n_second) / (n_first + n_second)
    worth = 1 / n_first + 1 / n_second
    error = np.sqrt(np.clip(pooled * (1 - pooled), 1e-12, None) * worth)
    # Yates: half a question towards no difference.
    z = np.clip(np.abs(q - p) - worth / 2, 0, None) / error
    expected = pooled * min(n_first, n_second)
    tested = (expected >= _LEAST_EXPECTED) & ((1 - pooled) * min(n_first, n_second) >= 1)
    if not tested.any():
        return _Found(0.0, 1.0, "", "")
    p_value = min(1.0, float(2 * ndtr(-z[tested].max())) * int(tested.sum()))
    moved = int(np.argmax(np.where(tested, np.abs(q - p), -1.0)))
    old, new = (f"a group of words in {100 * share[moved]:.0f} %" for share in (p, q))
    distance = float(abs(q[moved] - p[moved]))
    return _Found(distance if math.isfinite(distance) else 0.0, p_value, old, new)


def _array(bins: Bins, size: int) -> NDArray[np.float64]:
    counts = np.zeros(size)
    for position, count in bins.items():
        counts[min(position, size - 1)] += count
    return counts
