"""The parts of an app's traffic that are counted on their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from monitor.models import Interaction

_MOST_CHARS = 120


def places_of(interaction: Interaction, dimensions: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """
    Tell which value an interaction has in each dimension; one without a value has no place.

    A dimension is a field (``release``, ``environment``), else a tag, else a plain value
    in ``metadata`` of that name. A value that is too long is cut, with a mark that keeps
    two long ones apart.
    """
    return tuple(
        (dimension, value) for dimension in dimensions for value in _value(interaction, dimension)
    )


def _value(interaction: Interaction, dimension: str) -> Iterator[str]:
    known = {"release": interaction.release, "environment": interaction.environment}
    value = (
        known.get(dimension)
        or interaction.tags.get(dimension)
        or interaction.metadata.get(dimension)
    )
    if isinstance(value, str | int | float):
        text = _clean(str(value))
        if text:
            yield text


def _clean(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    if len(plain) <= _MOST_CHARS:
        return plain
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{plain[:_MOST_CHARS]}…{digest}"
