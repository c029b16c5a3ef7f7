"""
Find the one detail in which a claim differs from a sentence that it otherwise copies.

Claim and sentence are aligned word for word. Where the words around a place agree and those in
it exclude each other (two numbers, two names, two weekdays, opposites), where one side denies,
or where two words have changed places, the claim says something else. Nothing is found where a
claim is a paraphrase, nor where another sentence of the passages says what it says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from itertools import combinations, pairwise, takewhile
from typing import NamedTuple

from monitor.scoring.local.alignment import Aligned, matches
from monitor.scoring.words import Word, denials, denies, language, listed, stem, words

_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_LONGEST_READ = 2_000  # characters of a sentence in which words are looked for
_WORTH_A_LOOK = 0.3  # least share of the claim in its best sentence
# The same without what was exchanged: for doubt (a number, a word), certainty, denial or roles.
_COPIED_NUMBER, _COPIED, _COPIED_SURELY, _COPIED_WHOLLY = 0.4, 0.6, 0.99, 0.9
_TELLS = 0.7  # least share of the best sentence's share that makes another sentence tell it too
_LONGEST, _BESIDE = 3, 4  # words that are exchanged for each other; that agree beside them
_CLOSE, _HEDGE = 0.06, 4  # a number so near a word such as "about", so many words before it
_RANK = re.compile(r"first|second|third|[a-z]{3,}th", re.IGNORECASE)  # no count
_FIRST_YEAR, _LAST_YEAR, _MOST_COUNTED = 1000, 2100, 20
_DENYING, _SHORTEST_DENIED = ("un", "in", "im", "non", "ir", "dis"), 4
_EXCLUSIVE = language()["exclusive"]
_CALENDAR = frozenset({"weekdays", "months"})
#: Words that exclude the others of their group, by stem: the groups, and the word's name there.
_GROUPS: dict[str, dict[str, str]] = {}
for _group, _members in (
    *((kind, _EXCLUSIVE[kind]) for kind in sorted(_CALENDAR)),
    *((f"unit {n}", dimension) for n, dimension in enumerate(_EXCLUSIVE["units"])),
    *((pair, pair) for pair in _EXCLUSIVE["opposites"].split(",")),
):
    for _member in _members.split():
        for _name in (*_member.split("="), *([_member[:3]] if _group in _CALENDAR else ())):
            _GROUPS.setdefault(stem(_name), {})[_group] = _member
#: What a passage says, with what does not follow from it.
_BEYOND = {stem(word): {*map(stem, o.split())} for word, o in _EXCLUSIVE["beyond"].items()}


#: Words behind which a sentence names what it does not state, by kind.
_UNSTATED = re.compile(
    "|".join(
        rf"(?P<{kind}>\b(?:{'|'.join(patterns)})\b)"
        for kind, patterns in language()["unstated"].items()
    ),
    re.IGNORECASE,
)
_CLAUSE_ENDS = re.compile(
    r"[;:!?()—–]|[.,](?!\d)|\b(?:but|while|whereas|although|though|because)\b", re.IGNORECASE
)
_HELPING = frozenset(language()["lists"]["helping"].split()) - {"a", "an", "the", "any", "to"}
#: Share of a claim that is then only named. One that takes up any of what is excepted has it wrong.
_LEAST_NAMED = {"denied": 0.5, "supposed": 0.9, "excepted": 0.01}


class WordChange(NamedTuple):
    """What the claim says, and what the passage has in its place, as they are written."""

    said: str
    told: str
    certain: bool = True  #: the rest is copied so far that it is surely the same statement


def changed_details(aligned: Aligned) -> tuple[WordChange, ...]:
    """Return the details that a claim changes; only so many words are read: it bounds the time."""
    said, told = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD]
    if aligned.shares[0] < _WORTH_A_LOOK or (aligned.best_sentence()[1] or "?").endswith("?"):
        return ()  # a question states nothing
    gaps = _gaps(said, told)
    found = [change for gap in gaps for change in _exchanged(aligned, *gap)]
    found = found or _denied_on_one_side(aligned, said, told)
    found = found or _changed_places(aligned, said, told)
    if unstated := _only_named(aligned, {change.said for change in found}):
        # of what is excepted the opposite is true
        found = [unstated] if not (found and unstated.certain) else []
    return tuple(surely(aligned, change) for change in {each.said: each for each in found}.values())


def surely(aligned: Aligned, change: WordChange) -> WordChange:
    """Return *change*, no longer certain where something else is not copied either."""
    copied = _is_copied(aligned, words(change.said), _COPIED_SURELY)
    return change._replace(certain=change.certain and copied)


def _gaps(said: Sequence[Word], told: Sequence[Word]) -> list[tuple[range, range]]:
    """Return the places where two sequences differ between words that agree, ends included."""
    agreeing = matches([word.stem for word in said], [word.stem for word in told])
    ends = ((-1, -1), *agreeing, (len(said), len(told)))
    return [
        (range(a + 1, b), range(c + 1, d))
        for (a, c), (b, d) in pairwise(ends)
        if b - a > 1 or d - c > 1
    ]


def _exchanged(aligned: Aligned, here: range, there: range) -> Iterator[WordChange]:
    """Yield the words of a gap that exclude each other, beside informative words that agree."""
    said = aligned.tokens
    beside = (*said[max(here.start - _BESIDE, 0) : here.start], *said[here.stop :][:_BESIDE])
    if len(here) > _LONGEST or not any(word.content for word in beside):
        return
    # Where the sentence says more than the claim, what stands next to agreeing words counts.
    pairs = {*zip(here, there, strict=False)} if here.start else set()
    if here.stop < len(said):
        pairs |= {*zip(here[::-1], there[::-1], strict=False)}
    for n, m in sorted(pairs):
        one, other = said[n], aligned.found[m]
        if one.number and other.number:
            if change := changed_number(aligned, n, m):
                yield change
            continue
        differs = _exclude(aligned, n, m) or (
            len(here) == len(there) and _other_name(aligned, n, m)
        )
        if differs and _is_changed(aligned, one, other):
            yield WordChange(one.surface, other.surface)


def changed_number(aligned: Aligned, n: int, m: int) -> WordChange | None:
    """Compare the number of a claim at one place with the one of its best sentence at another."""
    sides = (aligned.tokens, n), (aligned.found, m)
    said, told = (side[at] for side, at in sides)
    if _may_agree(aligned, n, m) or not _is_changed(aligned, said, told, _COPIED_NUMBER):
        return None
    written = [
        " ".join(w.surface for w in side[at : at + 2] if w.content or w is side[at])
        for side, at in sides
    ]
    return WordChange(written[0], written[1])


def _may_agree(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether numbers stand for different things, or one within the bound of the other."""
    tokens, found = aligned.tokens, aligned.found
    said, told = tokens[n], found[m]
    parts = re.split(r"[.,]", said.surface)  # "1, 000" in a passage that was taken apart
    torn = len(parts) > 1 and any(word.number and word.surface in parts for word in found)
    in_list = m == 0 and found[1:] and found[1].surface[:1].isupper()
    ranks = [_RANK.fullmatch(word.surface) is not None for word in (said, told)]
    labelled = n > 0 and tokens[n - 1].stem in listed("labels")
    if torn or in_list or labelled or ranks[0] != ranks[1]:
        return True
    try:  # a plain number or a time of day
        one, two = (
            sum(float(part) / 60.0**place for place, part in enumerate(word.stem.split(":")))
            for word in (said, told)
        )
    except ValueError:
        return True
    years = [w.surface.isdigit() and _FIRST_YEAR <= int(w.stem) <= _LAST_YEAR for w in (said, told)]
    if one == two or (years[0] and said.surface.endswith(told.surface)):
        return True  # 2007-08
    if years[0] != years[1] and min(one, two) < _MOST_COUNTED:
        return True  # "two films" beside "1995 film"
    hedges, others = (
        {word.stem for word in side[max(place - _HEDGE, 0) : place]}
        for side, place in ((tokens, n), (found, m))
    )
    over, under, about = listed("over"), listed("under"), listed("about")
    bounds = [(not near.isdisjoint(over), not near.isdisjoint(under)) for near in (hedges, others)]
    within = (two >= one and (bounds[0][0] or bounds[1][1])) or (
        two <= one and (bounds[0][1] or bounds[1][0])
    )
    close = abs(one - two) <= _CLOSE * max(abs(one), abs(two))
    hedged = not (hedges | others).isdisjoint(about | over | under)
    return (within and bounds[0] != bounds[1]) or (close and hedged)


def _exclude(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether two words exclude each other; a denial on one side turns opposites round."""
    tokens, found = aligned.tokens, aligned.found
    said, told = tokens[n], found[m]
    other = _GROUPS.get(told.stem, {})
    short, long = sorted((said.surface.lower(), told.surface.lower()), key=len)
    opposite = len(short) >= _SHORTEST_DENIED and any(long == each + short for each in _DENYING)
    for group, name in _GROUPS.get(said.stem, {}).items():
        written = group not in _CALENDAR or (said.surface[0] + told.surface[0]).isupper()
        if group in other and other[group] != name and written:
            if group.startswith("unit"):  # it counts beside the same number
                sides = (tokens[max(n - 2, 0) : n + 2], found[max(m - 2, 0) : m + 2])
                near, beside = ({word.stem for word in side if word.number} for side in sides)
                return not near.isdisjoint(beside)
            opposite = True
            break
    if opposite:
        return bool(_denials(tokens)) == bool(_denials(found))
    return said.stem in _BEYOND.get(told.stem, ())


def _other_name(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether two names differ; a shorter or longer form of a name is the same name."""
    said, told = aligned.tokens[n], aligned.found[m]
    if n == 0 or not (said.capital and told.capital) or said.stem in aligned.passages.index:
        return False
    one, other = said.surface.lower(), told.surface.lower()
    acronym = said.surface.isupper() or told.surface.isupper()
    dated = not _GROUPS.get(said.stem, {}).keys().isdisjoint(_CALENDAR)
    whole = "".join(word.surface for word in aligned.found).lower()
    return not (acronym or dated or one[:3] == other[:3] or one in whole)


def _denied_on_one_side(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[WordChange]:
    """Find a denial on one side of words that agree."""
    weights, passages = aligned.weights, aligned.passages
    mine = _denials(said)
    if len(mine) > 1 or not _is_copied(aligned, mine, _COPIED_WHOLLY):
        return []
    turns = [n for n, word in enumerate(told) if n and word.stem in listed("turns")]
    for a, b in pairwise((0, *turns, len(told))):  # the clause that holds all of the claim
        held = sum(weights.get(each, 0.0) for each in {word.stem for word in told[a:b]})
        if held >= _COPIED_WHOLLY * sum(weights.values()):
            told = told[a:b]
            break
    if len(mine) + len(_denials(told)) != 1:
        return []
    rarest = max(weights, key=lambda each: (weights[each], each))
    for number in passages.holders(rarest):
        as_much = number != aligned.evidence[0] and _share(aligned, number) >= _TELLS
        if as_much and bool(_denials(passages.words[number])) == bool(mine):
            return []  # another sentence that tells as much denies as the claim does
    for here, there in _gaps(said, told):
        differing = [*(said[n] for n in here), *(told[m] for m in there)]
        a, b = max(here.start - 1, 0), here.stop + 1
        beside = {w.stem for w in (*said[a:b], *told[there.stop : there.stop + 1])}
        if (
            any(map(denies, differing))
            and here.stop < len(said)  # at its end the sentence may deny something else
            and all(denies(word) or word.stem in listed("helping") for word in differing)
            and beside.isdisjoint({"if", "only", "just", "mer", "yet"})
        ):
            around = told[max(there.start - 1, 0) : there.stop + 1]
            written = [" ".join(word.surface for word in side) for side in (said[a:b], around)]
            return [WordChange(written[0], written[1])]
    return []


def _denials(side: Sequence[Word]) -> list[Word]:
    """Return the words that deny; a "No" that answers a question or begins a name does not."""
    return [
        word
        for n, word in enumerate(side)
        if denies(word)
        and (
            word.surface != "No" or (n == 0 and any(w.content and not w.capital for w in side[1:2]))
        )
    ]


def _only_named(aligned: Aligned, changed: Container[str]) -> WordChange | None:
    """
    Find what the best sentence names without stating it, where the claim states it.

    "No evidence that X", "denied that X" and "if X" do not say X, and "all but X" says it of
    everything else. Not so a claim that says it in such a way itself.
    """
    turned = [word for word in aligned.tokens if denies(word) or word.surface in changed]
    if not _is_copied(aligned, turned, _COPIED_WHOLLY):
        return None
    sentence = (aligned.best_sentence()[1] or "")[:_LONGEST_READ]
    cues = [*_UNSTATED.finditer(sentence)]
    if not cues or _UNSTATED.search(aligned.text):
        return None
    rarest = max(aligned.weights, key=lambda each: (aligned.weights[each], each))
    for number in aligned.passages.holders(rarest):
        other = aligned.passages.sentences[number][1][:_LONGEST_READ]
        if not _UNSTATED.search(other) and _share(aligned, number, turned) >= _COPIED_WHOLLY:
            return None
    said, told = (
        denials(("universal",)).intersection(w.surface.lower() for w in side)
        for side in (aligned.tokens, aligned.found)
    )
    for cue in cues:
        excepts = cue.lastgroup in {"excepted", "none_but"}
        behind = _CLAUSE_ENDS.split(sentence[cue.end() :], maxsplit=1)[0].split()
        if excepts:
            behind = [*takewhile(lambda word: word.lower() not in _HELPING, behind)]
        elif turned or any(w.content and w.stem in aligned.weights for w in words(cue[0])):
            continue
        scope = " ".join(behind)
        around = sentence[: cue.end()] + sentence[cue.end() :].replace(scope, " ", 1)
        only_there = {w.stem for w in words(scope)} - {w.stem for w in words(around)}
        named = sum(aligned.weights.get(each, 0.0) for each in only_there)
        least = _LEAST_NAMED.get(cue.lastgroup or "", math.inf)
        if named >= least * sum(aligned.weights.values()) or (excepts and said & told):
            return WordChange("", f"{cue[0]} {scope}", certain=excepts and named > 0)
    return None


def _changed_places(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[WordChange]:
    """Find two informative words that have changed places while what links them stays."""
    if not _is_copied(aligned, (), _COPIED_WHOLLY):
        return []
    mine, theirs = [word.stem for word in said], [word.stem for word in told]
    there = {
        place: theirs.index(word.stem)
        for place, word in enumerate(said)
        if word.content and mine.count(word.stem) == theirs.count(word.stem) == 1
    }
    for one, other in combinations(there, 2):
        link = mine[one + 1 : other]
        linked = any(word.content for word in said[one + 1 : other])
        # "red cars and blue cars" says the same the other way round
        alike = link[: len(link) // 2 + 1] == mine[other + 1 : other + 1 + len(link) // 2 + 1]
        if linked and not alike and theirs[there[other] + 1 : there[one]] == link:
            a, b = said[one].surface, said[other].surface
            return [WordChange(f"{a} … {b}", f"{b} … {a}")]
    return []


def _is_changed(aligned: Aligned, said: Word, told: Word, least: float = _COPIED) -> bool:
    """Return whether a claim is copied but for *said*, and nowhere else in the passages."""
    mine, theirs = ({word.stem for word in side} for side in (aligned.tokens, aligned.found))
    if said.stem in theirs or told.stem in mine or not _is_copied(aligned, [said], least):
        return False
    as_much = _TELLS * _share(aligned, aligned.evidence[0], [said])
    holders = aligned.passages.holders(said.stem)
    return not any(_share(aligned, number, [said]) >= as_much for number in holders)


def _is_copied(aligned: Aligned, exchanged: Sequence[Word], least: float) -> bool:
    """Return whether the best sentence holds a claim but for what was exchanged."""
    return _share(aligned, aligned.evidence[0], exchanged) >= least


def _share(aligned: Aligned, sentence: int, exchanged: Sequence[Word] = ()) -> float:
    """Return how much of a claim, but for what was exchanged, a sentence holds, in [0, 1]."""
    without, held = {word.stem for word in exchanged}, aligned.passages.stems[sentence]
    rest = [(each, weight) for each, weight in aligned.weights.items() if each not in without]
    told = sum([weight for each, weight in rest if each in held])
    return told / (sum([weight for _, weight in rest]) or 1.0)
