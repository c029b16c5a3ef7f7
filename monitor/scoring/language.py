"""
Read words and sentences, in any language.

`words` gives stems, numbers in one form, names and stop words, however they are written;
`split_sentences` sentences, `split_statements` what one of them joins. `is_checkable` finds those
that state something, `without_mentions` leaves out where a sentence says that it was read.
"""

# ruff: noqa: RUF001 - the letters and marks of other languages are meant
from __future__ import annotations

import html
import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple


@cache
def language() -> dict[str, Any]:
    """Read the words and turns of phrase that ship as data: ``language.toml``."""
    return tomllib.loads(resources.files("monitor.scoring").joinpath("language.toml").read_text())


STOP_WORDS = frozenset(w for words in language()["stop_words"].values() for w in words.split())
_NUMBER_WORDS = {
    word: str(number)
    for names, first, step in language()["numbers"]["words"]
    for number, word in zip(range(first, 100, step), names.split(), strict=False)
    if word != "-"
} | {"twice": "2"}
#: "twenty-one", "vingt et un", "soixante-quinze", "quatre-vingts"
_COMPOUND = re.compile(language()["numbers"]["compound"], re.IGNORECASE | re.ASCII)
_MAY_BE_COMPOUND = [*map(re.compile, language()["hints"]["tens"])]  # twenty times as fast
_BEHIND_TENS = _NUMBER_WORDS | language()["numbers"]["behind_tens"]

_MARK_CODES = [
    code
    for code in range(0x300, 0x20000)  # beyond it there are only variation selectors
    if unicodedata.category(chr(code))[0] == "M" or code in {0xFF9E, 0xFF9F}
]
_FIRST_MARKS = sorted({*_MARK_CODES} - {code + 1 for code in _MARK_CODES})
_LAST_MARKS = sorted({*_MARK_CODES} - {code - 1 for code in _MARK_CODES})
#: The combining marks of all scripts as ranges, for use inside a character class.
MARKS = "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(_FIRST_MARKS, _LAST_MARKS, strict=True))
#: What may be a mark, or of a script without spaces: texts without it are read six times as fast.
_MAY_BE_MARKED = re.compile("[\u0300-\u1fff\u20d0-\u20ff\u2c00-\U0001ffff]")
# Normalising sorts the marks of a letter in quadratic time; no script has thirty of them.
_MARKS_ON_END = re.compile(rf"([{MARKS}]{{30}})[{MARKS}]+")
_FIGURE = r"\d+(?:[.,:]\d+)*"
_LETTERS = rf"[^\W\d_]++(?:[{MARKS}]++[^\W\d_]*+)*+"  # vowels of many scripts are marks
_MARKED_WORD, _PLAIN_WORD, _ASCII_WORD = (
    re.compile(rf"{letters}(?:'{letters})*|{_FIGURE}")
    for letters in (_LETTERS, r"[^\W\d_]++", "[A-Za-z]++")
)
# Scripts written without spaces: every character stands for itself.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: Marks of which many texts have no other letters that are not ASCII: those are read faster.
_TYPOGRAPHY = (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", "-"), ("•", " "))
# Begins with one class of characters, for which the engine scans quickly.
_NOT = re.compile(r"[nN](?<=\w.)'[tT]\b")
_IRREGULAR_NOT = (("can't", "can not"), ("Can't", "Can not"), ("CAN'T", "CAN NOT"),
                  ("won't", "will not"), ("Won't", "Will not"), ("WON'T", "WILL NOT"))  # fmt: skip
#: French and Italian write "l'article", "dell'acquisto": the noun is what counts.
_ELIDED = re.compile(r"(?:[cdjlmnst]|qu|un|quest|quell|(?:d|n)ell|[ds]?all|sull)'(?=\w{3})")
#: "U.S.", "p.m.", "F.E.A.R."
_DOTTED = re.compile(r"(?<![.\w])(?:[^\W\d_]\.){2,10}(?!\w)")
_MAY_BE_DOTTED = re.compile(r"\.\w\.")  # six times as fast
_MONEY = re.compile("[$€£¥]")
_CURRENCIES = {"$": " dollar ", "€": " euro ", "£": " pound ", "¥": " yen "}
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
#: "50 000" is one number; the mark between its groups is a space by now, narrow ones as well.
_SPACED_THOUSANDS = re.compile(r"\d(?<![\d.,:].)\d{0,2}(?: \d{3})+(?![.:]?\d)")
_LONG_NUMBER = 15
#: A word that was read before takes a fiftieth of the time; 20,000 words are 6 MB a process.
_MOST_KEPT, _LONGEST_KEPT = 20_000, 40
_LONGEST_TEXT_KEPT = 500


class Word(NamedTuple):
    """A word of a text, ready to be compared."""

    stem: str
    content: bool  #: it carries information: neither a stop word nor a single letter
    number: bool
    capital: bool
    surface: str

    @classmethod
    def read(cls, surface: str) -> Word:
        """Return the word or number that is written as *surface*, which is not empty."""
        if surface[0].isdigit():
            # 1,000, 1.000 and 1000.0 are 1000, whatever the language of the thousands mark
            number = surface.replace(",", "") if re.search(r",\d{3}\b", surface) else surface
            number = number.replace(".", "") if _THOUSANDS.fullmatch(number) else number
            if number.count(".") == 1 and ":" not in number:
                number = number.rstrip("0").rstrip(".")
            plain = number.lstrip("0")[:_LONG_NUMBER] or "0"
            return cls(plain, content=True, number=True, capital=False, surface=surface)
        lower = surface.lower().removesuffix("'s")
        if elided := _ELIDED.match(lower):
            lower = lower[elided.end() :]
        if figure := _NUMBER_WORDS.get(lower):
            return cls(figure, content=True, number=True, capital=False, surface=surface)
        content = lower not in STOP_WORDS and not (len(lower) == 1 and lower.isascii())
        capital = content and surface[0].isupper()
        return cls(stem(lower), content, number=False, capital=capital, surface=surface)


class _Words(dict[str, Word]):
    """The words that were read lately, by surface."""

    def __missing__(self, surface: str) -> Word:
        word = Word.read(surface)
        if len(surface) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[surface] = word
        return word


_words = _Words()


def words(text: str) -> tuple[Word, ...]:
    """Split *text* into words, the same for all ways of writing it in Unicode."""
    split = _kept if len(text) <= _LONGEST_TEXT_KEPT else words_of
    return split((text,))[0]


def words_of(texts: Sequence[str]) -> list[tuple[Word, ...]]:
    """Split texts into words, several times as fast as one by one."""
    text = "\0".join(texts)
    text = html.unescape(text) if "&" in text else text
    if not text.isascii():
        for mark, plain in _TYPOGRAPHY:
            text = text.replace(mark, plain)
        text = compatible(text)
    if _MAY_BE_DOTTED.search(text):
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    lower = text.lower()
    if any(hint.search(lower) for hint in _MAY_BE_COMPOUND):
        text = _COMPOUND.sub(
            lambda m: str(sum(int(_BEHIND_TENS[w.lower()]) for w in m.groups(""))), text
        )
    if "n't" in text or "N'T" in text:
        for short, whole in _IRREGULAR_NOT:
            text = text.replace(short, whole)
        text = _NOT.sub(" not", text)
    text = _SPACED_THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)
    pattern = _ASCII_WORD
    if "$" in text or not text.isascii():
        text = _MONEY.sub(lambda match: _CURRENCIES[match[0]], text)
    if not text.isascii():
        marked = _MAY_BE_MARKED.search(text)
        pattern, text = (_MARKED_WORD, spaced(text)) if marked else (_PLAIN_WORD, text)
    if text.count("\0") != len(texts) - 1:  # somebody wrote one
        return [words_of([each.replace("\0", " ")])[0] for each in texts]
    return [tuple(map(_words.__getitem__, pattern.findall(each))) for each in text.split("\0")]


#: Several readers of one sample ask for the words of its sentences.
_kept = lru_cache(maxsize=1024)(words_of)


def has_words(text: str) -> bool:
    """Return whether *text* holds any word, without reading it to the end."""
    return _PLAIN_WORD.search(compatible(text)) is not None


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


_ENDINGS = {
    "ization": "iz", "isation": "iz", "ational": "at", "fulness": "ful", "ations": "at",
    "ation": "at", "ments": "ment", "iness": "y", "ising": "iz", "izing": "iz", "ating": "at",
    "ised": "iz", "ized": "iz", "ises": "iz", "izes": "iz", "sses": "ss", "ated": "at",
    "ates": "at", "ise": "iz", "ize": "iz", "ies": "y", "ied": "y", "ily": "y", "ate": "at",
    "ing": "", "ed": "", "ly": "", "es": "", "s": "", "e": "",
}  # fmt: skip
#: What makes another kind of word: "removal" and "removing" are compared alike.
_DERIVING = re.compile(
    "(?:ability|ibility|ically|ement|ment|ness|abl|ibl|ical|anc|enc|ity|iv|ion|ism|ist|ous|ful|al"
    "|ic|or|er|ant|ent)$"
)
_MAY_BE_BRITISH = re.compile("our|[tb]re|ogue|alys")
_BRITISH = (
    (re.compile(r"(?<=\w\w)our(?=$|s$|ed$|ing$|able|ite)"), "or"),
    (re.compile(r"(?<=\w\w)([tb])re(?=s?$)"), r"\1er"),
    (re.compile(r"(?<=\w\w)ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=al)ys(?=e|ing)"), "yz"),
)
_SHORTEST_STEM, _SHORTEST_ROOT, _LONG, _LONGEST_ENDING = 3, 5, 6, 7
_TRIED = re.compile(r"([^aeiou]{2})ie[ds]")


def stem(word: str) -> str:
    """
    Return *word*, in lower case, without its English endings.

    Words of other languages mostly stay as they are. The result is not a word of its own, and
    now and then two words share one ("import" and "important").
    """
    if len(word) <= _SHORTEST_STEM or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    if tried := _TRIED.fullmatch(word):
        return f"{tried[1]}y"
    if len(word) >= _LONG:
        word = word.removesuffix("ly") if word.endswith("ely") else word
        if _MAY_BE_BRITISH.search(word):
            for british, american in _BRITISH:
                word = british.sub(american, word)
    for length in range(min(_LONGEST_ENDING, len(word) - _SHORTEST_STEM), 0, -1):
        ending = word[-length:]
        if ending in _ENDINGS:
            word = word[:-length] + _ENDINGS[ending]
            if ending in {"ing", "ed"} and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    root = _DERIVING.search(word, len(word) - _LONGEST_ENDING) if len(word) > _LONG else None
    return word[: root.start()] if root and root.start() >= _SHORTEST_ROOT else word


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


# --- sentences, and which ones state something ---

_HINTS = language()["hints"]
_ABBREVIATIONS = frozenset(language()["lists"]["abbreviations"].split())
# Possessive, and never in the middle of a run: otherwise long runs take quadratic time. Groups are
# not: before Python 3.11.5 a possessive one keeps half a repeat. It begins with one class of
# characters, for which the engine scans quickly.
_END = re.compile(
    r"""[.!?…。！？．](?:(?<=[.!?…])(?<![.!?…]{2})[.!?…]*+["'”’)\]]*+(?:\[\^?\d{1,3}\])*(?=\s|$)"""
    r"""|(?<=[。！？．])(?<![。！？．]{2})[。！？．]*+["'”’」）]*+)"""
)
_BULLET = re.compile(r"^\s*(?:[-*•·–—]+\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+|>\s+|\|)+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_LONGEST_WORD, _LONGEST_NAME = 40, 4


def split_sentences(text: str) -> tuple[str, ...]:
    """
    Return the sentences of *text*, without bullets and emphasis marks.

    A line break ends a sentence, because lists and headings have no full stop. Letters
    are composed (NFC) but not replaced: a full-width stop ends a sentence without a space.
    """
    sentences: list[str] = []
    for line in canonical(text).splitlines():
        bullet = _BULLET.match(line)
        bare = line[bullet.end() :] if bullet else line
        if "*" in bare or "_" in bare or "`" in bare:
            bare = _EMPHASIS.sub("", bare)
        bare = bare.strip()
        start = 0
        for match in _END.finditer(bare):
            at, end = match.span()
            if end == at + 1 and bare[at] == ".":
                before = bare[max(at - _LONGEST_WORD, 0) : at].rsplit(None, 1)
                word = before[-1].lstrip("(\"'“‘").lower() if before else ""
                goes_on = bare[end : end + _LONGEST_WORD].lstrip()[:1].islower()  # "approx. half"
                initial = len(word) == 1 and word.isalpha() and word != "i"
                if initial or word in _ABBREVIATIONS or (goes_on and len(word) <= _LONGEST_NAME):
                    continue
            sentences.append(bare[start:end].strip())
            start = end
        sentences.append(bare[start:].strip())
    return tuple(each for each in sentences if any(map(str.isalnum, each)))


#: Where one statement ends within a sentence: at a semicolon, or before a clause with a verb.
_VERB = (
    r"(?:is|are|was|were|has|have|had|can|cannot|could|will|would|may|must|should|does|did"
    r"|(?:do|does|did|is|are|was|were|has|have|had|ca|wo)n't|[a-z]{3,}(?:ed|es))"
)
_JOINT = re.compile(
    rf";\s+|,?\s(?:and|but|while|whereas)\s(?=(?:[\w'’-]+\s){{0,4}}{_VERB}\s)", re.IGNORECASE
)
_HAS_VERB = re.compile(rf"\b{_VERB}\s", re.IGNORECASE)
_LEAST_STATED = 2  # informative words of a statement


def split_statements(sentence: str) -> tuple[str, ...]:
    """
    Return the statements that *sentence* joins, where it is safe to part them; else the sentence.

    "It costs 20 euros and was built in 1889." makes two. Parted are semicolons, and the English
    "and", "but", "while" and "whereas" between clauses that both have a verb; never brackets or
    quotes.
    """
    parts = _JOINT.split(sentence)
    whole = len(parts) < 2 or any(  # noqa: PLR2004 - one has no parts
        sum(word.content for word in words(part)) < _LEAST_STATED
        or part.count("(") != part.count(")")
        or part.count('"') % 2
        for part in parts
    )
    return (sentence,) if whole or not _HAS_VERB.search(parts[0]) else tuple(parts)


_SMALL_TALK = re.compile(
    r"[¡¿\s]*(?:{})(?!\w)".format("|".join(language()["courtesies"].values())), re.IGNORECASE
)
_AFTER_COMMA = re.compile(r"[,;!–]\s+(.*)", re.DOTALL)
#: "## Refunds", and a line that is bold from end to end and ends like no sentence.
_HEADING = re.compile(r"\s*#{1,6}\s+(\S.*)|\s*\*\*([^*]{1,80}[^*.!?])\*\*\s*")
_ONLY_CODE = re.compile(r"\s*`[^`]+`\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
#: Sentences of an output that are judged; more than any reader would read one by one.
MOST_SENTENCES = 200
_CHARS_READ, _LONGEST_TERSE = 2_000, 40  # of any sentence; of one that declines in a word or two
_LONGEST_SMALL_TALK = 14  # words; a longer sentence says something besides


def headings_and_code(text: str) -> frozenset[str]:
    """Return the sentences of *text* that are Markdown headings (the last line is none) or code."""
    lines = text.rstrip().splitlines()
    found: list[str] = []
    fenced = False
    for number, line in enumerate(lines, start=1):
        if _FENCE.match(line):
            fenced = not fenced
            found.append(line)
        elif fenced or _ONLY_CODE.fullmatch(line):
            found.append(line)
        elif number < len(lines) and (title := _HEADING.fullmatch(line)):
            found.append(title[1] or title[2])
    return frozenset(sentence for line in found for sentence in split_sentences(line))


def is_checkable(sentence: str) -> bool:
    """Return whether *sentence* states something that a passage could support."""
    if sentence.endswith(("?", "？", ":")):
        return False
    said = without_mentions(sentence[:_CHARS_READ])
    tokens = words(said)
    if not any(word.content for word in tokens) or is_refusal(sentence):
        return False
    return len(tokens) > _LONGEST_SMALL_TALK or not _only_talks(said)


def _only_talks(said: str) -> bool:
    """Return whether a sentence begins as small talk does, and states nothing behind a comma."""
    if (opening := _SMALL_TALK.match(said)) is None:
        return False
    behind = _AFTER_COMMA.match(said, opening.end())
    if behind is None or _only_talks(behind[1]):
        return True
    return sum(word.content for word in words(behind[1])) < _LEAST_STATED


_REFUSALS = {name: "|".join(patterns) for name, patterns in language()["refusals"].items()}
_REFUSAL = re.compile("|".join(_REFUSALS.values()), re.IGNORECASE)
# All of these begin a word; to say so once keeps the engine from trying each at every letter.
_ENGLISH_REFUSAL = re.compile(rf"\b(?:{_REFUSALS['English']})", re.IGNORECASE)
#: Sentences that decline in a word or two.
_TERSE = re.compile(
    r"(?:unanswerable|unknown|n/?a|no (?:answer|information|data)(?: (?:was )?(?:found|available))?"
    r"|not (?:known|specified|stated|given|mentioned|provided|available|found|answerable))\W*",
    re.IGNORECASE,
)
_FOREIGN_LETTER = re.compile(r"[^\W\d_a-zA-Z]")
#: What joins a refusal to something else: each side must decline, or ask to turn elsewhere.
_BUT = re.compile(language()["linking"]["but"], re.IGNORECASE)
#: What leads to a statement within the same sentence.
_BESIDES = re.compile(r"\b(?:although|though|instead|except)\b", re.IGNORECASE)


def is_refusal(sentence: str) -> bool:
    """
    Return whether *sentence* only declines to answer or says that the sources are silent.

    "I'm sorry, but I don't know" and "Not specified." decline; "I don't know, but it is open"
    states something. The turns of phrase are those of fifteen languages besides English; in others
    a refusal is read as a statement, which the passages then do not hold.
    """
    if len(sentence) <= _LONGEST_TERSE and _TERSE.fullmatch(sentence.strip()):
        return True
    if sentence.isascii() or not _FOREIGN_LETTER.search(sentence):
        lower = sentence.lower()
        hinted = any(map(lower.__contains__, _HINTS["refusing"]))
        english = hinted and _ENGLISH_REFUSAL.search(sentence)
        if not english and not any(map(lower.__contains__, _HINTS["refusing_elsewhere"])):
            return False
    if not _REFUSAL.search(sentence) or _BESIDES.search(sentence):
        return False
    parts = [part for part in _BUT.split(sentence) if has_words(part)]
    return all(_REFUSAL.search(part) or _SMALL_TALK.match(part.strip()) for part in parts)


#: What apps call the texts that they hand to a model; these are also numbered.
_NUMBERED = (
    r"(?:passage|source|context|document|doc|excerpt|snippet|chunk|reference|ref|citation)s?"
)
_TEXTS = rf"(?:{_NUMBERED}|texts?|articles?|paragraphs?|information|data|content|details|facts)"
_NUMBER = r"\.?\s?#?\d{1,3}"
_NUMBERS = (
    rf"{_NUMBER}(?:(?:\s?[,;&–-]\s?|\s(?:and|or|to)\s)(?:{_NUMBERED}\s?)?#?\d{{1,3}}){{0,20}}"
)
_WHICH = (
    r"(?:(?:the|these|this|those|that|your|all|both|given|provided|above|available|retrieved"
    r"|supplied|following|structured|relevant|short|input|context|search)\s)"
)
#: "the given passages", "the information provided in the passages", "passages 1 and 2".
_NAMED = (
    rf"(?:{_NUMBERED}{_NUMBERS}|{_WHICH}{{1,3}}{_TEXTS}(?:{_NUMBERS})?"
    rf"(?:\s(?:provided|given|above|available))?(?:\s(?:in|from|by|of)\s{_WHICH}{{1,3}}{_TEXTS})?)"
)
_BY = (
    r"(?:(?:based|relying|drawing|going)\s(?:(?:solely|only|entirely|purely)\s)?(?:up)?on"
    r"|(?:according|with reference|referring)\sto|judging\s(?:by|from)|as\sper|per|from|in|within"
    r"|(?:as\s)?(?:stated|mentioned|noted|described|explained|given|shown|seen|indicated"
    r"|discussed|outlined|detailed|listed|found)\s(?:in|by))"
)
_SAYS = (
    r"(?:(?:also|further|briefly|then|explicitly|specifically|clearly|only)\s)*"
    r"(?:mention|state|say|suggest|note|describe|discuss|explain|indicate|highlight|report|show"
    r"|specif(?:y|ie)|list|conclude|add|tell)(?:s|es)?(?:\sus)?(?:\sthat)?\b"
)
_AUTHOR = r"(?-i:[A-Z])[\w'’-]+(?:,|,?\s(?:and|&)\s[\w'’-]+,?|\set\sal\.?,?)\s(?:19|20)\d\d[a-z]?"
_SEE = r"(?:(?:see|cf\.?|from|per|according\sto|sources?|as\sper)\b:?\s?)?(?:the\s)?"
_MENTIONS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # [1], [^2], 【4†source】; [doc 2], (Passage 1, Passage 3); (source: a.pdf); (Lee, 2020)
        r"\s?\[\^?\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*\]|\s?【[^】]{1,40}】",
        rf"\s?[\[(]{_SEE}{_NUMBERED}{_NUMBERS}[\])]",
        r"\s?[\[(]sources?:\s?[^\[\]()]{1,80}[\])]",
        rf"\s?\((?:see\s)?{_AUTHOR}(?:;\s{_AUTHOR}){{0,9}}\)",
        # without brackets: at the beginning, at the end, before what they say
        rf"^{_BY}\s{_NAMED}(?:,|\s?$)\s?",
        rf",?\s{_BY}\s{_NAMED}(?=[.,;!?]|\s?$),?",
        rf"(?:^|(?<=[,:;]\s)){_NAMED}\s{_SAYS}\s?",
        # anywhere else
        rf"\b(?:(?:in|from|of|by|per|to)\s)?{_NUMBERED}{_NUMBERS}(?=\W|$)",
    )
)
_IN_BRACKETS = 4  #: the first of them
#: What joins a sentence to the others: "Second," counts nothing, and "Step 3:" neither.
_JOINING = re.compile(rf"^{language()['linking']['opening']}\s?[,:–]\s", re.IGNORECASE)
#: "No, it costs 20 dollars." denies the question, and then states something.
_YES_OR_NO = re.compile(
    r"^(?:yes|yeah|yep|no|nope|ja|nein|oui|non|s[ií]|sim|não|nee)\s?[,:;–—]\s(?=\S)", re.IGNORECASE
)


@lru_cache(maxsize=512)  # a sentence is read to see whether it states something, then as a claim
def without_mentions(sentence: str) -> str:
    """
    Return *sentence* without where it was read and what joins it to others.

    "Second, according to passage 2, refunds take five days [1]." becomes "refunds take five
    days.": the number of a passage is not in the passage, and would count against the claim.
    The turns of phrase are English, the marks of any language. What is left may be empty.
    """
    for opening in (_YES_OR_NO, _JOINING):
        if match := opening.match(sentence):
            sentence = sentence[match.end() :]
    lower = sentence.lower()
    marked = any(map(lower.__contains__, "[(【"))
    named = any(map(lower.__contains__, _HINTS["mentioning"]))
    if not (marked or named):
        return sentence
    for pattern in _MENTIONS[0 if marked else _IN_BRACKETS : None if named else _IN_BRACKETS]:
        sentence = pattern.sub("", sentence)
    return sentence.lstrip(" ,;:").rstrip()
