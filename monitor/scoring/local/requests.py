"""
Judge answers to what is no plain question: instructions, small talk, yes or no, a number.

A model of shared words would fail all of them: an instruction names a task and not a subject, and
"Yes." shares nothing with its question. Where the words cannot tell, relevance is skipped.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from monitor.scoring.local.passages import plain_times
from monitor.scoring.local.reading import Reading, asks_number, asks_yes_or_no
from monitor.scoring.words import language, words

#: What becomes of a relevance that is settled: the answer does what is asked, or it does not.
DOES_AT_LEAST, DOES_NOT_AT_MOST = 0.85, 0.1
_TAKEN, _NOT_TAKEN = 0.4, 0.05  # share of an answer's information that is in the text worked on
_MOST_TALK = 10  # words
_BARE, _TERSE = 8, 12  # words of a bare yes or no, and of an answer that is a number or a name
_EVEN = 0.5  # below it words speak against an answer
_FEW_ASKED, _FEW_SAID = 3, 4  # words of a question and an answer that say too little to compare
_FIRST = 4  # words of a question that say what it asks for
_OWN_TEXT = 12  # content words of a request that brings its text along
_COVERED = 0  # place of the share that the passages hold among a claim's figures
_NO_FIGURE = 0.15  # relevance of an answer without the number that is asked for, at most


class Settled(NamedTuple):
    """A relevance in [0, 1] with its reason, or None with why it is skipped."""

    relevance: float | None
    reason: str


@cache
def _pattern(name: str, form: str = "{}") -> re.Pattern[str]:
    return re.compile(form.format(language()["requests"][name]), re.IGNORECASE)


def settle(query: str, output: str, reading: Reading, relevance: float | None) -> Settled | None:
    """
    Judge an answer to a request of these kinds; None where *query* is none of them.

    *relevance* is what the model of shared words says, in [0, 1], or None if it says nothing.
    """
    plain = query.strip().strip("¿¡").strip()
    if is_small_talk(plain):
        return Settled(None, "small_talk")
    polite = language()["requests"]["polite"]
    task = re.sub(rf"^(?:(?:{polite})[,\s]+)+", "", plain, flags=re.IGNORECASE)
    if _pattern("transform", r"(?:{})\b").match(task):
        return _worked_on(query, task, output, reading)
    if _pattern("create", r"(?:{})\b").match(task):
        return (
            None
            if relevance is not None and relevance >= DOES_AT_LEAST
            else Settled(None, "instruction")
        )
    taken = any(claim.values[_COVERED] >= _TAKEN for claim in reading.claims)
    if taken and _pattern("retell", r"(?:{})\b").match(task):
        return None if (relevance or 0.0) >= _EVEN else Settled(None, "instruction")
    if only_yes_or_no(plain, output):
        return Settled(DOES_AT_LEAST, "It answers yes or no.")
    return None if relevance is None else _terse(plain, output, reading, relevance)


def asks_translation(query: str) -> bool:
    """Return whether *query* wants a text in other words than those of its passages."""
    return _pattern("translate", r"\b(?:{})\b").search(" ".join(query.split()[:_BARE])) is not None


def is_small_talk(query: str) -> bool:
    """Return whether *query* only greets, thanks, agrees or asks who is there."""
    if _pattern("talk_phrases", r"(?:{})\W*").fullmatch(query):
        return True
    said = re.findall(r"[\w']+", query.replace("\u2019", "'"))
    known = _pattern("talk", r"(?:{})")
    return (
        0 < len(said) <= _MOST_TALK
        and all(known.fullmatch(word) for word in said)
        and _pattern("talk_core", r"\b(?:{})\b").search(query) is not None
    )


def _worked_on(query: str, task: str, output: str, reading: Reading) -> Settled:
    """Judge a summary or another form of a text: of the passages, else of the request itself."""
    if asks_translation(task):
        return Settled(None, "instruction")
    if reading.claims:
        taken = max(claim.values[_COVERED] for claim in reading.claims)
    else:
        brought = {word.stem for word in words(query) if word.content}
        said = {word.stem for word in words(output) if word.content}
        if len(brought) < _OWN_TEXT or not said:
            return Settled(None, "instruction")
        taken = len(said & brought) / len(said)
    if taken >= _TAKEN:
        return Settled(DOES_AT_LEAST, "It works on the text that was handed over.")
    if taken <= _NOT_TAKEN:
        return Settled(DOES_NOT_AT_MOST, "It takes up nothing of the text that was handed over.")
    return Settled(None, "instruction")


def only_yes_or_no(query: str, output: str) -> bool:
    """Return whether *output* says yes or no and nothing else, to a question of that kind."""
    said, known = words(output), {word.stem for word in words(query)}
    yes_or_no = re.compile(
        rf"\W*(?:unfortunately |leider )?(?:{language()['conversation']['yes_no']}|not)\b",
        re.IGNORECASE,
    )
    if len(said) > _BARE or not query.endswith("?") or not yes_or_no.match(output):
        return False
    beyond = [w for w in words(yes_or_no.sub("", output)) if w.content and w.stem not in known]
    asks_what = _pattern("wh", r"\b(?:{})\b").search(query) and not asks_yes_or_no(query)
    return not beyond and not asks_what


def _terse(query: str, output: str, reading: Reading, relevance: float) -> Settled | None:
    """Judge "14" and "In 1987.", and answers that lack the number that is asked for."""
    said = words(plain_times(output))
    asked = {word.stem for word in words(query) if word.content}
    evidence = [claim.evidence[0] for claim in reading.claims if claim.evidence]
    told = {word.stem for number in evidence for word in reading.passages.words[number]}
    new = [word for word in said if word.content and word.stem not in asked]
    terse = 0 < len(new) <= len(said) <= _TERSE and all(word.stem in told for word in new)
    vague = terse and len(said) <= _FEW_SAID and len(asked) <= _FEW_ASKED and relevance < _EVEN
    if asks_number(" ".join(query.split()[:_FIRST])):
        if not any(word.number for word in said):
            if _pattern("quantities", r"\b(?:{})\b").search(output):
                return None
            lacks = "It lacks the number or the time that is asked for."
            return Settled(min(relevance, _NO_FIGURE), lacks)
        if terse and not asked.isdisjoint(told) and relevance < DOES_AT_LEAST:
            return Settled(DOES_AT_LEAST, "It is a figure from a sentence about the question.")
    return Settled(None, "terse_answer") if vague else None
