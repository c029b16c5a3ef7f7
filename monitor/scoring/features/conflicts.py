"""
Find what contradicts a claim for certain: a sentence copied but for one detail.

A claim is laid word for word beside its best sentence. Where everything around a place
agrees and only the words in it exclude each other, the claim says something else than the
passage. Nothing is found where a claim is told in other words, nor where another sentence
of the passages tells it as the claim does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.antonyms import Change, day_of, exclusive, is_unit
from monitor.scoring.features.laid import (
    DENIALS,
    TELLS,
    Conflict,
    Slot,
    copied,
    laid_beside,
    share_in,
    slots_of,
    told_elsewhere,
)
from monitor.scoring.words import Word, compatible, stem

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


# --- denials ---
# Find a denial on one side only, and names that have changed places.


_COPIED_DENIAL = 0.75  # least share of a claim that a sentence holds which says the opposite
_SWAPPED = 0.9  # least share of a claim that a sentence with other roles holds
_TURNS = frozenset(
    stem(word) for word in ["but", "while", "whereas", "although", "though", "however"]
)
_HELPING = frozenset(
    stem(word)
    for listed in (
        "do does did is are was were be been has have had can could will would shall should",
        "may might must any a an the to",
    )
    for word in listed.split()
)


def denial_on_one_side(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[Conflict]:
    """Find a denial on one side of words that agree."""
    told = _clause(aligned, told)
    sides = [sum(w.stem in DENIALS for w in words) for words in (said, told)]
    if sorted(sides) != [0, 1] or not copied(aligned, set(), _COPIED_DENIAL):
        return []
    codes = laid_beside(said, told)
    for number, (tag, a, b, c, d) in enumerate(codes):
        at_an_end = number == len(codes) - 1 or (number == 0 and c > 0)
        if tag == "equal" or at_an_end or not _only_denies(said, told, (a, b, c, d)):
            continue
        if not _told_so_elsewhere(aligned, denied=bool(sides[0])):
            return [Conflict(Change.NEGATION, _around(said, a, b), _around(told, c, d))]
    return []


def _clause(aligned: Aligned, told: Sequence[Word]) -> Sequence[Word]:
    """Choose the part of a sentence, between words such as but, that holds all of the claim."""
    turns = [n for n, word in enumerate(told) if n and word.stem in _TURNS]
    parts = [told[a:b] for a, b in pairwise((0, *turns, len(told)))]
    stems = [{word.stem for word in part} for part in parts]
    weights = [sum(w for s, w in aligned.weights.items() if s in part) for part in stems]
    weight, best = max(zip(weights, parts, strict=True), key=lambda each: each[0])
    return best if weight >= _SWAPPED * aligned.total else told


def _only_denies(
    said: Sequence[Word], told: Sequence[Word], place: tuple[int, int, int, int]
) -> bool:
    """Say whether what differs is a denial with words such as does or are, and nothing else."""
    a, b, c, d = place
    denial = any(word.stem in DENIALS for word in (*said[a:b], *told[c:d]))
    if not denial or not all(
        w.stem in DENIALS or w.stem in _HELPING for w in (*said[a:b], *told[c:d])
    ):
        return False
    beside = {w.stem for w in (*said[a - 1 : a], *said[b : b + 1], *told[d : d + 1])}
    return (
        not _exclaims(said, a, b)
        and not _exclaims(told, c, d)
        and beside.isdisjoint({"if", "only", "just", "mer"})
    )


def _exclaims(tokens: Sequence[Word], start: int, end: int) -> bool:
    """Say whether a "No" answers a question instead of denying what follows."""
    return any(
        tokens[n].surface == "No"
        and (n > 0 or tokens[n + 1].surface[:1].isupper() or not tokens[n + 1].content)
        for n in range(start, min(end, len(tokens) - 1))
    )


def _told_so_elsewhere(aligned: Aligned, *, denied: bool) -> bool:
    """Say whether another sentence that tells as much denies as the claim does."""
    rarest = max(aligned.weights, key=lambda word: (aligned.weights[word], word))
    least = TELLS * aligned.shares[0]
    return any(
        share_in(aligned, aligned.weights, n) >= least
        and (not DENIALS.isdisjoint(aligned.passages.stems[n])) == denied
        for n in aligned.passages.holders(rarest)
        if n != aligned.evidence[0]
    )


def _around(tokens: Sequence[Word], start: int, end: int) -> str:
    return " ".join(word.surface for word in tokens[max(start - 1, 0) : end + 1])


def swapped_roles(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> list[Conflict]:
    """Find two names that have changed places around the same words."""
    if not copied(aligned, set(), _SWAPPED):
        return []
    between = {
        (one, other): told[b:c]
        for (one, _, b), (other, c, _) in pairwise(_names_of(told))
        if one != other
    }
    for (one, a, b), (other, c, d) in pairwise(_names_of(said)):
        link = between.get((other, one), ())
        same = [word.stem for word in link] == [word.stem for word in said[b:c]]
        if same and any(word.content for word in link) and (one, other) not in between:
            names = [" ".join(w.surface for w in part) for part in (said[a:b], said[c:d])]
            return [Conflict(Change.ROLES, " … ".join(names), " … ".join(names[::-1]))]
    return []


def _names_of(tokens: Sequence[Word]) -> list[tuple[tuple[str, ...], int, int]]:
    """List runs of capitalised words with where they begin and end."""
    runs: list[tuple[int, int]] = []
    for place, word in enumerate(tokens):
        if word.capital:
            joins = bool(runs) and runs[-1][1] == place
            start = runs.pop()[0] if joins else place
            runs.append((start, place + 1))
    return [(tuple(w.stem for w in tokens[a:b]), a, b) for a, b in runs]


# --- number conflicts ---
# Find numbers, with their units and currencies, that a passage has otherwise.


_FIRST_YEAR, _LAST_YEAR = 1000, 2100
_CLOSE = 0.06  # a number so near, with a word such as "about", says the same
_HEDGE = 4  # words before a number in which a bound or "about" stands
_OVER, _UNDER, _ABOUT = (
    frozenset(stem(word) for word in listed.split())
    for listed in (
        "over more above exceeding least beyond minimum",
        "under less fewer below most almost nearly up maximum within",
        "about around approximately roughly circa some almost nearly",
    )
)
#: Words before a number that is a name: the same sentence may be told under another one.
_LABELS = frozenset(
    stem(w) for w in ["step", "passage", "chapter", "figure", "page", "example", "number"]
)
_MONEY = re.compile(r"([$€£¥])\s?(\d+(?:[.,]\d+)*)")
_MOST_CHARS = 2_000
_MOST_COUNTED = 20  # a number below counts things; it does not stand for a year


def number_in_slot(aligned: Aligned, slot: Slot) -> Conflict | None:
    """Compare the one number in a place with the one that a passage has there."""
    said = [word for word in slot.said if word.number]
    told = [word for word in slot.told if word.number]
    if len(said) != 1 or len(told) != 1:
        return None
    return _other_number(aligned, said[0], told[0], slot.at, slot.there)


def _other_number(aligned: Aligned, said: Word, told: Word, at: int, there: int) -> Conflict | None:
    tokens, found = aligned.tokens, aligned.found
    at, there = _place(tokens, said, at), _place(found, told, there)
    if _same_number(aligned, said, told) or _names_a_step(tokens, at) or _starts_list(found, there):
        return None
    if _fits_bounds(_value(said), _value(told), _before(tokens, at), _before(found, there)):
        return None
    if not copied(aligned, {said.stem}) or told_elsewhere(aligned, {said.stem}):
        return None
    change = Change.YEAR if _is_year(said) and _is_year(told) else Change.NUMBER
    return Conflict(change, _with_next(tokens, at), _with_next(found, there))


def _same_number(aligned: Aligned, said: Word, told: Word) -> bool:
    """Say whether the numbers may be the same, or stand for different things."""
    held = aligned.passages.stems[aligned.evidence[0]]
    if said.stem in held or any(word.stem == told.stem for word in aligned.tokens):
        return True
    if _is_year(said) and said.surface.endswith(told.surface):
        return True  # 2007-08
    if _is_year(said) != _is_year(told) and any(map(_is_count, (said, told))):
        return True  # "two films" beside "1995 film"
    parts = re.split(r"[.,]", said.surface)  # "1, 000" in a passage that was taken apart
    return len(parts) > 1 and any(w.number and w.surface in parts for w in aligned.found)


def _is_count(word: Word) -> bool:
    value = _value(word)
    return value is not None and value < _MOST_COUNTED


def _names_a_step(tokens: Sequence[Word], place: int) -> bool:
    return place > 0 and tokens[place - 1].stem in _LABELS


def _starts_list(tokens: Sequence[Word], place: int) -> bool:
    """Say whether a number is that of an entry in a list whose text follows it."""
    return place == 0 and len(tokens) > 1 and tokens[1].surface[:1].isupper()


def _before(tokens: Sequence[Word], place: int) -> set[str]:
    return {word.stem for word in tokens[max(place - _HEDGE, 0) : place]}


def _fits_bounds(
    said: float | None, told: float | None, hedges: set[str], others: set[str]
) -> bool:
    """Say whether one number is within the bound, or near the rough figure, that the other is."""
    if said is None or told is None or said == told:
        return True
    over, under = bool(hedges & _OVER), bool(hedges & _UNDER)
    told_over, told_under = bool(others & _OVER), bool(others & _UNDER)
    if (over, under) != (told_over, told_under):
        if (over and told >= said) or (under and told <= said):
            return True
        if (told_over or told_under) and abs(said - told) <= _CLOSE * abs(told):
            return True
    rough = (hedges | others) & (_ABOUT | _OVER)
    return bool(rough) and abs(said - told) <= _CLOSE * max(abs(said), abs(told))


def _place(tokens: Sequence[Word], word: Word, start: int) -> int:
    return next(n for n in range(start, len(tokens)) if tokens[n] == word)


def _with_next(tokens: Sequence[Word], place: int) -> str:
    """Write a number with what it counts."""
    following = (word for word in tokens[place + 1 : place + 2] if word.content)
    return " ".join(word.surface for word in (tokens[place], *following))


def _value(word: Word) -> float | None:
    """Read a plain number or a time of day; None for anything else."""
    parts = word.stem.split(":")
    try:
        return sum(float(part) / 60.0**place for place, part in enumerate(parts))
    except ValueError:
        return None


def _is_year(word: Word) -> bool:
    return word.surface.isdigit() and _FIRST_YEAR <= int(word.surface) <= _LAST_YEAR


def counted_otherwise(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word], *, structured: bool
) -> list[Conflict]:
    """Compare numbers by the unit beside them, wherever they stand in claim and sentence."""
    units = {n: _units(told, n, structured=structured) for n, w in enumerate(told) if w.number}
    found: list[Conflict] = []
    for at, word in enumerate(said):
        unit = _units(said, at, structured=False) if word.number else set()
        if word.number and structured:  # a rating of 4.2
            unit |= {other.stem for other in said[max(at - 2, 0) : at] if other.content}
        same = [n for n, others in units.items() if unit & others]
        if len(same) != 1:
            continue
        conflict = _other_number(aligned, word, told[same[0]], at, same[0])
        found += [conflict] if conflict else []
    return found


def _units(tokens: Sequence[Word], place: int, *, structured: bool) -> set[str]:
    """Name what a number counts: the word right after it, or the unit shortly after it."""
    if structured:
        return {word.stem for word in tokens[max(place - 1, 0) : place] if word.content}
    after = tokens[place + 1 : place + 3]
    if after and after[0].content and not after[0].number:
        return {next((w.stem for w in after if is_unit(w.stem)), after[0].stem)}
    return set()


def other_currencies(aligned: Aligned) -> list[Conflict]:
    """Compare the signs before amounts of money; words alone have lost them."""
    sentence = aligned.passages.sentences[aligned.evidence[0]][1]
    said, told = (
        _MONEY.findall(compatible(text)[:_MOST_CHARS]) for text in (aligned.claim, sentence)
    )
    known = {amount: sign for sign, amount in told}
    return [
        Conflict(Change.UNIT, f"{sign}{amount}", f"{known[amount]}{amount}")
        for sign, amount in said
        if known.get(amount, sign) != sign and copied(aligned, {amount})
    ]
