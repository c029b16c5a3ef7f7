"""
Find the figure of a claim that belongs to another subject: "The Metro costs 59 euros".

The passages say "Metro: 39 euros" and "Express: 59 euros", in sentences of their own or in one. No
other word of the claim need be copied, so such a change is never certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

from monitor.scoring.language import Word, is_ordinal, language, light, listed, stem, words_of
from monitor.scoring.local.changes import EXCLUDED, WordChange, numbers_compatible
from monitor.scoring.local.passages import Aligned, Passages, plain_times

_ABOUT = 0.5  # least share of a claim without its figure in a sentence about the same
_LONGEST_READ, _MOST_HOLDERS = 2_000, 20  # characters of a sentence, and sentences, to look into
_LATER = listed("later")
_BARE = 2  # informative words of an answer that is a figure with its unit
_YEAR = re.compile(r"(?:19|20)\d\d")
#: Ends a part of a sentence that may have a figure and a subject of its own.
_PART_ENDS = re.compile(r"[,;|](?!\d)\s?|\s(?:and|und|et|y|while|but)\s", re.IGNORECASE)
#: A sentence that begins so is about the same as the one before.
_GOES_ON = re.compile(
    rf"\W*(?:{language()['conversation']['it']}|{language()['conversation']['goes_on_about']})\b",
    re.IGNORECASE,
)

Place = tuple[Sequence[Word], int, Word]  #: words, the place of a figure among them, its unit


def figure_of_another(aligned: Aligned, query: frozenset[str]) -> tuple[WordChange, ...]:
    """
    Return a figure of a claim that another one stands for where most of its other words are.

    That sentence, or part of one, has just one figure with such a unit, and those with the claim's
    figure hold less of its other words, and no new one. Figures of the *query* are no answer.
    """
    passages, tokens = aligned.passages, aligned.tokens
    counted = [*_figures_with_units(tokens)]
    for n, unit in counted:
        said, kind = tokens[n], EXCLUDED.get(unit.stem, set()) | {unit.stem}
        others = {said.stem, *kind}
        if any(each.stem in kind - {unit.stem} for _, each in counted):
            continue  # "2 hours and 15 minutes"
        rest = {e: w for e, w in aligned.weights.items() if e not in others and e in passages.index}
        if len(rest) == 1 and not any(w.capital and w.stem in rest for w in tokens):
            continue  # "It costs 59 euros": of what?
        rest = rest or dict.fromkeys(query & passages.index.keys(), 1.0)  # "59 euros."
        evidence, (share, _) = passages.best(rest)
        if share < _ABOUT or said.stem in query:
            continue
        best, place = evidence[0], None
        if said.stem not in passages.stems[best]:
            place = _in_sentence(passages, best, said, kind, rest.keys(), query)
        elif len(counted) == 1:
            place = _in_part(passages, best, said, kind, rest.keys())
        if place is not None and not _has_other_words(aligned, query, others):
            told, m, their_unit = place
            if told[m].stem not in aligned.weights and not numbers_compatible(tokens, n, told, m):
                ours = f"{said.surface} {unit.surface}"
                theirs = f"{told[m].surface} {their_unit.surface}"
                return (WordChange(ours, theirs, certain=False, sentence=best),)
    return ()


def _has_other_words(aligned: Aligned, query: frozenset[str], besides: AbstractSet[str]) -> bool:
    """Return whether a subject may be named in words that the passages lack: kids for children."""
    passages, asking = aligned.passages, listed("asking")
    names = {*(aligned.weights if len(aligned.weights) > _BARE else query)} - besides
    lower = [(word.stem, word.surface.lower()) for word in aligned.tokens if word.stem in names]
    names -= {each for each, said in lower if said in light() or stem(said) in asking}
    return any(
        not (each in passages.index or each in asking or each[0].isdigit()) for each in names
    )


def _in_sentence(
    passages: Passages,
    best: int,
    said: Word,
    kind: AbstractSet[str],
    rest: AbstractSet[str],
    query: frozenset[str],
) -> Place | None:
    """Return the only figure of sentence *best*, where *said* is not about the same."""
    told = passages.words[best]
    figures = [(m, unit) for m, unit in _figures_with_units(told) if unit.stem in kind]
    subject = next((word.stem for word in told if word.content), "")
    held = rest & passages.stems[best]
    holders = passages.holders(said.stem)[:_MOST_HOLDERS]
    if (
        len(figures) != 1
        or subject not in {*rest, *query}  # "Family: 24 euros" does not exclude "12 euros"
        or not all(rest & _with_subject(passages, number) < held for number in holders)
    ):
        return None
    return told, *figures[0]


def _with_subject(passages: Passages, number: int) -> AbstractSet[str]:
    """Return the stems of a sentence, with those before if it goes on: "It costs 49 euros"."""
    passage, text = passages.sentences[number]
    follows = number > 0 and passages.sentences[number - 1][0] == passage
    before = passages.stems[number - 1] if follows and _GOES_ON.match(text) else frozenset[str]()
    return passages.stems[number] | before


def _in_part(
    passages: Passages, best: int, said: Word, kind: AbstractSet[str], rest: AbstractSet[str]
) -> Place | None:
    """Return the figure of the part of sentence *best* with more of *rest* than that of *said*."""
    text = plain_times(passages.sentences[best][1][:_LONGEST_READ], passages.language)
    parts = _PART_ENDS.split(text)
    ours, found, subject, waiting = list[AbstractSet[str]](), [], set[str](), set[str]()
    for part, written in zip(words_of(parts, passages.language), parts, strict=True):
        figures = [(m, unit) for m, unit in _figures_with_units(part) if unit.stem in kind]
        before = takewhile(lambda word: not word.number, part)
        own = {word.stem for word in before if word.content} - _LATER
        # "18 euros an hour, 45 euros a day": the second figure is of what the first is
        subject = (own | subject if _GOES_ON.match(written) else own) or subject
        held = rest & {*subject, *waiting, *(word.stem for word in part)}
        waiting = set() if figures else waiting | {word.stem for word in part}
        if len(figures) == 1 and part[figures[0][0]].stem == said.stem:
            ours.append(held)
        elif len(figures) == 1:
            found.append((held, (part, *figures[0])))
    better = [place for held, place in found if len(ours) == 1 and ours[0] < held]
    return better[0] if len(better) == 1 else None


def _figures_with_units(side: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """Yield the place of each figure that counts something, and what it counts; years do not."""
    for n, word in enumerate(side):
        behind = [each for each in side[n + 1 : n + 3] if each.content] if word.number else []
        if behind and not (behind[0].number or is_ordinal(word) or _YEAR.fullmatch(word.surface)):
            yield n, behind[0]
