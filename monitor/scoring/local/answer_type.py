"""
The answer type that a question expects: yes or no, a name, a reason, or a kind of figure.

"Four lanes." is not a length, nor "45 euros." a duration, whatever words they share with the
question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from monitor.scoring.language import Word, language
from monitor.scoring.local.reading import MOST_QUERY_CHARS

_BEGINNING = r"(?:^|[.!?,;:¿]\s*)(?:\w+['\u2019]?\s+){{0,2}}?(?:{})"  # of a question
YES_OR_NO = r"\W*(?:unfortunately |leider )?(?:{}|not)\b"  # how an answer begins
_BEHIND = 24  # characters behind a figure in which its unit stands
_MOST_CHARS = 5_000
_LONGEST_NAME = 3  # words
_FEW_WORDS = 3  # of a question for a figure that names nothing else
# "until 1,500 euros" is not a point in time, nor is "bis zu 10 Geräte".
_MOMENT = r"\b(?:{})\b(?!\s(?:zu |à |a )?[\d.,]+\s?(?:euro|dollar|pound|[%€]|k?g\b|k?m\b|[A-ZÄÖÜ]))"
_YEAR = re.compile("1[0-9]{3}|20[0-9]{2}")
_UNIT = re.compile(r"\s?(%|[^\W\d_]+)")
#: What "how many" asks for when a unit stands behind it.
_COUNTED = {"duration": "time", "distance": "length", "weight": "weight", "price": "money"}


@cache
def pattern(name: str, form: str = r"\b(?:{})\b") -> re.Pattern[str]:
    """Return a turn of phrase of ``language.toml``, by name: as whole words, or within *form*."""
    known = language()["requests"] | language()["conversation"] | language()["figures"]
    phrases = known[name] if isinstance(known[name], str) else "|".join(known[name])
    return re.compile(form.format(phrases), re.IGNORECASE)


def named(query: str) -> str:
    """Return *query* without what asks for a figure and names nothing: "how long ... take"."""
    query = query[:MOST_QUERY_CHARS]
    for asks in _figures_asked().values():
        found = asks.search(query)
        if found and len(found[0].split()) <= _FEW_WORDS:
            return pattern("amounts_to").sub(
                " ", query[: found.start()] + " " + query[found.end() :]
            )
    return query


def asks_yes_or_no(query: str) -> bool:
    """Return whether *query* begins as such a question does in English."""
    return pattern("asks_yes_no", r"\s*(?:{})\b").match(query) is not None


def only_yes_or_no_is_asked(query: str) -> bool:
    """Return whether *query*, of any language, is a question without a word that asks for more."""
    asked = re.sub(r"(?i)(?<!qu')\best-ce qu(?:e|')", " ", query)
    # "was" means "what" in German, and "where was" asks for a place
    plain = pattern("english_was").sub(lambda found: re.sub(r"(?i)\bwas\b", " ", found[0]), asked)
    return query.rstrip().endswith("?") and not pattern("wh").search(plain)


def begins_with_yes_or_no(output: str) -> bool:
    """Return whether *output* begins with the very word for yes or no, in one of six languages."""
    return pattern("plain_yes_no", YES_OR_NO).match(output) is not None


def lacks_reason(query: str, told: str) -> bool:
    """Return whether *query* asks why, and *told* gives no reason."""
    return bool(pattern("asks_why").search(query)) and not pattern("because").search(told)


def type_of_answer(query: str, output: str, said: Sequence[Word]) -> tuple[float, float]:
    """Return whether the kind of thing asked for (a person, a date, a number) is there, missing."""
    if pattern("asks_name").search(query):
        named_first = said[:1] if len(said) <= _LONGEST_NAME else ()  # a sentence begins so anyway
        fits = any(word.capital for word in (*named_first, *said[1:]))
    elif pattern("asks_number").search(query):
        fits = any(word.number for word in said)
    else:
        says = pattern("says_yes_no", r"\W*(?:{})\b").match(output)
        return float(says is not None and asks_yes_or_no(query)), 0.0
    return float(fits), float(not fits)


@cache
def _figures_asked() -> dict[str, re.Pattern[str]]:
    """Return the ways to ask for each kind of figure; the first that matches decides."""
    kinds = language()["figures_asked"].items()
    return {k: re.compile(_BEGINNING.format(each["asked"]), re.IGNORECASE) for k, each in kinds}


def figure_asked(query: str) -> str | None:
    """Return the kind of figure that *query* asks for, such as "price", or None."""
    for kind, asks in _figures_asked().items():
        if found := asks.search(query):
            noun = query[found.end() :][:_BEHIND].lstrip()
            counted = _COUNTED.items() if kind == "number" else ()
            return next((k for k, unit in counted if _unit(unit).match(noun)), kind)
    return None


def has_figure(kind: str, output: str) -> bool | None:
    """
    Return whether *output* has a figure of that kind; None if what it says instead may be right.

    A figure of another kind does not answer. Without any figure only "how many" is not answered:
    "When may guests come?" may be "On weekends.", "How much is it?" may be "Please call us."
    """
    fitting = language()["figures_asked"][kind]["figures"]
    said = {*_figures(output[:_MOST_CHARS])}
    is_moment = kind == "moment" and pattern("moments", _MOMENT).search(output)
    if is_moment or not said.isdisjoint(fitting):
        return True
    return None if says_instead(kind, output) or (not said and kind != "number") else False


def says_instead(kind: str, output: str) -> bool:
    """Return whether *output* has words that may stand for a figure of that kind."""
    others = {
        "price": "no_price",
        "duration": "moments",
        "moment": "conditions",
        "frequency": "frequency",
    }
    return any(pattern(each).search(output) for each in ("instead", others.get(kind, "instead")))


def _figures(text: str) -> Iterator[str]:
    """Yield the kind of each figure of *text*: money, time, clock, length, weight, year, plain."""
    for found in pattern("number_words").finditer(text):
        before, behind = text[: found.start()][-_BEHIND:], text[found.end() :][:_BEHIND]
        word = _UNIT.match(behind)
        if ":" in found[0].rstrip(":"):
            kind = "clock"
        elif pattern("money", r"(?:{})\s?$").search(before):
            kind = "money"
        else:
            known = ("money", "clock", "time", "length", "weight")
            kind = next((unit for unit in known if _unit(unit).match(behind)), "plain")
            if kind == "time" and pattern("clock_before", r"\b{}\s$").search(before):
                kind = "clock"  # "at 18 h"
            elif kind == "plain" and _YEAR.fullmatch(found[0].rstrip(".,")):
                kind = "year" if pattern("year_before", r"\b(?:{})\s$").search(before) else kind
        if kind == "plain" and word and pattern("articles", r"(?:{})\Z").match(found[0]):
            continue
        yield kind


@cache
def _unit(kind: str) -> re.Pattern[str]:
    """Return what stands behind a figure of a kind: its unit, or a range or one word before it."""
    return pattern(
        kind, r"(?:\s?(?:to|bis|à|a|-|–|and|und|et|y)\s\w+)?\s?-?(?:[a-zà-ÿ]+\s)?(?:{})(?!\w)"
    )
