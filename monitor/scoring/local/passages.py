"""
The passages of one interaction, and how a claim lies beside them.

`Passages` says which sentence holds which word, and how rare it is; `Aligned` lays a claim beside
its best sentences and counts what they carry of it.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from monitor.scoring.language import Word, split_sentences, words, words_of

PREFIX = 5  #: letters by which words begin alike
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality
_LONGEST_KEPT = 8_000  # characters of a passage that is read once for several interactions


class Passages:
    """The sentences of all passages, with an index from stems to sentences."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.sentences: list[tuple[int, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []  #: of each sentence
        self.order: list[list[str]] = []  #: stems of each sentence, as they stand there
        self.stems: list[set[str]] = []  #: the same, each once
        self.records: list[Any] = []  #: the passages that are JSON
        self.pairs: set[tuple[str, str]] = set()  #: stems side by side
        index: defaultdict[str, list[int]] = defaultdict(list)
        for number, context in enumerate(contexts):
            record, read = (keep if len(context) <= _LONGEST_KEPT else read_passage)(context)
            self.records += [record] if record is not None else []
            for sentence, tokens in read[: _MOST_SENTENCES - len(self.words)]:
                stems, place = [word.stem for word in tokens], len(self.words)
                unique = {*stems}
                for stem in unique:
                    index[stem].append(place)
                self.sentences.append((number, sentence))
                self.pairs.update(pairwise(stems))
                self.order.append(stems)
                self.stems.append(unique)
                self.words.append(tokens)
        if len(self.words) > _MOST_HOLDERS:
            for held in index.values():
                del held[_MOST_HOLDERS:]
        index.default_factory = None
        self.index: dict[str, list[int]] = index  #: first sentences of a stem, ascending
        most, total = min(len(self.words), _MOST_HOLDERS), len(self.words) + 8.0
        self._tells = [math.log(1.0 + total / (n + 1.0)) for n in range(most + 1)]

    def __len__(self) -> int:
        return len(self.words)

    def holders(self, stem: str) -> Sequence[int]:
        """Return the first hundred sentences that hold a word, ascending."""
        return self.index.get(stem, ())

    def weigh(self, tokens: Iterable[Word]) -> dict[str, float]:
        """Return how much every content stem tells, each once: rare ones more than common ones."""
        tells, known = self._tells, self.index.get
        return {word.stem: tells[len(known(word.stem, ()))] for word in tokens if word.content}

    def parts_at(self, word: str) -> int:
        """Return how long the first of two neighbours is that *word* joins; 0 if none do."""
        for at in range(len(word) - 1, 0, -1) if word in self.squeezed else ():
            if word[at:] in self.index and (Word.read(word[:at]).stem, word[at:]) in self.pairs:
                return at
        return 0

    def near_each_other(self, one: str, other: str, before: int, behind: int) -> bool:
        """Return whether *other* stands at most so many words before or behind *one* somewhere."""
        for number in {*self.holders(one)}.intersection(self.holders(other)):
            stems = self.order[number]
            for at in [n for n, stem in enumerate(stems) if stem == one][:_MOST_HOLDERS]:
                if other in stems[max(at - before, 0) : at + behind + 1]:
                    return True
        return False

    def best(self, weights: dict[str, float]) -> tuple[tuple[int, ...], tuple[float, float]]:
        """
        Return the sentences that hold most of the weighted stems, and their share of the weight.

        First the one that holds most (of equals the shortest, never by position), then the one
        that adds most to it; the shares are of the first alone, and of both together.
        """
        total = sum(weights.values()) or 1.0
        evidence: list[int] = []
        shares: list[float] = []
        left = [
            (self.index[stem], weight) for stem, weight in weights.items() if stem in self.index
        ]
        for _ in range(2):
            held: dict[int, float] = defaultdict(float)
            for numbers, weight in left:
                for number in numbers:
                    held[number] += weight
            most = max(held.values(), default=0.0)
            shares.append((shares[-1] if shares else 0.0) + most / total)
            if held:
                equals = [number for number, weight in held.items() if weight == most]
                found = min(equals, key=lambda n: (len(self.words[n]), self.sentences[n][1]))
                evidence.append(found)
                left = [each for each in left if found not in each[0]]
        return tuple(evidence), (shares[0], shares[1])

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first five letters of all words."""
        return frozenset(stem[:PREFIX] for stem in self.index)

    @cached_property
    def squeezed(self) -> str:
        """All letters without spaces: a word that is there in two parts is in it."""
        whole = "".join([text for _, text in self.sentences])
        return whole.replace(" ", "").replace("-", "").lower()


def read_passage(text: str) -> tuple[Any, tuple[tuple[str, tuple[Word, ...]], ...]]:
    """
    Return what a passage is as JSON, or None, and its sentences with their words.

    Of one that is JSON every line is an object; times are in one form.
    """
    record = read_json(text)
    flat = text if record is None else "\n".join(_lines(record))
    sentences = split_sentences(flat)
    return record, tuple(zip(sentences, words_of([*map(plain_times, sentences)]), strict=True))


#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


# Begins with a class of characters, for which the engine scans quickly.
_TIME = re.compile(
    r"([0-9](?<![\d:].)\d?)(?:(?::(\d{1,2}))?\s?(?:([ap])\.?m\b\.?|o'clock)|:(\d{1,2})(?![\d:]))",
    re.IGNORECASE,
)
_NAMED_TIME = re.compile(r"(?<!:)\b(?:noon|midday|midnight)\b", re.IGNORECASE)


def plain_times(text: str) -> str:
    """Return *text* with its times of day in one form: 8 PM and 20:0 are 20:00."""
    text = _TIME.sub(_plain_time, text)
    if "oon" in text or "idday" in text or "idnight" in text:
        return _NAMED_TIME.sub(lambda m: "0:00" if m[0].lower() == "midnight" else "12:00", text)
    return text


def _plain_time(match: re.Match[str]) -> str:
    """Return a time of day as hours and minutes of 24 hours; what is none as it is written."""
    hour, minute = int(match[1]), int(match[2] or match[4] or 0)
    if hour > 24 or minute > 59:  # noqa: PLR2004 - no time of day
        return match[0]
    if half := match[3]:
        hour = hour % 12 + (12 if half in "pP" else 0)
    return f"{hour}:{minute:02}"


_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_SAID = {None: "not known", True: "yes", False: "no"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def read_json(context: str) -> Any:
    """Return the object or list that a passage in JSON is; None when it is not JSON."""
    text = context.strip()
    with contextlib.suppress(ValueError, RecursionError):
        if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
            return json.loads(text)
    return None


def flatten(context: str) -> str:
    """Return a passage that is JSON with a line for every object in it; others as they are."""
    record = read_json(context)
    return context if record is None else "\n".join(_lines(record))


@lru_cache(maxsize=4096)
def spaced_key(key: str) -> str:
    """Return a camelCase or snake_case key as words."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(record: Any) -> Iterator[str]:
    """Yield the plain values of an object beside each other, then what is nested in it."""
    stack: list[tuple[str, Any]] = [("", record)]
    while stack:
        path, value = stack.pop()
        items = value.items() if isinstance(value, dict) else [("", inner) for inner in value]
        nested: list[tuple[str, Any]] = []
        plain: list[str] = []
        for key, inner in items:
            name = spaced_key(str(key))
            if isinstance(inner, dict | list):
                nested.append((f"{path} {name}".strip()[-_LONGEST_PATH:], inner))
            elif isinstance(inner, str) and len(inner) > _LONG_VALUE:
                yield f"{path} {name}: {inner}".strip()
            else:
                text = _SAID[inner] if inner is None or isinstance(inner, bool) else str(inner)
                plain.append(f"{name}: {text}" if name else text)
        if plain:
            yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
        stack += reversed(nested)


# --- a claim beside the passages ---

#: All are counted over the words of a claim; shares are in [0, 1].
ALIGNMENT_FEATURES = (
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


class Aligned(NamedTuple):
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
        """The stem that tells most of those in the best sentence; there must be one."""
        held = self.passages.stems[self.evidence[0]].intersection(self.weights)
        return max(held, key=lambda each: (self.weights[each], each))

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
        Return the figures of the claim, in the order of ``ALIGNMENT_FEATURES``.

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
    found: list[Word] = []
    new = False
    for one in tokens:
        before, new = new, one.stem not in known
        if found and (new or before):
            whole = found[-1].surface + one.surface
            known_beginning = whole[:PREFIX].lower() in passages.prefixes
            if known_beginning and whole.isalpha() and whole.lower() in passages.squeezed:
                joined = Word.read(whole)
                if joined.content and joined.stem in known:
                    found[-1], new = joined, False
                    continue
        if new and not one.number and (at := passages.parts_at(one.stem)):
            found += words(f"{one.surface[:at]} {one.surface[at:]}")
            new = False
        else:
            found.append(one)
    return tuple(found)


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
