"""Lay a claim beside its best sentences of the passages and count what they carry of it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from monitor.scoring.local.passages import PREFIX, Passages, plain_times
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

    @property
    def rarest(self) -> str:
        """The stem that tells most; there must be one."""
        return max(self.weights, key=lambda each: (self.weights[each], each))

    def share(self, without: Iterable[Word] = (), sentence: int | None = None) -> float:
        """Return the share of the claim, *without* some words, in its best sentence or another."""
        held = self.passages.stems[self.evidence[0] if sentence is None else sentence]
        left_out = {word.stem for word in without}
        rest = [(each, weight) for each, weight in self.weights.items() if each not in left_out]
        told = sum([weight for each, weight in rest if each in held])
        return told / (sum([weight for _, weight in rest]) or 1.0)

    def told_by(self, stem: str, least: float, without: Sequence[Word] = ()) -> Iterator[int]:
        """Yield the sentences with *stem* that hold at least so much of the claim."""
        for number in self.passages.holders(stem):
            if self.share(without, number) >= least:
                yield number

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
    index, first = passages.index, tokens[0].stem
    if first not in index:
        return False
    for word in tokens[1:]:
        if word.content and not word.capital and word.stem in index:
            near = (first, word.stem) in passages.pairs
            return not (near or passages.near_each_other(first, word.stem, before, behind))
    return False


def as_written(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Return the words of *claim*, joined or apart as the passages have them.

    "takeout" becomes "take out" and "half time" "halftime" where only that is in the passages;
    what they have in no form stays.
    """
    tokens, known = words(plain_times(claim)), passages.index
    unknown = {word.stem for word in tokens}.difference(known)
    found: list[Word] = []
    for one in tokens if unknown else ():
        new = one.stem in unknown
        if found and (new or found[-1].stem in unknown):
            whole = found[-1].surface + one.surface
            known_beginning = whole[:PREFIX].lower() in passages.prefixes
            if known_beginning and whole.isalpha() and whole.lower() in passages.squeezed:
                joined = Word.read(whole)
                if joined.content and joined.stem in known:
                    found[-1] = joined
                    continue
        at = passages.parts_at(one.stem) if new and not one.number else 0
        found += words(f"{one.surface[:at]} {one.surface[at:]}") if at else (one,)
    return tuple(found) if unknown else tokens


def matches(said: Sequence[str], told: Sequence[str]) -> list[tuple[int, int]]:
    """
    Return the places of a longest common subsequence of two sequences, in order.

    A row of bits for each word of *said*, in one addition: Hyyrö (2004), "Bit-parallel LCS-length
    computation revisited". In a row, bit n is 0 where word n of *told* makes the longest longer.
    """
    places: defaultdict[str, int] = defaultdict(int)
    for place, stem in enumerate(told):
        places[stem] |= 1 << place
    all_bits = (1 << len(told)) - 1
    rows = [all_bits]
    for stem in said:
        hit = rows[-1] & places.get(stem, 0)
        rows.append(((rows[-1] + hit) | (rows[-1] - hit)) & all_bits)
    found: list[tuple[int, int]] = []
    at, place = len(said), len(told)
    while at and place:
        if rows[at] & 1 << place - 1:
            place -= 1
            continue
        at -= 1
        if said[at] == told[place - 1]:
            place -= 1
            found.append((at, place))
    return found[::-1]
