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
from functools import cached_property, lru_cache
from itertools import compress, pairwise, zip_longest
from typing import Any

from monitor.scoring.language import ENGLISH, Word, language, stem_of, vocabulary, words, words_of
from monitor.scoring.sentences import split_sentences

PREFIX = 5  #: letters by which words begin alike
_MOST_HOLDERS = 100  # bounds the time: a word in more sentences tells hardly anything
_MOST_SENTENCES = 4_000  # far beyond what a model is given; a bound on time, not on quality
_LONGEST_KEPT = 8_000  # characters of a passage that is read once for several interactions
_LONGEST_JOINED = 40  # letters of a word that may join two: a bound on time
_FULL_STOP = Word(".", content=False, number=False, capital=False, surface=".")
_SHORT = range(3, 7)  # letters that may stand for as many words
_MOST_CHARS, _MOST_WORDS = 5_000, 400  # of a claim; hardly a sentence has more


class Passages:
    """The sentences of all passages, with an index from stems to sentences."""

    def __init__(self, contexts: Sequence[str], language: str = ENGLISH) -> None:
        self.language = language  #: of all texts of the interaction
        self.sentences: list[tuple[int, str]] = []  #: index of the passage, text
        self.words: list[tuple[Word, ...]] = []  #: of each sentence
        self.stems: list[frozenset[str]] = []  #: of these, each once
        self._pairs: dict[int, set[tuple[str, str]]] = {}  #: of sentences that were asked for
        self.has_records = False  #: whether a passage is JSON
        self.computed: frozenset[str] = frozenset()  #: figures that an answer has by calculating
        every = defaultdict[str, list[int]](list)
        for number, context in enumerate(contexts):
            read_one = keep if len(context) <= _LONGEST_KEPT else read_passage
            is_record, read = read_one(context, language)
            self.has_records |= is_record
            for sentence, tokens, stems in read[: _MOST_SENTENCES - len(self.words)]:
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

    def apart(self, one: str, other: str, reach: int) -> bool:
        """Return whether *other* is nowhere among so many words behind *one*."""
        for number in {*self.holders(one)}.intersection(self.holders(other)):
            stems = [*map(stem_of, self.words[number][:_MOST_WORDS])]
            for at in [n for n, stem in enumerate(stems) if stem == one]:
                if other in stems[at + 1 : at + reach + 1]:
                    return False
        return True

    def parts_at(self, word: str) -> int:
        """Return how long the first of two neighbours is that *word* joins; 0 if none do."""
        by_word, _ = vocabulary(self.language)
        for at in range(len(word) - 1, 0, -1) if len(word) <= _LONGEST_JOINED else ():
            tail = by_word[word[at:]].stem
            if tail in self.index and not self.apart(
                words(word[:at], self.language)[0].stem, tail, 1
            ):
                return at
        return 0

    def written_out(self, said: Word, behind: Word | None) -> Sequence[Word] | None:
        """Return how the passages write 1 with what it counts, or an acronym."""
        if said.stem in self.index:
            return None
        ones = {"1": _ONES.get(self.language, ()), "one": ("1",)}.get(said.surface, ())
        for written in (words(one, self.language) for one in ones):
            if behind and not self.apart(written[0].stem, behind.stem, 1):
                return written
        if not (said.surface.isupper() and said.surface.isalpha() and len(said.surface) in _SHORT):
            return None
        row, initials = self._initials
        at = initials.find(said.surface)
        return row[at : at + len(said.surface)] if at >= 0 else None

    @cached_property
    def _initials(self) -> tuple[list[Word], str]:
        """All words with a full stop behind each sentence, and the first letters of names."""
        row = [word for tokens in self.words for word in (*tokens, _FULL_STOP)]
        return row, "".join([word.surface[0] if word.capital else " " for word in row])

    @cached_property
    def timed(self) -> Sequence[int]:
        """The sentences with times of day."""
        return sorted({n for stem, held in self.index.items() if ":" in stem for n in held})

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The first five letters of all words."""
        return frozenset([stem[:PREFIX] for stem in self.index])

    @cached_property
    def squeezed(self) -> str:
        """All letters without spaces: a word that is there in two parts is in it."""
        whole = "".join([text for _, text in self.sentences])
        return whole.replace(" ", "").replace("-", "").lower()


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
    if flat is not text:  # hours of all weekdays are those of "seven days a week"
        stems = [each | _ALL_WEEK if each >= _WEEKDAYS else each for each in stems]
    return flat is not text, tuple(zip(sentences, tokens, stems, strict=True))


_WEEKDAYS, _ALL_WEEK = (
    frozenset(map(stem_of, words(text)))
    for text in (language()["exclusive"]["weekdays"], "seven days week daily every")
)

#: What one app retrieves it often retrieves again.
keep = lru_cache(maxsize=512)(read_passage)


# Begins with a class of characters, for which the engine scans quickly.
_TIME = re.compile(
    r"([0-9](?<![\d:].)\d?)(?:(?::(\d{1,2}))?\s?(?:([ap])\.?m\b\.?|o'clock)|:(\d{1,2})(?![\d:]))",
    re.IGNORECASE,
)
_MAY_BE_TIME = re.compile(
    r"[0-9](?<![\d:].)\d?(?=:\d|\s?(?:[apAP]\.?[mM]|[oO]'|h\b|h\d|Uhr)|.\d\d Uhr)"
)  # fast
#: "10 Uhr 30", "8 bis 18 Uhr", "10 h 30", "à 10 h", "de 10 h à 18 h"; "3 h" is a duration.
_CLOCK = re.compile(
    r"[0-9](?<![\d:.,].)\d?(?:(?:[.:]\d\d)?"
    r"(?=(?:\s?(?:[–-]|bis)\s?[\d.:]{1,5})?\s?Uhr\b)(?:\s?Uhr\b(?:\s\d\d\b)?)?"
    r"|(?:\s?h\s?\d\d|(?:(?<=\bà \d)|(?<=\bà \d\d)|(?<=\bdès \d)|(?<=\bdès \d\d))\s?h)\b"
    r"|(?:(?<=\bde [6-9])|(?<=\bde 1\d))\s?h(?=\s?à \d{1,2}\s?h\b))"
)
_NAMED_TIME = re.compile(r"[nmNM](?<![:\w].)(?i:(?<=n)oon|(?<=m)id(?:day|night))\b")  # fast
#: "5:30-9 p.m.", "11 to 2 pm": the first time has no half of the day of its own.
_FROM_TIME = re.compile(
    r"([0-9](?<![\d:].)\d?)((?::\d{2})?)(?=\s?(?:[–-]|to)\s?(\d{1,2})(?::\d{2})?\s?([ap])\.?m\b)",
    re.IGNORECASE,
)
_MAY_BE_DATE = re.compile(r"[-.][01]\d[-.]")  # fast
_DOTTED_DATE = re.compile(r"([0-3](?<![\d.].)\d)\.(0[1-9]|1[0-2])\.([12]\d{3})(?!\d)")
_ISO_DATE = re.compile(r"([12](?<!\d.)\d{3})-(0[1-9]|1[0-2])-([0-3]\d)(?!\d)")
_ONES = {name: each.split() for name, each in language()["numbers"]["one"].items()}
_ONE = frozenset({"1", "one"})
_MONTHS = {name: each.split() for name, each in language()["months"].items()}


def plain_times(text: str, in_language: str = ENGLISH, *, as_number: bool = False) -> str:
    """
    Return *text* with its times of day in one form, and the month of a date in letters.

    8 PM and 20:0 are 20:00, 2024-08-05 and 05.08.2024 are August 05 2024, in the words of
    *in_language*; with the month *as_number* as well.
    """
    if _MAY_BE_TIME.search(text):
        if in_language != ENGLISH or "Uhr" in text:
            text = _CLOCK.sub(_clock_time, text)
        text = _TIME.sub(_plain_time, _FROM_TIME.sub(_with_half, text))
    if (months := _MONTHS.get(in_language)) and _MAY_BE_DATE.search(text):
        text = _DOTTED_DATE.sub(r"\3-\2-\1", text)
        number = r"\2 " if as_number else ""
        text = _ISO_DATE.sub(lambda m: m.expand(rf"{number}{months[int(m[2]) - 1]} \3 \1"), text)
    if "oon" in text or "idday" in text or "idnight" in text:
        return _NAMED_TIME.sub(lambda m: "0:00" if m[0].lower() == "midnight" else "12:00", text)
    return text


def _with_half(match: re.Match[str]) -> str:
    """Return the first time of a range with the half of the day that the second one implies."""
    hour, half = int(match[1]), match[4].lower()
    if hour > 12:  # noqa: PLR2004 - written in 24 hours
        return match[0]
    turns = hour % 12 > int(match[3]) % 12
    return f"{match[0]} {'pa'['ap'.index(half)] if turns else half}m"


def _clock_time(match: re.Match[str]) -> str:
    """Return a German or French time of day with hours and minutes."""
    hour, minute = (*re.findall(r"\d+", match[0]), "00")[:2]
    is_time = int(hour) <= 24 and int(minute) < 60  # noqa: PLR2004 - as in a day and an hour
    return f"{hour}:{minute}" if is_time else match[0]


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


def flatten(context: str) -> str:
    """Return a passage that is JSON with a line for every object in it; others as they are."""
    text = context.strip()
    with contextlib.suppress(ValueError, RecursionError):
        if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
            return "\n".join(_lines(json.loads(text)))
    return context


@lru_cache(maxsize=4096)
def spaced_key(key: str) -> str:
    """Return a camelCase or snake_case key as words."""
    return _HUMP.sub(" ", key).replace("_", " ")


def _lines(record: Any) -> Iterator[str]:
    """Yield the plain values of an object beside each other, then what is nested in it."""
    stack: list[tuple[str, Any]] = [("", record)]
    while stack:
        path, value = stack.pop()
        nested: list[tuple[str, Any]] = []
        plain: list[str] = []
        for key, inner in value.items() if isinstance(value, dict) else (("", v) for v in value):
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


#: All are counted over the words of a claim; shares are in [0, 1].
ALIGNMENT_FEATURES = (
    "covered",  # share of its information that the passages hold
    "covered_two",  # the same of its best two sentences
    "novel_run",  # log of the longest run of informative words that no passage holds
    "log_length",  # log of its words
    "runs",  # how much is copied in long pieces: squared lengths of runs in the best sentences
    "numbers_absent",  # share of its numbers that neither the passages nor the question hold
    "numbers_not_before_unit",  # numbers that never stand before the word behind them
    "number_conflict",  # a number is absent from what is otherwise covered
    "names_absent",  # share of its capitalised words that no passage holds
    "name_conflict",  # a name is absent from what is otherwise covered
)
_MOST_COMPARED = 40  # numbers, and names, of one claim: a bound on time
_NOTHING = 1e-9  # what rounding leaves of a sum
_UNIT = 3  # words from a number to what it counts


class Aligned:
    """A claim beside the passages: its words, its evidence and what both share."""

    def __init__(self, claim: str, passages: Passages) -> None:
        self.text, self.passages = claim, passages
        #: written as the passages write them
        tokens = as_written(claim[:_MOST_CHARS], passages)[:_MOST_WORDS]
        if passages.computed:
            tokens = tuple([word for word in tokens if word.stem not in passages.computed])
        self.tokens = tokens
        self.weights = passages.weigh(self.tokens)  #: information of every content stem
        self.total = sum(self.weights.values())
        #: at most two sentences, best first; the share of the information in one, and in both
        self.evidence, self.shares = passages.best(self.weights)
        #: words of the best sentence
        self.found = passages.words[self.evidence[0]][:_MOST_WORDS] if self.evidence else ()

    def best_sentence(self) -> tuple[int, str] | tuple[None, None]:
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
        made_up = [not known[n] and stems[n] not in query for n in numbers]
        absent = [not known[n] for n in names if n]
        held = sum([weight for each, weight in self.weights.items() if each in index])
        return [
            held / self.total if self.weights else 1.0,
            two,
            math.log1p(novel),
            math.log(max(len(stems), 1)),
            runs,
            sum(made_up) / max(len(made_up), 1),
            float(sum(map(self._counts_nothing, numbers))),
            any(made_up) * two * two,
            sum(absent) / max(len(absent), 1),
            any(absent) * two * two,
        ]

    def _counts_nothing(self, n: int) -> bool:
        """Return whether the passages hold a number, but never before the word behind it."""
        index, number = self.passages.index, self.tokens[n].stem
        for word in self.tokens[n + 1 : n + _UNIT] if number in index else ():
            if word.content and not word.capital and word.stem in index:
                return self.passages.apart(number, word.stem, _UNIT)
        return False


def as_written(claim: str, passages: Passages) -> tuple[Word, ...]:
    """
    Return the words of *claim*, joined or apart as the passages have them.

    "takeout" becomes "take out", "half time" "halftime", "1" "one" and "ISS" "International Space
    Station" where only that is in the passages; what they have in no form stays.
    """
    tokens, known = words(plain_times(claim, passages.language), passages.language), passages.index
    new = [word.surface for word in tokens if word.stem not in known]
    if not _ONE.isdisjoint(new) or any(map(str.isupper, new)):
        written: list[Word] = []
        for word, behind in zip_longest(tokens, tokens[1:]):
            written += passages.written_out(word, behind) or (word,)
        tokens = tuple(written)
    absent = [w.surface for w in tokens if w.content and not w.number and w.stem not in known]
    there = {each for each in absent if each.lower() in passages.squeezed}
    if not there:
        return tokens
    found: list[Word] = []
    may_join = False
    for one in tokens:
        before, may_join = may_join, one.surface in there
        if not (before or may_join):
            found.append(one)
            continue
        if found:
            both = found[-1].surface + one.surface
            if both.isalpha() and both.lower() in passages.squeezed:
                joined = Word.read(both, passages.language)
                if joined.content and joined.stem in known:
                    found[-1], may_join = joined, False
                    continue
        at = passages.parts_at(one.surface.lower()) if may_join and not one.number else 0
        parts = f"{one.surface[:at]} {one.surface[at:]}"
        found += words(parts, passages.language) if at else (one,)
        may_join = may_join and not at
    return tuple(found)
