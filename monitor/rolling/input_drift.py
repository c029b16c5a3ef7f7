"""Whether the questions changed: the fingerprints of a window against those of the reference."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from monitor.models import Interaction
from monitor.models.insight import InputDrift
from monitor.stats.distance import g_test, ks_test

QUERY_CHARS: Final = "query_chars"
OUTPUT_CHARS: Final = "output_chars"
CONTEXTS: Final = "contexts"
LANGUAGE: Final = "language"
TOPIC: Final = "topic"
#: How many queries the sketch was made of; one query falls into several groups.
QUERIES: Final = "queries"
FEATURES: Final = (QUERY_CHARS, OUTPUT_CHARS, CONTEXTS, LANGUAGE, TOPIC)
TOPIC_GROUPS: Final = 128

_MOST_CONTEXTS = 20
_MOST_CHARS = 4000
_LONGEST_KEPT = 40  # characters of a word whose group is kept
#: Two bins a doubling: 1, 2, 3, 4, 6, 8, 11, 16, ...
_BINS_PER_DOUBLING = 2
_WORD = re.compile(r"[^\W\d_]{3,}")

#: Languages by their position, which is their bin; never change the order.
LANGUAGES: Final = (
    "unknown", "en", "de", "fr", "es", "it", "pt", "nl", "latin", "cyrillic", "greek", "arabic",
    "hebrew", "devanagari", "thai", "han", "kana", "hangul",
)  # fmt: skip
_COMMON_WORDS: Mapping[str, str] = {
    "en": "the and is are what how do does can my you it for of to i in on with",
    "de": "der die das und ist wie was ich ein eine nicht mein für mit sie kann",
    "fr": "le la les et est une des que je vous mon ma pour dans comment pas",
    "es": "el los las y es una que mi por para con como cómo qué se puedo no",
    "it": "il gli e è una che mi per con come di sono non posso mio della",
    "pt": "o os as e é uma que meu para com como não você posso do da em",
    "nl": "de het een en is van wat hoe ik mijn niet voor met kan op je",
}
_COMMON = {name: frozenset(words.split()) for name, words in _COMMON_WORDS.items()}
_SCRIPTS: Mapping[str, str] = {
    "LATIN": "latin", "CYRILLIC": "cyrillic", "GREEK": "greek", "ARABIC": "arabic",
    "HEBREW": "hebrew", "DEVANAGARI": "devanagari", "THAI": "thai", "CJK": "han",
    "HIRAGANA": "kana", "KATAKANA": "kana", "HANGUL": "hangul",
}  # fmt: skip


def fingerprint(interaction: Interaction) -> dict[str, dict[int, int]]:
    """
    Count one interaction: by feature, so many in each bin.

    Texts that were not captured have no length, no language and no topic.
    """
    found = {CONTEXTS: {min(len(interaction.contexts), _MOST_CONTEXTS): 1}}
    if interaction.output:
        found[OUTPUT_CHARS] = {length_bin(len(interaction.output)): 1}
    if interaction.query:
        query = interaction.query[:_MOST_CHARS]
        found[QUERY_CHARS] = {length_bin(len(interaction.query)): 1}
        found[LANGUAGE] = {LANGUAGES.index(guess_language(query)): 1}
        found[TOPIC] = dict.fromkeys(sorted(topic_groups(query)), 1)
        found[QUERIES] = {0: 1}
    return found


def length_bin(chars: int) -> int:
    """Return the bin of a length: two bins for each doubling, 0 for nothing."""
    if chars <= 0:
        return 0
    # By whole numbers: the square tells in which half of its doubling a length lies.
    upper_half = int(chars * chars >= 1 << (2 * chars.bit_length() - 1))
    return min(60, _BINS_PER_DOUBLING * (chars.bit_length() - 1) + upper_half + 1)


def length_of_bin(position: int) -> int:
    """Return the least length that falls into a bin."""
    if position <= 0:
        return 0
    doublings, upper = divmod(position - 1, _BINS_PER_DOUBLING)
    return round(2 ** (doublings + upper / 2) + (0.5 if upper else 0))


def topic_groups(text: str) -> set[int]:
    """Return the groups into which the words of a text fall, each once: a set of 0 to 127."""
    found = set(_WORD.findall(text.casefold()))
    return {_kept_group(w) if len(w) <= _LONGEST_KEPT else _group(w) for w in found}


def guess_language(text: str) -> str:
    """Guess a language by its script and, for Latin letters, by its commonest words."""
    scripts = Counter(filter(None, (_script(c) for c in text[:400] if c.isalpha())))
    if not scripts:
        return "unknown"
    script = "kana" if scripts["kana"] else scripts.most_common(1)[0][0]
    if script != "latin":
        return script
    words = re.findall(r"[^\W\d_]+", text.casefold())
    hits = Counter({name: sum(w in common for w in words) for name, common in _COMMON.items()})
    (first, most), (_, second) = hits.most_common(2)
    return first if most > second else "latin"


def _group(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "big") % TOPIC_GROUPS


_kept_group = lru_cache(maxsize=10_000)(_group)


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return _SCRIPTS.get(first, "")


Bins = Mapping[int, int]

_LEAST: Final = 30
#: A distance, between 0 and 1, that is worth telling.
_WORTH: Final = 0.10
_LEAST_EXPECTED: Final = 5.0


class _Found(NamedTuple):
    distance: float
    p_value: float
    before: str = ""
    after: str = ""


def compare_inputs(
    before: Mapping[str, Bins], after: Mapping[str, Bins], *, alpha: float
) -> list[InputDrift]:
    """
    Compare what was asked in a window with what was asked before.

    Lengths and numbers of passages are compared by the Kolmogorov-Smirnov test, languages
    by the G test, and topics group by group: the share of the questions in which a group
    of words occurs, with the p-values of all groups put together by Bonferroni.

    *before* and *after* are histograms by feature, as `fingerprint` counts them. At the level
    *alpha*, in (0, 1), a feature counts as moved; it should be small where the comparison is
    repeated. What has fewer than 30 on either side is left out.
    """
    found = []
    for feature in FEATURES:
        counted = QUERIES if feature == TOPIC else feature
        n = [sum(bins.get(counted, {}).values()) for bins in (before, after)]
        if min(n) < _LEAST:
            continue
        first, second = before[feature], after[feature]
        if feature == TOPIC:
            result = _topics(first, n[0], second, n[1])
        elif feature == LANGUAGE:
            result = _languages(first, second)
        else:
            counts = _array(first, 64), _array(second, 64)
            ks = ks_test(*counts, exact_below=0.05)
            middles = [int(np.searchsorted(np.cumsum(c), c.sum() / 2)) for c in counts]
            in_words = "median {}" if feature == CONTEXTS else "median about {} characters"
            shown = middles if feature == CONTEXTS else [length_of_bin(m) for m in middles]
            result = _Found(ks.distance, ks.p_value, *(in_words.format(m) for m in shown))
        moved = result.p_value <= alpha and result.distance >= _WORTH
        found.append(
            InputDrift(
                feature=feature, n_before=n[0], n_after=n[1], moved=moved, **result._asdict()
            )
        )
    return found


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
    return _Found(distance, p_value, old, new)


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
        return _Found(0.0, 1.0)
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
