"""
What names the subject of a text: how its informative words begin, and the groups they belong to.

"Heavy" and "weighs" share a group, "Pass" is a part of "Reisepass", and capitals make a name of
"US" or "hall B".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from monitor.scoring.language import Word, language, light, words
from monitor.scoring.local.passages import PREFIX
from monitor.scoring.local.reading import Reading

_MOST_SENTENCES = 400  # bounds the time
_SHORTEST_PART = 4  # letters of a part of a compound
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
#: "class 3b"
CODE = re.compile(r"\b\d{1,3}[A-Za-z]\b")
Keys = frozenset[str]  #: beginnings of stems, and groups of related words in brackets


def forms_of(word: Word) -> Keys:
    """Return how the stem of a word begins, and how it is written."""
    return frozenset({without_accents(word.stem)[:PREFIX], as_spelled(word.surface)[:PREFIX]})


def keys_of(*texts: str) -> Keys:
    """Return the keys of texts: what tells one subject from another."""
    return frozenset[str]().union(*(keys for text in texts for keys in word_keys(text)))


@lru_cache(maxsize=4096)  # clauses and their sentences are read several times
def word_keys(text: str) -> tuple[Keys, ...]:
    """Return the keys of each informative word."""
    codes = [frozenset({code.lower()}) for code in CODE.findall(text)]
    return (*(keys for _, keys in keyed_words(text)), *codes)


def keyed_words(text: str) -> Iterator[tuple[Word, Keys]]:
    """
    Yield each informative word with its keys: how its stem begins, and how it is written.

    Words that belong together, such as "heavy" and "weighs", share one more. Capitals make a name
    of what is a word of no information otherwise: "US", "hall B".
    """
    for n, word in enumerate(words(text)):
        lower = word.surface.lower()
        capitals = word.surface.isupper() and (len(lower) > 1 or (n and word.surface in _NAMING))
        if lower not in light() or capitals:
            own = frozenset[str]()
            if word.content or capitals:
                own = forms_of(word)
            if keys := _related(lower) | own:
                yield word, keys


def without_groups(keys: Keys) -> Keys:
    """Return the keys of words themselves, without those of groups."""
    return frozenset(key for key in keys if key[0] != "(")


@lru_cache(maxsize=20_000)
def as_spelled(surface: str) -> str:
    """Return a word as it is written, without accents, articles and possessives."""
    plain = without_accents(surface.lower()).replace("\u2019", "'")
    return plain.removesuffix("'s").rpartition("'")[2]


def without_accents(text: str) -> str:
    """Return *text* without accents."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


@lru_cache(maxsize=20_000)
def _related(word: str) -> Keys:
    """Return the groups of words that belong together which have *word*, by names no word has."""
    groups = language()["related"].items()
    return frozenset(f"({name})" for name, like in groups if re.fullmatch(like, word))


def question_keys(asked: Sequence[tuple[Word, Keys]], reading: Reading) -> tuple[Keys, ...]:
    """Return the keys of each informative word of a question, with those of its compounds."""
    known = {
        as_spelled(word.surface)
        for sentence in reading.passages.words[:_MOST_SENTENCES]
        for word in sentence
    }
    known = {form for form in known if len(form) >= _SHORTEST_PART}
    beginnings = {form[:PREFIX] for form in known}
    found = []
    for word, keys in asked:
        form = as_spelled(word.surface)
        if word.content and len(form) >= _SHORTEST_PART and form[:PREFIX] not in beginnings:
            noun = word.surface[0].isupper()  # "Pass" is a "Reisepass", "mitbringen" is "bringen"
            for other in known:
                longer, part = (other, form) if noun else (form, other)
                if (
                    longer.endswith(part)
                    and len(longer) > len(part) + 2
                    and (noun or len(part) >= PREFIX)
                ):
                    keys |= {other[:PREFIX]}
        found.append(keys)
    return tuple(found)
