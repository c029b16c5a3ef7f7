"""Lay a claim beside its best sentences of the passages and count what they carry of it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.scoring.local.passages import Passages, plain_times
from monitor.scoring.words import Word, words

#: All are counted over the words of a claim; shares are in [0, 1].
FEATURES = (
    "covered",  # share of its information that the passages hold
    "covered_two",  # the same of its best two sentences
    "novel_run",  # log of the longest run of informative words that no passage holds
    "log_length",  # log of its words
    "runs",  # how much is copied in long pieces: squared lengths of shared runs
    "gaps_wide",  # share of neighbouring informative words that stand far apart in the passages
    "numbers_absent",  # share of its numbers that neither the passages nor the question hold
    "numbers_not_before_unit",  # numbers that never stand before the word behind them
    "number_conflict",  # a number is absent from what is otherwise covered
    "names_absent",  # share of its capitalised words that no passage holds
    "names_apart",  # names that stand far from the word behind them
    "name_conflict",  # a name is absent from what is otherwise covered
    "partners",  # share of its words in sentences with its first name, or in the next ones
)

_MOST_CHARS, _MOST_WORDS = 5_000, 400  # bound the time: hardly a sentence has more
_MOST_COMPARED = 40  # numbers, and names, of one claim
_UNIT, _WIDE = 3, 10  # words from a number to what it counts; between two that stand together

#: Writes a claim in the words of the passages.
Rewrite = Callable[[str, Passages], tuple[Word, ...]]


@dataclass(frozen=True, slots=True)
class Aligned:
    """A claim beside the passages: its words, its evidence and what both share."""

    tokens: tuple[Word, ...]  #: written as the passages write them
    weights: dict[str, float]  #: information of every content stem, in order, each once
    evidence: tuple[int, ...]  #: sentences of the passages, best first; at most two
    shares: tuple[float, float]  #: of the information: in the best sentence, in both
    found: tuple[Word, ...]  #: the words of the best sentence
    passages: Passages

    @classmethod
    def of(cls, claim: str, passages: Passages, rewrite: Rewrite | None = None) -> Aligned:
        """Find the evidence of one claim, whose words *rewrite* gives."""
        tokens = (rewrite or as_written)(claim[:_MOST_CHARS], passages)[:_MOST_WORDS]
        weights = {w.stem: passages.information(w.stem) for w in tokens if w.content}
        evidence, (one, two) = passages.best(weights)
        found = passages.words[evidence[0]][:_MOST_WORDS] if evidence else ()
        return cls(tokens, weights, tuple(evidence), (one, two), found, passages)

    def missing(self) -> tuple[str, ...]:
        """Return the informative words that no passage holds, as the claim writes them."""
        places = self.passages.places
        unknown = [word for word in self.tokens if word.content and word.stem not in places]
        return tuple({word.stem: word.surface for word in reversed(unknown)}.values())[::-1]


def as_written(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Return the words of *claim*, joined or apart as the passages have them.

    "takeout" becomes "take out" and "half time" "halftime" where only that is in the passages;
    what they have in no form stays.
    """
    tokens = words(plain_times(claim))
    known = passages.places
    if all(word.stem in known for word in tokens):
        return tokens
    found: list[Word] = []
    for one in tokens:
        last = found[-1] if found else None
        if last and not ((last.stem in known and one.stem in known) or last.number or one.number):
            surface = last.surface + one.surface
            if surface[: len(last.surface) + 2].lower() in passages.squeezed:
                joined = words(surface)
                if len(joined) == 1 and joined[0].content and joined[0].stem in known:
                    found[-1] = joined[0]
                    continue
        apart = not one.number and one.stem not in known and one.stem in passages.squeezed
        at = passages.pairs.get(one.stem, 0) if apart else 0
        found += words(f"{one.surface[:at]} {one.surface[at:]}") if at else (one,)
    return tuple(found)


def claim_features(aligned: Aligned, query: frozenset[str]) -> list[float]:
    """
    Return the figures of one claim, in the order of ``FEATURES``.

    *query* holds the stems of the question: a number that it names is not made up.
    """
    tokens, passages, weights = aligned.tokens, aligned.passages, aligned.weights
    places, two = passages.places, aligned.shares[1]
    known = [stem for stem in weights if stem in places]
    run = longest = 0
    for word in tokens:
        if word.content:
            run = 0 if word.stem in places else run + 1
            longest = max(longest, run)
    numbers = [n for n, word in enumerate(tokens) if word.number][:_MOST_COMPARED]
    made_up = [n for n in numbers if tokens[n].stem not in places and tokens[n].stem not in query]
    names = [word.stem for word in tokens[1:] if word.capital][:_MOST_COMPARED]
    absent = [name for name in names if name not in places]
    gaps = [passages.distance(one, other) for one, other in pairwise(weights)]
    units = [_to_next(tokens[n : n + 3], passages) for n in numbers]
    partners = [
        _to_next([word, *(w for w in tokens[n + 1 : n + 5] if not w.capital)], passages)
        for n, word in enumerate(tokens)
        if word.capital
    ]
    return [
        sum(weights[stem] for stem in known) / (sum(weights.values()) or 1.0) if weights else 1.0,
        two,
        math.log1p(longest),
        math.log(max(len(tokens), 1)),
        _copied_in_runs(aligned),
        sum(gap is not None and abs(gap) > _WIDE for gap in gaps) / max(len(weights) - 1, 1),
        len(made_up) / max(len(numbers), 1),
        float(sum(gap is not None and not 0 < gap <= _UNIT for gap in units)),
        bool(made_up) * two * two,
        len(absent) / max(len(names), 1),
        float(sum(gap is not None and abs(gap) > _WIDE for gap in partners)),
        bool(absent) * two * two,
        _share_near_subject(aligned),
    ]


def _to_next(tokens: Sequence[Word], passages: Passages) -> int | None:
    """Return how far the passages have the first word before the next known informative one."""
    following = next((w.stem for w in tokens[1:] if w.content and w.stem in passages), None)
    return None if following is None else passages.distance(tokens[0].stem, following)


def _copied_in_runs(aligned: Aligned) -> float:
    """Measure how much is copied in long pieces; of one word, whether it is there."""
    passages, stems = aligned.passages, [word.stem for word in aligned.tokens]
    if len(stems) <= 1:
        return float(any(stem in passages for stem in stems))
    length, squares = 1, 0
    for one, other in pairwise((*stems, "")):
        if passages.adjacent(one, other):
            length += 1
        else:
            squares += length * length if length > 1 else 0
            length = 1
    return math.sqrt(squares) / len(stems)


def _share_near_subject(aligned: Aligned) -> float:
    """Measure how many known words stand in a sentence with the first name, or in the next one."""
    passages = aligned.passages
    named = [word.stem for word in aligned.tokens if word.capital]
    subject = next((stem for stem in named if stem in passages), None)
    others = [stem for stem in aligned.weights if stem in passages and stem not in named]
    if subject is None or not others:
        return 1.0
    near = {*passages.holders(subject)}
    told = passages.sentences
    near |= {n + 1 for n in near if n + 1 < len(told) and told[n + 1][0] == told[n][0]}
    return sum(not near.isdisjoint(passages.holders(stem)) for stem in others) / len(others)


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
