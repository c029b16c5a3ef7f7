"""Cut English endings off words, so that forms of one word are equal."""

from __future__ import annotations

import re

_ENDINGS = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("fulness", "ful"), ("ations", "at"),
    ("ation", "at"), ("ments", "ment"), ("iness", "y"), ("ising", "iz"), ("izing", "iz"),
    ("ise", "iz"), ("ize", "iz"), ("ised", "iz"), ("ized", "iz"), ("ises", "iz"), ("izes", "iz"),
    ("ies", "y"), ("ied", "y"), ("ily", "y"), ("sses", "ss"), ("ating", "at"), ("ated", "at"),
    ("ates", "at"), ("ate", "at"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""),
    ("e", ""),
)  # fmt: skip
#: What makes another kind of word: "remove" and "removal", "safe" and "safety" are told alike.
_DERIVING = (
    "ability", "ibility", "ically", "ement", "ment", "ness", "abl", "ibl", "ical", "anc", "enc",
    "ity", "iv", "ion", "ism", "ist", "ous", "ful", "al", "ic", "or", "er", "ant", "ent",
)  # fmt: skip
_BRITISH = (
    (re.compile(r"(?<=\w\w)our(?=$|s$|ed$|ing$|able|ite)"), "or"),
    (re.compile(r"(?<=\w\w)([tb])re(?=s?$)"), r"\1er"),
    (re.compile(r"(?<=\w\w)ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=al)ys(?=e|ing)"), "yz"),
)
_SHORTEST_STEM, _SHORTEST_ROOT = 3, 5
_LONG = 6
_TRIED = re.compile(r"([^aeiou]{2})ie[ds]")


def stem(word: str) -> str:
    """
    Cut English endings off a *word* in lower case.

    Words of other languages mostly stay as they are. What is left is no word of its own, and
    now and then two words share one ("import" and "important").
    """
    if len(word) <= _SHORTEST_STEM or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    if tried := _TRIED.fullmatch(word):
        return f"{tried[1]}y"
    if len(word) >= _LONG:
        word = _american(word.removesuffix("ly") if word.endswith("ely") else word)
    bare = _uninflected(word)
    return _root(bare) if len(bare) > _LONG else bare


def _american(word: str) -> str:
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return word


def _uninflected(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            bare = word[: -len(ending)] + instead
            doubled = ending in {"ing", "ed"} and bare[-1] == bare[-2] and bare[-1] not in "lsz"
            return bare[:-1] if doubled else bare
    return word


def _root(bare: str) -> str:
    ending = next((each for each in _DERIVING if bare.endswith(each)), "")
    return bare[: -len(ending)] if ending and len(bare) - len(ending) >= _SHORTEST_ROOT else bare
