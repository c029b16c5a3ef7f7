"""
Find what contradicts a claim for certain: a sentence copied but for one detail.

A claim is laid word for word beside its best sentence. Where everything around a place
agrees and only the words in it exclude each other, the claim says something else than the
passage. Nothing is found where a claim is told in other words, nor where another sentence
of the passages tells it as the claim does.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.alternatives import Change, day_of, exclusive
from monitor.scoring.features.denials import denial_on_one_side, swapped_roles
from monitor.scoring.features.laid import DENIALS, Conflict, Slot, copied, slots_of, told_elsewhere
from monitor.scoring.features.number_conflicts import (
    counted_otherwise,
    number_in_slot,
    other_currencies,
)
from monitor.scoring.words import Word

_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_LEAST_SHARE = 0.3  # below it nothing is copied, and looking closer is a waste
_LONGEST_INITIALS = 5


def find_conflicts(aligned: Aligned, *, structured: bool = False) -> tuple[Conflict, ...]:
    """
    List what is certainly contradicted; only so many words are read, which bounds the time.

    In records, which *structured* tells, numbers stand after what they count.
    """
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if not said or not told or aligned.shares[0] < _LEAST_SHARE or _asks(aligned):
        return ()
    found: list[Conflict] = []
    for slot in slots_of(said, told):
        conflict = number_in_slot(aligned, slot) or _words(aligned, slot)
        if conflict is None and not structured:
            conflict = _names(aligned, slot)
        found += [conflict] if conflict else []
    found += counted_otherwise(aligned, said, told, structured=structured)
    found += denial_on_one_side(aligned, said, told) or ()
    found += swapped_roles(aligned, said, told) if not found else []
    found += other_currencies(aligned)
    return tuple({conflict.said: conflict for conflict in found}.values())


def _words(aligned: Aligned, slot: Slot) -> Conflict | None:
    """Find a word that excludes what the passage has in the same place."""
    turned = _denied(aligned.tokens) != _denied(aligned.found)
    for one in slot.said:
        for other in slot.told:
            change = exclusive(one, other)
            if change is None or _both_have(aligned, one, other):
                continue
            if turned and change is not Change.QUANTITY:
                continue  # twice turned round is the same again
            if change is Change.UNIT and not _counted(aligned, slot):
                continue
            if copied(aligned, {one.stem}) and not told_elsewhere(aligned, {one.stem}):
                return Conflict(change, one.surface, other.surface)
    return None


def _denied(tokens: Sequence[Word]) -> bool:
    return any(word.stem in DENIALS for word in tokens)


def _asks(aligned: Aligned) -> bool:
    """Say whether the best sentence is a question: it states nothing."""
    return aligned.passages.sentences[aligned.evidence[0]][1].rstrip().endswith("?")


def _both_have(aligned: Aligned, one: Word, other: Word) -> bool:
    """Say whether a side has both words, so that nothing is exchanged."""
    return one.stem in aligned.passages.stems[aligned.evidence[0]] or any(
        word.stem == other.stem for word in aligned.tokens
    )


def _counted(aligned: Aligned, slot: Slot) -> bool:
    """Say whether the same number stands before a unit on both sides."""
    said = {w.stem for w in aligned.tokens[max(slot.at - 2, 0) : slot.at + 1] if w.number}
    told = {w.stem for w in aligned.found[max(slot.there - 2, 0) : slot.there + 1] if w.number}
    return not said.isdisjoint(told)


def _names(aligned: Aligned, slot: Slot) -> Conflict | None:
    """Compare the names in one place; a shorter or longer form of a name is the same name."""
    said, told = (_named(words) for words in (slot.said, slot.told))
    if not said or not told or slot.at == 0:
        return None
    if any(day_of(word) for word in said) or _same_name(aligned, said, told):
        return None
    stems = {word.stem for word in said}
    if any(stem in aligned.passages.where for stem in stems) or not copied(aligned, stems):
        return None
    one, other = (" ".join(word.surface for word in words) for words in (said, told))
    return Conflict(Change.NAME, one, other)


def _named(words: Sequence[Word]) -> list[Word]:
    """Keep the words when all that tell something are names."""
    telling = [word for word in words if word.content]
    return telling if telling and all(word.capital for word in telling) else []


def _same_name(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> bool:
    """Say whether names may be forms of one: spelled apart, shortened, or by initials."""
    one, other = ("".join(word.surface for word in words).lower() for words in (said, told))
    if one[:3] == other[:3] or one in "".join(word.surface for word in aligned.found).lower():
        return True
    shortened = any(
        len(name) == 1 and name[0].surface.isupper() and len(name[0].surface) <= _LONGEST_INITIALS
        for name in (said, told)
    )
    return shortened and one[0] == other[0]
