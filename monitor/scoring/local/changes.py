"""
Find the one detail in which a claim differs from a sentence that it otherwise copies.

Claim and sentence are aligned word for word. Where the words around a place agree and those in
it exclude each other (two numbers, two names, two weekdays, opposites), where one side denies,
or where two words have changed places, the claim says something else. Nothing is found where a
claim is told in other words, nor where another sentence of the passages says what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations, pairwise
from typing import NamedTuple

from monitor.scoring.local.alignment import Aligned, matches
from monitor.scoring.words import Word, denies, language, listed, stem, words

_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_WORTH_A_LOOK = 0.3  # least share of the claim in its best sentence
# The same without what was exchanged: for doubt (a number, a word), certainty, denial or roles.
_COPIED_NUMBER, _COPIED, _COPIED_SURELY, _COPIED_WHOLLY = 0.4, 0.6, 0.9, 0.9
_TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
_LONGEST, _BESIDE = 3, 4  # words that are exchanged for each other; that agree beside them
_CLOSE = 0.06  # a number so near, with a word such as "about", says the same
_HEDGE = 4  # words before a number in which a bound or "about" stands
_FIRST_YEAR, _LAST_YEAR, _MOST_COUNTED = 1000, 2100, 20
_DENYING = ("un", "in", "im", "non", "ir", "dis")
_SHORTEST_DENIED = 4
_EXCLUSIVE = language()["exclusive"]
_WEEK = [stem(day) for day in _EXCLUSIVE["weekdays"].split()]
#: Weekdays and months, in full and in short, with what they are and their full stem.
_CALENDAR = {
    name: (kind, stem(full))
    for kind in ("weekdays", "months")
    for full in _EXCLUSIVE[kind].split()
    for name in (stem(full), full[:3])
}
#: Units with the dimensions that they measure, and one name of each.
_UNITS: dict[str, tuple[frozenset[int], str]] = {}
for _number, _dimension in enumerate(_EXCLUSIVE["units"]):
    for _names in ([stem(name) for name in unit.split("=")] for unit in _dimension.split()):
        for _name in _names:
            _known = _UNITS.get(_name, (frozenset(), _names[0]))
            _UNITS[_name] = _known[0] | {_number}, _known[1]
_OPPOSITES = {frozenset(map(stem, pair.split())) for pair in _EXCLUSIVE["opposites"].split(",")}
#: What a passage says, with what does not follow from it.
_BEYOND = {
    stem(word): frozenset(map(stem, others.split()))
    for word, others in _EXCLUSIVE["beyond"].items()
}
_OVER, _UNDER, _ABOUT = listed("over"), listed("under"), listed("about")


class WordChange(NamedTuple):
    """What the claim says, and what the passage has in its place, as they are written."""

    said: str
    told: str
    certain: bool = True  #: the rest is copied so far that it is surely the same statement


class Gap(NamedTuple):
    """Words of the claim and of the sentence between words that agree."""

    said: Sequence[Word]
    told: Sequence[Word]
    at: int  #: place of the first word in the claim
    there: int  #: place of the first word in the sentence


def changed_details(aligned: Aligned, *, structured: bool = False) -> tuple[WordChange, ...]:
    """
    Return the details that a claim changes; only so many words are read, which bounds the time.

    In records, which *structured* says the passages are, only numbers and words are compared.
    """
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if not said or not told:
        return ()
    found: list[WordChange | None] = []
    best = aligned.passages.sentences[aligned.evidence[0]][1]  # a question states nothing
    if structured:
        for number in aligned.evidence:
            found += changed_values(aligned, said, number)
    elif aligned.shares[0] >= _WORTH_A_LOOK and not best.rstrip().endswith("?"):
        places = [place for gap in _gaps(said, told) for place in _exchanged(said, gap)]
        found += [changed_number(aligned, each) or changed_word(aligned, each) for each in places]
        found += [changed_name(aligned, each) for each in places]
        found += denied_on_one_side(aligned, said, told)
        if not any(found):
            found.append(changed_places(aligned, said, told))
    changes = {change.said: change for change in found if change}.values()
    if structured:
        return tuple(changes)
    stems = [{word.stem for word in words(each.said)} for each in changes]
    return tuple(
        each._replace(certain=_copied(aligned, exchanged, _COPIED_SURELY))
        for each, exchanged in zip(changes, stems, strict=True)
    )


def _gaps(said: Sequence[Word], told: Sequence[Word]) -> list[Gap]:
    """Return the places where two sequences differ between words that agree, ends included."""
    agreeing = matches([word.stem for word in said], [word.stem for word in told])
    ends = ((-1, -1), *agreeing, (len(said), len(told)))
    return [
        Gap(said[a + 1 : b], told[c + 1 : d], a + 1, c + 1)
        for (a, c), (b, d) in pairwise(ends)
        if b - a > 1 or d - c > 1
    ]


def _exchanged(said: Sequence[Word], gap: Gap) -> Iterator[Gap]:
    """Yield the words of a gap that stand for each other, beside informative words that agree."""
    after = gap.at + len(gap.said)
    beside = (*said[max(gap.at - _BESIDE, 0) : gap.at], *said[after : after + _BESIDE])
    if 0 < len(gap.said) <= _LONGEST and any(word.content for word in beside):
        # Where the sentence says more than the claim, what stands next to agreeing words counts.
        length = min(len(gap.said), len(gap.told))
        starts = {0 if gap.at else -1, len(gap.told) - length if after < len(said) else -1}
        for start in sorted(starts - {-1}):
            yield Gap(gap.said, gap.told[start : start + length], gap.at, gap.there + start)


def changed_values(
    aligned: Aligned, said: Sequence[Word], sentence: int
) -> Iterator[WordChange | None]:
    """Compare numbers with the one that a record has behind the same key, and hours by the day."""
    text, told = aligned.passages.sentences[sentence][1], aligned.passages.words[sentence]
    keys = {
        n: told[n - 1].stem
        for n, word in enumerate(told)
        if n and word.number and f": {word.surface}" in text
    }
    for at, word in enumerate(said):
        beside = {w.stem for w in (*said[max(at - 2, 0) : at], *said[at + 1 : at + 2])}
        same = [n for n, key in keys.items() if key in beside]
        if word.number and len(same) == 1 and sentence == aligned.evidence[0]:
            yield changed_number(aligned, Gap([word], [told[same[0]]], at, same[0]))
    times = [word.stem for word in said if ":" in word.stem]
    days = days_of(said)
    known = {
        _WEEK.index(word.stem): [each.stem for each in told[n + 1 : n + 3]]
        for n, word in enumerate(told[:-2])
        if word.stem in _WEEK and word.stem != told[n + 1].stem
    }
    hours = [known[day] for day in days if day in known and known[day][0] != known[day][1]]
    if len(times) == 2 and hours and times not in hours:  # noqa: PLR2004 - from one to the other
        yield WordChange(" to ".join(times), " to ".join(hours[0]))


def days_of(said: Sequence[Word]) -> list[int]:
    """Return the days (0 is Monday) that a simple claim about hours is about."""
    stems = [word.stem for word in said]
    if not listed("hedged_hours").isdisjoint(stems):
        return []
    named = [(place, _WEEK.index(each)) for place, each in enumerate(stems) if each in _WEEK]
    if not named:
        return [*range(7)] if {"dai", "day"} & {*stems} else []
    (place, first), (end, last) = named[0], named[-1]
    if len(named) > 2 or end - place > 2:  # noqa: PLR2004 - one day, or from one to another
        return []
    if said[end - 1].surface == "and":
        return [first, last]
    return [(first + step) % 7 for step in range((last - first) % 7 + 1)]


def changed_word(aligned: Aligned, gap: Gap) -> WordChange | None:
    """Find a word that excludes what the passage has in the same place."""
    sides = (aligned.tokens, aligned.found)
    turned = len({any(map(denies, side)) for side in sides}) > 1
    said = aligned.tokens[max(gap.at - 2, 0) : gap.at + 2]
    told = aligned.found[max(gap.there - 2, 0) : gap.there + 2]
    counted = not {w.stem for w in said if w.number}.isdisjoint(w.stem for w in told if w.number)
    for one in gap.said:
        for other in gap.told:
            kind = exclusive(one, other)
            # turned round twice is the same again; a unit counts beside the same number
            plain = kind == "beyond" or (bool(kind) and not turned)
            if plain and (kind != "unit" or counted) and _is_changed(aligned, one, other):
                return WordChange(one.surface, other.surface)
    return None


def changed_name(aligned: Aligned, gap: Gap) -> WordChange | None:
    """Compare the names in one place; a shorter or longer form of a name is the same name."""
    sides = [[word for word in words if word.content] for words in (gap.said, gap.told)]
    if gap.at == 0 or not all(side and all(w.capital for w in side) for side in sides):
        return None
    stems = {word.stem for word in sides[0]}
    one, other = ("".join(word.surface for word in side).lower() for side in sides)
    acronym = any(word.surface.isupper() for side in sides for word in side)
    same = one[:3] == other[:3] or one in "".join(w.surface for w in aligned.found).lower()
    same = same or acronym or len(sides[0]) != len(sides[1]) or not stems.isdisjoint(_CALENDAR)
    if same or any(each in aligned.passages for each in stems) or not _copied(aligned, stems):
        return None
    written, told = (" ".join(word.surface for word in side) for side in sides)
    return WordChange(written, told)


def changed_number(aligned: Aligned, gap: Gap) -> WordChange | None:
    """Compare the one number in a place with the one that the passage has there."""
    tokens, found = aligned.tokens, aligned.found
    at = [gap.at + n for n, word in enumerate(gap.said) if word.number]
    there = [gap.there + n for n, word in enumerate(gap.told) if word.number]
    if len(at) != 1 or len(there) != 1:
        return None
    before = tokens[max(at[0] - _HEDGE, 0) : at[0]], found[max(there[0] - _HEDGE, 0) : there[0]]
    said, told = tokens[at[0]], found[there[0]]
    in_list = there[0] == 0 and found[1:] and found[1].surface[:1].isupper()
    labelled = before[0] and before[0][-1].stem in listed("labels")
    parts = re.split(r"[.,]", said.surface)  # "1, 000" in a passage that was taken apart
    torn = len(parts) > 1 and any(word.number and word.surface in parts for word in found)
    if in_list or labelled or torn or _may_agree(said, told, *before):
        return None
    if not _is_changed(aligned, said, told, _COPIED_NUMBER):
        return None
    with_next = [
        " ".join(w.surface for w in side[n : n + 2] if w.content or w is side[n])
        for side, n in ((tokens, at[0]), (found, there[0]))
    ]
    return WordChange(with_next[0], with_next[1])


def _may_agree(said: Word, told: Word, before: Sequence[Word], other: Sequence[Word]) -> bool:
    """Return whether numbers stand for different things, or one within the bound of the other."""
    one, two = _value(said), _value(told)
    if one is None or two is None or one == two:
        return True
    years = [w.surface.isdigit() and _FIRST_YEAR <= int(w.stem) <= _LAST_YEAR for w in (said, told)]
    if years[0] and said.surface.endswith(told.surface):
        return True  # 2007-08
    if years[0] != years[1] and min(one, two) < _MOST_COUNTED:
        return True  # "two films" beside "1995 film"
    hedges, others = {word.stem for word in before}, {word.stem for word in other}
    close = abs(one - two) <= _CLOSE * max(abs(one), abs(two))
    over, under = bool(hedges & _OVER), bool(hedges & _UNDER)
    same_bound = (over, under) == (bool(others & _OVER), bool(others & _UNDER))
    if not same_bound and ((over and two >= one) or (under and two <= one)):
        return True
    return close and bool((hedges | others) & (_ABOUT | _OVER | _UNDER))


def _value(word: Word) -> float | None:
    """Return a plain number or a time of day; None for anything else."""
    try:
        return sum(float(part) / 60.0**n for n, part in enumerate(word.stem.split(":")))
    except ValueError:
        return None


def denied_on_one_side(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> Iterator[WordChange]:
    """Find a denial on one side of words that agree."""
    turns = [n for n, word in enumerate(told) if n and word.stem in listed("turns")]
    weights = aligned.weights
    for a, b in pairwise((0, *turns, len(told))):  # the clause that holds all of the claim
        clause = {word.stem for word in told[a:b]}
        held = sum(weight for stem_, weight in weights.items() if stem_ in clause)
        if held >= _COPIED_WHOLLY * sum(weights.values()):
            told = told[a:b]
            break
    sides = [sum(map(denies, side)) for side in (said, told)]
    if sorted(sides) != [0, 1] or not _copied(aligned, listed("negations"), _COPIED_WHOLLY):
        return
    rarest = max(weights, key=lambda word: (weights[word], word))
    for number in aligned.passages.holders(rarest):
        as_much = number != aligned.evidence[0] and _share(aligned, weights, number) >= _TELLS
        if as_much and any(map(denies, aligned.passages.words[number])) == bool(sides[0]):
            return  # another sentence that tells as much denies as the claim does
    for gap in _gaps(said, told):
        after, there = gap.at + len(gap.said), gap.there + len(gap.told)
        beside = {w.stem for w in (*said[max(gap.at - 1, 0) : after + 1], *told[there : there + 1])}
        differing = (*gap.said, *gap.told)
        if (
            after < len(said)  # at its end the sentence may deny something else
            and any(map(denies, differing))
            and all(denies(word) or word.stem in listed("helping") for word in differing)
            and beside.isdisjoint({"if", "only", "just", "mer", "yet"})
            and not _exclaims(said, gap.at)
            and not _exclaims(told, gap.there)
        ):
            yield WordChange(
                " ".join(w.surface for w in said[max(gap.at - 1, 0) : after + 1]),
                " ".join(w.surface for w in told[max(gap.there - 1, 0) : there + 1]),
            )


def _exclaims(side: Sequence[Word], place: int) -> bool:
    """Return whether a "No" answers a question, or begins a name, instead of denying."""
    after = side[place + 1 : place + 2]
    denying = bool(after) and after[0].content and not after[0].capital and place == 0
    return side[place : place + 1] != () and side[place].surface == "No" and not denying


def changed_places(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> WordChange | None:
    """Find two informative words that have changed places while what links them stays."""
    if not _copied(aligned, set(), _COPIED_WHOLLY):
        return None
    mine, theirs = [word.stem for word in said], [word.stem for word in told]
    once = [
        place
        for place, word in enumerate(said)
        if word.content and mine.count(word.stem) == theirs.count(word.stem) == 1
    ]
    for one, other in combinations(once, 2):
        first, second = theirs.index(mine[other]), theirs.index(mine[one])
        link = mine[one + 1 : other]
        # "red cars and blue cars" says the same the other way round
        alike = link[: len(link) // 2 + 1] == mine[other + 1 : other + 1 + len(link) // 2 + 1]
        linked = any(word.content for word in said[one + 1 : other])
        if first < second and theirs[first + 1 : second] == link and linked and not alike:
            a, b = said[one].surface, said[other].surface
            return WordChange(f"{a} … {b}", f"{b} … {a}")
    return None


def _is_changed(aligned: Aligned, said: Word, told: Word, least: float = _COPIED) -> bool:
    """Return whether a claim is copied but for *said*, and nowhere else in the passages."""
    mine, theirs = ({word.stem for word in side} for side in (aligned.tokens, aligned.found))
    if said.stem in theirs or told.stem in mine or not _copied(aligned, {said.stem}, least):
        return False
    rest = {stem_: weight for stem_, weight in aligned.weights.items() if stem_ != said.stem}
    as_much = _TELLS * _share(aligned, rest, aligned.evidence[0])
    holders = aligned.passages.holders(said.stem)
    return not any(_share(aligned, rest, number) >= as_much for number in holders)


def _copied(aligned: Aligned, exchanged: AbstractSet[str], least: float = _COPIED) -> bool:
    """Return whether the best sentence holds a claim but for what was exchanged."""
    rest = {word: weight for word, weight in aligned.weights.items() if word not in exchanged}
    return bool(rest) and _share(aligned, rest, aligned.evidence[0]) >= least


def _share(aligned: Aligned, weights: dict[str, float], sentence: int) -> float:
    """Return how much of the weight of some words one sentence of the passages holds, in [0, 1]."""
    stems = {word.stem for word in aligned.passages.words[sentence]}
    return sum(w for s, w in weights.items() if s in stems) / (sum(weights.values()) or 1.0)


def exclusive(said: Word, told: Word) -> str:
    """Return how *said* excludes what a passage has *told* in the same place; "" if not."""
    days = [_CALENDAR.get(w.stem) if w.surface[:1].isupper() else None for w in (said, told)]
    if days[0] and days[1]:
        return "day" if days[0][0] == days[1][0] and days[0] != days[1] else ""
    one, other = _UNITS.get(said.stem), _UNITS.get(told.stem)
    if one and other and one[0] & other[0] and one[1] != other[1]:
        return "unit"
    short, long = sorted((said.surface.lower(), told.surface.lower()), key=len)
    denied = len(short) >= _SHORTEST_DENIED and any(long == start + short for start in _DENYING)
    if denied or frozenset((said.stem, told.stem)) in _OPPOSITES:
        return "opposite"
    return "beyond" if said.stem in _BEYOND.get(told.stem, ()) else ""
