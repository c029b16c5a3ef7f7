"""Compare a claim with the attributes of a passage that is JSON: yes, no, not known, hours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from monitor.scoring.features.clock import Opening, openings
from monitor.scoring.features.passages import read_json, spaced_key
from monitor.scoring.words import NEGATIONS, Word, stem, words

ATTRIBUTE_FEATURES = (
    "attributes_agree", "attributes_conflict", "attributes_unknown", "hours_agree",
    "hours_conflict", "has_attributes",
)  # fmt: skip

_MOST = 2_000  # attributes read of one interaction
_YES = {
    "yes": True,
    "true": True,
    "free": True,
    "paid": True,
    "no": False,
    "none": False,
    "false": False,
}
_WEEK = 7
_BEFORE, _AFTER = 6, 5  # words in which a denial counts for an attribute
_DENIALS = frozenset(stem(w) for w in (*NEGATIONS, "lack", "lacks", "lacking", "unavailable"))
_BREAKS = frozenset({"but", "however", "although", "though", "while", "and"})
_HEDGED_HOURS = re.compile(
    r"happy|except|extend|depend|week|even(?:ing|ings)\b|clos(?:ed|es|ing)|\bor\b", re.IGNORECASE
)
_GENERAL = frozenset({
    "good", "for", "has", "is", "accepts", "allows", "offers", "allowed", "available", "by",
    "attributes", "attribute", "features", "properties", "options", "details", "info", "business",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attribute:
    """A key of the passages that says yes, no or nothing, and the ways of naming it."""

    name: str
    ways: tuple[frozenset[str], ...]  #: stems; all of one way must stand in a claim
    group: frozenset[str]  #: stems of the key around it, such as parking around street
    values: frozenset[bool | None]  #: more than one where passages differ


@dataclass(frozen=True, slots=True)
class Attributes:
    """Everything of that kind that the passages of one interaction hold."""

    listed: tuple[Attribute, ...] = ()
    hours: tuple[Opening, ...] = ()
    structured: bool = False

    @classmethod
    def read(cls, contexts: Sequence[str]) -> Attributes:
        """Read the attributes of all passages that are JSON."""
        leaves: list[tuple[tuple[str, ...], Any]] = []
        structured = False
        for context in contexts:
            value = read_json(context)
            structured |= value is not None
            if value is not None:
                leaves += islice(_leaves(value, ()), _MOST - len(leaves))
        if not leaves:
            return cls((), (), structured)
        return cls(tuple(_attributes(leaves)), tuple(_all_hours(leaves)), structured)


NO_ATTRIBUTES = Attributes()


@dataclass(frozen=True, slots=True)
class AttributeFindings:
    """The figures in the order of ``ATTRIBUTE_FEATURES``, and what conflicts, in words."""

    values: tuple[float, ...]
    conflicts: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()  #: the conflicts of claims too plain to be misread


_NOTHING = AttributeFindings((0.0,) * len(ATTRIBUTE_FEATURES))


def attribute_features(
    claim: str,
    tokens: Sequence[Word],
    attributes: Attributes,
    passages: Mapping[str, Sequence[int]],
) -> AttributeFindings:
    """
    Compare one claim with all attributes.

    *passages* maps stems to the sentences of the passages that hold them: what is not
    known as an attribute may be told there.
    """
    if not attributes.structured:
        return _NOTHING
    found: Counter[str] = Counter()
    told: list[tuple[Attribute, bool]] = []
    places: dict[str, list[int]] = {}
    for place, word in enumerate(tokens):
        places.setdefault(word.stem, []).append(place)
    for attribute in attributes.listed:
        verdict, said = _compare(attribute, tokens, places, passages)
        found[verdict] += 1
        if verdict == "conflict":
            told.append((attribute, said))
    said_open = openings(claim)
    right, wrong = _compare_hours(said_open, attributes.hours)
    compared = sum(found[verdict] for verdict in ("agree", "conflict", "unknown"))
    plain = [each for each in told if _plainly(each, claim, tokens, places, compared)]
    plain_hours = wrong and len(said_open) == 1 and not _HEDGED_HOURS.search(claim)
    return AttributeFindings(
        (
            float(found["agree"]),
            float(found["conflict"]),
            float(found["unknown"]),
            float(right),
            float(wrong),
            1.0,
        ),
        _written(told, other_hours=bool(wrong)),
        _written(plain, other_hours=bool(plain_hours)),
    )


def _written(conflicts: Sequence[tuple[Attribute, bool]], *, other_hours: bool) -> tuple[str, ...]:
    """Write what the record says."""
    said = [f"{attribute.name}: {'no' if said else 'yes'}" for attribute, said in conflicts]
    return (*said, *(["other opening hours"] if other_hours else []))


def _plainly(
    conflict: tuple[Attribute, bool],
    claim: str,
    tokens: Sequence[Word],
    places: Mapping[str, Sequence[int]],
    compared: int,
) -> bool:
    """Say whether a claim is so simple that what it denies, and of what, is beyond doubt."""
    attribute, said = conflict
    if attribute.group and not any(s in places for s in attribute.group):
        return False
    if said:
        return not any(word.stem in _DENIALS for word in tokens)
    return compared == 1 and "," not in claim


def _compare(
    attribute: Attribute,
    tokens: Sequence[Word],
    places: Mapping[str, Sequence[int]],
    passages: Mapping[str, Sequence[int]],
) -> tuple[str, bool]:
    """Name what a claim makes of one attribute, and whether it affirms it."""
    way = next((w for w in attribute.ways if all(s in places for s in w)), None)
    if way is None:
        return "", False
    elsewhere = all(len(passages.get(s, ())) > 1 for s in way)
    named = any(s in places for s in attribute.group)
    if attribute.group and not named and (elsewhere or _is_name(tokens, places, way)):
        return "", False
    said = not _denied(tokens, [place for s in way for place in places[s]])
    if said in attribute.values:
        return "agree", said
    if (not said) in attribute.values:
        return "conflict", said
    return ("" if said and elsewhere else "unknown"), said


def _is_name(
    tokens: Sequence[Word], places: Mapping[str, Sequence[int]], way: frozenset[str]
) -> bool:
    """Say whether the words belong to a name, such as the street of an address."""
    return any(tokens[place].capital for s in way for place in places[s])


def _compare_hours(said: Sequence[Opening], known: Sequence[Opening]) -> tuple[int, int]:
    """Count the statements about hours that agree with what is known, and those that do not."""
    if not known:
        return 0, 0
    hours: dict[int, set[tuple[int, int] | None]] = {}
    for entry in known:
        for day in entry.days:
            hours.setdefault(day, set()).add(entry.hours)
    fits = [all(_fits(entry, hours.get(day)) for day in entry.days) for entry in said]
    return sum(fits), len(fits) - sum(fits)


def _fits(said: Opening, known: set[tuple[int, int] | None] | None) -> bool:
    """Say whether the hours said of a day may be those of one of the passages."""
    if said.hours is None:
        return known is None or any(hours is None or hours[0] == hours[1] for hours in known)
    if known is None:
        return len(said.days) == _WEEK  # every day: the days that are open count
    return any(hours is not None and _same(hours, said.hours) for hours in known)


def _same(one: tuple[int, int], other: tuple[int, int]) -> bool:
    half = 12 * 60  # 11 to 7 without a word about the half of the day
    return one == other or all(a % half == b % half for a, b in zip(one, other, strict=True))


def _denied(tokens: Sequence[Word], places: Sequence[int]) -> bool:
    """Say whether a denial stands close to one of the words, before the sentence turns."""
    for place in places:
        for step in range(1, _BEFORE + 1):
            if place - step < 0 or tokens[place - step].surface.lower() in {"but", "however"}:
                break
            if tokens[place - step].stem in _DENIALS:
                return True
        for step in range(1, _AFTER + 1):
            if place + step >= len(tokens) or tokens[place + step].surface.lower() in _BREAKS:
                break
            if tokens[place + step].stem in _DENIALS:
                return True
    return False


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """List plain values with the keys that lead to them."""
    stack = [(path, value)]
    while stack:
        keys, item = stack.pop()
        if isinstance(item, dict):
            stack += [((*keys[-8:], str(key)), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            stack += [(keys, inner) for inner in item]
        else:
            yield keys, item


def _attributes(leaves: Sequence[tuple[tuple[str, ...], Any]]) -> Iterator[Attribute]:
    """Read what says yes, no or nothing; words that many keys share do not name any of them."""
    chosen: dict[tuple[str, frozenset[str]], set[bool | None]] = {}
    for keys, value in leaves:
        said = _yes_or_no(value)
        if keys and (said is not None or value is None):
            around = spaced_key(keys[-2]) if len(keys) > 1 else ""
            chosen.setdefault((spaced_key(keys[-1]), frozenset(_named(around))), set()).add(said)
    parts = {key: [word.surface.lower() for word in words(key)] for key, _ in chosen}
    counts = Counter(word for known in parts.values() for word in set(known))
    for (key, group), values in chosen.items():
        rare = [word for word in parts[key] if counts[word] == 1 and word not in _GENERAL]
        if own := rare or parts[key]:
            ways = {frozenset(stem(word) for word in own), frozenset({stem("".join(own))})}
            yield Attribute(key, tuple(sorted(ways, key=sorted)), group, frozenset(values))


def _named(key: str) -> list[str]:
    return [w.stem for w in words(key) if w.content and w.surface.lower() not in _GENERAL]


def _yes_or_no(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return _YES.get(value.strip().lower()) if isinstance(value, str) else None


def _all_hours(leaves: Sequence[tuple[tuple[str, ...], Any]]) -> Iterator[Opening]:
    for keys, value in leaves:
        if keys and isinstance(value, str) and re.search(r"\d:\d|closed", value, re.IGNORECASE):
            yield from openings(f"{keys[-1]} {value[:200]}")
