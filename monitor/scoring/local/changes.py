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

from monitor.scoring.language import Word, denials, denies, language, listed, stem, words
from monitor.scoring.local.passages import Aligned, matches

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
_KINDS = [f"(?P<{kind}>{'|'.join(each)})" for kind, each in language()["unstated"].items()]
_UNSTATED = re.compile(rf"\b(?:{'|'.join(_KINDS)})\b", re.IGNORECASE)
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
    found = [change for gap in _gaps(said, told) for change in _replaced_words(aligned, *gap)]
    found = found or _one_sided_negation(aligned, said, told)
    found = found or _swapped_words(aligned, said, told)
    if unstated := _named_not_stated(aligned, {change.said for change in found}):
        # of what is excepted the opposite is true
        found = [] if found and unstated.certain else [unstated]
    return tuple({each.said: surely(aligned, each) for each in found}.values())


def surely(aligned: Aligned, change: WordChange) -> WordChange:
    """Return *change*, no longer certain where something else is not copied either."""
    copied = aligned.share(words(change.said)) >= _COPIED_SURELY
    return change._replace(certain=change.certain and copied)


def _gaps(said: Sequence[Word], told: Sequence[Word]) -> Iterator[tuple[range, range]]:
    """Yield the places where two sequences differ between words that agree, ends included."""
    agreeing = matches(*([word.stem for word in side] for side in (said, told)))
    for (a, c), (b, d) in pairwise(((-1, -1), *agreeing, (len(said), len(told)))):
        if b - a > 1 or d - c > 1:
            yield range(a + 1, b), range(c + 1, d)


def _replaced_words(aligned: Aligned, here: range, there: range) -> Iterator[WordChange]:
    """Yield the words of a gap that exclude each other, beside informative words that agree."""
    if not there or not 0 < len(here) <= _LONGEST:
        return
    said, told = aligned.tokens, aligned.found
    beside = (*said[max(here.start - _BESIDE, 0) : here.start], *said[here.stop :][:_BESIDE])
    if not any(word.content for word in beside):
        return
    # Where the sentence says more than the claim, what stands next to agreeing words counts.
    pairs = {*zip(here, there, strict=False)} if here.start else set()
    if here.stop < len(said):
        pairs |= {*zip(here[::-1], there[::-1], strict=False)}
    for n, m in sorted(pairs):
        if said[n].number and told[m].number:
            if change := changed_number(aligned, n, m):
                yield change
        elif (
            _mutually_exclusive(aligned, n, m)
            or (len(here) == len(there) and _names_differ(aligned, n, m))
        ) and _is_changed(aligned, said[n], told[m], _COPIED):
            yield WordChange(said[n].surface, told[m].surface)


def changed_number(aligned: Aligned, n: int, m: int) -> WordChange | None:
    """Compare the number of a claim at one place with the one of its best sentence at another."""
    sides = (aligned.tokens, n), (aligned.found, m)
    said, told = (side[at] for side, at in sides)
    if _numbers_compatible(aligned, n, m) or not _is_changed(aligned, said, told, _COPIED_NUMBER):
        return None
    ours, theirs = (
        " ".join(w.surface for w in side[at : at + 2] if w.content or w is side[at])
        for side, at in sides
    )
    return WordChange(ours, theirs)


def _numbers_compatible(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether numbers stand for different things, or one within the bound of the other."""
    tokens, found = aligned.tokens, aligned.found
    said, told = tokens[n], found[m]
    parts = re.split(r"[.,]", said.surface)  # "1, 000" in a passage that was taken apart
    torn = len(parts) > 1 and any(word.number and word.surface in parts for word in found)
    in_list = m == 0 and found[1:] and found[1].surface[:1].isupper()
    labelled = n > 0 and tokens[n - 1].stem in listed("labels")
    if (
        torn
        or in_list
        or labelled
        or bool(_RANK.match(said.surface)) != bool(_RANK.match(told.surface))
    ):
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
    hedges = [
        {word.stem for word in side[max(place - _HEDGE, 0) : place]}
        for side, place in ((tokens, n), (found, m))
    ]
    (over, under, vague), (floor, ceiling, rough) = (
        [not near.isdisjoint(listed(name)) for name in ("over", "under", "about")]
        for near in hedges
    )
    within = (two >= one and (over or ceiling)) or (two <= one and (under or floor))
    close = abs(one - two) <= _CLOSE * max(abs(one), abs(two))
    hedged = over or under or vague or floor or ceiling or rough
    return (within and (over, under) != (floor, ceiling)) or (close and hedged)


def _mutually_exclusive(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether two words exclude each other; a denial on one side turns opposites round."""
    tokens, found = aligned.tokens, aligned.found
    said, told = tokens[n], found[m]
    short, long = sorted((said.surface.lower(), told.surface.lower()), key=len)
    denied = len(short) >= _SHORTEST_DENIED and long.endswith(short)
    opposite = denied and long.removesuffix(short) in _DENYING
    theirs = _GROUPS.get(told.stem, {})
    for group, name in _GROUPS.get(said.stem, {}).items():
        written = group not in _CALENDAR or (said.surface[0] + told.surface[0]).isupper()
        if theirs.get(group, name) != name and written:
            if group.startswith("unit"):  # it counts beside the same number
                near = {word.stem for word in tokens[max(n - 2, 0) : n + 2] if word.number}
                return any(w.number and w.stem in near for w in found[max(m - 2, 0) : m + 2])
            opposite = True
            break
    if opposite:
        return bool(_negations(tokens)) == bool(_negations(found))
    return said.stem in _BEYOND.get(told.stem, ())


def _names_differ(aligned: Aligned, n: int, m: int) -> bool:
    """Return whether two names differ; a shorter or longer form of a name is the same name."""
    said, told = aligned.tokens[n], aligned.found[m]
    if n == 0 or not (said.capital and told.capital) or said.stem in aligned.passages.index:
        return False
    one, other = said.surface.lower(), told.surface.lower()
    acronym = said.surface.isupper() or told.surface.isupper()
    dated = not _CALENDAR.isdisjoint(_GROUPS.get(said.stem, ()))
    whole = "".join(word.surface for word in aligned.found).lower()
    return not (acronym or dated or one[:3] == other[:3] or one in whole)


def _is_changed(aligned: Aligned, said: Word, told: Word, least: float) -> bool:
    """Return whether a claim is copied but for *said*, and nowhere else in the passages."""
    if said.stem in aligned.passages.stems[aligned.evidence[0]] or any(
        told.stem == word.stem for word in aligned.tokens
    ):
        return False
    share = aligned.share([said])
    return share >= least and not any(aligned.told_by(said.stem, _TELLS * share, [said]))


def _one_sided_negation(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[WordChange]:
    """Find a denial on one side of words that agree."""
    weights, passages, mine = aligned.weights, aligned.passages, _negations(said)
    one_denies = len(mine) == 1 or (not mine and _negations(told))
    if not one_denies or aligned.share(mine) < _COPIED_WHOLLY:
        return []
    turns = [n for n, word in enumerate(told) if n and word.stem in listed("turns")]
    for a, b in pairwise((0, *turns, len(told))):  # the clause that holds all of the claim
        held = sum(weights.get(each, 0.0) for each in {word.stem for word in told[a:b]})
        if held >= _COPIED_WHOLLY * sum(weights.values()):
            told = told[a:b]
            break
    if len(mine) + len(_negations(told)) != 1:
        return []
    for number in aligned.told_by(aligned.rarest, _TELLS):
        denied = bool(_negations(passages.words[number]))
        if number != aligned.evidence[0] and denied == bool(mine):
            return []  # another sentence that tells as much denies as the claim does
    for here, there in _gaps(said, told):
        a, b = max(here.start - 1, 0), here.stop + 1
        differing = [*said[here.start : here.stop], *told[there.start : there.stop]]
        beside = {w.stem for w in (*said[a:b], *told[there.stop : there.stop + 1])}
        if (
            any(map(denies, differing))
            and here.stop < len(said)  # at its end the sentence may deny something else
            and all(denies(word) or word.stem in listed("helping") for word in differing)
            and beside.isdisjoint({"if", "only", "just", "mer", "yet"})
        ):
            sides = said[a:b], told[max(there.start - 1, 0) : there.stop + 1]
            ours, theirs = (" ".join(word.surface for word in side) for side in sides)
            return [WordChange(ours, theirs)]
    return []


def _negations(side: Sequence[Word]) -> list[Word]:
    """Return the words that deny; a "No" that answers a question or begins a name does not."""
    deny = listed("negations")
    return [
        word
        for n, word in enumerate(side)
        if word.stem in deny
        and denies(word)
        and (
            word.surface != "No" or (n == 0 and any(w.content and not w.capital for w in side[1:2]))
        )
    ]


def _named_not_stated(aligned: Aligned, changed: Container[str]) -> WordChange | None:
    """
    Find what the best sentence names without stating it, where the claim states it.

    "No evidence that X", "denied that X" and "if X" do not say X, and "all but X" says it of
    everything else. What holds "except for X", or "unless X", does not hold "always" or "under any
    circumstances". Not so a claim that says it in such a way itself.
    """
    left_out = [
        word
        for word in aligned.tokens
        if word.surface in changed or (word.stem in listed("negations") and denies(word))
    ]
    turned = bool(left_out)
    general, already = (
        denials(("universal",)).intersection([w.surface.lower() for w in side])
        for side in (aligned.tokens, aligned.found)
    )
    left_out += _universal_words(aligned) if general else ()
    if aligned.share(left_out) < _COPIED_WHOLLY:
        return None
    sentences, weights = aligned.passages.sentences, aligned.weights
    sentence = sentences[aligned.evidence[0]][1][:_LONGEST_READ]
    cues = [*_UNSTATED.finditer(sentence)]
    if not cues or _UNSTATED.search(aligned.text):
        return None
    for number in aligned.told_by(aligned.rarest, _COPIED_WHOLLY, left_out):
        if not _UNSTATED.search(sentences[number][1][:_LONGEST_READ]):
            return None
    for cue in cues:
        excepts = cue.lastgroup in {"excepted", "none_but"}
        generalises = general and (excepts or (cue.lastgroup == "supposed" and not already))
        takes_up = turned or any(each.stem in weights for each in words(cue[0]))
        if takes_up and not (excepts or generalises):
            continue
        behind = _CLAUSE_ENDS.split(sentence[cue.end() :], maxsplit=1)[0].split()
        if excepts:  # what is excepted ends before a verb
            behind = [*takewhile(lambda word: word.lower() not in _HELPING, behind)]
        scope = " ".join(behind)
        around = sentence[: cue.end()] + sentence[cue.end() :].replace(scope, " ", 1)
        only_there = {w.stem for w in words(scope)} - {w.stem for w in words(around)}
        named = sum(weights.get(each, 0.0) for each in only_there)
        least = _LEAST_NAMED.get(cue.lastgroup or "", math.inf)
        if named >= least * sum(weights.values()) or generalises:
            return WordChange("", f"{cue[0]} {scope}", certain=excepts and named > 0)
    return None


def _universal_words(aligned: Aligned) -> Iterator[Word]:
    """Yield the words with which a claim says that it always holds, such as "any circumstances"."""
    behind = False
    for word in aligned.tokens:
        new = word.stem not in aligned.passages.index
        widens = word.surface.lower() in denials(("universal",))
        behind = widens or (behind and (new or not word.content))
        if behind and new:
            yield word


def _swapped_words(
    aligned: Aligned, said: Sequence[Word], told: Sequence[Word]
) -> list[WordChange]:
    """Find two informative words that have changed places while what links them stays."""
    if aligned.shares[0] < _COPIED_WHOLLY:
        return []
    mine, theirs = [word.stem for word in said], [word.stem for word in told]
    there = {
        place: theirs.index(word.stem)
        for place, word in enumerate(said)
        if word.content and mine.count(word.stem) == theirs.count(word.stem) == 1
    }
    for one, other in combinations(there, 2):
        if there[other] > there[one]:
            continue
        # names of several words change places as a whole
        link, links = (
            [word.stem for word in side if not word.capital]
            for side in (said[one + 1 : other], told[there[other] + 1 : there[one]])
        )
        # "red cars and blue cars" says the same the other way round
        alike = link[: len(link) // 2 + 1] == mine[other + 1 : other + 1 + len(link) // 2 + 1]
        linked = any(word.content and not word.capital for word in said[one + 1 : other])
        if linked and not alike and link == links:
            a, b = said[one].surface, said[other].surface
            return [WordChange(f"{a} … {b}", f"{b} … {a}")]
    return []
