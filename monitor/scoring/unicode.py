"""Bring text into one form of Unicode, so that what reads the same counts the same."""

from __future__ import annotations

import re
import unicodedata

_FIRST_MARK, _AFTER_LAST_MARK = 0x300, 0x20000  # beyond it there are only variation selectors
_LETTERS_THAT_BECOME_MARKS = frozenset({0xFF9E, 0xFF9F})
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _marks() -> str:
    """Write the combining marks of all scripts as ranges of a character class."""
    ranges: list[list[int]] = []
    for code in range(_FIRST_MARK, _AFTER_LAST_MARK):
        if unicodedata.category(chr(code))[0] == "M" or code in _LETTERS_THAT_BECOME_MARKS:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


#: Combining marks of all scripts, for use inside a character class.
MARKS = _marks()
# Normalising sorts the marks of a letter in quadratic time; no script has thirty of them.
_MARKS_ON_END = re.compile(rf"([{MARKS}]{{30}})[{MARKS}]+")


def canonical(text: str) -> str:
    """Compose letters and marks (NFC): reads the same, letter for letter."""
    return _normalised("NFC", text)


def compatible(text: str) -> str:
    """Write full-width, joined and styled letters plainly (NFKC), to compare text."""
    return _normalised("NFKC", text)


def storable(text: str, limit: int) -> str:
    """Leave out what a database column refuses: control characters and half characters."""
    return _CONTROLS.sub("", text[: 2 * limit])[:limit].strip()


def _normalised(form: str, text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _MARKS_ON_END.sub(r"\1", text))  # type: ignore[arg-type]
