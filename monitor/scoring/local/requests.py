"""
What a request is: a question, small talk, or a text that is worked on, made or put in a class.

A model of its words says so, fitted to messages that were written for it in many languages.
What a question asks for is read from the turns of phrase in ``language.toml``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise

from monitor.scoring.language import Word, compatible, language, listed, spaced, words

#: A kind is "question", or one of these.
TALK, TRANSFORM, CREATE, LABEL = "talk", "transform", "create", "label"
#: What is no question; a model has a weight for each.
KINDS = (TALK, TRANSFORM, CREATE, LABEL)
REQUESTS = "requests.v1.json"
#: How much likelier than a question all other kinds must be together; and without passages.
LEAST, CERTAIN = 0.5, 6.0
STEPS = 100  #: weights are written in hundredths
MOST_REQUEST_CHARS = 1_000  #: of a request are read
_FIRST, _LAST = 28, 12  # words that tell what a request is
_BEGINNING = 5  # letters by which words begin alike
_EMOJI = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
_TOKEN = re.compile(rf"\d+|[^\W\d_]+(?:'[^\W\d_]+)*|[?!.:;,\n]|{_EMOJI.pattern}")
_MOST_UNKNOWN = 0.7  # share of words that no message had
_LONGEST_TASK, _SHORTEST_TEXT = 200, 40  # characters
_REPLIES = re.compile(r"(?i)\b(?:repl[iy]|answer|respon|antwort|beantwort|répon|respuest)")
_YES_OR_NO = r"\W*(?:unfortunately |leider )?(?:{}|not)\b"  # how an answer begins


# --- the kinds of requests ---


def request_features(query: str) -> frozenset[str]:
    """Return the words of *query*, their beginnings and neighbours, and its form, by name."""
    tokens = _tokens(query)
    said = [token for token in tokens if token[0].isalpha()]
    return frozenset(
        [
            *tokens,
            *(f"{token[:_BEGINNING]}*" for token in said if len(token) > _BEGINNING),
            *(f"{one} {two}" for one, two in pairwise(["^", *tokens, "$"])),
            *(f"^{token}" for token in said[:3]),
            f"#length {round(math.log2(len(said) + 1))}",
            "#asks" if "?" in tokens else "#says",
            "#any",
        ]
    )


def _tokens(query: str) -> list[str]:
    """Return the words and marks of *query*, in lower case; a figure is "0", an emoji "#emoji"."""
    plain = compatible(query.strip()[:MOST_REQUEST_CHARS]).lower().replace("\u2019", "'")
    found = _TOKEN.findall(spaced(plain).replace("\u061f", "?"))
    found = found if len(found) <= _FIRST + _LAST else found[:_FIRST] + found[-_LAST:]
    return ["0" if t.isdigit() else "#emoji" if _EMOJI.match(t) else t for t in found]


@lru_cache(maxsize=1024)  # what is asked once is often asked again
def kind_of(query: str, *, alone: bool = False) -> str:
    """
    Return what *query* is: "question", or one of ``KINDS`` if that is likely.

    Without passages (*alone*) other kinds than small talk must be certain.
    """
    return likely_kind(query, shipped_weights()[0], alone=alone)


def likely_kind(query: str, weights: Mapping[str, Sequence[int]], *, alone: bool = False) -> str:
    """Return the kind of *query* by the *weights* of its features, in hundredths of log odds."""
    said = [token for token in _tokens(query) if token[0].isalpha()]
    unknown = sum(t not in weights and f"{t[:_BEGINNING]}*" not in weights for t in said)
    if not said or unknown > _MOST_UNKNOWN * len(said):
        return "question"
    features = request_features(query)
    known = [found for each in features if (found := weights.get(each))]
    scale = math.sqrt(len(features)) * STEPS
    odds = [math.exp(sum(column) / scale) for column in zip(*known, strict=True)]
    kind = KINDS[odds.index(max(odds))]
    return kind if sum(odds) >= (CERTAIN if alone and kind != TALK else LEAST) else "question"


@cache
def shipped_weights() -> tuple[Mapping[str, Sequence[int]], str]:
    """
    Read the weights of features, of each for every one of ``KINDS``, and a hash of them all.

    Raises
    ------
    ValueError
        If the file was made for other kinds.
    """
    text = resources.files("monitor.scoring.local").joinpath(REQUESTS).read_text("utf-8")
    data = json.loads(text)
    if data["kinds"] != [*KINDS]:
        raise ValueError("the weights are of other kinds: run benchmarks/train_local.py")
    return data["weights"], hashlib.sha256(text.encode()).hexdigest()


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
    if len(text) < _SHORTEST_TEXT or "?" in _tokens(task) or _REPLIES.search(task):
        return query, ""
    works_on = TRANSFORM in {kind_of(task), kind_of(query.strip()[:MOST_REQUEST_CHARS])}
    return (task, text) if works_on else (query, "")


def _without_english_was(query: str) -> str:
    """Return *query* without the English "was"; the German one means "what"."""
    # "where was" asks for a place
    return pattern("english_was").sub(lambda m: re.sub(r"(?i)\bwas\b", " ", m[0]), query)


def asks(query: str) -> bool:
    """Return whether *query* has a question mark or begins as questions do."""
    begins = pattern("wh", r"\W*(?:{})\b").match(query) is not None
    return begins or asks_yes_or_no(query) or "?" in _tokens(query)


def asks_again(query: str) -> bool:
    """Return whether *query* begins by asking for what was said before: "Again, please"."""
    plain = pattern("polite", r"^[\s¿]*(?:(?:{})[,\s]+)+").sub("", query[:MOST_REQUEST_CHARS])
    return pattern("again", r"\b(?:{})").search(plain) is not None


def leans(query: str) -> bool:
    """Return whether a question only names what is different this time: "And the Mini?"."""
    return pattern("goes_on", r"[\s¿]*(?:{})").match(query) is not None


# --- what a question asks for ---


def named(query: str) -> str:
    """Return *query* without the words that ask for a figure: "how long", "cost"."""
    asking = listed("asking")
    return " ".join(w.surface for w in words(query[:MOST_REQUEST_CHARS]) if w.stem not in asking)


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
