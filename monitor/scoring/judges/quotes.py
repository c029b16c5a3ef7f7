"""Find a quote in the passages: the proof that the judge has read them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from monitor.scoring.language import MARKS, compatible, spaced, words
from monitor.scoring.local.passages import flatten
from monitor.scoring.sentences import split_sentences

_LONGEST_QUOTE = 2_000  # characters; the prompt asks for 25 words
_WIDEST_GAP = 300  # characters that an ellipsis may stand for
_MOST_PARTS = 8
_LEAST_CONTENT = 3  # informative words; fewer stand in a passage by chance
_ELLIPSIS = re.compile(r"\[? ?(?:\.{3,}+|…) ?\]?")
_NO_WORD = re.compile(rf"(?:[^\w{MARKS}]|_)+")


class Quotable:
    """The passages of one interaction, prepared once for any number of quotes."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self._contexts = contexts
        self._plain = [_plain(context) for context in contexts]

    def find(self, quote: str) -> int | None:
        """
        Find the passage that holds *quote* word for word; None when no passage does.

        Case, punctuation and the form of Unicode characters do not matter. An ellipsis
        stands for words left out; the parts must follow each other in one passage, about
        fifty words apart at most: words from all over it can be put together to any claim. A
        quote proves something only with three informative words, or as a whole sentence
        of a passage with at least one.
        """
        quote = " ".join(quote.split())[:_LONGEST_QUOTE]
        content = sum(word.content for word in words(quote))
        if content < _LEAST_CONTENT:
            return self._sentences.get(_plain(quote)) if content else None
        parts = [plain for part in _ELLIPSIS.split(quote) if (plain := _plain(part)).strip()]
        return next((i for i, text in enumerate(self._plain) if _in_order(parts, text)), None)

    @cached_property
    def _sentences(self) -> dict[str, int]:
        """Map the sentences of all passages to the first passage that holds them."""
        found: dict[str, int] = {}
        for index, context in enumerate(self._contexts):
            for sentence in split_sentences(flatten(context)):
                found.setdefault(_plain(sentence), index)
        return found


def _in_order(parts: Sequence[str], text: str) -> bool:
    """Return whether *parts* follow each other in *text*, none too far behind the one before."""
    if len(parts) > _MOST_PARTS:
        return False
    ends: list[int] | None = None
    for part in parts:
        found: list[int] = []
        at = text.find(part)
        while at >= 0:
            # The last space of a part may be the first of the next.
            last = -1 if ends is None else bisect_right(ends, at) - 1
            if ends is None or (last >= 0 and at - ends[last] <= _WIDEST_GAP):
                found.append(at + len(part) - 1)
            at = text.find(part, at + 1)
        if not found:
            return False
        ends = found
    return True


def _plain(text: str) -> str:
    """Write *text* as lower-case words between single spaces, with a space at both ends."""
    return f" {_NO_WORD.sub(' ', spaced(compatible(text)).casefold()).strip()} "
