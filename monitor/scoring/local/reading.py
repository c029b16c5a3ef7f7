"""Read one interaction: its claims, with the figures of each and what they are based on."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from monitor.scoring.language import (
    ENGLISH,
    compatible,
    denies,
    language_of,
    read_ahead,
    words,
)
from monitor.scoring.local.changes import WordChange, changed_details
from monitor.scoring.local.hours import changed_hours
from monitor.scoring.local.passages import (
    ALIGNMENT_FEATURES,
    Aligned,
    Passages,
    flatten,
)
from monitor.scoring.local.records import (
    RECORD_FEATURES,
    Attribute,
    compare,
    read_attributes,
)
from monitor.scoring.local.requests import handed_over, kind_of
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_chat,
    is_refusal,
    may_state,
    split_sentences,
    without_mentions,
)
from monitor.scoring.word_model import MOST_CHARS

CLAIM_FEATURES = (*ALIGNMENT_FEATURES, *RECORD_FEATURES)

#: Characters of a query, and of an output beside it, that are compared: a bound on time.
MOST_QUERY_CHARS = 40_000
#: A text that is one block of code.
_FENCED = re.compile(r"^\s*```[^\n]*\n(.*)```\s*$", re.DOTALL)
_BRIEF = 35  # words
# Of a heading that denies what is listed below it: "Don't" has two words.
_HEADING_WORDS, _HEADING_CHARS = (2, 3), 60
_ENDS = re.compile(r"[.!?]\W*$")
_ITEM = re.compile(r"\s*(?:[-*•–]|\d{1,3}[.)])\s+\W*")
_NOT = "Do not "
_SURELY_HELD = 0.9  # share of what sounds like chat from which on it is a claim
_LETTERS_READ = 400
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH"})


class ReadClaim(NamedTuple):
    """A sentence that states something: its figures, and what they are based on."""

    aligned: Aligned
    values: tuple[float, ...]  #: in the order of ``CLAIM_FEATURES``
    changes: tuple[WordChange, ...]  #: details changed in what is otherwise copied

    @property
    def covered(self) -> float:
        """Share of its information that the passages hold, in [0, 1]."""
        return self.values[CLAIM_FEATURES.index("covered")]


class ReadSentence(NamedTuple):
    """A sentence of an output; ``claim`` is None where nothing is stated or compared."""

    text: str
    refuses: bool
    claim: ReadClaim | None


class Reading(NamedTuple):
    """What there is to judge in one interaction."""

    query: str  #: without a text that it hands over, which is a passage
    request: str  #: what the query is: "question", or one of ``KINDS``
    passages: Passages
    sentences: Sequence[ReadSentence]
    kind: str  #: "record", "answer" (to a query), "brief" or longer "text": they differ in style
    not_judged: int  #: sentences after the first ``MOST_SENTENCES``
    read_part: Callable[[str], ReadClaim]  #: reads a statement of a sentence by itself

    @property
    def claims(self) -> list[ReadClaim]:
        """The sentences that state something."""
        return [each.claim for each in self.sentences if each.claim is not None]


def read(query: str | None, contexts: Sequence[str], output: str) -> Reading:
    """Split and measure; without passages nothing is measured."""
    task, text = handed_over(query or "")
    asked_for = task[:MOST_QUERY_CHARS]
    in_language = language_of(" ".join((*contexts, text, asked_for, output))) or ENGLISH
    passages = Passages(contexts, in_language, text)
    inner = _FENCED.sub(r"\1", output)
    stated = output if (values := flatten(inner, keys=False)) == inner else values
    found, marked = split_sentences(stated), "\n" in stated or "`" in stated
    unstated, attributes = headings_and_code(stated) if marked else (), read_attributes(passages)
    asked = frozenset(word.stem for word in words(asked_for, in_language) if word.content)

    def read_part(text: str) -> ReadClaim:
        return read_claim(without_mentions(text), passages, attributes, asked)

    said = [without_mentions(text) for text in found[:MOST_SENTENCES]]
    for each in {ENGLISH, in_language}:
        read_ahead(said, each)
    sentences, whole = [], "\n".join(found[:MOST_SENTENCES])
    denies_below = marked and not passages.has_records  # a record has "Parking: no"
    denied = _below_denials(stated, in_language) if denies_below else ()
    for text in found[:MOST_SENTENCES]:
        states = text not in unstated and may_state(text, whole)
        read_as = _NOT + text if text in denied else text
        claim = read_part(read_as) if states and len(passages) else None
        held = 0.0 if claim is None else claim.covered
        if states and held < _SURELY_HELD and is_chat(text):
            states, claim = False, None
        sentences.append(ReadSentence(text, not states and is_refusal(text, whole), claim))
    kind = "record" if passages.has_records else "answer"
    if kind == "answer" and not task.strip():
        length = sum(len(each.claim.aligned.tokens) for each in sentences if each.claim)
        kind = "brief" if length < _BRIEF else "text"
    request = kind_of(task.strip()[:MOST_CHARS], alone=not len(passages))
    return Reading(task, request, passages, sentences, kind, len(found) - len(sentences), read_part)


def _below_denials(text: str, in_language: str) -> set[str]:
    """
    Return the items of lists below a heading such as "Don't".

    An item such as "No pets" denies nothing but itself, and "No." does not deny the list below it.
    """
    found, is_denied = set[str](), False
    for line in filter(str.strip, text.splitlines()):
        if not (mark := _ITEM.match(line)):
            said = words(line[:_HEADING_CHARS], in_language)
            is_heading = len(line) <= _HEADING_CHARS and _ENDS.search(line) is None
            is_denied = is_heading and len(said) in _HEADING_WORDS and any(map(denies, said))
        elif is_denied:
            found.add(line[mark.end() :].strip())
    return found


def read_claim(
    claim: str,
    passages: Passages,
    attributes: Sequence[Attribute] = (),
    query: frozenset[str] = frozenset(),
) -> ReadClaim:
    """Compare one claim with the passages; *query* holds the stems of the question."""
    aligned = Aligned(claim, passages)
    figures = aligned.figures(query)
    if passages.has_records:
        values, changes = compare(aligned, attributes)
        return ReadClaim(aligned, (*figures, *values), changes)
    changes = changed_details(aligned) or changed_hours(aligned)
    return ReadClaim(aligned, (*figures, 0.0, 0.0), changes)


def script(text: str) -> str | None:
    """Return the writing system of most letters of *text*; None when there are no letters."""
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    letters = compatible("".join(islice(filter(str.isalpha, text), _LETTERS_READ)))
    if letters.isascii():
        return "LATIN" if letters else None
    names = Counter(
        "LATIN" if char.isascii() else unicodedata.name(char, "?").split()[0].split("-")[0]
        for char in letters
    )
    name = max(names, key=lambda each: (names[each], each), default=None)
    return "CJK" if name in _EAST_ASIAN else name
