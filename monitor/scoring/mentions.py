"""Take out of a sentence what states nothing: where it was read, and how it is joined to others."""

from __future__ import annotations

import re

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
