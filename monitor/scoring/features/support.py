"""Count how well the passages carry one claim: coverage, mismatch, novelty."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.antonyms import Change
from monitor.scoring.features.attributes import (
    ATTRIBUTE_FEATURES,
    NO_ATTRIBUTES,
    Attributes,
    attribute_features,
)
from monitor.scoring.features.conflicts import find_conflicts
from monitor.scoring.features.laid import Conflict
from monitor.scoring.features.numbers_and_names import (
    NAME_FEATURES,
    NUMBER_FEATURES,
    name_features,
    number_features,
)
from monitor.scoring.features.order import ORDER_FEATURES, order_features
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.polarity import POLARITY_FEATURES, polarity_features
from monitor.scoring.words import Word, stem

COVERAGE_FEATURES = (
    "overlap", "covered", "covered_near", "covered_one", "covered_two", "covered_rare",
    "covered_rare_near", "novel_run", "novel_information", "novel_rare", "rarest_novel",
    "uncovered_two", "worst_window", "log_length", "first_person", "from_query",
    "novel_describing", "novel_doing", "novel_things", "number_conflict", "name_conflict",
    "sweeping", "query_novel",
)  # fmt: skip
CLAIM_FEATURES = (
    *COVERAGE_FEATURES, *ORDER_FEATURES, *NUMBER_FEATURES, *NAME_FEATURES, *POLARITY_FEATURES,
    *ATTRIBUTE_FEATURES,
)  # fmt: skip

_FIRST_PERSON = frozenset(stem(word) for word in ("i", "me", "my", "we", "our", "you", "your"))
_WINDOW = 4  # content words
#: Below this share of its information in the passages, word beginnings included, a claim with
#: so many new words is from nowhere.
ABSENT_BELOW, FEWEST_MISSING = 0.1, 2
_COVERED_NEAR = COVERAGE_FEATURES.index("covered_near")
_ENDINGS = (
    ("ly", "ful", "ous", "ive", "ic", "able", "al", "ing", "ant", "ent"),
    ("ed", "ing", "es", "ize", "ise"),
    ("tion", "ment", "ness", "ity", "ers", "er", "or", "ist", "ship", "s"),
)
_SWEEPING = re.compile(
    r"^(?:overall|in (?:conclusion|summary|general)|ultimately|additionally|furthermore|moreover"
    r"|it(?:'s| is) (?:important|worth)|however|therefore|thus|this (?:means|suggests|indicates)"
    r")\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClaimFeatures:
    """The figures of one claim, in the order of ``CLAIM_FEATURES``, and what they rest on."""

    values: tuple[float, ...]
    evidence: tuple[int, ...]  #: sentences of the passages, best first
    covered_two: float
    numbers_absent: tuple[str, ...]
    names_absent: tuple[str, ...]
    missing: tuple[str, ...]  #: informative words that no passage holds
    negation: bool
    antonym: bool
    conflicts: tuple[str, ...]  #: attributes that say otherwise
    certain: tuple[Conflict, ...] = ()  #: one detail changed in what is otherwise copied
    absent: bool = False  #: the passages hold (nearly) nothing of it


def claim_features(
    claim: str,
    passages: Passages,
    query: frozenset[str],
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    sweeping: bool = False,
) -> ClaimFeatures:
    """
    Compare one claim with the passages.

    *query* holds the stems of the question; *sweeping* says that the claim sums up.
    """
    aligned = Aligned.lay(claim, passages)
    numbers, names = number_features(aligned, query), name_features(aligned)
    polarity, negation, antonym = polarity_features(aligned)
    told = attribute_features(claim, aligned.tokens, attributes, passages.where)
    two = aligned.shares[1]
    values = (
        *_coverage(aligned, query),
        bool(numbers.absent) * two * two,
        bool(names.absent) * two * two,
        float(sweeping),
        _query_novel(aligned, query),
        *order_features(aligned),
        *numbers.values,
        *names.values,
        *polarity,
        *told.values,
    )
    missing = [stem for stem in aligned.content if stem not in passages.where]
    surfaces = {word.stem: word.surface for word in reversed(aligned.tokens)}
    return ClaimFeatures(
        values=values,
        evidence=aligned.evidence,
        covered_two=two,
        numbers_absent=numbers.absent,
        names_absent=names.absent,
        missing=tuple(surfaces[stem] for stem in missing),
        negation=negation,
        antonym=antonym,
        conflicts=told.conflicts,
        certain=(
            *find_conflicts(aligned, structured=attributes.structured),
            *(Conflict(Change.ATTRIBUTE, "", other) for other in told.certain),
        ),
        # what a record holds is told in words that are not in it
        absent=not attributes.structured
        and len(missing) >= FEWEST_MISSING
        and values[_COVERED_NEAR] < ABSENT_BELOW,
    )


def is_sweeping(sentence: str) -> bool:
    """Say whether *sentence* begins like one that sums up or concludes."""
    return _SWEEPING.match(sentence) is not None


def _coverage(aligned: Aligned, query: frozenset[str]) -> tuple[float, ...]:
    passages, weights = aligned.passages, aligned.weights
    total = aligned.total
    absent = [word for word in aligned.content if word not in passages.where]
    novel = sum(weights[word] for word in absent)
    near = sum(weights[word] for word in absent if passages.near(word))
    rare = {word: passages.rarity(word) for word in aligned.content}
    rare_total = sum(rare.values()) or 1.0
    rare_novel = sum(rare[word] for word in absent)
    rare_near = sum(rare[word] for word in absent if passages.near(word))
    one, two = aligned.shares
    count = max(len(aligned.tokens), 1)
    return (
        sum(word.stem in passages.where for word in aligned.tokens) / count,
        1 - novel / total,
        1 - (novel - near) / total,
        one,
        two,
        1 - rare_novel / rare_total,
        1 - (rare_novel - rare_near) / rare_total,
        math.log1p(_novel_run(aligned.tokens, passages)),
        math.log1p(novel),
        math.log1p(rare_novel),
        max((rare[word] for word in absent), default=0.0),
        math.log1p((1 - two) * total),
        _worst_window(aligned, rare),
        math.log(count),
        sum(word.stem in _FIRST_PERSON for word in aligned.tokens) / count,
        sum(weights[word] for word in aligned.content if word in query) / total,
        *_kinds_of_novel(aligned),
    )


def _kinds_of_novel(aligned: Aligned) -> tuple[float, ...]:
    """Count the new words by their endings: such as describe, such as do, such as name things."""
    new = [
        word.surface.lower()
        for word in aligned.tokens
        if word.content and word.stem not in aligned.passages.where
    ]
    return tuple(math.log1p(sum(word.endswith(ends) for word in new)) for ends in _ENDINGS)


def _query_novel(aligned: Aligned, query: frozenset[str]) -> float:
    """Share of the information that neither the passages nor the question hold."""
    weights = aligned.weights
    known = (w for s, w in weights.items() if s in aligned.passages.where or s in query)
    return 1 - sum(known) / aligned.total


def _novel_run(tokens: Sequence[Word], passages: Passages) -> int:
    """Length of the longest run of content words that no passage holds."""
    longest = length = 0
    for word in tokens:
        if word.content:
            length = 0 if word.stem in passages.where else length + 1
            longest = max(longest, length)
    return longest


def _worst_window(aligned: Aligned, rare: dict[str, float]) -> float:
    """Least share of any few neighbouring content words that the nearest sentences hold."""
    content = aligned.content
    worst = 1.0
    for start in range(max(len(content) - _WINDOW + 1, 1)):
        part = content[start : start + _WINDOW]
        total = sum(rare[word] for word in part) or 1.0
        worst = min(worst, sum(rare[w] for w in part if w in aligned.held) / total)
    return worst
