"""
What an interaction was about, in a few small numbers: for drift of the questions.

Lengths are counted in bins that double, languages by their letters and commonest words,
and the topic as a sketch: each word of the query falls into one of 128 groups, by its
hash. The sketch tells that people ask about something else, not what; no text is kept.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from monitor.models import Interaction

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
    """Give the bin of a length: two bins for each doubling, 0 for nothing."""
    if chars <= 0:
        return 0
    # By whole numbers: the square tells in which half of its doubling a length lies.
    return min(60, _BINS_PER_DOUBLING * (chars.bit_length() - 1) + _upper_half(chars) + 1)


def length_of_bin(position: int) -> int:
    """Give the least length that falls into a bin."""
    if position <= 0:
        return 0
    doublings, upper = divmod(position - 1, _BINS_PER_DOUBLING)
    return round(2 ** (doublings + upper / 2) + (0.5 if upper else 0))


def topic_groups(text: str) -> set[int]:
    """Give the groups into which the words of a text fall, each once: a set of 0 to 127."""
    found = set(_WORD.findall(text.casefold()))
    return {_kept_group(w) if len(w) <= _LONGEST_KEPT else _group(w) for w in found}


def guess_language(text: str) -> str:
    """Guess a language by its script and, for Latin letters, by its commonest words."""
    scripts = Counter(_script(c) for c in text[:400] if c.isalpha())
    scripts.pop("", None)
    if not scripts:
        return "unknown"
    script = scripts.most_common(1)[0][0]
    if scripts["kana"]:
        return "kana"
    if script != "latin":
        return script
    words = re.findall(r"[^\W\d_]+", text.casefold())
    hits = {name: sum(word in common for word in words) for name, common in _COMMON.items()}
    best = max(hits.values())
    named = [name for name, n in hits.items() if n == best]
    return named[0] if best > 0 and len(named) == 1 else "latin"


def _upper_half(chars: int) -> int:
    return int(chars * chars >= 1 << (2 * chars.bit_length() - 1))


def _group(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "big") % TOPIC_GROUPS


_kept_group = lru_cache(maxsize=10_000)(_group)


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return _SCRIPTS.get(first, "")
