"""
What a request is: a question, small talk, or a text that is worked on, made or put in a class.

A model of its words says so, fitted to messages that were written for it in many languages.
What a question asks for is read from the turns of phrase in ``language.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from monitor.scoring.language import Word, language, listed, words
from monitor.scoring.word_model import EMOJI, MOST_CHARS, WordModel, shipped_model, tokens_of

#: A kind is "question", or one of these.
TALK, TRANSFORM, CREATE, LABEL = "talk", "transform", "create", "label"
#: What is no question; a model has a weight for each.
KINDS = (TALK, TRANSFORM, CREATE, LABEL)
REQUESTS = "requests.v1.json"
#: How much likelier than a question all other kinds must be together; small talk that reads like
#: a question within a conversation; and without passages.
LEAST, LIKELY, CERTAIN = 0.35, 2.0, 4.5
_LEAST_KNOWN = 0.3  # share of words that a message had
_LONGEST_TASK, _SHORTEST_TEXT = 200, 40  # characters
_REPLIES = re.compile(r"(?i)\b(?:repl[iy]|answer|respon|antwort|beantwort|répon|respuest)")
_YES_OR_NO = r"\W*(?:unfortunately |leider )?(?:{}|not)\b"  # how an answer begins


# --- the kinds of requests ---


def request_model() -> tuple[WordModel, str]:
    """Return the model of ``KINDS`` that ships, and a hash of it."""
    return shipped_model("monitor.scoring.local", REQUESTS, KINDS)


@lru_cache(maxsize=1024)  # what is asked once is often asked again
def kind_of(query: str, *, alone: bool = False) -> str:
    """
    Return what *query* is: "question", or one of ``KINDS`` if that is likely.

    Without passages (*alone*) other kinds than small talk must be certain.
    """
    return likely_kind(query, request_model()[0], alone=alone)


def likely_kind(query: str, model: WordModel, *, alone: bool = False) -> str:
    """Return the kind of *query* by a *model* of ``KINDS``."""
    tokens = tokens_of(query)
    if EMOJI in tokens and not any(map(str.isalnum, query)):
        return TALK
    if not model.knows(tokens, _LEAST_KNOWN):
        return "question"
    odds = model.odds(tokens)
    kind = KINDS[odds.index(max(odds))]
    return kind if sum(odds) >= (CERTAIN if alone and kind != TALK else LEAST) else "question"


# --- by turns of phrase ---


@cache
def pattern(name: str, form: str = r"\b(?:{})\b") -> re.Pattern[str]:
    """Return a turn of phrase of ``language.toml``, by name: as whole words, or within *form*."""
    known = language()["requests"] | language()["conversation"]
    phrases = known[name] if isinstance(known[name], str) else "|".join(known[name])
    return re.compile(form.format(phrases), re.IGNORECASE)


def handed_over(query: str) -> tuple[str, str]:
    """
    Return the task and the text of "Make this shorter: ..."; all of *query*, and no text.

    A question and its details are no text that is handed over, nor is what should be answered.
    """
    bare = query.lstrip()
    ends = [at for mark in (": ", "\n") if (at := bare.find(mark, 0, _LONGEST_TASK)) > 0]
    task, text = (bare[: min(ends)], bare[min(ends) + 1 :].strip()) if ends else ("", "")
    if len(text) < _SHORTEST_TEXT or "?" in tokens_of(task) or _REPLIES.search(task):
        return query, ""
    works_on = TRANSFORM in {kind_of(task), kind_of(query.strip()[:MOST_CHARS])}
    return (task, text) if works_on else (query, "")


def _without_english_was(query: str) -> str:
    """Return *query* without the English "was"; the German one means "what"."""
    # "where was" asks for a place
    return pattern("english_was").sub(lambda m: re.sub(r"(?i)\bwas\b", " ", m[0]), query)


def asks(query: str) -> bool:
    """Return whether *query* has a question mark or begins as questions do."""
    begins = pattern("wh", r"\W*(?:{})\b").match(query) is not None
    return begins or asks_yes_or_no(query) or "?" in tokens_of(query)


def may_ask(query: str) -> bool:
    """Return whether what sounds like small talk may ask: "Even on Fridays?", not "Are you ok?"."""
    reads_so = asks(query) or leans(query)
    return reads_so and sum(request_model()[0].odds(tokens_of(query))) < LIKELY


def asks_again(query: str) -> bool:
    """Return whether *query* begins by asking for what was said before: "Are you sure?"."""
    plain = pattern("polite", r"^[\s¿]*(?:(?:{})[,\s]+)+").sub("", query[:MOST_CHARS])
    return pattern("again", r"\b(?:{})").search(plain) is not None


def leans(query: str) -> bool:
    """Return whether a question only names what is different this time: "And the Mini?"."""
    return pattern("goes_on", r"[\s¿]*(?:{})").match(query) is not None


# --- what a question asks for ---


def named(query: str) -> str:
    """Return *query* without the words that ask for a figure: "how long", "cost"."""
    asking = listed("asking")
    return " ".join(w.surface for w in words(query[:MOST_CHARS]) if w.stem not in asking)


def asks_yes_or_no(query: str) -> bool:
    """Return whether *query* begins as such a question does in English."""
    return pattern("asks_yes_no", r"\s*(?:{})\b").match(query) is not None


def only_yes_or_no_is_asked(query: str) -> bool:
    """Return whether *query*, of any language, is a question without a word that asks for more."""
    asked = re.sub(r"(?i)(?<!qu')\best-ce qu(?:e|')", " ", query)
    plain = _without_english_was(asked)
    return query.rstrip().endswith("?") and not pattern("wh").search(plain)


def begins_with_yes_or_no(output: str) -> bool:
    """Return whether *output* begins with the very word for yes or no, in one of six languages."""
    return pattern("plain_yes_no", _YES_OR_NO).match(output) is not None


def without_yes_or_no(output: str) -> str:
    """Return *output* without the yes or no that it begins with."""
    return pattern("plain_yes_no", _YES_OR_NO).sub("", output, count=1)


def asks_why(query: str) -> bool:
    """Return whether *query* asks for a reason."""
    return pattern("asks_why").search(query) is not None


def lacks_figure(query: str, said: Sequence[Word]) -> bool:
    """Return whether *query* asks for a number, a time of day or a year, and *said* has none."""
    asks_one = pattern("asks_number", r"\W*(?:and |so )?(?:{})\b").match(query) is not None
    return asks_one and not any(word.number for word in said)
