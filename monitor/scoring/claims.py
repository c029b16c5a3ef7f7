"""Tell statements that passages can support from refusals, questions and small talk."""

from __future__ import annotations

import re

from monitor.scoring.words import words

_SOURCES = (
    r"(?:passages?|contexts?|documents?|texts?|articles?|sources?|information|data|excerpts?)"
)
_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am)|we(?:'re| are)) (?:sorry|unable|afraid|not (?:sure|able|certain))\b"
    r"|\bi apologi[sz]e\b|\bunable to (?:answer|find|provide|determine)\b"
    r"|\b(?:i|we) (?:can ?not|can't|could not|couldn't)"
    r" (?:answer|find|help|provide|say|tell|determine)"
    r"|\b(?:i|we) (?:do not|don't)"
    r" (?:know|have (?:any |enough |that |the )?(?:information|details|data))"
    rf"|\b{_SOURCES}(?: \w+){{0,3}} (?:do|does|did)(?: not|n't) (?:\w+ )?"
    r"(?:mention|contain|provide|say|specify|include|state|explain|discuss|cover|give|tell|answer)"
    rf"|\bnot (?:\w+ )?(?:mentioned|specified|provided|stated|included|covered|available|found)"
    rf"(?: \w+){{0,3}} (?:in|by|from)(?: \w+){{0,3}} {_SOURCES}\b"
    r"|\b(?:there is|there's) (?:no|not enough|insufficient) (?:information|mention|data)\b"
    r"|\bno (?:relevant )?information (?:is |was )?(?:available|provided|given|found)\b"
    r"|\b(?:cannot|can't|can not) be (?:determined|answered)\b",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"\b(?:but|however|although|though|instead|except)\b", re.IGNORECASE)
_SMALL_TALK = re.compile(
    r"^(?:sure|certainly|of course|ok(?:ay)?|great question|good question|hello|hi|hey"
    r"|thanks|thank you"
    r"|you(?:'re| are) welcome|no problem|glad|happy to help|(?:i )?hope (?:this|that) helps"
    r"|let me know|(?:please )?feel free|(?:is there )?anything else|have a (?:great|nice|good)"
    r"|good (?:morning|afternoon|evening|luck)|here (?:is|are)\b.*:$"
    r"|please (?:contact|consult|ask|let|reach))\b",
    re.IGNORECASE,
)
#: Sentences of an output that are judged; more than any reader would read one by one.
MOST_SENTENCES = 200
_CHARS_READ = 2_000  # enough to see that a sentence is long and says something
_LONGEST_SMALL_TALK = 14  # words; a longer sentence says something besides


def is_refusal(sentence: str) -> bool:
    """Say whether *sentence* only declines to answer or says that the sources are silent."""
    return bool(_REFUSAL.search(sentence)) and not _CONTINUES.search(sentence)


def is_checkable(sentence: str) -> bool:
    """Say whether *sentence* states something that a passage could support."""
    tokens = words(sentence[:_CHARS_READ])
    if not any(word.content for word in tokens):
        return False
    if sentence.endswith(("?", "？", ":")) or is_refusal(sentence):  # noqa: RUF001
        return False
    return len(tokens) > _LONGEST_SMALL_TALK or not _SMALL_TALK.match(sentence)
