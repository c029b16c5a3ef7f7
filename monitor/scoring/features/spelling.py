"""Write a claim as the passages write it: times of day, and words joined or apart."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.scoring.features.clock import TIME, minutes_of_day
from monitor.scoring.features.passages import Passages
from monitor.scoring.words import Word, words

_SHORTEST_JOINED, _LONGEST_JOINED = 4, 30
_SHORTEST_PART = 2


def as_told(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Split *claim* into words, each in the form in which the passages have it, if they do.

    "8 PM" becomes "20:00", "takeout" "take out" and "half time" "halftime" where only that
    is in the passages; what they have in no form stays.
    """
    return tuple(_joined_or_apart(words(_times(claim, passages)), passages))


def _times(claim: str, passages: Passages) -> str:
    if not TIME.search(claim) or not (told := passages.times):
        return claim
    return TIME.sub(lambda match: told.get(minutes_of_day(match[0]), match[0]), claim)


def _joined_or_apart(tokens: tuple[Word, ...], passages: Passages) -> Iterator[Word]:
    waiting = iter(range(len(tokens)))
    for place in waiting:
        one, after = tokens[place], tokens[place + 1 : place + 2]
        if after and (joined := _joined(one, after[0], passages)):
            next(waiting)
            yield joined
        elif one.stem in passages.where:
            yield one
        else:
            yield from _apart(one, passages) or (one,)


def _joined(one: Word, other: Word, passages: Passages) -> Word | None:
    """Give both as one word that the passages have; None if they have the two beside each other."""
    if one.number or other.number or (one.stem, other.stem) in passages.bigrams:
        return None
    if not _SHORTEST_JOINED <= len(one.surface) + len(other.surface) <= _LONGEST_JOINED:
        return None
    joined = words(one.surface + other.surface)
    known = len(joined) == 1 and joined[0].content and joined[0].stem in passages.where
    return joined[0] if known else None


def _apart(word: Word, passages: Passages) -> tuple[Word, ...]:
    """Give the two words, beside each other in the passages, of which *word* is made."""
    surface = word.surface
    if word.number or not _SHORTEST_JOINED <= len(surface) <= _LONGEST_JOINED:
        return ()
    for at in range(_SHORTEST_PART, len(surface) - _SHORTEST_PART + 1):
        parts = words(f"{surface[:at]} {surface[at:]}")
        if tuple(part.stem for part in parts) in passages.bigrams:
            return parts
    return ()
