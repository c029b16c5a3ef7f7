"""
The passages of one interaction, and how a claim lies beside them.

`Passages` says which sentence holds which word, and how rare it is; `Aligned` lays a claim beside
the two sentences that share most of its words.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property, lru_cache
from itertools import chain, compress, pairwise
from typing import Any

from monitor.scoring.language import ENGLISH, Word, stem_of, vocabulary, words, words_of
from monitor.scoring.local.times import plain_times
from monitor.scoring.sentences import split_sentences

PREFIX = 5  #: letters by which words begin alike
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_SENTENCES = 20_000  # far beyond what a model is given; a bound on time, not on quality
_LONGEST_KEPT = 8_000  # characters of a passage that is read once for several interactions
_LONGEST_JOINED = 40  # letters of a word that may join two: a bound on time
_DECIMALS = re.compile(r"\d{3,12}\.(\d{1,6})")
_MOST_CHARS, _MOST_WORDS = 5_000, 400  # of a claim; hardly a sentence has more


class Passages:
    """
    The sentences of all passages, with an index from stems to sentences.

    *text* is what a user hands over: it is read as a passage, but has no index among *contexts*.
    """

    def __init__(self, contexts: Sequence[str], language: str = ENGLISH, text: str = "") -> None:
        self.language = language  #: of all texts of the interaction
        self.sentences: list[tuple[int | None, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []  #: of each sentence
        self.stems: list[frozenset[str]] = []  #: of these, each once
        self._pairs: dict[int, set[tuple[str, str]]] = {}  #: of sentences that were asked for
        self.has_records = False  #: whether a passage is JSON
        self.left_out = 0  #: sentences that are not read, because there are too many
        every = defaultdict[str, list[int]](list)
        for number, context in (*enumerate(contexts), *([(None, text)] if text else [])):
            read_one = keep if len(context) <= _LONGEST_KEPT else read_passage
            is_record, read = read_one(context, language)
            self.has_records |= is_record
            room = _MOST_SENTENCES - len(self.words)
            self.left_out += max(len(read) - room, 0)
            for sentence, tokens, stems in read[:room]:
                place = len(self.words)
                for stem in stems:
                    every[stem].append(place)
                self.sentences.append((number, sentence))
                self.words.append(tokens)
                self.stems.append(stems)
        #: sentences of a stem, ascending
        self.index = dict(every)
        if len(self.words) > _MOST_HOLDERS:
            self.index = {stem: held[:_MOST_HOLDERS] for stem, held in every.items()}
        most, total = min(len(self.words), _MOST_HOLDERS), len(self.words) + 8.0
        self._tells = [math.log(1.0 + total / (n + 1.0)) for n in range(most + 1)]

    def __len__(self) -> int:
        return len(self.words)

    def holders(self, stem: str) -> Sequence[int]:
        """Return the first hundred sentences that hold a word, ascending."""
        return self.index.get(stem, ())

    def tells(self, stem: str) -> float:
        """Return how much a stem tells: rare ones more than common ones."""
        return self._tells[len(self.holders(stem))]

    def weigh(self, tokens: Iterable[Word]) -> dict[str, float]:
        """Return how much every content stem tells, each once: rare ones more than common ones."""
        tells, known = self._tells, self.index.get
        return {word.stem: tells[len(known(word.stem, ()))] for word in tokens if word.content}

    def best(self, weights: dict[str, float]) -> tuple[tuple[int, ...], tuple[float, float]]:
        """
        Return the sentences that hold most of the weighted stems, and their share of the weight.

        First the one that holds most (of equals the shortest, never by position), then the one
        that adds most to it; the shares are of the first alone, and of both together.
        """
        total = sum(weights.values()) or 1.0
        evidence: list[int] = []
        shares = [0.0]
        left = [(index, w) for stem, w in weights.items() if (index := self.index.get(stem))]
        for _ in range(2):
            held = [0.0] * len(self.words)
            for numbers, weight in left:
                for number in numbers:
                    held[number] += weight
            most = max(held, default=0.0)
            shares.append(shares[-1] + most / total)
            if most:
                found = held.index(most)
                if held.count(most) > 1:
                    equals = [number for number, weight in enumerate(held) if weight == most]
                    found = min(equals, key=lambda n: (len(self.words[n]), self.sentences[n][1]))
                evidence.append(found)
                left = [each for each in left if found not in each[0]]
        return tuple(evidence), (shares[1], shares[2])

    def pairs(self, number: int) -> set[tuple[str, str]]:
        """Return the stems of a sentence that stand beside each other."""
        if number not in self._pairs:
            self._pairs[number] = {*pairwise(map(stem_of, self.words[number][:_MOST_WORDS]))}
        return self._pairs[number]

    def in_parts(self, word: Word) -> Sequence[Word]:
        """Return the two neighbours that *word* joins, or the word if there are none."""
        read, whole = vocabulary(self.language)[0].__getitem__, word.surface
        for at in range(1, len(whole)) if len(whole) <= _LONGEST_JOINED else ():
            parts = read(whole[:at]), read(whole[at:])
            pair = parts[0].stem, parts[1].stem
            if any(pair in self.pairs(number) for number in self.holders(pair[1])):
                return parts
        return (word,)

    @cached_property
    def timed(self) -> Sequence[int]:
        """The sentences with times of day."""
        return sorted({n for stem, held in self.index.items() if ":" in stem for n in held})

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first five letters of all words."""
        return frozenset([stem[:PREFIX] for stem in self.index])

    @cached_property
    def rounded(self) -> frozenset[str]:
        """All figures that the decimals of its figures may be rounded to."""
        return frozenset[str]().union(*map(roundings, self.index))

    @cached_property
    def squeezed(self) -> str:
        """All letters without spaces: a word that is there in two parts is in it."""
        whole = "".join([text for _, text in self.sentences])
        return whole.replace(" ", "").replace("-", "").lower()


def roundings(stem: str) -> set[str]:
    """Return what a figure of three digits or more with decimals may be rounded to."""
    if not (parts := _DECIMALS.fullmatch(stem)):
        return set()  # a version, a date or a small amount: 3.12 is not 3.1
    steps = (Decimal(1).scaleb(-n) for n in range(len(parts[1])))
    shorter = [str(Decimal(stem).quantize(step, ROUND_HALF_UP)) for step in steps]
    return {each.rstrip("0").rstrip(".") if "." in each else each for each in shorter}


ReadPassage = tuple[bool, tuple[tuple[str, tuple[Word, ...], frozenset[str]], ...]]


def read_passage(text: str, language: str = ENGLISH) -> ReadPassage:
    """
    Return whether a passage is JSON, and its sentences with their words and stems.

    Of one that is JSON every line is an object; times are in one form.
    """
    flat = flatten(text)
    sentences = split_sentences(flat.replace("\0", " "))
    plain = plain_times("\0".join(sentences), language, as_number=True).split("\0")
    tokens = words_of(plain, language) if sentences else []
    stems = [frozenset(map(stem_of, each)) for each in tokens]
    return flat is not text, tuple(zip(sentences, tokens, stems, strict=True))


#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


_LONG_VALUE = 120  # characters; longer values are texts with sentences of their own
_LONGEST_PATH = 120  # characters of the keys around a value; nesting would repeat them for ever
_SAID = {None: "not known", True: "yes", False: "no"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def flatten(context: str, *, keys: bool = True) -> str:
    """
    Return a text that is JSON with a line for every object in it; others as they are.

    Without *keys*, there are only the values that are text.
    """
    text = context.strip()
    with contextlib.suppress(ValueError, RecursionError):
        if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
            return "\n".join(_lines(json.loads(text), keys=keys))
    return context


@lru_cache(maxsize=4096)
def spaced_key(key: str) -> str:
    """Return a camelCase or snake_case key as words."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(record: Any, *, keys: bool) -> Iterator[str]:
    """Yield the plain values of an object beside each other, then what is nested in it."""
    stack: list[tuple[str, Any]] = [("", record)]
    while stack:
        path, value = stack.pop()
        nested: list[tuple[str, Any]] = []
        plain: list[str] = []
        for key, inner in value.items() if isinstance(value, dict) else (("", v) for v in value):
            name = spaced_key(str(key)) if keys else ""
            if isinstance(inner, dict | list):
                nested.append((f"{path} {name}".strip()[-_LONGEST_PATH:], inner))
            elif isinstance(inner, str) and (len(inner) > _LONG_VALUE or not keys):
                yield f"{path} {name}: {inner}".strip() if keys else inner
            elif keys:
                text = _SAID[inner] if inner is None or isinstance(inner, bool) else str(inner)
                plain.append(f"{name}: {text}" if name else text)
        if plain:
            yield f"{path}: {'; '.join(plain)}" if path else "; ".join(plain)
        stack += reversed(nested)


#: All are counted over the words of a claim; shares are in [0, 1].
ALIGNMENT_FEATURES = (
    "covered",  # share of its information that the passages hold
    "covered_two",  # the same of its best two sentences
    "novel_run",  # log of the longest run of informative words that no passage holds
    "runs",  # how much is copied in long pieces: squared lengths of runs in the best sentences
    "number_conflict",  # a number is new, to the question as well, in what is otherwise covered
    "names_absent",  # share of its capitalised words that no passage holds
)
_MOST_COMPARED = 40  # numbers, and names, of one claim: a bound on time
_NOTHING = 1e-9  # what rounding leaves of a sum


class Aligned:
    """A claim beside the passages: its words, its evidence and what both share."""

    def __init__(self, claim: str, passages: Passages) -> None:
        self.text, self.passages = claim, passages
        #: written as the passages write them
        tokens = as_written(claim[:_MOST_CHARS], passages)[:_MOST_WORDS]
        self.tokens = tokens
        self.weights = passages.weigh(self.tokens)  #: information of every content stem
        self.total = sum(self.weights.values())
        #: at most two sentences, best first; the share of the information in one, and in both
        self.evidence, self.shares = passages.best(self.weights)
        #: words of the best sentence
        self.found = passages.words[self.evidence[0]][:_MOST_WORDS] if self.evidence else ()

    def best_sentence(self) -> tuple[int | None, str | None]:
        """Return the index of the passage and the text of the best sentence, if there is one."""
        return self.passages.sentences[self.evidence[0]] if self.evidence else (None, None)

    def share(self, without: Sequence[Word] = (), sentence: int | None = None) -> float:
        """Return the share of the claim, *without* some words, in its best sentence or another."""
        held = self.passages.stems[self.evidence[0] if sentence is None else sentence]
        total, told = self.total, self.shares[0] * self.total
        if sentence is not None:
            told = sum([weight for each, weight in self.weights.items() if each in held])
        for each in self.weights.keys() & {word.stem for word in without}:
            total -= self.weights[each]
            told -= self.weights[each] if each in held else 0.0
        return told / total if total > _NOTHING else 0.0

    def missing(self) -> tuple[str, ...]:
        """Return the informative words that no passage holds, as the claim writes them."""
        unknown = [w for w in self.tokens if w.content and w.stem not in self.passages.index]
        return tuple({word.stem: word.surface for word in reversed(unknown)}.values())[::-1]

    def figures(self, query: frozenset[str]) -> list[float]:
        """
        Return the figures of the claim, in the order of ``ALIGNMENT_FEATURES``.

        *query* holds the stems of the question: a number that it names is not made up.
        """
        index, two = self.passages.index, self.shares[1]
        stems, contents, is_number, is_name, _ = [*zip(*self.tokens, strict=True)] or [()] * 5
        known = [*map(index.__contains__, stems)]
        # as bytes, which are 1 where a word is known, runs are found many at once
        novel = max(map(len, bytes(compress(known, contents)).split(b"\1")))
        one, other = (*map(self.passages.pairs, self.evidence), (), ())[:2]
        copied = bytes([pair in one or pair in other for pair in pairwise(stems)]).split(b"\0")
        squares = sum([(len(run) + 1) ** 2 for run in copied if run])
        runs = math.sqrt(squares) / max(len(stems), 1) if len(stems) != 1 else float(known[0])
        numbers, names = (
            [*compress(range(len(stems)), flags)][:_MOST_COMPARED] for flags in (is_number, is_name)
        )
        new = [stems[n] for n in numbers if not known[n] and stems[n] not in query]
        made_up = not self.passages.rounded.issuperset(new) if new else False
        absent = [not known[n] for n in names if n]
        held = sum([weight for each, weight in self.weights.items() if each in index])
        return [
            held / self.total if self.weights else 1.0,
            two,
            math.log1p(novel),
            runs,
            made_up * two * two,
            sum(absent) / max(len(absent), 1),
        ]


def as_written(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Return the words of *claim*, joined or apart as the passages have them.

    "takeout" becomes "take out" and "half time" "halftime" where only that is in the passages.
    """
    in_language, known = passages.language, passages.index
    tokens = words(plain_times(claim, in_language), in_language)
    absent = [w.surface for w in tokens if w.content and not w.number and w.stem not in known]
    absent = [e for e in absent[:_MOST_COMPARED] if e.lower() in passages.squeezed]
    if not absent:
        return tokens
    found: list[Word] = []
    for one in tokens:
        if found and (one.surface in absent or found[-1].surface in absent):
            joined = Word.read(found[-1].surface + one.surface, in_language)
            if joined.content and joined.stem in known:
                found[-1] = joined
                continue
        found.append(one)
    parts = (passages.in_parts(w) if w.surface in absent else (w,) for w in found)
    return tuple(chain.from_iterable(parts))
