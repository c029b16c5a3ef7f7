"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. An answer is about something if it names it, or if
the sentence of the passages from which it is taken does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from monitor.models.interaction import Turn
from monitor.scoring.language import language, words
from monitor.scoring.local.asked import (
    begins_with_yes_or_no,
    figure_asked,
    has_figure,
    light,
    named,
    only_yes_or_no_is_asked,
    pattern,
)
from monitor.scoring.local.passages import PREFIX
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import DOES_AT_LEAST, DOES_NOT_AT_MOST, UNCLEAR, Settled

_SHORT = 4  # content words of a question that may need the turns before it
_TURNS_BACK = 6
_TURN_CHARS = 4_000
_REPEATED, _LEAST_REPEATED = 0.9, 3  # share of an answer's words that were said before; of how many
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
Stems = frozenset[str]


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, alone: Settled
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *alone* is the relevance to the question without them.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    query = pattern("thanking", r"^(?:(?:{})[\s,.!]+)+").sub("", query)
    asked, said = _stems(query), _stems(output)
    if not turns or _length(asked) > 2 * _SHORT or pattern("again", "{}").search(query):
        return None
    earlier = [_stems(turn.content[:_TURN_CHARS]) for turn in turns]
    told, around = _evidence(reading)
    found: Settled | None
    if item := _item(query, turns):
        found = _of_item(item, (said, told, around))
    elif alone.reason == "instruction" or _length(asked) > _SHORT:
        return None
    else:
        past = frozenset[str]().union(*earlier)
        goes_on = _named(past, said | told | around)
        found = _of_its_kind(query, output, goes_on=goes_on)
        if found is None:
            new = asked.difference(*earlier)
            repeats = len(said & past) >= _REPEATED * len(said) and len(said) >= _LEAST_REPEATED
            goes_on_with = pattern("goes_on", r"[\s¿]*(?:{})").match(query)
            if new and repeats and not _named(new, said):
                found = Settled(DOES_NOT_AT_MOST, "It repeats what was said before.")
            elif asked and goes_on_with:
                found = _of_what_is_new(new or asked, said | told, reading)
                found = _of_the_same_kind(query, turns, output) if found is UNCLEAR else found
            else:
                near = _named(frozenset[str]().union(*earlier[-2:]), said | told | around)
                found = _of_the_subject(query, output, told, goes_on=near)
    if found is None or found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(alone.relevance or 0.0, DOES_AT_LEAST))


def _length(stems: Stems) -> int:
    return sum(not stem.startswith("(") for stem in stems)


def _evidence(reading: Reading) -> tuple[Stems, Stems]:
    """Return the stems of the sentences an answer is taken from, and of their whole passages."""
    sentences = reading.passages.sentences
    best = [number for claim in reading.claims for number in claim.aligned.evidence]
    passages = {sentences[n][0] for n in best}
    told = _stems(*(sentences[n][1] for n in best))
    return told, _stems(*(text for number, text in sentences if number in passages))


def _of_its_kind(query: str, output: str, *, goes_on: bool) -> Settled | None:
    """Judge yes or no, and figures of the kind that is asked for; None where neither settles it."""
    if only_yes_or_no_is_asked(query) and begins_with_yes_or_no(output) and goes_on:
        return Settled(DOES_AT_LEAST, "It answers yes or no.")
    kind = figure_asked(query)
    has = has_figure(kind, output) if kind else None
    if has is False:
        return Settled(DOES_NOT_AT_MOST, f"It lacks the {kind} that is asked for.")
    return (
        Settled(DOES_AT_LEAST, f"It gives the {kind} that is asked for.")
        if has and goes_on
        else None
    )


def _of_what_is_new(new: Stems, told: Stems, reading: Reading) -> Settled:
    """Judge by what a question names that the turns before it do not."""
    if _named(new, told):
        return Settled(DOES_AT_LEAST, "It takes up what is new in the question.")
    if _named(new, _stems(*(text for _, text in reading.passages.sentences))):
        return Settled(DOES_NOT_AT_MOST, "It takes up nothing of what is new in the question.")
    return UNCLEAR


def _of_the_same_kind(query: str, turns: Sequence[Turn], output: str) -> Settled:
    """Judge by the figure for which the question before asked, as "And in winter?" asks for it."""
    before = next((turn.content for turn in reversed(turns) if turn.role == "user"), "")
    kind = None if pattern("what_if").search(query) else figure_asked(before[:_TURN_CHARS])
    if kind and has_figure(kind, output) is False:
        return Settled(DOES_NOT_AT_MOST, f"It lacks the {kind} that is asked for.")
    return UNCLEAR


def _of_item(item: tuple[Stems, Stems], wheres: Iterable[Stems]) -> Settled:
    """Judge an answer about one item of a list, by what names it and what names the others."""
    for stems in wheres:
        if _named(item[0], stems):
            return Settled(DOES_AT_LEAST, "It is about the item that is asked for.")
        if _named(item[1], stems):
            return Settled(DOES_NOT_AT_MOST, "It is about another item of the list.")
    return UNCLEAR


def _of_the_subject(query: str, output: str, told: Stems, *, goes_on: bool) -> Settled | None:
    """Judge whether an answer goes on with the subject; None where that does not settle it."""
    if _stems(named(query)):
        asks = "?" in query or pattern("wh").search(query)
        if not goes_on or (asks and not _named(_stems(query), _stems(output) | told)):
            return None
    elif not told:
        return UNCLEAR
    elif not goes_on or (
        pattern("asks_number").search(query) and not any(w.number for w in words(output))
    ):
        return Settled(DOES_NOT_AT_MOST, "It leaves what the earlier turns are about.")
    return Settled(DOES_AT_LEAST, "It goes on with the earlier turns.")


def _stems(*texts: str) -> Stems:
    """
    Return what tells one subject from another in some texts: stems of their informative words.

    Words that belong together, such as "heavy" and "weighs", share one more.
    """
    found = set[str]()
    for text in texts:
        for word in words(text):
            lower = word.surface.lower()
            if len(lower) == 1 and word.surface in _NAMING:
                found.add(word.stem)
            elif lower not in light():
                found |= {word.stem} if word.content else set()
                found |= _related(lower)
    return frozenset(found)


@lru_cache(maxsize=20_000)
def _related(word: str) -> frozenset[str]:
    """Return the groups of words that belong together which have *word*, by names no word has."""
    return frozenset(name for name, like in _groups() if like.match(word))


@cache
def _groups() -> tuple[tuple[str, re.Pattern[str]], ...]:
    groups = language()["related"].items()
    return tuple((f"({name})", re.compile(rf"(?:{like})$")) for name, like in groups)


def _named(wanted: Iterable[str], said: Iterable[str]) -> bool:
    """Return whether one of the *wanted* stems, or its beginning, is among those *said*."""
    beginnings = {stem[:PREFIX] for stem in said}
    return any(stem[:PREFIX] in beginnings for stem in wanted)


def _item(query: str, turns: Sequence[Turn]) -> tuple[Stems, Stems] | None:
    """Return what names the item that an ordinal points at, and what names the others."""
    spans, ordinals = language()["conversation"]["spans"], language()["conversation"]["places"]
    places = [
        n
        for n, place in enumerate(ordinals)
        if re.search(rf"\b(?:{place})\b(?!\W+(?:{spans}))", query, re.IGNORECASE)
    ]
    if len(places) != 1:
        return None
    for turn in reversed(turns):
        items = _items(turn.content[:_TURN_CHARS]) if turn.role == "assistant" else []
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            others = frozenset().union(*(each for n, each in enumerate(items) if n != at))
            wanted = items[at] - others
            return (wanted, others - items[at]) if wanted else None
    return None


def _items(text: str) -> list[Stems]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [_stems(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, listed = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [[w.stem for w in words(part) if w.content] for part in parts]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []
