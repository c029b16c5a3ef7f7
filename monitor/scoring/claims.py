"""Tell statements that passages can support from refusals, questions and small talk."""

from __future__ import annotations

import re

from monitor.scoring.mentions import without_mentions
from monitor.scoring.refusals import is_refusal
from monitor.scoring.sentences import split_sentences
from monitor.scoring.words import words

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
    if sentence.endswith(("?", "？", ":")) or is_refusal(sentence):  # noqa: RUF001
        return False
    return len(tokens) > _LONGEST_SMALL_TALK or not _SMALL_TALK.match(said)
