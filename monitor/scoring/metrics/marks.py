"""
Where an answer cites something, in the many forms in which models write it.

Read are ``[1]``, ``[1, 2]``, ``[1-3]``, ``[1]-[3]``, ``[1][2]``, ``[[1]](url)``, ``[^1]``,
``【1】``, ``word¹``, ``<sup>1</sup>``, ``[id]``, ``[Source 1]``, ``(Source 1)``, ``[a.pdf, p. 2]``,
"(Smith, 2020, p. 4; Lee, 2021)" and "Smith (2020)". Links, footnotes, lists of sources, ``[sic]``,
``(1)``, times, ranges of values and the indices of code are not citations.
"""

# ruff: noqa: RUF001 - the marks of other languages and typesetters are meant
from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from monitor.scoring.sentences import SOURCES, split_sentences

_MOST_MARKS = 20  # of one claim
_SHORTEST = 3  # characters of a name that not even looks like an id
_LONGEST_NAME = 60  # characters of the name of a variable before its index
_HIDDEN = "\ue000"  #: stands for a bracket that cites nothing
_NOUN = (
    r"(?:citation|source|document|doc|passage|context|reference|ref|chunk|excerpt|snippet|quelle"
    r"|dokument|fuente|documento|extrait)[sn]?"
)
#: "Source 1", "source: faq-3"; and "doc1", "doc_1", "S1" where no passage is called so.
_NOUN_BEFORE = re.compile(rf"{_NOUN}(?:\.?\s|[:#])[:#\s]*", re.IGNORECASE)
_JOINED = re.compile(rf"({_NOUN}(?=[\d._-])|(?-i:[SD])(?=\d))[._-]?(?=\d{{1,3}}$)", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
#: What stands in brackets, and the link behind it.
_BRACKETS = re.compile(
    r"\[\^?([^\][\n]{1,200})\](?:\(([^()\s]{1,500})\))?"
    r"|【(\d{1,3})(?:[†:][^】]{0,40})?】"
)
_NAMES = r"([A-Z][\w'-]+)((?:,? (?:and|&) [A-Z][\w'-]+| et al\.?)?)"
#: (Smith, 2020), [Smith and Lee 2020], (Smith et al., 2020a)
_IN_AUTHOR = rf"{_NAMES},? ((?:19|20)\d\d)[a-z]?"
AUTHOR = re.compile(rf"\({_IN_AUTHOR}\)")
_AUTHOR_BRACKETS = re.compile(rf"\[({_IN_AUTHOR})\](?!\()")
#: Where in a source, behind its year: ", p. 4"; ", pp. 4-5".
_PLACE = re.compile(r"(?<=\d\d\d[\da-z]), ?(?:pp?|S|ch|sec)\.? ?\d[\d–-]{0,9}(?=[;)\]])")
#: The same within brackets, behind a comma.
_PAGE = re.compile(
    r"(?:pp?|pages?|s|seiten?|ch|chapters?|sec|sections?|lines?|§)\.?\s?\d[\d–-]{0,9}",
    re.IGNORECASE,
)
#: Smith (2020), Smith and Lee (2020)
AUTHOR_SAYS = re.compile(rf"(?<![\w'-]){_NAMES} \(((?:19|20)\d\d)[a-z]?\)")
#: (Smith, 2020; Lee, 2021)
_AUTHORS = re.compile(r"[(\[]([^();\][]{3,60}\d[a-z]?(?:;[^();\][]{3,60}\d[a-z]?)+)[)\]]")
_RANGE = re.compile(r"([0-9]{1,2})\s?[-–—]\s?([0-9]{1,2})")
_YEAR = re.compile("(?:19|20)[0-9][0-9]")
_AND = re.compile(r"\s*[,;&]\s*|\s+(?:and|und|et|y)\s+")
#: The text of a footnote, or the address of a link, below the answer.
_DEFINITION = re.compile(
    r"^[ \t]*(?:\[\^[^\][\n]{1,100}\]:|\[\d{1,3}\]:(?=\s)|\[[^\][\n]{1,100}\]:\s*<?https?:).*$",
    re.MULTILINE,
)
_RAISED = "¹²³⁰⁴⁵⁶⁷⁸⁹"
_DIGITS = str.maketrans(_RAISED, "1230456789")
#: The same without a colon, in the last lines.
_DEFINES = re.compile(
    rf"[ \t]*(?:[-*•][ \t]+)?(\[\^?[^\][]{{1,100}}\]|【[^】]{{1,40}}】|[{_RAISED}]{{1,3}}"
    r"|<sup>[^<]{1,20}</sup>)[ \t]*\S"
)
_RULE = re.compile(r"\s*(?:-{3,}|_{3,}|\*{3,})?\s*")
_SUPERSCRIPT = re.compile(
    rf"<sup>([\d,;\s–-]{{1,20}})</sup>|([{_RAISED}]{{1,20}}(?:[,⁻]\s?[{_RAISED}]{{1,20}})*)"
)
#: What a raised number is the power of, rather than a citation behind it.
_POWERS = re.compile(
    r"(?:^|[^\w.,;:!?)\]\"”’»])$|[\d_]$|(?<![^\W\d_])(?:[^\W\d_]{1,2}|sin|cos|tan|log|chi|inch"
    r"|feet|foot|miles?|yards?|(?:kilo|centi|milli)?met(?:er|re)s?)$",
    re.IGNORECASE,
)
_LINKED_MARK = re.compile(r"\[(\[\^?[\w-]{1,100}\])\]\([^()\s]*\)")
_NESTED = re.compile(r"\[((?:[\s,]{0,3}\[[^\][\n]{1,100}\])+)\]")
_FROM_TO = re.compile(r"\[(\d{1,2})\]\s?[-–—]\s?\[(\d{1,2})\]")
_ROUND = re.compile(rf"\((?:see\s)?(?=({_NOUN})\b)([^()\n]{{1,100}})\)", re.IGNORECASE)
#: Values, such as "= [1, 2]" and "the interval [1, 5]".
_EQUALS = re.compile(r"[=∈]\s?$")
_VALUES = re.compile(r"\b(?:interval|range|list|array|vector|tuple)s?\s$", re.IGNORECASE)
_VARIABLE = re.compile(r"(?<![\w'’-])(?:[a-z]|arr|array|args|argv|nums)$")
_PERHAPS_VARIABLE = re.compile(r"(?<![\w'’-])(?:data|items|list|rows|values)$")
# From here on, a mark is its number in brackets.
_BETWEEN = re.compile(r"(\[\d+\])\s?(?:[,;&]|and|und)?\s?(?=\[\d+\])")
_AFTER_STOP = re.compile(r"([.!?…。]{1,3}[\"”’»)*_]{0,4})((?:[^\S\n]{0,3}\[\d+\])+)")
_OWN_LINE = re.compile(
    r"([.!?…。]{0,3})[^\S\n]{0,3}\n\s{0,4}((?:\[\d+\][^\S\n]{0,3})+)\.?(?=\n|\Z)"
)
_LEADS = re.compile(r"[\s\-*•]*\[\d+\]\s?\w")
_ENDS = re.compile(r"\[\d+\][.!?]*\s*$")
_SOURCE_LINE = re.compile(rf"\W*{_NOUN}[^\w:]*:[^\w\[]*\[\d+\]", re.IGNORECASE)
_EMPTY_ROUND = re.compile(
    rf"\s?\((?:see|cf\.?|vgl\.?|siehe|from|{_NOUN}:?)?[\s,;]*\)", re.IGNORECASE
)


class CitedClaim(NamedTuple):
    """A claim without its marks, and the ids that it cites."""

    text: str
    cited: tuple[str, ...]


def cited_claims(
    answer: str, ids: Collection[str] = (), sources: Collection[str] = ()
) -> list[CitedClaim]:
    """
    Split an answer into claims with what they cite.

    A mark belongs to the sentence it stands in, also right after its full stop or on the line
    below. Words in square brackets are a citation when they are one of *ids*, the names of the
    passages, or of their *sources*, or look like an id: "[sic]" does not. Text in backticks is
    code, and cites nothing; footnotes and lists of sources state nothing. "Source: [1]" belongs
    to the sentence before; several sources below several sentences to none.
    """
    shown = _CODE.sub(lambda code: code[0].replace("[", _HIDDEN), answer)
    shown = SOURCES.sub("\n", _DEFINITION.sub("", _without_definitions(shown)))
    marks = _Marks(ids, sources)
    moved = _OWN_LINE.sub(r"\2\1", _BETWEEN.sub(r"\1", marks.numbered(shown)))
    lines = [
        line if _LEADS.match(line) and not _ENDS.search(line) else _AFTER_STOP.sub(r"\2\1", line)
        for line in moved.split("\n")
    ]
    claims: list[CitedClaim] = []
    lists: list[CitedClaim] = []
    for sentence in split_sentences("\n".join(lines)):
        claim = marks.claim(sentence)
        bare = re.sub(rf"\W|\d|{_NOUN}", "", claim.text, flags=re.IGNORECASE)
        is_list = _SOURCE_LINE.match(sentence) and not (bare and claim.text[-1] in ".!?")
        (lists if is_list else claims).append(claim)
    for each in lists:
        if claims and not claims[-1].cited and 1 in (len(each.cited), len(claims)):
            claims[-1] = CitedClaim(claims[-1].text, each.cited)
    return claims


def _without_definitions(text: str) -> str:
    """Leave out the last lines where they say what the marks above them stand for."""
    lines = text.rstrip().split("\n")
    first = len(lines)
    while first and _DEFINES.match(lines[first - 1]):
        first -= 1
    if first in (0, len(lines)) or not _RULE.fullmatch(lines[first - 1]):
        return text
    above = "\n".join(lines[:first])
    named = [match[1] for line in lines[first:] if (match := _DEFINES.match(line))]
    return above if any(mark in above for mark in named) else text


class _Marks:
    """The marks of one answer, each with the names of the passages in it."""

    def __init__(self, ids: Collection[str], sources: Collection[str]) -> None:
        names = (*sources, *ids)
        self._known = {each.casefold(): each for each in names} | {each: each for each in names}
        self._places = len(ids)
        self._found: list[list[str]] = []

    def numbered(self, text: str) -> str:
        """Return *text* with the number of each mark in its place: ``[0]``, ``[1]``."""
        text = _SUPERSCRIPT.sub(self._raised, re.sub(r"\\([\][])", r"\1", text))
        text = re.sub(r"<sup>\s*(\[[^<]{1,40}\])\s*</sup>", r"\1", text)
        text = _NESTED.sub(r"\1", _LINKED_MARK.sub(r"\1", text))
        text = _ROUND.sub(self._round, _FROM_TO.sub(r"[\1-\2]", text))
        text = _AUTHORS.sub(
            lambda mark: (
                "".join(f"({each.strip()})" for each in mark[1].split(";"))
                if all(AUTHOR.fullmatch(f"({each.strip()})") for each in mark[1].split(";"))
                else mark[0]
            ),
            _PLACE.sub("", text),
        )
        text = _AUTHOR_BRACKETS.sub(
            lambda mark: mark[0] if mark[1].casefold() in self._known else f"({mark[1]})", text
        )
        ends: set[int] = set()
        text = _BRACKETS.sub(lambda mark: self._brackets(mark, ends), text)
        return AUTHOR.sub(lambda mark: self._noted([mark[0][1:-1]]), text)

    def claim(self, sentence: str) -> CitedClaim:
        """Return what *sentence* states, and what it cites."""
        marks = islice(re.finditer(r"\[(\d{1,9})\]", sentence), _MOST_MARKS)
        cited = dict.fromkeys(name for mark in marks for name in self._found[int(mark[1])])
        text = " ".join(_EMPTY_ROUND.sub("", re.sub(r"\[\d+\]", "", sentence)).split())
        # These stay in the claim: they are its subject.
        cited.update((mark[0], None) for mark in islice(AUTHOR_SAYS.finditer(text), _MOST_MARKS))
        text = re.sub(r" ([.,;!?])", r"\1", text).replace(_HIDDEN, "[")
        return CitedClaim(text, tuple(cited))

    def _noted(self, names: list[str]) -> str:
        self._found.append(names)
        return f"[{len(self._found) - 1}]"

    def _raised(self, mark: re.Match[str]) -> str:
        """Put a raised number in brackets, unless it is a power."""
        before = mark.string[max(0, mark.start() - _LONGEST_NAME) : mark.start()]
        if _POWERS.search(before.rstrip(" ")):
            return mark[0]
        number = (mark[1] or mark[2]).translate(_DIGITS).replace("⁻", "-")
        if number.isdigit() and int(number) > self._places >= max(map(int, number)) > 0:
            return f"[{', '.join(number)}]"  # ¹² with three passages
        return f"[{number}]"

    def _round(self, mark: re.Match[str]) -> str:
        """Put "(Source 1)" in square brackets, if a passage is called so or it is a place."""
        names = self._named(mark[2])
        known = names and all(name in self._known or name.isdigit() for name in names)
        return f"[{mark[2]}]" if known else mark[0]

    def _brackets(self, mark: re.Match[str], ends: set[int]) -> str:
        """Return the number of a mark; or what cites nothing, with its bracket hidden."""
        inner, link, text = (mark[1] or mark[3]).strip(), mark[2], mark.string
        names = self._named(inner)
        is_link = link is not None and re.search(r"[:/#.]", link)
        if is_link and not (inner.isdigit() or inner.casefold() in self._known):
            names = []
        is_second = (
            text[max(0, mark.start() - 1) : mark.start()] == "]" and mark.start() not in ends
        )
        if not names or is_second or (mark[1] and self._is_value(mark)):
            return mark[0].replace("[", _HIDDEN)
        ends.add(mark.end())
        rest = "" if is_link or link is None else f"({link})"
        return self._noted(names) + rest.replace("[", _HIDDEN)

    @staticmethod
    def _is_value(mark: re.Match[str]) -> bool:
        """Return whether brackets hold values, or an index: ``rows[2].name``, ``x_1[3]``."""
        start, end = mark.span()
        before = mark.string[max(0, start - _LONGEST_NAME) : start]
        after = mark.string[end : end + 2]
        if before[-1:].isspace() or before[-1:] in "=∈":
            several = re.search(r"[,;–-]", mark[1]) is not None
            return bool(_EQUALS.search(before) or (several and _VALUES.search(before)))
        name = re.search(r"[\w)\]]+$", before)
        if name is None:
            return False
        is_index = "_" in name[0] or re.match(r"\.\w|\(|\s?=", after) or _VARIABLE.search(before)
        goes_on = after[:1] == " " and after[1:].isalnum()
        return bool(is_index or (goes_on and _PERHAPS_VARIABLE.search(before)))

    def _named(self, inner: str) -> list[str]:
        """Return the ids or places between the brackets of a mark; none if these are not there."""
        if (name := self._id(inner)) is not None:
            return [name]
        found: list[str] = []
        noun = _NOUN_BEFORE.match(inner)
        for place, part in enumerate(_AND.split(inner[noun.end() :] if noun else inner)):
            if place and _PAGE.fullmatch(part) and self._id(part) is None:
                continue
            names = list(self._names_of(part.strip().lstrip("^#")))
            if not names:
                return []
            found += names
        return found[:_MOST_MARKS]

    def _id(self, name: str) -> str | None:
        return self._known.get(name, self._known.get(name.casefold()))

    def _names_of(self, part: str) -> Iterator[str]:
        if (known := self._id(part)) is not None:
            yield known
            return
        noun = _NOUN_BEFORE.match(part)
        name = part[noun.end() :] if noun else part
        joined = _JOINED.match(name)
        if joined and not any(each.startswith(joined[1].casefold()) for each in self._known):
            name = name[joined.end() :]
        if (between := _RANGE.fullmatch(name)) and self._id(name) is None:
            first, last = map(int, between.groups())
            yield from map(str, range(first, last + 1) if 0 < first < last else ())
        elif name.isdecimal() and len(name) <= len("999"):
            yield from () if int(name) == 0 else (self._id(name) or str(int(name)),)
        elif self._id(name) is not None or self._looks_like_id(name):
            yield self._id(name) or name

    def _looks_like_id(self, name: str) -> bool:
        """
        Return whether *name* may be the id of a passage that is not there.

        A long number, a time, a key such as "[F5]", capitals such as "[ORDER_ID]" and words with a
        hyphen are that only where ids of the passages look so.
        """
        if _YEAR.fullmatch(name) or not re.fullmatch(r"[\w.:/–-]{1,100}", name):
            return False
        ids: Mapping[str, str] = self._known

        def alike(pattern: str) -> bool:
            return any(re.fullmatch(pattern, each) for each in ids.values())

        if not any(map(str.isalpha, name)):
            return alike(r"\d{4,}" if name.isdecimal() else r"\d+(?:[.:/–_-]\d+)+")
        if name.isupper() and re.search("[_-]", name):
            return alike(r"[^a-z]*[A-Z][^a-z]*")
        if re.search(r"\d|\w[./]\w", name):
            return len(name) > _SHORTEST or alike(rf"(?=.*\d)\w{{1,{_SHORTEST}}}")
        return re.search("[_:-]", name) is not None and alike(r"[^\d_:-]+[_:-]\D+")
