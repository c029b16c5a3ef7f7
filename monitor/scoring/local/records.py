"""
Compare a claim with records, which say yes, no or nothing of what their keys name.

`read_attributes` gives these keys, `compare` what a claim says of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from monitor.scoring.language import Word, denials, denies, listed, words
from monitor.scoring.local.changes import WordChange
from monitor.scoring.local.hours import changed_hours
from monitor.scoring.local.passages import Aligned, Passages, as_written

#: Of a claim about a record: how many keys it contradicts, and how many of its keys say nothing.
RECORD_FEATURES = ("attributes_conflict", "attributes_unknown")

_MOST_ATTRIBUTES = 2_000
#: A line with what is nested in a key, and what a line says yes, no or nothing to.
_NESTED = re.compile(r"[^:;]+: [^;]+: ")
_ITEM = re.compile(
    r"(?:^|[;:] )([^:;]+): (?:(yes|true|free|paid)|(no|none|false)|not known)(?=;|$)", re.IGNORECASE
)
_MAY_BE_ITEM = re.compile(r": (?i:yes|true|free|paid|no|none|false|not known)(?=;|$)")  # fast


class Attribute(NamedTuple):
    """A key of the passages that says yes, no or nothing, and the way of naming it."""

    name: str
    way: frozenset[str]  #: stems that must all stand in a claim
    group: frozenset[str]  #: stems of the key around it, such as parking around street
    values: frozenset[bool | None]  #: more than one where passages differ


def read_attributes(passages: Passages) -> list[Attribute]:
    """Return everything of that kind that the records of one interaction hold."""
    items = (
        (key, around, yes, no)
        for _, line in (passages.sentences if passages.has_records else ())
        if _MAY_BE_ITEM.search(line)
        for around in (line.partition(":")[0] if _NESTED.match(line) else "",)
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
        rare = tuple([part for part in alone if _way((part,), in_language) - general])
        if own := rare or _parts(key):
            group = _way(_parts(around), in_language) - general
            found.append(Attribute(key, _way(own, in_language), group, frozenset(values)))
    return found


@lru_cache(maxsize=1024)  # an app's records have the same keys
def _parts(key: str) -> tuple[str, ...]:
    """Return the words of a key, in lower case."""
    return tuple(word.surface.lower() for word in words(key))


@lru_cache(maxsize=1024)
def _way(parts: tuple[str, ...], in_language: str) -> frozenset[str]:
    """Return the stems of words."""
    return frozenset([Word.read(part, in_language).stem for part in parts])


def compare(
    aligned: Aligned, attributes: Sequence[Attribute]
) -> tuple[tuple[float, ...], tuple[WordChange, ...]]:
    """Return the ``RECORD_FEATURES`` of a claim about records, and what it surely changes."""
    stems = {word.stem for word in aligned.tokens}
    found = Counter[str]()
    certain: list[tuple[WordChange, bool]] = []
    scopes: list[Scope] = []
    for attribute in attributes:
        way = attribute.way
        if not way <= stems:
            continue
        scopes = scopes or read_scopes(aligned)
        scope = next((each for each in scopes if way <= each.stems), None)
        if scope is None:
            continue  # only the title names it
        at = [place for place, word in enumerate(scope.tokens) if word.stem in way]
        elsewhere = all(len(aligned.passages.holders(each)) > 1 for each in way)
        named = not attribute.group or not attribute.group.isdisjoint(stems)
        is_name = any(scope.tokens[place].capital for place in at)  # such as an address' street
        if not named and (elsewhere or is_name):
            continue
        said = not scope.denies(at)
        if said in attribute.values or (None in attribute.values and scope.says_nothing):
            found["agree"] += 1
        elif (not said) in attribute.values:
            found["conflict"] += 1
            denying = said and any(denies(w, (*_DENIALS, "undoing")) for w in scope.tokens)
            if named and (not denying if said else "," not in aligned.text):
                told = f"{attribute.name}: {'no' if said else 'yes'}"
                certain.append((WordChange("", told), said))
        elif not (said and elsewhere):
            found["unknown"] += 1
    # of several attributes it may be another that a claim denies
    plain = [change for change, said in certain if said or found.total() == 1]
    return (float(found["conflict"]), float(found["unknown"])), (*changed_hours(aligned), *plain)


# --- what a claim denies ---

_MOST_CHARS = 5_000  # of a claim: a bound on time
_BEFORE, _AFTER = 8, 5  # words in which a denial counts for an attribute, twice as many in a list
_DENIALS = ("negations", "lacking")  # of what stands behind them
_VERBS = denials(("verbs",))
_LINKS = (_VERBS | {"as"}) - {"do", "does", "did"}
_UNDOES = denials(("undoing",))
_OFFERED = [[each] for each in ("accepted", "allowed", "available", "offered", "provided")]
#: Where another clause begins, within which nothing is denied that stands before it.
_CLAUSE = re.compile(
    r";|\s[–—-]\s|(?<=[a-z])\.\s|,?\s(?:but|however|although|though|while|whereas)\s"
    r"|,\s(?:and\s)?(?=(?:it|they|there|we|which|(?:the|its|their)\s\w+\s(?:is|are|has|does)"
    r"|(?:(?!and\b|or\b)[\w'-]+\s){1,3}(?:can|may|could|will|might))\s)"
)
_TITLE = re.compile(r"^[^:;]{1,60} (?:and|&) [^:;]{1,60}:\s")  #: "Parking & payment: ..."
_NAMED_SILENT = (
    r"(?:specif|confirm|suppl(?:y|ied)|record|report|list|mention|provid|describ|stat|indicat"
    r"|avail|given|detail|not(?:e|ed)\b|disclos)"
)
#: How a claim says that the record says nothing.
_SAYS_NOTHING = re.compile(
    r"\b(?:none|null|n/a|unspecified|unclear|unknown|(?:not|n't) (?:\w+ )?(?:known|clear|"
    rf"{_NAMED_SILENT}\w*)|no\b[^;]{{0,120}}\s{_NAMED_SILENT}\w*"
    r"|(?:information|info|data|details?) (?:is|are) (?:unavailable|missing|absent|lacking|limited)"
    r"|(?:no|without|lacks?) (?:\w+ ){0,2}(?:information|info|data|details?|mention|indication"
    r"|specifics|specified))\b|\b(?:is|are|was|were)(?: not)?\W*$",
    re.IGNORECASE,
)


class Scope(NamedTuple):
    """A part of a claim within which its denials hold."""

    tokens: Sequence[Word]
    stems: frozenset[str]
    items: Sequence[int]  #: of each word, what number it has between commas
    says_nothing: bool  #: it says that something is not specified

    def denies(self, places: Sequence[int]) -> bool:
        """Return whether a denial holds for one of the words at *places*."""
        said = [word.surface.lower() for word in self.tokens]
        is_list = not {"or", "nor"}.isdisjoint(said)
        reach = 2 * _BEFORE if is_list else _BEFORE
        for place in places:
            for n in range(place - 1, max(place - reach, 0) - 1, -1):
                ends = said[n] == "and" or (not is_list and self.items[n] != self.items[n + 1])
                joined = ends and not _VERBS.isdisjoint(said[n + 1 : place])
                if joined:
                    break
                if denies(self.tokens[n], _DENIALS):
                    return True
            for n in range(place + 1, min(place + 1 + 2 * _AFTER, len(said))):
                joined = said[n] == "and" or self.items[n] != self.items[n - 1]
                ends = joined and not _VERBS.isdisjoint(said[:n])
                if ends or said[n : n + 2] == ["no", "other"]:
                    break
                linked = said[n - 1] in _LINKS or said[n + 1 : n + 2] in _OFFERED
                if linked and (said[n] in _UNDOES or denies(self.tokens[n])):
                    return True
                if said[n] in _UNDOES and self.items[n] == self.items[place]:
                    return True
        return False


def read_scopes(aligned: Aligned) -> list[Scope]:
    """Return the clauses of a claim, and then the whole of it; without a title of two subjects."""
    text, found = _TITLE.sub("", aligned.text[:_MOST_CHARS]), []
    for part in dict.fromkeys((*_CLAUSE.split(text), text)):
        items = [as_written(item, aligned.passages) for item in part.split(",")]
        tokens = [word for item in items for word in item]
        at = [n for n, item in enumerate(items) for _ in item]
        stems = frozenset([word.stem for word in tokens])
        found.append(Scope(tokens, stems, at, _SAYS_NOTHING.search(part) is not None))
    return found
