"""Compare a claim with passages that are JSON records: yes and no, and what is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.scoring.local.passages import Passages, read_json, spaced_key
from monitor.scoring.words import Word, denies, listed, stem, words

FEATURES = ("attributes_agree", "attributes_conflict", "attributes_unknown")

_MOST = 2_000  # attributes read of one interaction
_DEEPEST = 8  # keys that lead to one
_YES = {"yes": True, "true": True, "free": True, "paid": True}
_NO = {"no": False, "none": False, "false": False}
_BEFORE, _AFTER = 6, 5  # words in which a denial counts for an attribute
_DENIALS = ("negations", "lacking")
_BREAKS = frozenset({"but", "however", "although", "though", "while", "and"})


@dataclass(frozen=True, slots=True)
class Attribute:
    """A key of the passages that says yes, no or nothing, and the ways of naming it."""

    name: str
    ways: tuple[frozenset[str], ...]  #: stems; all of one way must stand in a claim
    group: frozenset[str]  #: stems of the key around it, such as parking around street
    values: frozenset[bool | None]  #: more than one where passages differ


@dataclass(frozen=True, slots=True)
class Records:
    """Everything of that kind that the passages of one interaction hold."""

    attributes: tuple[Attribute, ...] = ()
    structured: bool = False  #: some passage is JSON

    @classmethod
    def read(cls, contexts: Sequence[str]) -> Records:
        """Read the records of all passages that are JSON."""
        values = [value for context in contexts if (value := read_json(context)) is not None]
        stack: list[tuple[tuple[str, ...], Any]] = [((), value) for value in reversed(values)]
        chosen: dict[tuple[str, frozenset[str]], set[bool | None]] = {}
        general, leaves = listed("general"), 0
        while stack and leaves < _MOST:
            keys, item = stack.pop()
            if isinstance(item, dict):
                stack += [((*keys[-_DEEPEST:], str(key)), inner) for key, inner in item.items()]
            elif isinstance(item, list):
                stack += [(keys, inner) for inner in item]
            else:
                leaves += 1
                said = None if item is None else (_YES | _NO).get(str(item).strip().lower())
                if keys and (said is not None or item is None):
                    around = words(spaced_key(keys[-2])) if len(keys) > 1 else ()
                    group = frozenset(w.stem for w in around if w.content) - general
                    chosen.setdefault((spaced_key(keys[-1]), group), set()).add(said)
        parts = {key: [word.surface.lower() for word in words(key)] for key, _ in chosen}
        counts = Counter(word for known in parts.values() for word in set(known))
        attributes = []
        for (key, group), answers in chosen.items():
            # words that many keys share do not name any of them
            rare = [word for word in parts[key] if counts[word] == 1 and stem(word) not in general]
            if own := rare or parts[key]:
                ways = {frozenset(stem(word) for word in own), frozenset({stem("".join(own))})}
                ordered = tuple(sorted(ways, key=sorted))
                attributes.append(Attribute(key, ordered, group, frozenset(answers)))
        return cls(tuple(attributes), bool(values))


class Compared(NamedTuple):
    """The figures of a claim in the order of ``FEATURES``, and what conflicts, in words."""

    values: tuple[float, ...] = (0.0,) * len(FEATURES)
    conflicts: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()  #: the conflicts of claims too plain to be misread


def compare(claim: str, tokens: Sequence[Word], records: Records, passages: Passages) -> Compared:
    """Compare one claim, *tokens* being its words, with all records."""
    if not records.structured:
        return Compared()
    places: dict[str, list[int]] = {}
    for place, word in enumerate(tokens):
        places.setdefault(word.stem, []).append(place)
    denying = any(denies(word, _DENIALS) for word in tokens)
    found: Counter[str] = Counter()
    conflicts: list[str] = []
    certain: list[tuple[str, bool]] = []
    for attribute in records.attributes:
        verdict, said = _verdict(attribute, tokens, places, passages)
        found[verdict] += 1
        if verdict == "conflict":
            conflicts.append(f"{attribute.name}: {'no' if said else 'yes'}")
            named = not attribute.group or any(each in places for each in attribute.group)
            if named and (not denying if said else "," not in claim):
                certain.append((conflicts[-1], said))
    values = tuple(float(found[each]) for each in ("agree", "conflict", "unknown"))
    # of several attributes it may be another that a claim denies
    plain = tuple(text for text, said in certain if said or sum(values) == 1)
    return Compared(values, tuple(conflicts), plain)


def _verdict(
    attribute: Attribute,
    tokens: Sequence[Word],
    places: Mapping[str, Sequence[int]],
    passages: Passages,
) -> tuple[str, bool]:
    """Return what a claim makes of one attribute (nothing is ""), and whether it affirms it."""
    way = next((each for each in attribute.ways if all(s in places for s in each)), None)
    if way is None:
        return "", False
    at = [place for each in way for place in places[each]]
    elsewhere = all(len(passages.holders(each)) > 1 for each in way)
    is_name = any(tokens[place].capital for place in at)  # such as the street of an address
    named = not attribute.group or any(each in places for each in attribute.group)
    if not named and (elsewhere or is_name):
        return "", False
    said = not _denied(tokens, at)
    if said in attribute.values:
        return "agree", said
    if (not said) in attribute.values:
        return "conflict", said
    return ("" if said and elsewhere else "unknown"), said


def _denied(tokens: Sequence[Word], places: Sequence[int]) -> bool:
    """Return whether a denial stands close to one of the words, before the sentence turns."""
    for place in places:
        for step in range(1, _BEFORE + 1):
            if place - step < 0 or tokens[place - step].surface.lower() in {"but", "however"}:
                break
            if denies(tokens[place - step], _DENIALS):
                return True
        for word in tokens[place + 1 : place + 1 + _AFTER]:
            if word.surface.lower() in _BREAKS:
                break
            if denies(word, _DENIALS):
                return True
    return False
