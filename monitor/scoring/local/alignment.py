"""Lay a claim beside its best sentences of the passages and count what they carry of it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from monitor.scoring.local.passages import Passages, plain_times
from monitor.scoring.words import Word, words

#: All are counted over the words of a claim; shares are in [0, 1].
FEATURES = (
    "covered",  # share of its information that the passages hold
    "covered_two",  # the same of its best two sentences
    "novel_run",  # log of the longest run of informative words that no passage holds
    "log_length",  # log of its words
    "runs",  # how much is copied in long pieces: squared lengths of shared runs
    "numbers_absent",  # share of its numbers that neither the passages nor the question hold
    "numbers_not_before_unit",  # numbers that never stand before the word behind them
    "number_conflict",  # a number is absent from what is otherwise covered
    "names_absent",  # share of its capitalised words that no passage holds
    "names_apart",  # names that stand far from the word behind them
    "name_conflict",  # a name is absent from what is otherwise covered
)

_MOST_CHARS, _MOST_WORDS = 5_000, 400  # bound the time: hardly a sentence has more
_MOST_COMPARED = 40  # numbers, and names, of one claim
_UNIT, _WIDE = 3, 10  # words from a number to what it counts; between two that stand together

#: Writes a claim in the words of the passages.
Rewrite = Callable[[str, Passages], tuple[Word, ...]]


@dataclass(frozen=True, slots=True)
class Aligned:
    """A claim beside the passages: its words, its evidence and what both share."""

    text: str
    tokens: tuple[Word, ...]  #: written as the passages write them
    weights: dict[str, float]  #: information of every content stem, in order, each once
    evidence: tuple[int, ...]  #: sentences of the passages, best first; at most two
    shares: tuple[float, float]  #: of the information: in the best sentence, in both
    passages: Passages

    @classmethod
    def of(cls, claim: str, passages: Passages, rewrite: Rewrite | None = None) -> Aligned:
        """Find the evidence of one claim, whose words *rewrite* gives."""
        tokens = (rewrite or as_written)(claim[:_MOST_CHARS], passages)[:_MOST_WORDS]
        weights = passages.weigh(tokens)
        return cls(claim, tokens, weights, *passages.best(weights), passages)

    @property
    def found(self) -> tuple[Word, ...]:
        """The words of the best sentence."""
        return self.passages.words[self.evidence[0]][:_MOST_WORDS] if self.evidence else ()

    def best_sentence(self) -> tuple[int, str] | tuple[None, None]:
        """Return the index of the passage and the text of the best sentence, if there is one."""
        return self.passages.sentences[self.evidence[0]] if self.evidence else (None, None)

    def missing(self) -> tuple[str, ...]:
        """Return the informative words that no passage holds, as the claim writes them."""
        unknown = [w for w in self.tokens if w.content and w.stem not in self.passages.index]
        return tuple({word.stem: word.surface for word in reversed(unknown)}.values())[::-1]

    def figures(self, query: frozenset[str]) -> list[float]:
        """
        Return the figures of the claim, in the order of ``FEATURES``.

        *query* holds the stems of the question: a number that it names is not made up.
        """
        tokens, passages, weights, two = self.tokens, self.passages, self.weights, self.shares[1]
        index = passages.index
        known = sum([weight for each, weight in weights.items() if each in index])
        held = [word.stem in index for word in tokens if word.content]
        novel = max((len([*run]) for there, run in groupby(held) if not there), default=0)
        shared = [(one.stem, other.stem) in passages.pairs for one, other in pairwise(tokens)]
        runs = [len([*run]) + 1 for there, run in groupby(shared) if there]
        copied = math.sqrt(sum(length * length for length in runs)) / max(len(tokens), 1)
        if len(tokens) == 1:
            copied = float(tokens[0].stem in index)
        numbers = [n for n, word in enumerate(tokens) if word.number][:_MOST_COMPARED]
        made_up = [tokens[n].stem not in index and tokens[n].stem not in query for n in numbers]
        names = [n for n, word in enumerate(tokens) if word.capital][:_MOST_COMPARED]
        absent = [tokens[n].stem not in index for n in names if n]
        return [
            known / sum(weights.values()) if weights else 1.0,
            two,
            math.log1p(novel),
            math.log(max(len(tokens), 1)),
            copied,
            sum(made_up) / max(len(made_up), 1),
            float(sum(_apart(tokens[n : n + 3], passages, 0, _UNIT) for n in numbers)),
            any(made_up) * two * two,
            sum(absent) / max(len(absent), 1),
            float(sum(_apart(tokens[n : n + 5], passages, _WIDE, _WIDE) for n in names)),
            any(absent) * two * two,
        ]


def _apart(tokens: Sequence[Word], passages: Passages, before: int, behind: int) -> bool:
    """Return whether the passages hold the first and the next informative word, never that near."""
    known = (w.stem for w in tokens[1:] if w.content and not w.capital and w.stem in passages.index)
    first, following = tokens[0].stem, next(known, None)
    if following is None or first not in passages.index:
        return False
    return not passages.near_each_other(first, following, before, behind)


def as_written(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Return the words of *claim*, joined or apart as the passages have them.

    "takeout" becomes "take out" and "half time" "halftime" where only that is in the passages;
    what they have in no form stays.
    """
    tokens = words(plain_times(claim))
    known = passages.index
    if all(word.stem in known for word in tokens):
        return tokens
    found: list[Word] = []
    for one in tokens:
        new = one.stem not in known
        if found and (new or found[-1].stem not in known):
            whole = found[-1].surface + one.surface
            if whole.isalpha() and whole.lower() in passages.squeezed:
                joined = Word.read(whole)
                if joined.content and joined.stem in known:
                    found[-1] = joined
                    continue
        at = passages.parts_at(one.stem) if new and not one.number else 0
        found += words(f"{one.surface[:at]} {one.surface[at:]}") if at else (one,)
    return tuple(found)


def matches(said: Sequence[str], told: Sequence[str]) -> list[tuple[int, int]]:
    """
    Return the places of a longest common subsequence of two short sequences, in order.

    Hunt and Szymanski (1977), "A fast algorithm for computing longest common subsequences".
    """
    places: dict[str, list[int]] = {}
    for place in range(len(told) - 1, -1, -1):
        places.setdefault(told[place], []).append(place)
    ends: list[int] = []  # for every length, where its earliest end stands in told
    last: list[int] = []  # and the link that is there
    links: list[tuple[int, int, int]] = []  # place in said, place in told, link before
    for at, stem in enumerate(said):
        for place in places.get(stem, ()):
            length = bisect_left(ends, place)
            links.append((at, place, last[length - 1] if length else -1))
            ends[length : length + 1] = [place]
            last[length : length + 1] = [len(links) - 1]
    found: list[tuple[int, int]] = []
    link = last[-1] if last else -1
    while link >= 0:
        at, place, link = links[link]
        found.append((at, place))
    return found[::-1]
