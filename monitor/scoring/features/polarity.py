"""Compare what a claim and its evidence affirm: denials, opposites, quantifiers, certainty."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.words import NEGATIONS, Word, stem

POLARITY_FEATURES = (
    "negation", "denies_affirmed", "affirms_denied", "antonym", "stronger", "more_certain",
    "comparative_absent",
)  # fmt: skip

_NEGATIONS = frozenset(stem(word) for word in NEGATIONS)
_PAIRS = (
    "increase decrease", "increase reduce", "rise fall", "up down", "before after", "more less",
    "more fewer", "high low", "higher lower", "highest lowest", "first last", "open close",
    "win lose", "won lost", "accept reject", "allow forbid", "allow ban", "allow prohibit",
    "include exclude", "start end", "begin end", "early late", "male female", "man woman",
    "north south", "east west", "left right", "buy sell", "always never", "all none",
    "true false", "support oppose", "success failure", "positive negative", "maximum minimum",
    "free paid", "public private", "good bad", "old new", "large small", "hot cold",
    "guilty innocent", "enable disable", "add remove", "required optional", "born died",
    "best worst", "most least", "older younger", "oldest youngest", "larger smaller",
    "largest smallest", "longer shorter", "faster slower", "stronger weaker", "better worse",
    "husband wife", "father mother", "son daughter", "brother sister", "boy girl", "he she",
    "his her", "inside outside", "above below", "over under", "arrive leave", "confirm deny",
    "agree disagree", "love hate", "like dislike", "gain loss", "profit loss", "strong weak",
    "likely unlikely", "possible impossible", "legal illegal", "safe dangerous", "alive dead",
    "victory defeat", "northern southern", "eastern western", "morning evening", "day night",
    "summer winter", "internal external", "minor major", "rich poor", "easy difficult",
    "temporary permanent", "local national", "single married", "raise lower", "grow shrink",
    "improve worsen", "praise criticize", "friendly rude", "clean dirty", "fresh stale",
    "hire fire", "join leave", "arrest release", "approve reject", "attack defend",
)  # fmt: skip
OPPOSITES: dict[str, set[str]] = {}
for _pair in _PAIRS:
    _one, _other = (stem(word) for word in _pair.split())
    OPPOSITES.setdefault(_one, set()).add(_other)
    OPPOSITES.setdefault(_other, set()).add(_one)
_STRONG, _UNSURE, _COMPARED = (
    frozenset(stem(word) for word in listed.split())
    for listed in (
        "all always only every never none entire entirely completely must",
        (
            "may might could possibly perhaps probably likely allegedly reportedly suggest suggests"
            " about around approximately some sometimes often usually plans planned expected claims"
            " accused believe thought"
        ),
        (
            "first last largest biggest best most oldest youngest highest lowest longest fastest"
            " only more less fewer than worst second third smallest greatest main former new"
        ),
    )
)
_REACH = 3


def polarity_features(aligned: Aligned) -> tuple[tuple[float, ...], bool, bool]:
    """
    Compare polarity; the figures are in the order of ``POLARITY_FEATURES``.

    Returns them with whether exactly one side denies, and whether a word is turned round.
    """
    negation, antonym = _negated(aligned), _opposite(aligned)
    one, two = aligned.shares
    evidence = aligned.found
    stems = {word.stem for word in evidence}
    said = {word.stem for word in aligned.tokens}
    claim_denied, evidence_denied = _denied(aligned.tokens), _denied(evidence)
    affirmed = {w.stem for w in evidence if w.content} - evidence_denied
    stated = set(aligned.content) - claim_denied
    values = (
        float(negation) * one,
        float(bool(claim_denied & affirmed)) * one,
        float(bool(stated & evidence_denied)) * one,
        float(antonym) * two,
        float(bool((said & _STRONG) - stems)) * one,
        float(bool(_UNSURE & stems) and not _UNSURE & said) * one,
        float(len((said & _COMPARED) - stems)) * two,
    )
    return values, negation, antonym


def _negated(aligned: Aligned) -> bool:
    """Say whether exactly one of the claim and its best sentence denies something."""
    if not aligned.evidence:
        return False
    claim = any(word.stem in _NEGATIONS for word in aligned.tokens)
    return claim != bool(_NEGATIONS & aligned.passages.stems[aligned.evidence[0]])


def _denied(tokens: Sequence[Word]) -> set[str]:
    """List the content words that stand shortly after a denial."""
    denied: set[str] = set()
    left = 0
    for word in tokens:
        if word.stem in _NEGATIONS:
            left = _REACH
        elif left and word.content:
            denied.add(word.stem)
            left -= 1
    return denied


def _opposite(aligned: Aligned) -> bool:
    held = aligned.held
    return any(
        word not in held and any(other in held for other in OPPOSITES[word])
        for word in {token.stem for token in aligned.tokens}
        if word in OPPOSITES
    )
