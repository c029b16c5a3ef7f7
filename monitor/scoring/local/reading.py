"""Read one interaction: its claims, with the figures of each and what they are based on."""

from __future__ import annotations

import contextlib
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import (
    ENGLISH,
    compatible,
    language,
    language_of,
    read_ahead,
    words,
)
from monitor.scoring.local.calculations import CALCULATION, computed_figures
from monitor.scoring.local.changes import WordChange, changed_details
from monitor.scoring.local.figures import figure_of_another
from monitor.scoring.local.hours import changed_hours
from monitor.scoring.local.passages import (
    ALIGNMENT_FEATURES,
    PREFIX,
    Aligned,
    Passages,
    spaced_key,
)
from monitor.scoring.local.records import (
    RECORD_FEATURES,
    Attribute,
    compare,
    read_attributes,
)
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    headings_and_code,
    is_checkable,
    is_refusal,
    split_sentences,
    without_mentions,
)

CLAIM_FEATURES = (*ALIGNMENT_FEATURES, *RECORD_FEATURES)

#: Characters of a query, and of an output beside it, that are compared: a bound on time.
MOST_QUERY_CHARS = 40_000
#: Below this share of its information in the passages, word beginnings included, a claim with
#: so many new words is from nowhere.
ABSENT_BELOW, FEWEST_MISSING = 0.1, 2
_OF_THE_ANSWER = frozenset(language()["lists"]["of_the_answer"].split())
_LONGEST_WORD = 60  # characters
_BRIEF = 35  # words
_LETTERS_READ = 400
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH"})


class ReadClaim(NamedTuple):
    """A sentence that states something: its figures, and what they are based on."""

    aligned: Aligned
    values: tuple[float, ...]  #: in the order of ``CLAIM_FEATURES``
    changes: tuple[WordChange, ...]  #: details changed in what is otherwise copied
    absent: bool  #: the passages hold (nearly) none of its words


class ReadSentence(NamedTuple):
    """A sentence of an output; ``claim`` is None where nothing is stated or compared."""

    text: str
    refuses: bool
    claim: ReadClaim | None


class Reading(NamedTuple):
    """What there is to judge in one interaction."""

    passages: Passages
    sentences: Sequence[ReadSentence]
    kind: str  #: about a record, answer (to a query), brief or longer text: they differ in style
    not_judged: int  #: sentences after the first ``MOST_SENTENCES``
    read_part: Callable[[str], ReadClaim]  #: reads a statement of a sentence by itself

    @property
    def claims(self) -> list[ReadClaim]:
        """The sentences that state something."""
        return [each.claim for each in self.sentences if each.claim is not None]


def read(
    query: str | None,
    contexts: Sequence[str],
    output: str,
    history: Sequence[Turn] = (),
) -> Reading:
    """
    Split and measure; without passages nothing is measured.

    Figures may be computed from those of *history*, the turns before.
    """
    asked_for = (query or "")[:MOST_QUERY_CHARS]
    in_language = language_of(" ".join((*contexts, asked_for, output))) or ENGLISH
    passages = Passages(contexts, in_language)
    stated = without_keys(output, passages)
    found, marked = split_sentences(stated), "\n" in stated or "`" in stated
    unstated, attributes = headings_and_code(stated) if marked else (), read_attributes(passages)
    asked = frozenset(word.stem for word in words(asked_for, in_language) if word.content)
    passages.computed = computed_figures(asked_for, history, passages, stated)
    # An answer of one word states just that; in a sentence it may be another word for an old one.
    is_word = len(output) < _LONGEST_WORD and len(words(without_mentions(output))) == 1
    fewest = 1 if is_word or stated is not output else FEWEST_MISSING

    def read_part(text: str) -> ReadClaim:
        claim = read_claim(without_mentions(text), passages, attributes, asked, fewest)
        if stated is output:
            return claim
        new = {w.stem for w in claim.aligned.tokens if w.number} - passages.index.keys() - asked
        # a figure of JSON is a claim of its own; 0.19 may be 19 %, "30041788" be "300 417 88"
        made_up = any(not (f.startswith("0.") or f in passages.squeezed) for f in new)
        return claim._replace(absent=claim.absent or made_up)

    said = [without_mentions(text) for text in found[:MOST_SENTENCES]]
    for each in {ENGLISH, in_language}:
        read_ahead(said, each)
    sentences, whole = [], "\n".join(found[:MOST_SENTENCES])
    for text in found[:MOST_SENTENCES]:
        states = text not in unstated and is_checkable(text, whole)
        claim = read_part(text) if states and len(passages) else None
        sentences.append(ReadSentence(text, not states and is_refusal(text, whole), claim))
    kind = "record" if passages.has_records else "answer"
    if kind == "answer" and not (query or "").strip():
        length = sum(len(each.claim.aligned.tokens) for each in sentences if each.claim)
        kind = "brief" if length < _BRIEF else "text"
    return Reading(passages, sentences, kind, len(found) - len(sentences), read_part)


def without_keys(output: str, passages: Passages) -> str:
    """
    Return the values of an output that is JSON, one a line; others as they are.

    Keys are those of a request: they stay where the passages have them. Left out are values that
    state nothing, such as yes, no and null, and what speaks of the answer itself.
    """
    text = output.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") : -len("```")].strip()
    with contextlib.suppress(ValueError, RecursionError):
        if text[:1] in {"{", "["} and text[-1:] in {"}", "]"}:
            lines, stack = list[str](), [("", json.loads(text))]
            while stack:
                key, value = stack.pop()
                if key.lower() in _OF_THE_ANSWER:
                    continue
                if isinstance(value, dict):
                    stack += reversed(value.items())
                elif isinstance(value, list):
                    stack += [(key, each) for each in reversed(value)]
                elif type(value) in {str, int, float} and is_checkable(str(value)):
                    name = spaced_key(key) if len(key) < _LONGEST_WORD else ""
                    known = name and all(w.stem in passages.index for w in words(name))
                    lines.append(f"{name}: {value}" if known else str(value))
            return "\n".join(lines)
    return output


def read_claim(
    claim: str,
    passages: Passages,
    attributes: Sequence[Attribute] = (),
    query: frozenset[str] = frozenset(),
    fewest: int = FEWEST_MISSING,
) -> ReadClaim:
    """
    Compare one claim with the passages; *query* holds the stems of the question.

    With *fewest* words missing, and nearly nothing there, it is absent.
    """
    aligned = Aligned(claim, passages)
    figures, weights = aligned.figures(query), aligned.weights
    if passages.has_records:  # a record tells the same in other words: nothing is absent
        values, changes = compare(aligned, attributes)
        return ReadClaim(aligned, (*figures, *values), changes, absent=False)
    absent = len([each for each in weights if each not in passages.index]) >= fewest
    if absent:
        long = [(each, w) for each, w in weights.items() if len(each) >= PREFIX - 1]
        bound = ABSENT_BELOW * aligned.total
        absent = sum([w for each, w in long if each in passages.index]) < bound
        absent = absent and sum([w for o, w in long if o[:PREFIX] in passages.prefixes]) < bound
    changes = (
        changed_details(aligned, query)
        or tuple(changed_hours(aligned))
        or figure_of_another(aligned, query)
    )
    changes = () if changes and CALCULATION.search(claim) else changes
    return ReadClaim(aligned, (*figures, 0.0, 0.0, 0.0), changes, absent)


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
