"""
Find the one detail in which a claim differs from a sentence that it otherwise copies.

Claim and sentence are aligned word for word. Where the words around a gap agree and those in
it exclude each other (two numbers, two names, two weekdays, opposites), where one side denies,
or where two words have changed places, the claim says something else. Nothing is found where a
claim is a paraphrase, nor where another sentence of the passages says what it says.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations, pairwise, product, takewhile
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
from monitor.scoring.local.passages import Aligned

_NOUNS_HAVE_CAPITALS = "German"  # so that they are names only behind some words
_BEFORE_NAMES = frozenset({"in", "dr", "herr", "herrn", "frau"})
_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_LONGEST_READ = 2_000  # characters of a sentence in which words are looked for
_WORTH_A_LOOK = 0.3  # least share of the claim in its best sentence
# The same without what was exchanged: for a number, a word, a denial or roles, certainty.
_COPIED_NUMBER, _COPIED, _COPIED_WHOLLY, _COPIED_SURELY = 0.4, 0.6, 0.9, 0.99
_TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
_LONGEST = 3  # words that are exchanged for each other
_CLOSE, _HEDGE = 0.06, 4  # a number so near a word such as "about", so many words before it
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
_HALF = frozenset({"half", "halb", "demi", "medi"})  # stems
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_ONES = frozenset(language()["numbers"]["each"].split())
_OFTEN = frozenset({"twice", "thrice", "times"})
#: The measure of a unit, by how it is written, and how many of its first unit it is.
_CONVERSIONS = {
    word: (number, factor)
    for number, measure in enumerate(language()["numbers"]["conversions"])
    for factor, each in measure
    for word in each.split()
}
WEEK = [stem(day) for day in language()["exclusive"]["weekdays"].split()]
#: From one day, or time, to another.
THROUGH = listed("towards") | {stem("through"), stem("thru")}
#: Before "not", one forbids and the other frees.
_FORBIDDING, _FREEING = ({*map(stem, o.split())} for o in language()["exclusive"]["denied"])
_DENIED = dict.fromkeys(_FORBIDDING, _FREEING) | dict.fromkeys(_FREEING, _FORBIDDING)
_EXCHANGED = frozenset[str]().union(*EXCLUDED.values(), _DENIED)
_NEGATIONS = listed("negations")
_UNTIL = frozenset(map(stem, ("until", "till", "before")))
_DENYING = ("un", "in", "im", "non", "ir", "dis")
#: Words behind which a sentence names what it does not state, by kind.
_KINDS = [f"(?P<{kind}>{'|'.join(each)})" for kind, each in language()["unstated"].items()]
_UNSTATED = re.compile(rf"\b(?:{'|'.join(_KINDS)})\b", re.IGNORECASE)
_CLAUSE_ENDS = re.compile(
    r"[;:!?()—–]|[.,](?!\d)|\b(?:but|while|whereas|although|though|because)\b", re.IGNORECASE
)
_NOT_DONE = re.compile(r"\b(?:is|are|was|were)(?: not|n't) \w+ed\W*$", re.IGNORECASE)
_HELPING = frozenset(language()["lists"]["helping"].split()) - {"a", "an", "the", "any", "to"}
#: Share of a claim that is then only named. One that takes up any of what is excepted has it wrong.
_LEAST_NAMED = {"denied": 0.5, "supposed": 0.9, "excepted": 0.01}


class WordChange(NamedTuple):
    """What the claim says, and what the passage has in its place, as they are written."""

    said: str
    told: str
    certain: bool = True  #: the rest is copied so far that it is surely the same statement
    sentence: int | None = None  #: index of the sentence of *told*; None: the best one


def changed_details(
    aligned: Aligned, query: frozenset[str] = frozenset()
) -> tuple[WordChange, ...]:
    """
    Return the details that a claim changes; *query* holds the stems of the question.

    Only so many words are read: it bounds the time.
    """
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if aligned.shares[0] < _WORTH_A_LOOK or (aligned.best_sentence()[1] or "?").endswith("?"):
        return ()  # a question states nothing
    held, found = aligned.passages.stems[aligned.evidence[0]], list[WordChange]()
    new = [
        n for n, w in enumerate(said) if w.stem not in held and _can_be_exchanged(aligned, n, query)
    ]
    pairs = ((n, m) for n in new for m in range(len(told)))
    if any(_changed_word(aligned, n, m, names=True) for n, m in pairs):  # aligning takes longer
        found = [change for gap in _gaps(said, told) for change in _exchanged(aligned, *gap, query)]
    other = None if found else _denied(aligned, said, told) or _swapped(aligned, said, told)
    found += [other] if other else []
    if unstated := _named_not_stated(aligned, [change.said for change in found]):
        # of what is excepted the opposite is true
        found = [] if found and unstated.certain else [unstated]
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


def _exchanged(
    aligned: Aligned, here: range, there: range, query: frozenset[str]
) -> Iterator[WordChange]:
    """Yield the words of a gap that exclude each other, beside words that agree."""
    if len(here) > _LONGEST:
        return
    # Where the sentence says more than the claim, what stands next to agreeing words counts.
    sides = ((aligned.tokens, here), (aligned.found, there))
    numbers = [sum(side[n].number for n in gap) for side, gap in sides]
    if len(there) <= _LONGEST and max(numbers) <= 1:
        pairs = {*product(here, there)}
    else:
        pairs = {*zip(here, there, strict=False)} if here.start else set()
    if here.stop < len(aligned.tokens):
        pairs |= {*zip(here[::-1], there[::-1], strict=False)}
    for n, m in sorted(pairs):
        if _can_be_exchanged(aligned, n, query) and (
            change := _changed_word(aligned, n, m, names=len(here) == len(there))
        ):
            yield change


def _can_be_exchanged(aligned: Aligned, n: int, query: frozenset[str]) -> bool:
    """
    Return whether word *n* of a claim may be exchanged for some word of its best sentence.

    It excludes others, that sentence holds most of the rest, and none that holds it does so too,
    or holds more of the question.
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
    missing = aligned.weights.keys() - passages.stems[aligned.evidence[0]] - {said.stem}
    subject = next((w.stem for w in aligned.tokens if w.content and w is not said), "")
    subject = subject if subject in passages.stems[aligned.evidence[0]] else ""
    figures = [word for word in aligned.tokens if word.number or word is said]
    asked = len(query & passages.stems[aligned.evidence[0]])
    unit = next((word.stem for word in aligned.tokens[n + 1 :] if said.number), "")
    least = _TELLS * aligned.share(figures)  # one row of a table may be of several sentences
    return share >= (_COPIED_NUMBER if said.number else _COPIED) and not any(
        (
            aligned.share(figures, number) >= least
            and (not (said.number and subject) or subject in passages.stems[number])
        )
        or not missing.isdisjoint(passages.stems[number])
        or (unit in passages.stems[number] and len(query & passages.stems[number]) > asked)
        for number in passages.holders(said.stem)
    )


def _changed_word(aligned: Aligned, n: int, m: int, *, names: bool = False) -> WordChange | None:
    """Return word *n* of a claim and word *m* of its best sentence if one excludes the other."""
    tokens, found = aligned.tokens, aligned.found
    said, told = tokens[n], found[m]
    if said.number != told.number:
        return None
    ours, theirs = said.surface, told.surface
    plain, denied = sorted((ours.lower(), theirs.lower()), key=len)
    opposed = denied.endswith(plain) and denied.removesuffix(plain) in _DENYING
    if said.number:
        sides = (tokens[n : n + 2], found[m : m + 2])
        ours, theirs = (" ".join(w.surface for w in s if w.content or w is s[0]) for s in sides)
        excluded = not numbers_compatible(tokens, n, found, m)
    elif told.stem in _DENIED.get(said.stem, ()):
        behind = (*tokens[n + 1 : n + 2], *found[m + 1 : m + 2])
        excluded = len(behind) > 1 and all(map(denies, behind))
    elif said.stem in EXCLUDED.get(told.stem, ()) or (said.content and opposed):
        # a denial on one side turns opposites round
        rest = ([word for word in side if word not in {said, told}] for side in (tokens, found))
        excluded = len({any(map(denies, side)) for side in rest}) == 1
    else:  # a shorter or longer form of a name is the same name
        alike = ours.isupper() or theirs.isupper() or ours[:3].lower() == theirs[:3].lower()
        names = names and n > 0 and said.capital and told.capital and not alike
        names = names and not all(word.number for word in found[:m])  # as at the beginning
        if aligned.passages.language == _NOUNS_HAVE_CAPITALS:
            names = names and tokens[n - 1].surface.lower() in _BEFORE_NAMES
        excluded = names and ours.lower() not in "".join([w.surface for w in found]).lower()
    if not excluded or any(told.stem == word.stem for word in tokens) or _within_days(said, found):
        return None
    if _converts(tokens[max(n - 2, 0) : n], said, found[max(m - 2, 0) : m], told):
        return None
    # "two sick passengers" and "the first one" may both be right
    return WordChange(ours, theirs, is_ordinal(said) == is_ordinal(told))


def _within_days(said: Word, found: Sequence[Word]) -> bool:
    """Return whether *said* is a weekday of a range in a sentence, such as "Monday to Friday"."""
    if said.stem not in WEEK:
        return False
    days = [(n, WEEK.index(word.stem)) for n, word in enumerate(found) if word.stem in WEEK]
    return any(
        (WEEK.index(said.stem) - first) % 7 <= (last - first) % 7
        for (a, first), (b, last) in pairwise(days)
        if b == a + 1 or (b == a + 2 and found[a + 1].stem in THROUGH)
    )


def numbers_compatible(tokens: Sequence[Word], n: int, found: Sequence[Word], m: int) -> bool:
    """Return whether numbers are one number, or one is within the bound of the other."""
    parts = tokens[n].surface.replace(".", ",").split(",")  # "1, 000" in a passage is torn
    if len(parts) > 1 and any(word.surface in parts for word in found if word.number):
        return True
    try:  # a plain number or a time of day
        one, two = (
            sum(float(part) / 60.0**place for place, part in enumerate(word.stem.split(":")))
            for word in (tokens[n], found[m])
        )
    except ValueError:
        return True
    if one == two or tokens[n].surface[2:] == found[m].surface:
        return True  # 2007-08
    if any(_converts([tokens[n]], ours, [found[m]], theirs) for ours in tokens[n + 1 : n + 3]
           for theirs in found[m + 1 : m + 3]):  # fmt: skip
        return True
    near = [
        {word.stem for word in side[max(place - _HEDGE, 0) : place]}
        for side, place in ((tokens, n), (found, m))
    ]
    (over, under, vague), (floor, ceiling, rough) = (
        [not each.isdisjoint(listed(name)) for name in ("over", "under", "about")] for each in near
    )
    within = (two >= one and (over or ceiling)) or (two <= one and (under or floor))
    close = abs(one - two) <= _CLOSE * max(abs(one), abs(two))
    hedged = over or under or vague or floor or ceiling or rough
    return (within and (over, under) != (floor, ceiling)) or (close and hedged)


def _converts(
    before: Sequence[Word], unit: Word, their_before: Sequence[Word], their_unit: Word
) -> bool:
    """Return whether amounts are the same in different units: 18 months are 1.5 years."""
    (measure, ours), (their_measure, theirs) = (
        _CONVERSIONS.get(each.surface.lower(), (-1, 1)) for each in (unit, their_unit)
    )
    same = math.isclose(_amount(before) * ours, _amount(their_before) * theirs)
    return same and measure == their_measure >= 0


def _amount(before: Sequence[Word]) -> float:
    """Return the figure of two words before a unit: of "half an" 0.5, of "once a" 1, else NaN."""
    for word in reversed(before):
        if word.stem in _HALF:
            return 0.5
        if word.number:
            return float(word.stem) if _PLAIN.fullmatch(word.stem) else math.nan
    said = [word.surface.lower() for word in before]
    is_one = said[-1:] and said[-1] in _ONES and _OFTEN.isdisjoint(said)
    return 1.0 if is_one else math.nan


# --- a denial, and two words that change places ---


def _denied(aligned: Aligned, said: Sequence[Word], told: Sequence[Word]) -> WordChange | None:
    """Return the denial that one side has between words that agree."""
    passages, weights, mine = aligned.passages, aligned.weights, _negations(said)
    if not (mine or _negations(told)):
        return None
    helping = [word for word in said if word.stem in listed("helping")]  # "need" has weight
    if aligned.share([*mine, *helping]) < _COPIED_WHOLLY:
        return None
    turns = [n for n, word in enumerate(told) if n and word.stem in listed("turns")]
    for a, b in pairwise((0, *turns, len(told))):  # the clause that holds all of the claim
        held = sum(weights.get(each, 0.0) for each in {word.stem for word in told[a:b]})
        if held >= _COPIED_WHOLLY * sum(weights.values()):
            told = told[a:b]
            break
    theirs = _negations(told)
    if (
        len(mine) + len(theirs) != 1
        or _happens_later(said, told)
        or _told_by(
            aligned,
            _TELLS,
            lambda n: (
                n != aligned.evidence[0] and bool(_negations(passages.words[n])) == bool(mine)
            ),
        )
    ):
        return None
    if _NOT_DONE.search(aligned.text) and aligned.share([*mine, *helping]) >= _COPIED_SURELY:
        # "Repairs are not covered." of "The plan covers repairs.", in whatever order
        denied = " ".join([word.surface for word in said[said.index(mine[0]) :]])
        return WordChange(denied, aligned.best_sentence()[1] or "", certain=False)
    for here, there in _gaps(said, told):
        differing = [*said[here.start : here.stop], *told[there.start : there.stop]]
        around = said[max(here.start - 1, 0) : here.stop + 1]
        beside = {word.stem for word in (*around, *told[there.stop : there.stop + 1])}
        if (
            any(map(denies, differing))
            and all(denies(word) or word.stem in listed("helping") for word in differing)
            and beside.isdisjoint({"if", "only", "just", "mer", "yet"})
        ):
            sides = around, told[max(there.start - 1, 0) : there.stop + 1]
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


# --- what a sentence names and does not state ---


def _named_not_stated(aligned: Aligned, changed: Sequence[str]) -> WordChange | None:
    """
    Find what the best sentence names without stating it, where the claim states it.

    "No evidence that X", "denied that X" and "if X" do not say X, and "all but X" says it of
    everything else. Not so a claim that says it in such a way itself.
    """
    left_out = [word for word in aligned.tokens if changed and word.surface in changed]
    left_out += _negations(aligned.tokens)
    if aligned.share(left_out) < _COPIED_WHOLLY:
        return None
    sentences = aligned.passages.sentences
    sentence = sentences[aligned.evidence[0]][1][:_LONGEST_READ]
    cues = [*_UNSTATED.finditer(sentence)]
    own = not cues or _UNSTATED.search(aligned.text)
    if own or _told_by(
        aligned, _COPIED_WHOLLY, lambda n: not _UNSTATED.search(sentences[n][1][:_LONGEST_READ])
    ):
        return None
    for cue in cues:
        excepts = cue.lastgroup in {"excepted", "none_but"}
        scope = _CLAUSE_ENDS.split(sentence[cue.end() :], maxsplit=1)[0]
        if excepts:  # what is excepted ends before a verb
            scope = " ".join(takewhile(lambda w: w.lower() not in _HELPING, scope.split()))
        around = sentence[: cue.end()] + sentence[cue.end() :].replace(scope, " ", 1)
        only_there = {w.stem for w in words(scope)} - {w.stem for w in words(around)}
        named = sum(aligned.weights.get(each, 0.0) for each in only_there)
        if named >= _LEAST_NAMED.get(cue.lastgroup or "", math.inf) * aligned.total:
            return WordChange("", f"{cue[0]} {scope.strip()}", certain=excepts)
    return None


def _told_by(aligned: Aligned, least: float, fits: Callable[[int], bool]) -> bool:
    """Return whether a sentence that *fits* holds so much of the claim."""
    held = aligned.passages.stems[aligned.evidence[0]].intersection(aligned.weights)
    rarest = max(held, key=lambda each: (aligned.weights[each], each))
    return any(
        fits(number) and aligned.share(sentence=number) >= least
        for number in aligned.passages.holders(rarest)
    )
