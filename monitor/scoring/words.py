"""Turn text into comparable words: stems, numbers in one form, names, stop words."""

# ruff: noqa: RUF001 - the punctuation of other languages is meant
from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import NamedTuple

from monitor.scoring.function_words import FUNCTION_WORDS
from monitor.scoring.stems import stem
from monitor.scoring.unicode import MARKS, compatible

_STOP_WORDS = """
a an the of to in on at by for from with without into onto over under about as and or but nor if so
then than that this these those it its it's he she they them his her hers their theirs him we us our
you your yours i me my mine is are was were be been being am do does did doing done have has had
having will would shall should can could may might must there here who whom whose which what when
where why how all any both each few more most other some such only own same too very just also s t d
ll m re ve not no yes while during before after because through between out up down off again once
however therefore according per via etc percent
"""
STOP_WORDS = frozenset(_STOP_WORDS.split()) | FUNCTION_WORDS
NEGATIONS = frozenset(
    {"not", "no", "never", "none", "nobody", "nothing", "neither", "nor", "without", "cannot"}
)
_TWO_TO_TWENTY = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty
"""
_SIXTH_TO_TWENTIETH = """
sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth
"""
_NUMBER_WORDS = {
    **{word: str(number) for number, word in enumerate(_TWO_TO_TWENTY.split(), start=2)},
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "seventy": "70",
    "eighty": "80",
    "ninety": "90",
    "first": "1",
    "second": "2",
    "third": "3",
    "fourth": "4",
    "fifth": "5",
    **{word: str(number) for number, word in enumerate(_SIXTH_TO_TWENTIETH.split(), start=6)},
    "twice": "2",
}

_LETTERS = rf"[^\W\d_]++(?:[{MARKS}]++[^\W\d_]*+)*+"  # vowels of many scripts are marks
_WORD = re.compile(rf"\d+(?:[.,:]\d+)*|{_LETTERS}(?:['’]{_LETTERS})*")
# Scripts written without spaces: every character stands for itself.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_IRREGULAR_NOT = re.compile(r"\b(ca|wo)(?=n['’]t\b)", re.IGNORECASE)
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
#: French and Italian write "l'article", "dell'acquisto": the noun is what counts.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|quest|quell|(?:d|n)ell|[ds]?all|sull)'(?=\w{3})")
#: "U.S.", "p.m.", "F.E.A.R."
_DOTTED = re.compile(r"(?<![.\w])(?:[^\W\d_]\.){2,10}(?!\w)")
_LONG_NUMBER = 15
#: Reading a kept word takes a tenth of the time. 20,000 are what most of a text consists of, and
#: 6 MB in each process; with 50,000 a text was read 10 % faster. None is longer than 40 characters.
_MOST_KEPT, _LONGEST_KEPT = 20_000, 40


class Word(NamedTuple):
    """A word of a text, ready to be compared."""

    stem: str
    content: bool  #: it carries information: neither a stop word nor a single letter
    number: bool
    capital: bool
    surface: str


def words(text: str) -> tuple[Word, ...]:
    """Split *text* into words, the same for all ways of writing it in Unicode."""
    text = compatible(html.unescape(text) if "&" in text else text)
    if "." in text:
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    if "'" in text or "’" in text:
        text = _IRREGULAR_NOT.sub(lambda m: "can" if m[1].lower() == "ca" else "will", text)
        text = _NOT.sub(" not", text)
    return tuple([_word(surface) for surface in _WORD.findall(spaced(text))])


def has_words(text: str) -> bool:
    """Say whether *text* holds any word, without reading all of it."""
    return _WORD.search(compatible(text)) is not None


def spaced(text: str) -> str:
    """Put spaces around the characters of scripts that are written without spaces."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def _word(surface: str) -> Word:
    return _kept_word(surface) if len(surface) <= _LONGEST_KEPT else _made_word(surface)


def _made_word(surface: str) -> Word:
    if surface[0].isdigit():
        return Word(
            _plain_number(surface), content=True, number=True, capital=False, surface=surface
        )
    lower = surface.lower().replace("’", "'").removesuffix("'s")
    if elided := _ELIDED.match(lower):
        lower = lower[elided.end() :]
    if lower in _NUMBER_WORDS:
        return Word(_NUMBER_WORDS[lower], content=True, number=True, capital=False, surface=surface)
    alone = len(lower) == 1 and lower.isascii()
    content = lower not in STOP_WORDS and not alone
    return Word(
        stem(lower),
        content,
        number=False,
        capital=surface[0].isupper() and content,
        surface=surface,
    )


_kept_word = lru_cache(maxsize=_MOST_KEPT)(_made_word)


def _plain_number(surface: str) -> str:
    """Write 1,000 and 1000.0 as 1000, whatever the language of the thousands mark."""
    number = surface.replace(",", "") if re.search(r",\d{3}\b", surface) else surface
    if "." in number and ":" not in number:
        number = number.rstrip("0").rstrip(".") if number.count(".") == 1 else number
    return number.lstrip("0")[:_LONG_NUMBER] or "0"
