"""
Read one interaction: its claims, with the figures of each and what they are based on.

A claim about passages that are JSON records is also compared with their keys: yes and no, the
numbers behind a key, and opening hours.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from monitor.scoring.language import (
    ENGLISH,
    Word,
    compatible,
    denies,
    language,
    language_of,
    listed,
    stem,
    words,
)
from monitor.scoring.local.changes import (
    WordChange,
    can_be_exchanged,
    changed_details,
    changed_word,
    surely,
)
from monitor.scoring.local.passages import (
    ALIGNMENT_FEATURES,
    PREFIX,
    Aligned,
    Passages,
    Rewrite,
)
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    without_mentions,
)

#: Of a claim about a record: keys with which it agrees, which it contradicts, which say nothing.
RECORD_FEATURES = ("attributes_agree", "attributes_conflict", "attributes_unknown")
CLAIM_FEATURES = (*ALIGNMENT_FEATURES, *RECORD_FEATURES)

#: Characters of a query, and of an output beside it, that are compared: a bound on time.
MOST_QUERY_CHARS = 40_000
#: Below this share of its information in the passages, word beginnings included, a claim with
#: so many new words is from nowhere.
ABSENT_BELOW, FEWEST_MISSING = 0.1, 2
_LONGEST_WORD = 60  # characters
_BRIEF = 35  # words
_LETTERS_READ = 400
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH"})


class ReadClaim(NamedTuple):
    """A sentence that states something: its figures, and what they are based on."""

    aligned: Aligned
    values: tuple[float, ...]  #: in the order of ``CLAIM_FEATURES``
    changes: tuple[WordChange, ...]  #: details changed in what is otherwise copied
    absent: bool  #: the passages hold (nearly) none of its words


class ReadSentence(NamedTuple):
    """A sentence of an output; ``claim`` is None where nothing is stated or compared."""

    text: str
    refuses: bool
    claim: ReadClaim | None


class Reading(NamedTuple):
    """What there is to judge in one interaction."""

    passages: Passages
    sentences: Sequence[ReadSentence]
    kind: str  #: about a record, answer (to a query), brief or longer text: they differ in style
    not_judged: int  #: sentences after the first ``MOST_SENTENCES``
    read_part: Callable[[str], ReadClaim]  #: reads a statement of a sentence by itself

    @property
    def claims(self) -> list[ReadClaim]:
        """The sentences that state something."""
        return [each.claim for each in self.sentences if each.claim is not None]


def read(
    query: str | None, contexts: Sequence[str], output: str, rewrite: Rewrite | None = None
) -> Reading:
    """Split and measure; without passages nothing is measured."""
    asked_for = (query or "")[:MOST_QUERY_CHARS]
    in_language = language_of(" ".join((*contexts, asked_for, output))) or ENGLISH
    passages, found = Passages(contexts, in_language), split_sentences(output)
    marked = any(mark in output for mark in "#*`~")
    unstated, attributes = headings_and_code(output) if marked else (), read_attributes(passages)
    asked = frozenset(word.stem for word in words(asked_for, in_language) if word.content)
    # An answer of one word states just that; in a sentence it may be another word for an old one.
    is_word = len(output) < _LONGEST_WORD and len(words(without_mentions(output))) == 1
    fewest = 1 if is_word else FEWEST_MISSING

    def read_part(text: str) -> ReadClaim:
        return read_claim(without_mentions(text), passages, attributes, asked, rewrite, fewest)

    sentences = []
    for text in found[:MOST_SENTENCES]:
        states = text not in unstated and is_checkable(text)
        claim = read_part(text) if states and len(passages) else None
        sentences.append(ReadSentence(text, not states and is_refusal(text), claim))
    kind = "record" if passages.has_records else "answer"
    if kind == "answer" and not (query or "").strip():
        length = sum(len(each.claim.aligned.tokens) for each in sentences if each.claim)
        kind = "brief" if length < _BRIEF else "text"
    return Reading(passages, sentences, kind, len(found) - len(sentences), read_part)


def read_claim(
    claim: str,
    passages: Passages,
    attributes: Sequence[Attribute] = (),
    query: frozenset[str] = frozenset(),
    rewrite: Rewrite | None = None,
    fewest: int = FEWEST_MISSING,
) -> ReadClaim:
    """
    Compare one claim with the passages; *query* holds the stems of the question.

    With *fewest* words missing, and nearly nothing there, it is absent.
    """
    aligned = Aligned(claim, passages, rewrite)
    figures, weights = aligned.figures(query), aligned.weights
    if passages.has_records:  # a record tells the same in other words: nothing is absent
        values, changes = compare(aligned, attributes)
        return ReadClaim(aligned, (*figures, *values), changes, absent=False)
    absent = len(aligned.missing()) >= fewest
    if absent:
        long = [(each, weight) for each, weight in weights.items() if len(each) >= PREFIX - 1]
        bound = ABSENT_BELOW * aligned.total
        absent = sum([w for each, w in long if each in passages.index]) < bound and (
            sum([w for each, w in long if each[:PREFIX] in passages.prefixes]) < bound
        )
    return ReadClaim(aligned, (*figures, 0.0, 0.0, 0.0), changed_details(aligned), absent)


def script(text: str) -> str | None:
    """Return the writing system of most letters of *text*; None when there are no letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    letters = compatible("".join(islice(filter(str.isalpha, text), _LETTERS_READ)))
    if letters.isascii():
        return "LATIN" if letters else None
    names = Counter(
        "LATIN" if char.isascii() else unicodedata.name(char, "?").split()[0].split("-")[0]
        for char in letters
    )
    name = max(names, key=lambda each: (names[each], each), default=None)
    return "CJK" if name in _EAST_ASIAN else name


# --- records ---

_MOST_ATTRIBUTES = 2_000
#: A line with what is nested in a key, and what a line says yes, no or nothing to.
_NESTED = re.compile(r"[^:;]+: [^;]+: ")
_ITEM = re.compile(
    r"(?:^|[;:] )([^:;]+): (?:(yes|true|free|paid)|(no|none|false)|not known)(?=;|$)", re.IGNORECASE
)
_BEFORE, _AFTER = 6, 5  # words in which a denial counts for an attribute
_DENIALS = ("negations", "lacking")
_TURNS = frozenset({"but", "however"})
_BREAKS = _TURNS | {"although", "though", "while", "and"}
_WEEK = [stem(day) for day in language()["exclusive"]["weekdays"].split()]
_FROM_TO = 2  # days, or times: one, or from one to another


class Attribute(NamedTuple):
    """A key of the passages that says yes, no or nothing, and the ways of naming it."""

    name: str
    ways: tuple[frozenset[str], ...]  #: stems; all of one way must stand in a claim
    group: frozenset[str]  #: stems of the key around it, such as parking around street
    values: frozenset[bool | None]  #: more than one where passages differ


def read_attributes(passages: Passages) -> list[Attribute]:
    """Return everything of that kind that the records of one interaction hold."""
    items = (
        (key, line.partition(":")[0] if _NESTED.match(line) else "", yes, no)
        for _, line in (passages.sentences if passages.has_records else ())
        for key, yes, no in _ITEM.findall(line)
    )
    chosen: dict[tuple[str, str], set[bool | None]] = {}
    for key, around, yes, no in islice(items, _MOST_ATTRIBUTES):
        chosen.setdefault((key, around), set()).add(True if yes else False if no else None)
    counts = Counter(word for key in {key for key, _ in chosen} for word in {*_parts(key)})
    general, found, in_language = listed("general"), [], passages.language
    for (key, around), values in chosen.items():
        # words that many keys share do not name any of them
        alone = [part for part in _parts(key) if counts[part] == 1]
        rare = tuple([part for part in alone if _ways((part,), in_language)[1] - general])
        if own := rare or _parts(key):
            group = _ways(_parts(around), in_language)[0] - general
            found.append(Attribute(key, _ways(own, in_language), group, frozenset(values)))
    return found


@lru_cache(maxsize=1024)  # an app's records have the same keys
def _parts(key: str) -> tuple[str, ...]:
    """Return the words of a key, in lower case."""
    return tuple(word.surface.lower() for word in words(key))


@lru_cache(maxsize=1024)
def _ways(parts: tuple[str, ...], in_language: str) -> tuple[frozenset[str], ...]:
    """Return the stems of words, apart and written as one."""
    apart, as_one = (
        frozenset([Word.read(part, in_language).stem for part in each if part])
        for each in (parts, ("".join(parts),))
    )
    return apart, as_one


def compare(
    aligned: Aligned, attributes: Sequence[Attribute]
) -> tuple[tuple[float, ...], tuple[WordChange, ...]]:
    """Return the ``RECORD_FEATURES`` of a claim about records, and what it surely changes."""
    tokens, stems = aligned.tokens, {word.stem for word in aligned.tokens}
    found = Counter[str]()
    certain: list[tuple[WordChange, bool]] = []
    for attribute in attributes:
        apart, as_one = attribute.ways
        way = apart if apart <= stems else as_one
        if not way <= stems:
            continue
        at = [place for place, word in enumerate(tokens) if word.stem in way]
        elsewhere = all(len(aligned.passages.holders(each)) > 1 for each in way)
        is_name = any(tokens[place].capital for place in at)  # such as an address' street
        named = not attribute.group or not attribute.group.isdisjoint(stems)
        if not named and (elsewhere or is_name):
            continue
        said = not _negated(tokens, at)
        if said in attribute.values:
            found["agree"] += 1
        elif (not said) in attribute.values:
            found["conflict"] += 1
            denying = said and any(denies(word, _DENIALS) for word in tokens)
            if named and (not denying if said else "," not in aligned.text):
                told = f"{attribute.name}: {'no' if said else 'yes'}"
                certain.append((WordChange("", told), said))
        elif not (said and elsewhere):
            found["unknown"] += 1
    values = tuple(float(found[each]) for each in ("agree", "conflict", "unknown"))
    changes = {change.said: change for change in (*_numbers(aligned), *_hours(aligned))}
    # of several attributes it may be another that a claim denies
    plain = [change for change, said in certain if said or sum(values) == 1]
    return values, (*changes.values(), *plain)


def _negated(tokens: Sequence[Word], places: Sequence[int]) -> bool:
    """Return whether a denial stands close to one of the words, before the sentence turns."""
    for place in places:
        before, after = tokens[max(place - _BEFORE, 0) : place], tokens[place + 1 :][:_AFTER]
        for side, ends in ((before[::-1], _TURNS), (after, _BREAKS)):
            for word in side:
                if word.surface.lower() in ends:
                    break
                if denies(word, _DENIALS):
                    return True
    return False


def _numbers(aligned: Aligned) -> Iterator[WordChange]:
    """Compare numbers with the one that the best line of a record has behind the same key."""
    said, told, text = aligned.tokens, aligned.found, aligned.best_sentence()[1] or ""
    for n in [n for n, word in enumerate(said) if word.number]:
        beside = {word.stem for word in said[max(n - 2, 0) : n + 2]}
        same = [
            m
            for m, word in enumerate(told)
            if m and word.number and told[m - 1].stem in beside and f": {word.surface}" in text
        ]
        if len(same) == 1 and can_be_exchanged(aligned, n):
            change = changed_word(aligned, n, same[0])
            yield from (surely(aligned, change),) if change else ()


def _hours(aligned: Aligned) -> Iterator[WordChange]:
    """Compare the hours of a claim with those that the lines of its evidence have for its days."""
    stems = [word.stem for word in aligned.tokens]
    times, days = [each for each in stems if ":" in each], [each for each in stems if each in _WEEK]
    if len(times) != _FROM_TO or not listed("hedged_hours").isdisjoint(stems):
        return
    days = days if days or {"dai", "day"}.isdisjoint(stems) else _WEEK
    for number in aligned.evidence if len(days) <= _FROM_TO or days is _WEEK else ():
        told = [word.stem for word in aligned.passages.words[number]]
        known = {day: told[n + 1 : n + 3] for n, day in enumerate(told[:-2]) if day in days}
        hours = [
            each for each in known.values() if each[0] != each[1] and all(":" in t for t in each)
        ]
        if hours and times not in hours:
            yield WordChange(" to ".join(times), " to ".join(hours[0]))
