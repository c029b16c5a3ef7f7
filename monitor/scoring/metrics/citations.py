"""Whether citations lead to passages that carry what is said (seed 002, "Citation Accuracy")."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from monitor.scoring.sentences import split_sentences

#: From this entailment on a citation is correct; the seed's code says `> 0.8`.
STRONG, PARTIAL = 0.8, 0.5
_PARTIAL_SCORE = 0.7
_MARK = re.compile(r"\[\s*([\w.:/-]+(?:\s*[,;]\s*[\w.:/-]+)*)\s*\]")
_AFTER_STOP = re.compile(r"([.!?])((?:\s*\[[^\][]{1,100}\])+)")
_MOST_MARKS = 20


class CitedClaim(NamedTuple):
    """A statement without its marks, and the ids that it cites."""

    text: str
    cited: tuple[str, ...]


def cited_claims(answer: str) -> list[CitedClaim]:
    """
    Split an answer into statements with what they cite: ``[1]``, ``[1, 2]``, ``[1][2]``, ``[id]``.

    A mark belongs to the sentence it stands in, also right after its full stop. Author
    and year in round brackets are not read: nothing says which passage is meant.
    """
    moved = _AFTER_STOP.sub(r"\2\1", answer)
    return [_claim(sentence) for sentence in split_sentences(moved)]


def _claim(sentence: str) -> CitedClaim:
    marks = _MARK.findall(sentence)[:_MOST_MARKS]
    cited = dict.fromkeys(part for mark in marks for part in re.split(r"\s*[,;]\s*", mark))
    text = " ".join(_MARK.sub("", sentence).split())
    return CitedClaim(re.sub(r" ([.,;!?])", r"\1", text), tuple(cited))


def citation_verdict(entailment: float | None) -> float:
    """Score one citation: 1.0 strongly supported, 0.7 partially, 0.0 not, or not found (None)."""
    if entailment is None or entailment <= PARTIAL:
        return 0.0
    return 1.0 if entailment > STRONG else _PARTIAL_SCORE


def citation_accuracy(entailments: Sequence[float | None]) -> float:
    """
    Correct citations over all citations; one is correct with an entailment above 0.8.

    None stands for a citation that leads to no passage.

    Raises
    ------
    ValueError
        If there are no citations.
    """
    return _share([each is not None and each > STRONG for each in entailments], "citations")


def grace_accuracy(cited: Sequence[str | None], truth: Sequence[str]) -> float:
    """
    Claims whose cited passage is the true one, over all claims.

    Raises
    ------
    ValueError
        If there are no claims, or not one truth for each.
    """
    if len(cited) != len(truth):
        raise ValueError("each claim needs its true passage")
    return _share([c == t for c, t in zip(cited, truth, strict=True)], "claims")


def citation_quality(existence: float, accuracy: float, grounding: float) -> float:
    """0.4 existence + 0.3 accuracy + 0.3 grounding, each in [0, 1]."""
    return 0.4 * existence + 0.3 * accuracy + 0.3 * grounding


def citation_precision(cited: Collection[str], supporting: Collection[str]) -> float:
    """
    Cited passages that support what is said, over all cited passages.

    Raises
    ------
    ValueError
        If nothing is cited.
    """
    return _share([each in supporting for each in cited], "citations")


def citation_completeness(cited: Collection[str], supporting: Collection[str]) -> float:
    """
    Supporting passages that are cited, over all supporting passages.

    Raises
    ------
    ValueError
        If no passage supports anything.
    """
    return _share([each in cited for each in supporting], "supporting passages")


def multi_source_coverage(claims: Sequence[tuple[int, int]], least: int = 2) -> float:
    """
    Share of the claims needing several sources that cite as many as they need.

    Parameters
    ----------
    claims
        For each claim the number of sources it needs and the number it cites.
    least
        Claims that need fewer sources are left out.

    Raises
    ------
    ValueError
        If no claim needs that many.
    """
    wanted = [cited >= needed for needed, cited in claims if needed >= least]
    return _share(wanted, f"claims that need {least} sources")


def _share(hits: Sequence[bool], what: str) -> float:
    if not hits:
        raise ValueError(f"there are no {what}")
    return sum(hits) / len(hits)
