"""Experiments: which variant a request gets, by shares that the scheduler learns."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from random import random
from types import MappingProxyType
from typing import Final

#: Shares of the traffic by experiment and variant; each experiment's sum to 1.
Shares = Mapping[str, Mapping[str, float]]

_LONGEST: Final = 100_000
_WHOLE: Final = 2.0**64
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
#: What this thread or task has chosen since its last interaction, by experiment.
chosen: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar(
    "groundwatch_chosen", default=_NONE
)


def pick(
    shares: Mapping[str, float] | None, experiment: str, key: object, variants: Sequence[str]
) -> str:
    """
    Return one of *variants*: always the same for a key as long as the shares stay the same.

    Without a key by chance. Variants for which no share is known get an even part.
    """
    if key is None:
        at = random()  # noqa: S311  # splits traffic, guards nothing
    else:
        from hashlib import blake2b  # noqa: PLC0415  # most apps have no experiments

        name = f"{experiment}\0{key}".encode("utf-8", "surrogatepass")
        at = int.from_bytes(blake2b(name, digest_size=8).digest(), "big") / _WHOLE
    even = 1.0 / len(variants)
    if not shares:
        return variants[int(at * len(variants))]
    parts = [shares.get(variant, even) for variant in variants]
    left = at * sum(parts)
    for variant, part in zip(variants, parts, strict=True):
        left -= part
        if left < 0:
            return variant
    return variants[-1]


def take_chosen(tags: object) -> object:
    """Return *tags* with what was chosen since the last interaction, which is then forgotten."""
    found = chosen.get()
    if not found:
        return tags
    chosen.set(_NONE)
    if tags is None:
        return dict(found)
    return {**found, **tags} if isinstance(tags, Mapping) else tags


def read_shares(published: bytes | None) -> Shares:
    """Read what the scheduler published; nothing at all of what is no such thing."""
    if not published or len(published) > _LONGEST:
        return {}
    import json  # noqa: PLC0415  # on the sender's thread, and only where there are experiments

    try:
        return {
            str(experiment): {str(name): max(0.0, float(share)) for name, share in of.items()}
            for experiment, of in json.loads(published).items()
            if sum(map(float, of.values())) > 0
        }
    except (ValueError, TypeError, AttributeError):
        return {}
