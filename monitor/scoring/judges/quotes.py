"""Find a quote in the passages: the proof that a judge has looked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from monitor.scoring.words import spaced, words

_ELLIPSIS = re.compile(r"\[?\s*(?:\.{3,}|…)\s*\]?")
_NO_WORD = re.compile(r"[\W_]+")


def find_quote(quote: str, contexts: Sequence[str]) -> int | None:
    """
    Find the passage that holds *quote* word for word; None when no passage does.

    Case, punctuation and the form of Unicode characters do not matter. An ellipsis
    stands for words left out; the parts must follow each other in one passage. A
    quote without any informative word proves nothing and is never found.
    """
    if not any(word.content for word in words(quote)):
        return None
    parts = [plain for part in _ELLIPSIS.split(quote) if (plain := _plain(part)).strip()]
    for index, context in enumerate(contexts):
        if _in_order(parts, _plain(context)):
            return index
    return None


def _in_order(parts: Sequence[str], text: str) -> bool:
    start = 0
    for part in parts:
        start = text.find(part, start)
        if start < 0:
            return False
        start += len(part) - 1
    return True


def _plain(text: str) -> str:
    """Write *text* as lower-case words between single spaces, with a space at both ends."""
    folded = unicodedata.normalize("NFKC", spaced(text)).casefold()
    return f" {_NO_WORD.sub(' ', folded).strip()} "
