"""Which of many values are frequent enough to be counted on their own, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Values of a dimension that have a place of their own; and those that are watched for one.
PLACES = 200
_WAITING = 200
#: A value that was not seen for so long gives up its place to whoever comes.
PATIENCE_S = 7 * 86_400


class Seen(NamedTuple):
    """How often a value with a place was counted, and when last, in epoch seconds."""

    n: int
    last_s: int


@dataclass(frozen=True, slots=True)
class Census:
    """
    Who has a place, and who waits.

    ``named`` gives the count that a value had when it got its place. ``waiting`` gives
    a count and by how much it may be too high: a true count lies between the two.
    """

    named: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def admit(
    census: Census,
    counts: Mapping[str, int],
    seen: Mapping[str, Seen],
    *,
    now_s: int,
    places: int = PLACES,
    waiting: int = _WAITING,
) -> Census:
    """
    Count values, and decide which of them have a place of their own.

    While there is room, a value gets a place when it first comes. Later, one that waits
    takes the place of the least frequent one once it was certainly seen more often, or
    the place of one that has not been seen for a week. Those that wait are counted by
    the Space-Saving algorithm, so that memory stays bounded whatever comes.

    *census* and *counts*: what was known before, and how often each value came now. *seen*: how
    often and when those with a place were counted since they got it; one that is missing was
    not counted yet. *now_s*: epoch seconds of what is counted now. *places* and *waiting*: how
    many values have a place, and how many wait, at most.

    Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
    elements in data streams", ICDT (2005), 398-412.
    """
    named, queue = dict(census.named), dict(census.waiting)
    ranks = {}
    for value, base in named.items():
        count, last_s = seen.get(value, Seen(0, now_s))
        ranks[value] = Seen(base + count, last_s)
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        if value in named:
            continue
        if len(named) < places:
            named[value] = 0
            ranks[value] = Seen(counts[value], now_s)
            continue
        if value in queue:
            count, error = queue[value][0] + counts[value], queue[value][1]
        elif len(queue) < waiting:
            count, error = counts[value], 0
        else:  # it takes over the lowest count
            lowest = min(queue, key=lambda other: (queue[other][0], other))
            error = queue.pop(lowest)[0]
            count = error + counts[value]
        least = min(
            ranks, key=lambda other: (not _is_idle(ranks[other], now_s), *ranks[other], other)
        )
        if _is_idle(ranks[least], now_s) or count - error > ranks[least].n:
            del named[least], ranks[least]
            named[value] = count - error - counts[value]
            ranks[value] = Seen(count - error, now_s)
            queue.pop(value, None)
        else:
            queue[value] = (count, error)
    return Census(named, queue)


def _is_idle(seen: Seen, now_s: int) -> bool:
    return now_s - seen.last_s > PATIENCE_S
