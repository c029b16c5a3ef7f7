"""Find numbers, with their units and currencies, that a passage has otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.alternatives import Change, is_unit
from monitor.scoring.features.laid import Conflict, Slot, copied, told_elsewhere
from monitor.scoring.stems import stem
from monitor.scoring.unicode import compatible
from monitor.scoring.words import Word

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
