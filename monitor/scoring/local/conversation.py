"""
Read a question with the turns before it: what it refers to, and whether an answer is about that.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. An answer is about something if it names it, or if
the sentence of the passages from which it is taken does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from monitor.models.interaction import Turn
from monitor.scoring.local.passages import PREFIX
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import Settled, names_anything, pattern
from monitor.scoring.words import language, words

#: What becomes of a relevance whose answer is, or is not, about what the question refers to.
ABOUT_AT_LEAST, BESIDE_AT_MOST = 0.85, 0.1
_SHORT = 4  # content words of a question that may need the turns before it
_TURNS_BACK = 6
_TURN_CHARS = 4_000
_REPEATED, _LEAST_REPEATED = 0.9, 3  # share of an answer's words that were said before; of how many
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
Stems = frozenset[str]
_UNCLEAR = Settled(None, "unclear_reference")


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, relevance: float | None
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *relevance* is that of the question alone, in [0, 1], or None if it names nothing.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    asked, said = _stems(query), _stems(output)
    if not turns or len(asked) > 2 * _SHORT or pattern("again", "{}").search(query):
        return None
    sentences = reading.passages.sentences
    best = [claim.aligned.evidence[0] for claim in reading.claims if claim.aligned.evidence]
    told = _stems(*(sentences[n][1] for n in best))
    earlier = [_stems(turn.content[:_TURN_CHARS]) for turn in turns]
    new = asked.difference(*earlier)
    found = None
    if item := _item(query, turns):
        found = _of_item(item, said, told)
    elif len(asked) <= _SHORT:
        past = frozenset[str]().union(*earlier)
        repeats = len(said & past) >= _REPEATED * len(said) and len(said) >= _LEAST_REPEATED
        if new and repeats and not _named(new, said):
            found = Settled(BESIDE_AT_MOST, "It repeats what was said before.")
        elif new and pattern("goes_on", r"[\s¿]*(?:{})").match(query):
            found = _UNCLEAR
            if _named(new, said | told):
                found = Settled(ABOUT_AT_LEAST, "It takes up what is new in the question.")
            elif _named(new, reading.passages.prefixes):
                found = Settled(
                    BESIDE_AT_MOST, "It takes up nothing of what is new in the question."
                )
        else:
            before = [n - 1 for n in best if n and sentences[n - 1][0] == sentences[n][0]]
            around = said | told | _stems(*(sentences[n][1] for n in before))
            goes_on = _named(frozenset[str]().union(*earlier[-2:]), around)
            found = _of_the_subject(query, output, told, goes_on=goes_on)
    if found is None or found.relevance is None or found.relevance < ABOUT_AT_LEAST:
        return found
    return found._replace(relevance=max(relevance or 0.0, ABOUT_AT_LEAST))


def _of_item(item: tuple[Stems, Stems], said: Stems, told: Stems) -> Settled:
    """Judge an answer about one item of a list, by what names it and what names the others."""
    for named in (said, told):
        if _named(item[0], named):
            return Settled(ABOUT_AT_LEAST, "It is about the item that is asked for.")
        if _named(item[1], named):
            return Settled(BESIDE_AT_MOST, "It is about another item of the list.")
    return _UNCLEAR


def _of_the_subject(query: str, output: str, told: Stems, *, goes_on: bool) -> Settled | None:
    """Judge whether an answer goes on with the subject; None where that does not settle it."""
    if names_anything(query):
        says = pattern("yes_no", r"[\s¡]*(?:{})\b").match(output)
        if not goes_on or not (says or _named(_stems(query), _stems(output) | told)):
            return None
    elif not told:
        return _UNCLEAR
    elif not goes_on or (
        pattern("asks_number").search(query) and not any(w.number for w in words(output))
    ):
        return Settled(BESIDE_AT_MOST, "It leaves what the earlier turns are about.")
    return Settled(ABOUT_AT_LEAST, "It goes on with the earlier turns.")


def _stems(*texts: str) -> Stems:
    """Return the stems of the informative words of some texts, and letters that name something."""
    return frozenset(
        word.stem
        for text in texts
        for word in words(text)
        if word.content or (len(word.surface) == 1 and word.surface in _NAMING)
    )


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
        _, colon, listed = sentence.rpartition(":")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [[w.stem for w in words(part) if w.content] for part in parts]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []
