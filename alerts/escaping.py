"""Make text of strangers harmless: on one line, without control characters, within a length."""

from __future__ import annotations

import unicodedata

_ELLIPSIS = "…"
#: Control characters, formatting (bidirectional overrides, zero-width), private use, surrogates.
_UNWANTED = {"Cc", "Cf", "Co", "Cs", "Cn"}


def plain(text: str, limit: int = 500) -> str:
    """Put *text* on one line of at most *limit* characters that a terminal prints as they are."""
    # Cut generously first: a hostile text may be huge, and most of it is thrown away.
    head = text[: limit * 4]
    visible = "".join(_visible(character) for character in head)
    return shorten(" ".join(visible.split()), limit)


def shorten(text: str, limit: int) -> str:
    """Cut *text* to *limit* characters, and show that it was cut."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _ELLIPSIS


def slack(text: str) -> str:
    """Escape *text* for Slack, where only these three characters can begin a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    return "" if unicodedata.category(character) in _UNWANTED else character
