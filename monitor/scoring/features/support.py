"""Count how well the passages carry one claim: coverage, mismatch, novelty."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.scoring.features.passages import Passages
from monitor.scoring.words import NEGATIONS, Word, stem, words

CLAIM_FEATURES = (
    "overlap", "covered", "covered_near", "covered_one", "covered_two", "bigrams", "runs", "pairs",
    "numbers_absent", "any_number_absent", "numbers_elsewhere", "numbers_neighbour",
    "names_absent", "any_name_absent", "names_elsewhere", "names_mispaired",
    "negation", "antonym", "novel_run", "novel_information", "log_length", "first_person",
    "question", "from_query", "uncovered_two", "number_conflict", "name_conflict",
)  # fmt: skip

_MOST_CHARS, _MOST_WORDS = 20_000, 2_000  # bound the time: no sentence has more
_NEGATIONS = frozenset(stem(word) for word in NEGATIONS)
_FIRST_PERSON = frozenset(stem(word) for word in ("i", "me", "my", "we", "our", "you", "your"))
_OPPOSITES = (
    "increase decrease", "increase reduce", "rise fall", "up down", "before after", "more less",
    "more fewer", "high low", "higher lower", "highest lowest", "first last", "open close",
    "win lose", "won lost", "accept reject", "allow forbid", "allow ban", "allow prohibit",
    "include exclude", "start end", "begin end", "early late", "male female", "man woman",
    "north south", "east west", "left right", "buy sell", "always never", "all none",
    "true false", "support oppose", "success failure", "positive negative", "maximum minimum",
    "free paid", "public private", "good bad", "old new", "large small", "hot cold",
    "guilty innocent", "enable disable", "add remove", "required optional", "born died",
)  # fmt: skip
_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES:
    _one, _other = (stem(word) for word in _pair.split())
    _OPPOSITE.setdefault(_one, set()).add(_other)
    _OPPOSITE.setdefault(_other, set()).add(_one)


@dataclass(frozen=True, slots=True)
class ClaimFeatures:
    """The figures of one claim, in the order of ``CLAIM_FEATURES``, and what they rest on."""

    values: tuple[float, ...]
    evidence: tuple[int, ...]  #: sentences of the passages, best first
    covered_two: float
    numbers_absent: tuple[str, ...]
    names_absent: tuple[str, ...]
    missing: tuple[str, ...]  #: informative words that no passage holds
    negation: bool
    antonym: bool


def claim_features(claim: str, passages: Passages, query: frozenset[str]) -> ClaimFeatures:
    """Compare one claim with the passages; *query* holds the stems of the question."""
    tokens = words(claim[:_MOST_CHARS])[:_MOST_WORDS]
    content = list(dict.fromkeys(word.stem for word in tokens if word.content))
    weights = {word: passages.information(word) for word in content}
    total = sum(weights.values()) or 1.0
    absent = [word for word in content if word not in passages.where]
    surfaces = {word.stem: word.surface for word in reversed(tokens)}
    missing = tuple(surfaces[word] for word in absent)
    evidence, (one, two) = passages.best(weights)
    held = _Held([passages.stems[number] for number in evidence])
    near = sum(weights[word] for word in absent if passages.near(word))
    novel = sum(weights[word] for word in absent)
    numbers, names = _numbers(tokens, passages, held), _names(tokens, passages, held)
    negation, antonym = _negated(tokens, passages, evidence), _opposite(content, held)
    count = max(len(tokens), 1)
    values = (
        sum(word.stem in passages.where for word in tokens) / count,
        1 - novel / total,
        1 - (novel - near) / total,
        one,
        two,
        _share(pairwise([word.stem for word in tokens]), passages.bigrams),
        _runs(tokens, passages),
        _pairs(content, passages),
        *numbers.values,
        *names.values,
        float(negation) * one,
        float(antonym) * two,
        math.log1p(_novel_run(tokens, passages)),
        math.log1p(novel),
        math.log(count),
        sum(word.stem in _FIRST_PERSON for word in tokens) / count,
        float(claim.endswith("?")),
        sum(weights[word] for word in content if word in query) / total,
        math.log1p((1 - two) * total),
        bool(numbers.absent) * two * two,
        bool(names.absent) * two * two,
    )
    return ClaimFeatures(
        values, tuple(evidence), two, numbers.absent, names.absent, missing, negation, antonym
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """The words of several sentences; joining their sets for every claim would be slow."""

    sentences: Sequence[frozenset[str]]

    def __contains__(self, word: object) -> bool:
        return any(word in stems for stems in self.sentences)


@dataclass(frozen=True, slots=True)
class _Slots:
    """Numbers or names of a claim: the figures, and which are nowhere in the passages."""

    values: tuple[float, ...]
    absent: tuple[str, ...]


def _numbers(tokens: Sequence[Word], passages: Passages, held: Container[str]) -> _Slots:
    numbers = [(place, word.stem) for place, word in enumerate(tokens) if word.number]
    absent = tuple(number for _, number in numbers if number not in passages.where)
    if not numbers:
        return _Slots((0.0, 0.0, 0.0, 0.0), ())
    elsewhere = sum(number in passages.where and number not in held for _, number in numbers)
    alone = sum(
        number in passages.where and not _has_neighbour(tokens, place, passages)
        for place, number in numbers
    )
    count = len(numbers)
    values = (len(absent) / count, float(bool(absent)), elsewhere / count, alone / count)
    return _Slots(values, absent)


def _has_neighbour(tokens: Sequence[Word], place: int, passages: Passages) -> bool:
    """Say whether a number stands beside one of its content words in the passages too."""
    around = {word.stem for word in tokens[max(place - 3, 0) : place + 4] if word.content}
    around.discard(tokens[place].stem)
    where = passages.holders(tokens[place].stem)
    return not around or any(around & passages.stems[number] for number in where)


def _names(tokens: Sequence[Word], passages: Passages, held: Container[str]) -> _Slots:
    names = [word.stem for word in tokens[1:] if word.capital]
    if not names:
        return _Slots((0.0, 0.0, 0.0, 0.0), ())
    absent = tuple(name for name in names if name not in passages.where)
    elsewhere = sum(name in passages.where and name not in held for name in names)
    pairs = [(a.stem, b.stem) for a, b in pairwise(tokens) if a.capital and b.capital]
    mispaired = sum(
        a in passages.where and b in passages.where and (a, b) not in passages.bigrams
        for a, b in pairs
    )
    values = (
        len(absent) / len(names),
        float(bool(absent)),
        elsewhere / len(names),
        mispaired / max(len(pairs), 1),
    )
    return _Slots(values, absent)


def _negated(tokens: Sequence[Word], passages: Passages, evidence: Sequence[int]) -> bool:
    """Say whether exactly one of the claim and its best sentence denies something."""
    if not evidence:
        return False
    claim = any(word.stem in _NEGATIONS for word in tokens)
    return claim != bool(_NEGATIONS & passages.stems[evidence[0]])


def _opposite(content: Sequence[str], held: Container[str]) -> bool:
    return any(
        word not in held and any(other in held for other in _OPPOSITE[word])
        for word in content
        if word in _OPPOSITE
    )


def _share(items: Iterable[tuple[str, str]], known: set[tuple[str, str]]) -> float:
    found = [item in known for item in items]
    return sum(found) / len(found) if found else 0.0


def _runs(tokens: Sequence[Word], passages: Passages) -> float:
    """Measure how much is copied in long pieces: squared lengths of shared runs, in [0, 1]."""
    length, squares = 1, 0
    for a, b in pairwise(tokens):
        if (a.stem, b.stem) in passages.bigrams:
            length += 1
        else:
            squares += length * length if length > 1 else 0
            length = 1
    squares += length * length if length > 1 else 0
    return math.sqrt(squares) / max(len(tokens), 1)


def _pairs(content: Sequence[str], passages: Passages) -> float:
    """Share of neighbouring content words that some sentence of the passages holds together."""
    pairs = list(pairwise(content))
    if not pairs:
        return float(bool(content) and content[0] in passages.where)
    return sum(
        not set(passages.holders(a)).isdisjoint(passages.holders(b)) for a, b in pairs
    ) / len(pairs)


def _novel_run(tokens: Sequence[Word], passages: Passages) -> int:
    """Length of the longest run of content words that no passage holds."""
    longest = length = 0
    for word in tokens:
        if word.content:
            length = 0 if word.stem in passages.where else length + 1
            longest = max(longest, length)
    return longest
