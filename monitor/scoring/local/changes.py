"""
Find the one detail in which a claim differs from a sentence that it otherwise copies.

Claim and sentence are aligned word for word. Where the words around a gap agree and those in
it exclude each other (two numbers, two names, two weekdays, opposites), where one side denies,
or where two words have changed places, the claim says something else. Nothing is found where a
claim is a paraphrase, nor where another sentence of the passages says what it says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, combinations, product
from typing import NamedTuple

from monitor.scoring.language import (
    Word,
    denies,
    is_ordinal,
    language,
    listed,
    stem,
    stem_of,
    words,
)
from monitor.scoring.local.passages import Aligned, roundings
from monitor.scoring.local.requests import pattern

_NOUNS_HAVE_CAPITALS = "German"  # so that they cannot be told from names
_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_WORTH_A_LOOK = 0.3  # least share of the claim in its best sentence
# Least share of the rest of the claim in its best sentence, where what differs is a number, a word,
# or a denial or two places; and for certainty.
_COPIED_NUMBER, _COPIED, _COPIED_WHOLLY, _COPIED_SURELY = 0.4, 0.6, 0.9, 0.99
_TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
_LONGEST = 3  # words that are exchanged for each other
_LONGEST_READ = 2_000  # characters of a sentence
_MOST_HELD = 20  # sentences with a word that are compared
_HEDGE = 4  # words before a number in which one such as "about" makes it vague
#: By stem of what a passage says, the stems of what then is not so.
EXCLUDED = defaultdict[str, set[str]](set)
_MEASURES, _GROUPS = (language()["exclusive"][name].split(",") for name in ("measures", "groups"))
for _group in (*_MEASURES, *_GROUPS):
    _members = [{*map(stem, each.split("="))} for each in _group.split()]
    for _member in _members:
        for _stem in _member:
            EXCLUDED[_stem].update(*(each for each in _members if each is not _member))
for _said, _beyond in language()["exclusive"]["beyond"].items():
    EXCLUDED[stem(_said)].update(map(stem, _beyond.split()))
_HEDGES = listed("over") | listed("under") | listed("about")
WEEK = [stem(day) for day in language()["exclusive"]["weekdays"].split()]
#: From one day, or time, to another.
THROUGH = listed("towards") | {stem("through"), stem("thru")}
_EXCHANGED = frozenset[str]().union(*EXCLUDED.values())
_UNTIL = frozenset(map(stem, ("until", "till", "before", "except", "unless")))
_NOT_DONE = re.compile(r"\b(?:is|are|was|were)(?: not|n't) \w+ed\W*$", re.IGNORECASE)
#: "It costs 5 euros."
GOES_ON = pattern("goes_on_about", r"\s*(?:{})\b")
_NEGATIONS = listed("negations")
_DENYING = ("un", "in", "im", "non", "ir", "dis")


class WordChange(NamedTuple):
    """What the claim says, and what the passage has in its place, as they are written."""

    said: str
    told: str
    certain: bool = True  #: the rest is copied so far that it is surely the same statement
    sentence: int | None = None  #: index of the sentence of *told*; None: the best one


def changed_details(aligned: Aligned) -> tuple[WordChange, ...]:
    """Return the details that a claim changes. Only so many words are read: it bounds the time."""
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if aligned.shares[0] < _WORTH_A_LOOK or (aligned.best_sentence()[1] or "?").endswith("?"):
        return ()  # a question states nothing
    held, found = aligned.passages.stems[aligned.evidence[0]], list[WordChange]()
    new = [n for n, w in enumerate(said) if w.stem not in held and _can_be_exchanged(aligned, n)]
    stems = {word.stem for word in said} if new else ()
    others = [m for m, word in enumerate(told) if word.stem not in stems] if new else ()
    if any(_changed_word(aligned, n, m, names=True) for n in new for m in others):
        # aligning takes longer
        found = [change for gap in _gaps(said, told) for change in _exchanged(aligned, *gap)]
    if not found:
        one = _denied(aligned, said, told) or _swapped(aligned, said, told) or _only_named(aligned)
        found = [one] if one else []
    return tuple({each.said: _surely(aligned, each) for each in found}.values())


def _surely(aligned: Aligned, change: WordChange) -> WordChange:
    """Return *change*, no longer certain where something else is not copied either."""
    copied = aligned.share(words(change.said, aligned.passages.language)) >= _COPIED_SURELY
    return change._replace(certain=change.certain and copied)


def _gaps(said: Sequence[Word], told: Sequence[Word]) -> list[tuple[range, range]]:
    """Return the places where two sequences differ between words that agree, ends included."""
    stems, others = ([word.stem for word in side] for side in (said, told))
    steps = SequenceMatcher(None, stems, others, autojunk=False).get_opcodes()
    return [(range(a, b), range(c, d)) for tag, a, b, c, d in steps if tag != "equal"]


# --- one word in the place of another ---


def _exchanged(aligned: Aligned, here: range, there: range) -> Iterator[WordChange]:
    """Yield the words of a gap that exclude each other, beside words that agree."""
    if len(here) > _LONGEST:
        return
    # Where the sentence says more than the claim, what stands next to agreeing words counts.
    sides = ((aligned.tokens, here), (aligned.found, there))
    numbers = [sum(side[n].number for n in gap) for side, gap in sides]
    if len(there) <= _LONGEST and max(numbers) <= 1:
        pairs = {*product(here, there)}
    else:
        pairs = {*zip(here, there, strict=False)}
    if here.stop < len(aligned.tokens):
        pairs |= {*zip(here[::-1], there[::-1], strict=False)}
    for n, m in sorted(pairs):
        if _can_be_exchanged(aligned, n) and (
            change := _changed_word(aligned, n, m, names=len(here) == len(there))
        ):
            yield change


def _can_be_exchanged(aligned: Aligned, n: int) -> bool:
    """
    Return whether word *n* of a claim may be exchanged for some word of its best sentence.

    It excludes others, that sentence holds most of the rest, and none that holds it does so too.
    """
    said, passages = aligned.tokens[n], aligned.passages
    if said.stem in passages.stems[aligned.evidence[0]] or not (
        said.number
        or said.stem in _EXCHANGED
        or said.surface.lower().startswith(_DENYING)
        or (n and said.capital)
    ):
        return False
    share = aligned.share([said])
    if said.capital and said.stem in passages.index and share < _COPIED_WHOLLY:
        return False
    best = passages.stems[aligned.evidence[0]]
    unit = [word.stem for word in aligned.tokens[n : n + 2]]
    if (
        said.number
        and GOES_ON.match(aligned.text)  # "It costs 9 euros." does not say of what
        and any((*unit,) in passages.pairs(number) for number in passages.holders(said.stem))
    ):
        return False
    missing = aligned.weights.keys() - best - {said.stem}
    figures = [word for word in aligned.tokens if word.number or word is said]
    least = _TELLS * aligned.share(figures)
    return share >= (_COPIED_NUMBER if said.number else _COPIED) and not any(
        aligned.share(figures, number) >= least or not missing.isdisjoint(passages.stems[number])
        for number in passages.holders(said.stem)
    )


def _changed_word(aligned: Aligned, n: int, m: int, *, names: bool = False) -> WordChange | None:
    """Return word *n* of a claim and word *m* of its best sentence if one excludes the other."""
    tokens, found = aligned.tokens, aligned.found
    said, told, sides = tokens[n], found[m], ((tokens, n), (found, m))
    if said.number != told.number:
        return None
    ours, theirs = said.surface, told.surface
    plain, denied = sorted((ours.lower(), theirs.lower()), key=len)
    opposed = denied.endswith(plain) and denied.removesuffix(plain) in _DENYING
    if said.number:
        ours, theirs = (
            " ".join(w.surface for w in side[at : at + 2] if w.content or w is side[at])
            for side, at in sides
        )
        excluded = _numbers_differ(tokens, n, found, m)
    elif said.stem in EXCLUDED.get(told.stem, ()) or (said.content and opposed):
        # a denial on one side turns opposites round; 18 months may be 1.5 years
        rest = ([word for word in side if word not in {said, told}] for side in (tokens, found))
        amounts = {at and side[at - 1].number and side[at - 1].stem for side, at in sides}
        excluded = len({any(map(denies, side)) for side in rest}) == 1 == len(amounts)
    else:  # a shorter or longer form of a name is the same name
        alike = ours.isupper() or theirs.isupper() or ours[:3].lower() == theirs[:3].lower()
        names = names and n > 0 and said.capital and told.capital and not alike
        names = names and m > 0  # a capital at the beginning means nothing
        names = names and aligned.passages.language != _NOUNS_HAVE_CAPITALS
        names = names and not (tokens[n - 1].number or found[m - 1].number)
        excluded = names
    if not excluded or any(told.stem == word.stem for word in tokens):
        return None
    days = [word.stem for word in found if word.stem in WEEK] if said.stem in WEEK else []
    if len(days) > 1 and not THROUGH.isdisjoint(map(stem_of, found)):
        return None  # "Monday to Friday" holds Thursday
    # "two sick passengers" and "the first one" may both be right
    return WordChange(ours, theirs, is_ordinal(said) == is_ordinal(told))


def _numbers_differ(tokens: Sequence[Word], n: int, found: Sequence[Word], m: int) -> bool:
    """Return whether two plain numbers, or times, that count the same thing are not the same."""
    sides = ((tokens, n), (found, m))
    said, told = tokens[n].surface, found[m].surface
    parts = said.replace(".", ",").split(",")  # "1, 000" in a passage is torn
    torn = len(parts) > 1 and any(word.surface in parts for word in found if word.number)
    before = [_HEDGES & {*map(stem_of, side[max(at - _HEDGE, 0) : at])} for side, at in sides]
    if torn or said[2:] == told or before[0] != before[1]:
        return False  # 2007-08; "over 50" may be 62, and "about 60" as well
    units = [{w.stem for w in side[at + 1 : at + 2] if w.content} for side, at in sides]
    try:
        one, two = (
            sum(float(part) / 60.0**place for place, part in enumerate(side[at].stem.split(":")))
            for side, at in sides
        )
    except ValueError:
        return False
    is_time = ":" in tokens[n].stem
    is_same = one == two or tokens[n].stem in roundings(found[m].stem)
    return not is_same and (units[0] == units[1] or is_time)


# --- a denial, and two words that change places ---


def _denied(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> WordChange | None:
    """Return the denial that one side has between words that agree."""
    passages, mine, theirs = aligned.passages, _negations(said), _negations(told)
    helping = [word for word in said if word.stem in listed("helping")]  # "need" has weight
    if (
        len(mine) + len(theirs) != 1
        or len(aligned.tokens) > _MOST_SAID
        or _happens_later(said, told)
        or "yet" in map(stem_of, told)
        or aligned.share([*mine, *helping]) < _COPIED_WHOLLY
        or _told_elsewhere(aligned, lambda n: bool(_negations(passages.words[n])) == bool(mine))
    ):
        return None
    if mine and _NOT_DONE.search(aligned.text):
        # "Repairs are not covered." of "The plan covers repairs.", in whatever order
        denied = " ".join([word.surface for word in said[said.index(mine[0]) :]])
        return WordChange(denied, aligned.best_sentence()[1] or "", certain=False)
    for here, there in _gaps(said, told):
        differing = [*said[here.start : here.stop], *told[there.start : there.stop]]
        if any(map(denies, differing)) and all(
            denies(word) or word.stem in listed("helping") for word in differing
        ):
            around = ((said, here), (told, there))
            sides = (side[max(gap.start - 1, 0) : gap.stop + 1] for side, gap in around)
            our_words, their_words = (" ".join(w.surface for w in side) for side in sides)
            return WordChange(our_words, their_words)
    return None


def _happens_later(said: Sequence[Word], told: Sequence[Word]) -> bool:
    """Return whether *said* has when something happens that *told* says is not so until then."""
    stems = {word.stem for word in said}
    return _UNTIL.isdisjoint(stems) and any(
        next((word.stem for word in told[n:][1:] if word.content), "") in stems
        for n in [n for n, word in enumerate(told) if word.stem in _UNTIL]
    )


def _only_named(aligned: Aligned) -> WordChange | None:
    """Return what a sentence only names, behind words such as "no evidence that"."""
    sentence = (aligned.best_sentence()[1] or "")[:_LONGEST_READ]
    cue = aligned.shares[0] >= _COPIED_WHOLLY and pattern("only_named").search(sentence)
    if not cue or pattern("only_named").search(aligned.text):
        return None
    behind = {word.stem for word in words(sentence[cue.end() :], aligned.passages.language)}
    held = sum([weight for each, weight in aligned.weights.items() if each in behind])
    if held < _COPIED_WHOLLY * aligned.total:
        return None
    is_told = _told_elsewhere(aligned, lambda _: True)
    return None if is_told else WordChange("", sentence[cue.start() :], certain=False)


def _told_elsewhere(aligned: Aligned, fits: Callable[[int], bool]) -> bool:
    """Return whether another sentence than the best one, that *fits*, tells the claim as well."""
    holders = (aligned.passages.holders(each)[:_MOST_HELD] for each in aligned.weights)
    others = {*chain.from_iterable(holders)} - {aligned.evidence[0]}
    return any(aligned.share(sentence=n) >= _TELLS and fits(n) for n in others)


def _negations(side: Sequence[Word]) -> list[Word]:
    """Return the words that deny; a "No" that answers a question or begins a name does not."""
    if _NEGATIONS.isdisjoint(map(stem_of, side)):
        return []
    return [
        word
        for n, word in enumerate(side)
        if denies(word)
        and (word.surface != "No" or any(w.content and not w.capital for w in side[n + 1 : n + 2]))
    ]


def _swapped(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> WordChange | None:
    """Return two informative words that have changed places while what links them stays."""
    if aligned.shares[0] < _COPIED_WHOLLY:
        return None
    mine, theirs = [word.stem for word in said], [word.stem for word in told]
    there = {
        place: theirs.index(word.stem)
        for place, word in enumerate(said)
        if word.content
        and mine.count(word.stem) == theirs.count(word.stem) == 1
        and told[theirs.index(word.stem)].surface.lower() == word.surface.lower()
    }
    for one, other in combinations(there, 2) if [*there.values()] != sorted(there.values()) else ():
        if there[other] > there[one]:
            continue
        # names of several words change places as a whole
        link, links = (
            [word for word in side if not word.capital]
            for side in (said[one + 1 : other], told[there[other] + 1 : there[one]])
        )
        stems, behind = [word.stem for word in link], mine[other + 1 :]
        # "red cars and blue cars" says the same the other way round
        alike = stems[: len(stems) // 2 + 1] == behind[: len(stems) // 2 + 1]
        ranges = said[one].number and said[other].number and listed("towards").issuperset(stems)
        linked = any(word.content for word in link) or (ranges and len(link) == 1)
        if linked and not alike and stems == [word.stem for word in links]:
            a, b = said[one].surface, said[other].surface
            return WordChange(f"{a} … {b}", f"{b} … {a}")
    return None
