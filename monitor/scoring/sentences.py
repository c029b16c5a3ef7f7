"""Split text into sentences: abbreviations, decimals, bullets and lines respected."""

# ruff: noqa: RUF001 - the punctuation of other languages is meant
from __future__ import annotations

import re

from monitor.scoring.unicode import canonical

_ABBREVIATED = """
mr mrs ms dr prof sr jr st vs etc e.g i.e eg ie approx no fig inc ltd co corp dept est gen gov rep
sen capt col lt sgt jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# Possessive, and never in the middle of a run: otherwise long runs take quadratic time.
_END = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’)\]]*+(?:\[\^?\d{1,3}\])*+(?=\s|$)"""
    r"""|(?<![。！？．])[。！？．]++["”’」）]*+"""
)
_BULLET = re.compile(r"^\s*(?:[-*•·–—]+\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+|>\s+|\|)+")
_LONGEST_WORD = 40
_MARKS = re.compile(r"\*\*|__|`")


def split_sentences(text: str) -> tuple[str, ...]:
    """
    Split *text* into sentences, without bullets and emphasis marks.

    A line break ends a sentence, because lists and headings have no full stop. Letters
    are composed (NFC) but not replaced: a full-width stop ends a sentence without a space.
    """
    sentences: list[str] = []
    for line in canonical(text).splitlines():
        bare = _MARKS.sub("", _BULLET.sub("", line)).strip()
        if bare:
            sentences += _split_line(bare)
    return tuple(sentences)


def _split_line(line: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for match in _END.finditer(line):
        if _ends_sentence(line, match):
            parts.append(line[start : match.end()].strip())
            start = match.end()
    parts.append(line[start:].strip())
    return [part for part in parts if any(char.isalnum() for char in part)]


def _ends_sentence(line: str, match: re.Match[str]) -> bool:
    if match.group() != ".":
        return True
    before = line[max(match.start() - _LONGEST_WORD, 0) : match.start()].split()
    word = before[-1].lstrip("(\"'“‘").lower() if before else ""
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i"):
        return False
    following = line[match.end() : match.end() + _LONGEST_WORD].lstrip()
    return not following[:1].islower() or len(word) > 4  # noqa: PLR2004 - "approx. half", no name
