"""Lay a claim word for word beside its best sentence, and find where words are exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.antonyms import Change
from monitor.scoring.words import NEGATIONS, Word, stem

COPIED = 0.6  # least share of the other information of a claim that its best sentence holds
LONGEST = 3  # words that are exchanged for each other
TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
#: Words that deny what follows; "without" is an opposite of "with".
DENIALS = frozenset(stem(word) for word in NEGATIONS - {"without"})


class Conflict(NamedTuple):
    """What the claim says, and what the passage has in its place, as they are written."""

    change: Change
    said: str
    told: str


class Slot(NamedTuple):
    """A place where claim and sentence differ between words that agree."""

    said: tuple[Word, ...]
    told: tuple[Word, ...]
    at: int  #: place of the first word in the claim
    there: int  #: place of the first word in the sentence


def slots_of(said: Sequence[Word], told: Sequence[Word]) -> Iterator[Slot]:
    """List the places where words are exchanged for others, beside words that agree."""
    codes = laid_beside(said, told)
    for number, (tag, a, b, c, d) in enumerate(codes):
        if tag != "replace" or b - a > LONGEST:
            continue
        before = said[codes[number - 1][1] : a] if number else ()
        after = said[b : codes[number + 1][2]] if number + 1 < len(codes) else ()
        beside = _tells(before[-LONGEST:]), _tells(after[:LONGEST])
        if not any(beside):
            continue
        # Where the sentence says more than the claim, what stands next to agreeing words counts.
        length = min(b - a, d - c)
        starts = {c} if number else set()
        starts |= {d - length} if number + 1 < len(codes) else set()
        for start in sorted(starts):
            yield Slot(tuple(said[a:b]), tuple(told[start : start + length]), a, start)


def laid_beside(said: Sequence[Word], told: Sequence[Word]) -> list[tuple[str, int, int, int, int]]:
    """List what is equal, inserted, deleted and replaced, as ``difflib`` does."""
    one, other = [word.stem for word in said], [word.stem for word in told]
    return list(SequenceMatcher(None, one, other, autojunk=False).get_opcodes())


def _tells(agreeing: Sequence[Word]) -> bool:
    return any(word.content for word in agreeing)


def copied(aligned: Aligned, but: set[str], least: float = COPIED) -> bool:
    """Say whether the best sentence holds a claim but for some words."""
    rest = {word: weight for word, weight in aligned.weights.items() if word not in but}
    return bool(rest) and share_in(aligned, rest, aligned.evidence[0]) >= least


def share_in(aligned: Aligned, rest: dict[str, float], sentence: int) -> float:
    """Say how much of the weight of some words one sentence of the passages holds."""
    stems = aligned.passages.stems[sentence]
    return sum(w for s, w in rest.items() if s in stems) / (sum(rest.values()) or 1.0)


def told_elsewhere(aligned: Aligned, words: set[str]) -> bool:
    """Say whether another sentence tells a claim as much as the best one, and has the words."""
    rest = {word: weight for word, weight in aligned.weights.items() if word not in words}
    least = TELLS * share_in(aligned, rest, aligned.evidence[0])
    holders = set.intersection(*(set(aligned.passages.holders(word)) for word in words))
    return any(share_in(aligned, rest, n) >= least for n in holders)
