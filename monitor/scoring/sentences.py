"""Split text into sentences: abbreviations, decimals, bullets and lines respected."""

# ruff: noqa: RUF001 - the punctuation of other languages is meant
from __future__ import annotations

import re

from monitor.scoring.refusals import is_refusal
from monitor.scoring.words import canonical, words

_ABBREVIATED = """
mr mrs ms dr prof sr jr st vs etc e.g i.e eg ie approx no fig inc ltd co corp dept est gen gov rep
sen capt col lt sgt jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# Possessive, and never in the middle of a run: otherwise long runs take quadratic time.
_END = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’)\]]*+(?:\[\^?\d{1,3}\])*+(?=\s|$)"""
    r"""|(?<![。！？．])[。！？．]++["”’」）]*+"""
)
_BULLET = re.compile(r"^\s*(?:[-*•·–—]+\s+|\(?\d{1,3}[.)]\s+|#{1,6}\s+|>\s+|\|)+")
_LONGEST_WORD = 40
_MARKS = re.compile(r"\*\*|__|`")


def split_sentences(text: str) -> tuple[str, ...]:
    """
    Split *text* into sentences, without bullets and emphasis marks.

    A line break ends a sentence, because lists and headings have no full stop. Letters
    are composed (NFC) but not replaced: a full-width stop ends a sentence without a space.
    """
    sentences: list[str] = []
    for line in canonical(text).splitlines():
        bare = _MARKS.sub("", _BULLET.sub("", line)).strip()
        if bare:
            sentences += _split_line(bare)
    return tuple(sentences)


def _split_line(line: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for match in _END.finditer(line):
        if _ends_sentence(line, match):
            parts.append(line[start : match.end()].strip())
            start = match.end()
    parts.append(line[start:].strip())
    return [part for part in parts if any(char.isalnum() for char in part)]


def _ends_sentence(line: str, match: re.Match[str]) -> bool:
    if match.group() != ".":
        return True
    before = line[max(match.start() - _LONGEST_WORD, 0) : match.start()].split()
    word = before[-1].lstrip("(\"'“‘").lower() if before else ""
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i"):
        return False
    following = line[match.end() : match.end() + _LONGEST_WORD].lstrip()
    return not following[:1].islower() or len(word) > 4  # noqa: PLR2004 - "approx. half", no name


# --- claims ---
# Tell statements that passages can support from refusals, questions and small talk.


_SMALL_TALK = re.compile(
    r"^(?:sure|certainly|of course|ok(?:ay)?|great question|good question|hello|hi|hey"
    r"|thanks|thank you"
    r"|you(?:'re| are) welcome|no problem|glad|happy to help|(?:i )?hope (?:this|that) helps"
    r"|let me know|(?:please )?feel free|(?:is there )?anything else|have a (?:great|nice|good)"
    r"|good (?:morning|afternoon|evening|luck)|here (?:is|are)\b.*:$"
    r"|please (?:contact|consult|ask|let|reach))\b",
    re.IGNORECASE,
)
#: "## Refunds", and a line that is bold from end to end and ends like no sentence.
_HEADING = re.compile(r"\s*#{1,6}\s+(\S.*)|\s*\*\*([^*]{1,80}[^*.!?])\*\*\s*")
#: Sentences of an output that are judged; more than any reader would read one by one.
MOST_SENTENCES = 200
_CHARS_READ = 2_000  # enough to see that a sentence is long and says something
_LONGEST_SMALL_TALK = 14  # words; a longer sentence says something besides


def headings(text: str) -> frozenset[str]:
    """List the headings of Markdown in *text*, as sentences; the last line is none."""
    *lines, _ = text.rstrip().splitlines() or [""]
    found = (_HEADING.fullmatch(line) for line in lines)
    return frozenset(s for match in found if match for s in split_sentences(match[1] or match[2]))


def is_checkable(sentence: str) -> bool:
    """Say whether *sentence* states something that a passage could support."""
    said = without_mentions(sentence[:_CHARS_READ])
    tokens = words(said)
    if not any(word.content for word in tokens):
        return False
    if sentence.endswith(("?", "？", ":")) or is_refusal(sentence):
        return False
    return len(tokens) > _LONGEST_SMALL_TALK or not _SMALL_TALK.match(said)


# --- mentions ---
# Take out of a sentence what states nothing: where it was read, and how it is joined to others.


_FLAGS = re.IGNORECASE
#: What apps call the texts that they hand to a model; these are also numbered.
_NUMBERED = (
    r"(?:passage|source|context|document|doc|excerpt|snippet|chunk|reference|ref|citation)s?"
)
_TEXTS = rf"(?:{_NUMBERED}|texts?|articles?|paragraphs?|information|data|content|details|facts)"
_NUMBER = r"\.?\s?#?\d{1,3}"
_NUMBERS = (
    rf"{_NUMBER}(?:(?:\s?[,;&–-]\s?|\s(?:and|or|to)\s)(?:{_NUMBERED}\s?)?#?\d{{1,3}}){{0,20}}+"
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
    r"(?:(?:also|further|briefly|then|explicitly|specifically|clearly|only)\s)*+"
    r"(?:mention|state|say|suggest|note|describe|discuss|explain|indicate|highlight|report|show"
    r"|specif(?:y|ie)|list|conclude|add|tell)(?:s|es)?(?:\sus)?(?:\sthat)?\b"
)
_SEE = r"(?:(?:see|cf\.?|from|per|according\sto|sources?|as\sper)\b:?\s?)?(?:the\s)?"
_MENTIONS = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        # [1], [^2], [1, 3], 【4†source】; [doc 2], (Passage 1, Passage 3); (source: prices.pdf)
        r"\s?\[\^?\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*+\]|\s?【[^】]{1,40}】",
        rf"\s?[\[(]{_SEE}{_NUMBERED}{_NUMBERS}[\])]",
        r"\s?[\[(]sources?:\s?[^\[\]()]{1,80}[\])]",
        # at the beginning, at the end, before what they say
        rf"^{_BY}\s{_NAMED}(?:,|\s?$)\s?",
        rf",?\s{_BY}\s{_NAMED}(?=[.,;!?]|\s?$),?",
        rf"(?:^|(?<=[,:;]\s)){_NAMED}\s{_SAYS}\s?",
        # anywhere else
        rf"\b(?:(?:in|from|of|by|per|to)\s)?{_NUMBERED}{_NUMBERS}(?=\W|$)",
    )
)
#: What joins a sentence to the others: "Second," counts nothing, and "Step 3:" neither.
_JOINING = re.compile(
    r"^(?:(?:and|so|but)\s)?(?:(?:first|second|third|fourth|fifth|next|last)(?:ly)?|finally|then"
    r"|also|besides|additionally|furthermore|moreover|meanwhile|similarly|likewise|however|instead"
    r"|alternatively|therefore|thus|hence|consequently|overall|ultimately|specifically"
    r"|importantly|interestingly|that said|as a result|on the other hand|for (?:example|instance)"
    r"|in (?:summary|conclusion|short|addition|contrast|general)"
    r"|to (?:summari[sz]e|conclude|sum up)|answer|(?:please )?note(?: that)?"
    r"|(?:step|method|option|part|tip|point)\s\d{1,2})\s?[,:–]\s",
    _FLAGS,
)
_WORTH_A_LOOK = re.compile(rf"[\[【]|\b{_TEXTS}\b", _FLAGS)


def without_mentions(sentence: str) -> str:
    """
    Leave out of *sentence* where it was read and what joins it to others, nothing that it says.

    "Second, according to passage 2, refunds take five days [1]." becomes "refunds take five
    days.": the number of a passage is not in the passage, and would count against the claim.
    The turns of phrase are English, the marks of any language. What is left may be empty.
    """
    sentence = _JOINING.sub("", sentence)
    if not _WORTH_A_LOOK.search(sentence):
        return sentence
    for pattern in _MENTIONS:
        sentence = pattern.sub("", sentence)
    return sentence.lstrip(" ,;:").rstrip()
