"""Tell kinds of exchanges apart: what is a bad sign in one is usual in another."""

from __future__ import annotations

from enum import StrEnum

_BRIEF, _SHORT = 35, 12  # words
_FEW = 2  # claims


class Kind(StrEnum):
    """What is asked for, as far as an exchange shows it."""

    STRUCTURED = "structured"  #: the passages are records with attributes
    BRIEF = "brief"  #: no query, a sentence or two
    TEXT = "text"  #: no query, a longer text
    SHORT_ANSWER = "short_answer"  #: a few words
    ANSWER = "answer"  #: a sentence or two
    LONG_ANSWER = "long_answer"


def kind_of(query: str | None, *, structured: bool, claims: int, words: int) -> Kind:
    """Name the kind of an exchange whose output has so many claims with so many words."""
    if structured:
        return Kind.STRUCTURED
    if not (query or "").strip():
        return Kind.BRIEF if words < _BRIEF else Kind.TEXT
    if words <= _SHORT:
        return Kind.SHORT_ANSWER
    return Kind.ANSWER if claims <= _FEW else Kind.LONG_ANSWER
