"""A digest as plain text: for the terminal, and for who reads mail without pictures."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from monitor.report.digest import Digest
from monitor.report.digest_words import (
    digest_sections,
    digest_span,
    digest_title,
    digest_verdict,
)


def render_digest(digest: Digest, width: int = 78) -> str:
    """Write the digest in lines of at most *width* characters, where words allow it."""
    return "\n".join(_lines(digest, width)) + "\n"


def _lines(digest: Digest, width: int) -> Iterator[str]:
    yield from _folded(digest_verdict(digest), width, indent="")
    yield from _folded(f"{digest_title(digest)}, {digest_span(digest)}", width, indent="")
    for section in digest_sections(digest):
        yield ""
        yield section.title
        for line in section.lines:
            yield from _folded(line, width, indent="  ")


def _folded(line: str, width: int, indent: str) -> list[str]:
    return wrap(
        line,
        max(20, width),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )
