"""
Find the one detail in which a claim differs from a sentence that it otherwise copies.

Claim and sentence are aligned word for word. Where the words around a place agree and those in
it exclude each other (two numbers, two names, two weekdays, opposites), where one side denies,
or where two words have changed places, the claim says something else. Nothing is found where a
claim is a paraphrase, nor where another sentence of the passages says what it says.
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
_COPIED_NUMBER, _COPIED, _COPIED_SURELY, _COPIED_WHOLLY = 0.4, 0.6, 0.99, 0.9
_TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
_LONGEST, _BESIDE = 3, 4  # words that are exchanged for each other; that agree beside them
_CLOSE = 0.06  # a number so near, with a word such as "about", says the same
_HEDGE = 4  # words before a number in which a bound or "about" stands
_FIRST_YEAR, _LAST_YEAR, _MOST_COUNTED = 1000, 2100, 20
_DENYING = ("un", "in", "im", "non", "ir", "dis")
_SHORTEST_DENIED = 4
_EXCLUSIVE = language()["exclusive"]
_CALENDAR = ("weekdays", "months")
_WEEK = [stem(day) for day in _EXCLUSIVE["weekdays"].split()]
#: Words that exclude the others of their group, by stem: the groups, and the word's name there.
_GROUPS: dict[str, dict[str, str]] = {}
for _group, _members in (
    *((kind, _EXCLUSIVE[kind]) for kind in _CALENDAR),
    *((f"unit {n}", dimension) for n, dimension in enumerate(_EXCLUSIVE["units"])),
    *((pair, pair) for pair in _EXCLUSIVE["opposites"].split(",")),
):
    for _member in _members.split():
        _short = [_member[:3]] if _group in _CALENDAR else []
        for _name in (*_member.split("="), *_short):
            _GROUPS.setdefault(stem(_name), {})[_group] = _member
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

    In records, which *structured* says the passages are, only numbers and hours are compared.
    """
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if not said or not told:
        return ()
    if structured:
        values = [each for n in aligned.evidence for each in _changed_values(aligned, said, n)]
        return tuple({change.said: change for change in values}.values())
    best = aligned.passages.sentences[aligned.evidence[0]][1]
    if aligned.shares[0] < _WORTH_A_LOOK or best.rstrip().endswith("?"):  # which states nothing
        return ()
    gaps = _gaps(said, told)
    turned = any(map(denies, said)) != any(map(denies, told))
    found = [
        _changed_number(aligned, each)
        or _changed_word(aligned, each, turned=turned)
        or _changed_name(aligned, each)
        for gap in gaps
        for each in _exchanged(said, gap)
    ]
    found += _denied_on_one_side(aligned, said, told)
    if not any(found):
        found.append(_changed_places(aligned, said, told))
    return tuple(
        each._replace(certain=_copied(aligned, {w.stem for w in words(each.said)}, _COPIED_SURELY))
        for each in {change.said: change for change in found if change}.values()
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
    if gap.told and 0 < len(gap.said) <= _LONGEST and any(word.content for word in beside):
        # Where the sentence says more than the claim, what stands next to agreeing words counts.
        length = min(len(gap.said), len(gap.told))
        starts = {0 if gap.at else -1, len(gap.told) - length if after < len(said) else -1}
        for start in sorted(starts - {-1}):
            yield Gap(gap.said, gap.told[start : start + length], gap.at, gap.there + start)


def _changed_values(aligned: Aligned, said: Sequence[Word], sentence: int) -> Iterator[WordChange]:
    """Compare numbers with the one that a record has behind the same key, and hours by the day."""
    text, told = aligned.passages.sentences[sentence][1], aligned.passages.words[sentence]
    keys = {
        n: told[n - 1].stem
        for n, word in enumerate(told)
        if n and word.number and f": {word.surface}" in text
    }
    for at, word in enumerate(said if keys and sentence == aligned.evidence[0] else ()):
        if word.number:
            beside = {w.stem for w in (*said[max(at - 2, 0) : at], *said[at + 1 : at + 2])}
            same = [n for n, key in keys.items() if key in beside]
            change = len(same) == 1 and _changed_number(
                aligned, Gap([word], [told[same[0]]], at, same[0])
            )
            if change:
                yield change
    times = [word.stem for word in said if ":" in word.stem]
    if len(times) == 2:  # noqa: PLR2004 - from one to the other
        known = {
            _WEEK.index(word.stem): [each.stem for each in told[n + 1 : n + 3]]
            for n, word in enumerate(told[:-2])
            if word.stem in _WEEK and word.stem != told[n + 1].stem
        }
        hours = [known[day] for day in _days_of(said) if day in known]
        hours = [each for each in hours if each[0] != each[1]]
        if hours and times not in hours:
            yield WordChange(" to ".join(times), " to ".join(hours[0]))


def _days_of(said: Sequence[Word]) -> list[int]:
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


def _changed_word(aligned: Aligned, gap: Gap, *, turned: bool) -> WordChange | None:
    """Find a word that excludes what the passage has there; a denial turns opposites round."""
    for one in gap.said:
        for other in gap.told:
            kind = exclusive(one, other)
            if kind.startswith("unit"):  # it counts beside the same number
                sides = (aligned.tokens, gap.at), (aligned.found, gap.there)
                near = ({w.stem for w in s[max(n - 2, 0) : n + 2] if w.number} for s, n in sides)
                kind = "" if next(near).isdisjoint(next(near)) else kind
            plain = kind == "beyond" or (kind and not turned)
            if plain and _is_changed(aligned, one, other):
                return WordChange(one.surface, other.surface)
    return None


def _changed_name(aligned: Aligned, gap: Gap) -> WordChange | None:
    """Compare the names in one place; a shorter or longer form of a name is the same name."""
    sides = [[word for word in words if word.content] for words in (gap.said, gap.told)]
    if gap.at == 0 or not all(side and all(w.capital for w in side) for side in sides):
        return None
    stems = {word.stem for word in sides[0]}
    one, other = ("".join(word.surface for word in side).lower() for side in sides)
    acronym = any(word.surface.isupper() for side in sides for word in side)
    same = one[:3] == other[:3] or one in "".join(w.surface for w in aligned.found).lower()
    same = same or acronym or len(sides[0]) != len(sides[1])
    same = same or any(group in _CALENDAR for each in stems for group in _GROUPS.get(each, ()))
    if same or any(each in aligned.passages for each in stems) or not _copied(aligned, stems):
        return None
    written, told = (" ".join(word.surface for word in side) for side in sides)
    return WordChange(written, told)


def _changed_number(aligned: Aligned, gap: Gap) -> WordChange | None:
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
    try:  # a plain number or a time of day
        one, two = (
            sum(float(part) / 60.0**n for n, part in enumerate(word.stem.split(":")))
            for word in (said, told)
        )
    except ValueError:
        return True
    years = [w.surface.isdigit() and _FIRST_YEAR <= int(w.stem) <= _LAST_YEAR for w in (said, told)]
    if one == two or (years[0] and said.surface.endswith(told.surface)):
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


def _denied_on_one_side(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> Iterator[WordChange]:
    """Find a denial on one side of words that agree."""
    weights, passages = aligned.weights, aligned.passages
    turns = [n for n, word in enumerate(told) if n and word.stem in listed("turns")]
    for a, b in pairwise((0, *turns, len(told))):  # the clause that holds all of the claim
        clause = {word.stem for word in told[a:b]}
        if sum(w for s, w in weights.items() if s in clause) >= _COPIED_WHOLLY * sum(
            weights.values()
        ):
            told = told[a:b]
            break
    sides = [sum(map(denies, side)) for side in (said, told)]
    if sorted(sides) != [0, 1] or not _copied(aligned, listed("negations"), _COPIED_WHOLLY):
        return
    rarest = max(weights, key=lambda word: (weights[word], word))
    for number in passages.holders(rarest):
        as_much = number != aligned.evidence[0] and _share(aligned, weights, number) >= _TELLS
        if as_much and any(map(denies, passages.words[number])) == bool(sides[0]):
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


def _changed_places(
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
    there = {place: theirs.index(mine[place]) for place in once}
    for one, other in combinations(once, 2):
        if there[other] > there[one]:
            continue
        link = mine[one + 1 : other]
        # "red cars and blue cars" says the same the other way round
        alike = link[: len(link) // 2 + 1] == mine[other + 1 : other + 1 + len(link) // 2 + 1]
        linked = any(word.content for word in said[one + 1 : other])
        if theirs[there[other] + 1 : there[one]] == link and linked and not alike:
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
    holders = aligned.passages.holders
    held = sum(weight for stem_, weight in weights.items() if sentence in holders(stem_))
    return held / (sum(weights.values()) or 1.0)


def exclusive(said: Word, told: Word) -> str:
    """Return how *said* excludes what a passage has *told* in the same place; "" if not."""
    other = _GROUPS.get(told.stem, {})
    for group, name in _GROUPS.get(said.stem, {}).items():
        written = group not in _CALENDAR or (said.surface[0] + told.surface[0]).isupper()
        if group in other and other[group] != name and written:
            return group
    short, long = sorted((said.surface.lower(), told.surface.lower()), key=len)
    if len(short) >= _SHORTEST_DENIED and any(long == start + short for start in _DENYING):
        return "opposite"
    return "beyond" if said.stem in _BEYOND.get(told.stem, ()) else ""
