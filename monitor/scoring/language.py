"""
Read words, in any language.

`words` gives stems, numbers in one form, names and stop words, however they are written;
`language` gives the words and turns of phrase that ship as data.
"""

# ruff: noqa: RUF001 - the letters and marks of other languages are meant
from __future__ import annotations

import html
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import resources
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import Stemmer


@cache
def language() -> dict[str, Any]:
    """Read the words and turns of phrase that ship as data: ``language.toml``."""
    return tomllib.loads(resources.files("monitor.scoring").joinpath("language.toml").read_text())


ENGLISH = "English"
STOP_WORDS = frozenset(w for words in language()["stop_words"].values() for w in words.split())
_NUMBER_WORDS = {
    word: str(number)
    for names, first, step in language()["numbers"]["words"]
    for number, word in zip(range(first, 100, step), names.split(), strict=False)
    if word != "-"
} | {"twice": "2"}
_ORDINALS = frozenset(language()["numbers"]["words"][1][0].split())
#: "twenty-one", "vingt et un", "soixante-quinze", "quatre-vingts"
_COMPOUND = re.compile(language()["numbers"]["compound"], re.IGNORECASE | re.ASCII)
_MAY_BE_COMPOUND = language()["hints"]["tens"]  # twenty times as fast
#: By language, of words that English has with another meaning.
_FOREIGN_NUMBERS = {
    name: {word: str(n) for n, word in enumerate(each.split(), start=2) if word != "-"}
    for name, each in language()["numbers"]["foreign"].items()
}
_SHORTENED = dict(zip(*[iter(language()["lists"]["shortened"].split())] * 2, strict=True))
_ENGLISH_WORDS = frozenset(language()["stop_words"][ENGLISH].split())
#: The words that a language is known by; of others, those that English does not have.
COMMON_WORDS = {ENGLISH: _ENGLISH_WORDS} | {
    name: frozenset(f"{each} {language()['most_common'][name]}".split()) - _ENGLISH_WORDS
    for name, each in language()["stop_words"].items()
    if name != ENGLISH
}
_BEHIND_TENS = _NUMBER_WORDS | language()["numbers"]["behind_tens"]

#: "two and a half hours", "an hour and a half", "zweieinhalb", "deux heures et demie"
_AND_A_HALF = re.compile(language()["numbers"]["and_a_half"], re.IGNORECASE)
_FRACTIONS = {"½": ".5", "¼": ".25", "¾": ".75", "1/2": ".5"}
_FRACTION = re.compile(r"(?<=\d)\s?[½¼¾]|(?<=\d) 1/2\b")
_MAY_BE_FRACTION = ("½", "¼", "¾", " 1/2")
_MAY_BE_HALF = ("nd a half", "nd-a-half", "einhalb", "et demi", "y medi", " 30 min", " 30 Min")
_BEFORE_HALF = _BEHIND_TENS | {n: v for each in _FOREIGN_NUMBERS.values() for n, v in each.items()}
_BEFORE_HALF |= {"a": "1", "an": "1", "ein": "1", "una": "1"}

_MARK_CODES = [
    code
    for code in range(0x300, 0x20000)  # beyond it there are only variation selectors
    if unicodedata.category(chr(code))[0] == "M" or code in {0xFF9E, 0xFF9F}
]
#: The combining marks of all scripts, for use inside a character class.
MARKS = "".join(map(chr, _MARK_CODES))
#: What may be a mark, or of a script without spaces: texts without it are read six times as fast.
_MAY_BE_MARKED = re.compile("[\u0300-\u1fff\u20d0-\u20ff\u2c00-\U0001ffff]")
# Normalising sorts the marks of a letter in quadratic time; no script has thirty of them.
_MARKS_ON_END = re.compile(rf"([{MARKS}]{{30}})[{MARKS}]+")
_FIGURE = r"\d+(?:[.,:]\d+)*"
_LETTERS = rf"[^\W\d_]++(?:[{MARKS}]++[^\W\d_]*+)*+"  # vowels of many scripts are marks
_MARKED_WORD = re.compile(rf"{_LETTERS}(?:'{_LETTERS})*|{_FIGURE}")
# Begins with one class of characters, for which the engine scans quickly.
_PLAIN_WORD = re.compile(r"[^\W_](?:(?<!\d)[^\W\d_]*+(?:'[^\W\d_]++)*|\d*(?:[.,:]\d+)*)")
# Scripts written without spaces: every character stands for itself.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: Marks of which many texts have no other letters that are not ASCII: those are read faster.
_TYPOGRAPHY = [*zip("’‘“”–—•", "''\"\"-- ", strict=True)]
_NOT = re.compile(r"[nN](?<=\w.)'[tT]\b")
_IRREGULAR_NOT = (("can't", "can not"), ("Can't", "Can not"), ("CAN'T", "CAN NOT"),
                  ("won't", "will not"), ("Won't", "Will not"), ("WON'T", "WILL NOT"))  # fmt: skip
#: French and Italian write "l'article", "dell'acquisto": the noun is what counts.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|quest|quell|(?:d|n)ell|[ds]?all|sull)'(?=\w{3})")
_CONTRACTED = ("'d", "'re", "'ve", "'ll", "'m")  # "they're" says as much as "they"
#: "U.S.", "p.m.", "F.E.A.R."
_DOTTED = re.compile(r"\.(?<=[^\W\d_]\.)(?<![.\w]..)(?:[^\W\d_]\.){1,9}(?!\w)")
#: "$5 million" is read as "5 million dollar".
_MONEY = re.compile(
    r"([$€£¥])\s?((?:\d[\d.,]*(?<=\d)(?:\s?(?:thousand|million|billion|trillion|bn|m|k)\b)?)?)",
    re.IGNORECASE,
)
_LEADING_POINT = re.compile(r"\.(?<![\w.].)(?=\d)")  # ".25"
_CURRENCIES = {"$": " dollar ", "€": " euro ", "£": " pound ", "¥": " yen "}
_DECIMAL_COMMA = re.compile(r"(?:\d+|\d{1,3}(?:\.\d{3})+),\d{1,2}")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
#: "50 000" is one number; the mark between its groups is a space by now, narrow ones as well.
_MAY_BE_SPACED = re.compile(r" (?<=\d.)\d\d\d")  # three times as fast
_SPACED_THOUSANDS = re.compile(r"\d(?<![\d.,:].)\d{0,2}(?: \d{3})+(?![.:]?\d)")
_LONG_NUMBER = 15
#: What was read before takes a fiftieth of the time; 20,000 words are up to 8 MB a language.
_MOST_KEPT, _LONGEST_KEPT = 20_000, 40
#: Several readers of one sample ask for the words of its sentences.
_MOST_TEXTS_KEPT, _LONGEST_TEXT_KEPT = 1_024, 500
_kept: dict[tuple[str, str], tuple[Word, ...]] = {}


class Word(NamedTuple):
    """A word of a text, ready to be compared."""

    stem: str
    content: bool  #: it carries information: neither a stop word nor a single letter
    number: bool
    capital: bool
    surface: str

    @classmethod
    def read(cls, surface: str, language: str = ENGLISH) -> Word:
        """
        Return the word or number that is written as *surface*, which is not empty.

        *language* names its stop words, numbers and endings.
        """
        if surface[0].isdigit():
            # 1,000, 1.000 and 1000.0 are 1000, and 4,90 is 4.9, whatever the language of the marks
            number = surface
            if _DECIMAL_COMMA.fullmatch(surface):
                number = surface.replace(".", "").replace(",", ".")
            elif re.search(r",\d{3}\b", surface):
                number = surface.replace(",", "")
            number = number.replace(".", "") if _THOUSANDS.fullmatch(number) else number
            if number.count(".") == 1 and ":" not in number:
                number = number.rstrip("0").rstrip(".")
            plain = number.lstrip("0")[:_LONG_NUMBER] or "0"
            return cls(plain, content=True, number=True, capital=False, surface=surface)
        lower = surface.lower().removesuffix("'s")
        if language == ENGLISH:  # "Sun" is a day where "sun" is not, "hr" an hour where "HR" is not
            lower = _SHORTENED.get(surface, lower).lower()
        if elided := _ELIDED.match(lower):
            lower = lower[elided.end() :]
        if figure := _NUMBER_WORDS.get(lower) or _FOREIGN_NUMBERS.get(language, {}).get(lower):
            return cls(figure, content=True, number=True, capital=False, surface=surface)
        content = lower not in STOP_WORDS and not (len(lower) == 1 and lower.isascii())
        content = content and not lower.endswith(_CONTRACTED)
        root = stem(lower)
        if language != ENGLISH:
            content = content and lower not in light() and lower not in COMMON_WORDS[language]
            root = root if root in _listed() else _stem_in(language, lower)
        capital = content and surface[0].isupper()
        return cls(root, content, number=False, capital=capital, surface=surface)


stem_of = itemgetter(Word._fields.index("stem"))  #: fast, for many words


class _Kept(dict[str, Any]):
    """What was read lately, by how it is written."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: str) -> Any:
        found = self._read(text)
        if len(text) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[text] = found
        return found


@cache
def vocabulary(language: str) -> tuple[_Kept, _Kept]:
    """Return what was read lately in a language: words, and those of what stands between spaces."""
    by_word = _Kept(partial(Word.read, language=language))

    def read(text: str) -> tuple[Word, ...]:
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
        for short, whole in _IRREGULAR_NOT if "'" in text else ():
            text = text.replace(short, whole)
        text = _NOT.sub(" not", text)
        pattern = _MARKED_WORD if _MAY_BE_MARKED.search(text) else _PLAIN_WORD
        return tuple(map(by_word.__getitem__, pattern.findall(spaced(text))))

    return by_word, _Kept(read)


def words(text: str, language: str = ENGLISH) -> tuple[Word, ...]:
    """Split *text* into words, the same for all ways of writing it in Unicode."""
    if (text, language) not in _kept:
        read_ahead((text,), language)
    return _kept.get((text, language)) or words_of((text,), language)[0]


def read_ahead(texts: Iterable[str], language: str = ENGLISH) -> None:
    """Split short texts into words, several times as fast as one by one, for `words` to return."""
    new = [t for t in texts if (t, language) not in _kept and len(t) <= _LONGEST_TEXT_KEPT]
    if len(_kept) + len(new) > _MOST_TEXTS_KEPT:
        _kept.clear()
    if new:
        _kept.update(zip([(t, language) for t in new], words_of(new, language), strict=True))


def words_of(texts: Sequence[str], language: str = ENGLISH) -> list[tuple[Word, ...]]:
    """Split texts into words, several times as fast as one by one."""
    text = "\0".join(texts)
    text = html.unescape(text) if "&" in text else text
    if any(map(text.__contains__, _MAY_BE_FRACTION)):
        text = _FRACTION.sub(lambda match: _FRACTIONS[match[0].strip()], text)
    if not text.isascii():
        for mark, plain in _TYPOGRAPHY:
            text = text.replace(mark, plain)
        text = compatible(text)
    if any(map(text.lower().__contains__, _MAY_BE_COMPOUND)):
        text = _COMPOUND.sub(
            lambda m: str(sum(int(_BEHIND_TENS[w.lower()]) for w in m.groups(""))), text
        )
    if any(map(text.__contains__, _MAY_BE_HALF)):
        text = _AND_A_HALF.sub(_with_half, text)
    text = _LEADING_POINT.sub("0.", text)
    if _MAY_BE_SPACED.search(text):
        text = _SPACED_THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)
    if "$" in text or not text.isascii():
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
        text = _MONEY.sub(lambda match: f" {match[2]}{_CURRENCIES[match[1]]}", text)
    if text.count("\0") != len(texts) - 1:  # somebody wrote one
        return [words_of([each.replace("\0", " ")], language)[0] for each in texts]
    read = vocabulary(language)[1].__getitem__
    return [tuple(chain.from_iterable(map(read, each.split()))) for each in text.split("\0")]


def _with_half(match: re.Match[str]) -> str:
    """Return a number and a half as one figure, before what it counts; what is none as it is."""
    found = match.groups()
    number, unit = next(each for each in zip(found[::2], found[1::2], strict=True) if each[0])
    figure = number if number.isdigit() else _BEFORE_HALF.get(number.lower())
    return f"{figure}.5 {unit or ''}" if figure else match[0]


_STEMMED = frozenset(Stemmer.algorithms())
_READ_TO_KNOW, _FEWEST_COMMON, _MORE_COMMON = 4_000, 3, 1.5
_SURELY_ENGLISH = 2  # times that a text has "the"; one may be a quotation


def common_words(text: str) -> dict[str, int]:
    """
    Return how many of the most common words of each language *text* has, each counted once.

    Words with a capital do not count: they are mostly names, such as "La Jolla".
    """
    said = {*_PLAIN_WORD.findall(canonical(text[:_READ_TO_KNOW]))}
    return {name: len(each & said) for name, each in COMMON_WORDS.items()}


def language_of(text: str) -> str | None:
    """
    Return the language of which *text* has most common words, None if it hardly has any.

    Words that mean nothing in one language mean something in another ("war", "son"), and stems
    are those of one language: all texts of an interaction are read in the same one.
    """
    if text.count(" the ", 0, _READ_TO_KNOW) >= _SURELY_ENGLISH:
        return ENGLISH
    counts = common_words(text)
    most = max(counts, key=counts.__getitem__)
    if counts[most] < _MORE_COMMON * counts[ENGLISH]:
        most = ENGLISH
    return most if counts[most] >= _FEWEST_COMMON else None


@cache
def _listed() -> frozenset[str]:
    """Return the stems of all words that rules know by name, in any language."""
    found: list[str] = []
    tables: list[Any] = [language()["lists"], language()["exclusive"]]
    while tables:
        each = tables.pop()
        if isinstance(each, str):
            found += re.split(r"[\s=,]+", each)
        else:
            tables += each.values() if isinstance(each, dict) else each
            found += each.keys() if isinstance(each, dict) else ()
    return frozenset(map(stem, found))


def _stem_in(language: str, word: str) -> str:
    """Return *word*, in lower case, without its endings in *language*, if they are known."""
    if language.lower() not in _STEMMED or len(word) > _LONGEST_KEPT:
        return word
    # A stemmer keeps its word while it works: each call needs one of its own, without a cache.
    stemmed: str = Stemmer.Stemmer(language.lower(), 0).stemWord(word)
    return stemmed


@cache
def light() -> frozenset[str]:
    """Return words, in lower case, that are too general to name a subject in any language."""
    return frozenset(language()["conversation"]["light"].split())


def is_ordinal(word: Word) -> bool:
    """Return whether a number is written as a place in an order, such as "third"."""
    return word.surface.lower() in _ORDINALS


def has_words(text: str) -> bool:
    """Return whether *text* holds any word, without reading it to the end."""
    return (re.search("[A-Za-z0-9]", text) or _PLAIN_WORD.search(compatible(text))) is not None


def spaced(text: str) -> str:
    """Return *text* with spaces around characters of scripts that are written without spaces."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def canonical(text: str) -> str:
    """Return *text* with letters and marks composed (NFC): it reads the same, letter for letter."""
    return _normalised("NFC", text)


def compatible(text: str) -> str:
    """Return *text* with full-width, joined and styled letters written plainly (NFKC)."""
    return _normalised("NFKC", text)


def _normalised(form: str, text: str) -> str:
    if text.isascii():
        return text
    if _MAY_BE_MARKED.search(text):
        text = _MARKS_ON_END.sub(r"\1", text)
    return unicodedata.normalize(form, text)  # type: ignore[arg-type]


_MAY_BE_BRITISH = re.compile("our|[tb]re|ogue|alys|is(?:[ei]|at)")
_BRITISH = (
    (re.compile(r"(?<=\w\w)our(?=$|s$|ed$|ing$|able|ite)"), "or"),
    (re.compile(r"(?<=\w\w)([tb])re(?=s?$)"), r"\1er"),
    (re.compile(r"(?<=\w\w)ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=al)ys(?=e|ing)"), "yz"),
    (re.compile(r"(?<=\w\w\w)is(?=(?:e(?:[dsr]|ly)?|ing|ations?)$)"), "iz"),
)
_SHORTEST_STEMMED, _LONG = 4, 6


def stem(word: str) -> str:
    """
    Return *word*, in lower case, without its English endings (Snowball), in American spelling.

    Words of other languages mostly stay as they are. The result is not a word of its own, and
    now and then two words share one ("import" and "important").
    """
    if not word.isascii() or (len(word) < _SHORTEST_STEMMED and word[-1:] != "y"):
        return word
    if len(word) >= _LONG and _MAY_BE_BRITISH.search(word):
        for british, american in _BRITISH:
            word = british.sub(american, word)
    return _stem_in(ENGLISH, word)


@cache
def listed(name: str) -> frozenset[str]:
    """Return the stems of a list of ``language.toml``."""
    return frozenset(map(stem, language()["lists"][name].split()))


def denies(word: Word, lists: tuple[str, ...] = ("negations",)) -> bool:
    """Return whether a word denies what follows; by its form, as "noted" has the stem of "not"."""
    return word.surface.lower() in denials(lists)


@cache
def denials(lists: tuple[str, ...]) -> frozenset[str]:
    """Return the words of several lists of ``language.toml``, as they are written."""
    return frozenset(word for name in lists for word in language()["lists"][name].split())
