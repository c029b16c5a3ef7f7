"""Compare the slots of a claim: numbers with their units, names with their partners."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.words import Word, stem

NUMBER_FEATURES = (
    "numbers", "numbers_absent", "any_number_absent", "numbers_elsewhere", "numbers_neighbour",
    "numbers_far", "unit_has_other_number", "numbers_rounded", "numbers_not_before_unit",
    "bound_flipped",
)  # fmt: skip
NAME_FEATURES = (
    "names", "names_absent", "any_name_absent", "names_elsewhere", "names_mispaired",
    "names_far", "names_apart", "partners", "partners_weighted", "first_name_absent",
)  # fmt: skip

_MOST = 40  # numbers, and names, of one claim that are compared
_NEAR, _APART, _FAR = 5, 10, 12  # words
_UNIT = 3  # words from a number to what it counts
_ROUNDED = 0.06
_OVER, _UNDER = (
    frozenset(stem(word) for word in listed.split())
    for listed in (
        "over more above exceeding least beyond",
        "under less fewer below most almost nearly",
    )
)
_RARE, _SUBJECT = 0.9, 0.7
_PLAIN = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Slots:
    """Numbers or names of a claim: the figures, and which are nowhere in the passages."""

    values: tuple[float, ...]
    absent: tuple[str, ...]


def number_features(aligned: Aligned, query: frozenset[str] = frozenset()) -> Slots:
    """
    Compare numbers; the figures are in the order of ``NUMBER_FEATURES``.

    A number that the question names, *query* holding its stems, is not made up.
    """
    tokens, passages = aligned.tokens, aligned.passages
    numbers = [(place, word.stem) for place, word in enumerate(tokens) if word.number]
    numbers = numbers[:_MOST]
    if not numbers:
        return Slots((0.0,) * len(NUMBER_FEATURES), ())
    absent = tuple(
        number for _, number in numbers if number not in passages.where and number not in query
    )
    present = [(place, number) for place, number in numbers if number in passages.where]
    count = len(numbers)
    rounded = sum(_rounded(aligned, number) for number in absent)
    values = (
        float(count),
        len(absent) / count,
        float(bool(absent)),
        sum(number not in aligned.held for _, number in present) / count,
        sum(not _has_neighbour(aligned, place) for place, _ in present) / count,
        sum(_far(aligned, place) for place, _ in present) / count,
        float(sum(_unit_elsewhere(aligned, place) for place, n in numbers if n in absent)),
        rounded / count,
        float(sum(_not_before_unit(aligned, place) for place, _ in present)),
        float(any(_bound_flipped(aligned, place) for place, _ in present)),
    )
    return Slots(values, absent)


def _around(tokens: Sequence[Word], place: int, reach: int) -> list[str]:
    around = (*tokens[max(place - reach, 0) : place], *tokens[place + 1 : place + reach + 1])
    return [word.stem for word in around if word.content]


def _has_neighbour(aligned: Aligned, place: int) -> bool:
    """Say whether a number shares a sentence with one of its content words in the passages."""
    around = set(_around(aligned.tokens, place, 3)) - {aligned.tokens[place].stem}
    where = aligned.passages.holders(aligned.tokens[place].stem)
    return not around or any(around & aligned.passages.stems[number] for number in where)


def _far(aligned: Aligned, place: int) -> bool:
    """Say whether the content words beside a number stand far from it in the passages."""
    number = aligned.tokens[place].stem
    around = [s for s in _around(aligned.tokens, place, 3) if s in aligned.passages.where]
    distances = [aligned.passages.distance(number, s) for s in around if s != number]
    known = [abs(distance) for distance in distances if distance is not None]
    return bool(known) and min(known) > _NEAR


def _unit_elsewhere(aligned: Aligned, place: int) -> bool:
    """Say whether the word after a number follows another number in the evidence."""
    unit = aligned.tokens[place + 1].stem if place + 1 < len(aligned.tokens) else None
    sentence = aligned.found
    return any(one.number and other.stem == unit for one, other in pairwise(sentence))


def _not_before_unit(aligned: Aligned, place: int) -> bool:
    """Say whether the passages never have the number shortly before the word that follows it."""
    after = aligned.tokens[place + 1 : place + 3]
    unit = next((w.stem for w in after if w.content and w.stem in aligned.passages.where), None)
    if unit is None:
        return False
    distance = aligned.passages.distance(aligned.tokens[place].stem, unit)
    return distance is None or not 0 < distance <= _UNIT


def _bound_flipped(aligned: Aligned, place: int) -> bool:
    """Say whether the claim has over a number that the evidence has under, or the other way."""
    said = {word.stem for word in aligned.tokens[max(place - 3, 0) : place]}
    evidence = aligned.found
    number = aligned.tokens[place].stem
    for at, word in enumerate(evidence):
        if word.stem == number:
            found = {other.stem for other in evidence[max(at - 3, 0) : at]}
            if (said & _OVER and found & _UNDER) or (said & _UNDER and found & _OVER):
                return True
    return False


def _rounded(aligned: Aligned, number: str) -> bool:
    """Say whether the evidence has nearly the same number."""
    if not _PLAIN.fullmatch(number) or float(number) == 0:
        return False
    value = float(number)
    return any(
        word.number
        and _PLAIN.fullmatch(word.stem) is not None
        and abs(float(word.stem) - value) <= _ROUNDED * value
        for word in aligned.found
    )


def name_features(aligned: Aligned) -> Slots:
    """Compare names; the figures are in the order of ``NAME_FEATURES``."""
    tokens, passages = aligned.tokens, aligned.passages
    names = [word.stem for word in tokens[1:] if word.capital][:_MOST]
    first = bool(tokens) and _rare_name(aligned, tokens[0])
    partners = (*_partners(aligned), float(first))
    if not names:
        return Slots((0.0,) * (len(NAME_FEATURES) - len(partners)) + partners, ())
    absent = tuple(name for name in names if name not in passages.where)
    elsewhere = sum(name in passages.where and name not in aligned.held for name in names)
    pairs = [
        (a.stem, b.stem)
        for a, b in pairwise(tokens)
        if a.capital and b.capital and a.stem in passages.where and b.stem in passages.where
    ]
    mispaired = sum(pair not in passages.bigrams for pair in pairs)
    known = [name for name in dict.fromkeys(names) if name in passages.where]
    distances = [passages.distance(a, b) for a, b in pairwise(known)]
    far = sum(distance is not None and abs(distance) > _FAR for distance in distances)
    values = (
        float(len(names)),
        len(absent) / len(names),
        float(bool(absent)),
        elsewhere / len(names),
        mispaired / max(len(pairs), 1),
        far / max(len(known) - 1, 1),
        float(sum(_apart(aligned, place) for place in range(len(tokens)))),
    )
    return Slots(values + partners, absent)


def _apart(aligned: Aligned, place: int) -> bool:
    """Say whether a name stands far, in the passages, from the word the claim puts after it."""
    passages, name = aligned.passages, aligned.tokens[place]
    if not name.capital or name.stem not in passages.where:
        return False
    after = aligned.tokens[place + 1 : place + 5]
    known = (w.stem for w in after if w.content and not w.capital and w.stem in passages.where)
    following = next(known, None)
    if following is None:
        return False
    distance = passages.distance(name.stem, following)
    return distance is None or abs(distance) > _APART


def _partners(aligned: Aligned) -> tuple[float, float]:
    """Share of the known words that stand in a sentence with the subject, or in the next one."""
    passages = aligned.passages
    subject = next((w.stem for w in aligned.tokens if w.capital and w.stem in passages.where), None)
    if subject is None:
        rare = (w for w in aligned.content[:2] if passages.rarity(w) > _SUBJECT)
        subject = next((w for w in rare if w in passages.where), None)
    if subject is None:
        return 1.0, 1.0
    named = {word.stem for word in aligned.tokens if word.capital}
    near = {n for holder in passages.holders(subject) for n in passages.follows(holder)}
    told = [
        (passages.rarity(word), not near.isdisjoint(passages.holders(word)))
        for word in aligned.content
        if word != subject and word not in named and word in passages.where
    ]
    if not told:
        return 1.0, 1.0
    weight = sum(rarity for rarity, _ in told) or 1.0
    return (
        sum(together for _, together in told) / len(told),
        sum(rarity for rarity, together in told if together) / weight,
    )


def _rare_name(aligned: Aligned, word: Word) -> bool:
    """Say whether a claim begins with a rare capitalised word that no passage has."""
    absent = word.stem not in aligned.passages.where
    return word.capital and absent and aligned.passages.rarity(word.stem) >= _RARE
