"""A sample's texts, cut at the claims of its evaluations: a page links claim and evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.store.samples import StoredSample

_WORD = re.compile(r"\w+")
_LABELS = {
    "supported": "supported", "contradicted": "contradicted", "not_found": "unsupported",
    "unverified": "unsupported", "no_claim": "no claim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A part of a text; ``kind`` is '' outside of claims."""

    text: str
    kind: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One claim with what the judge said of it."""

    number: int
    text: str
    kind: str
    support: float | None
    evidence: str
    context_index: int | None
    reason: str


def judged_evaluations(found: StoredSample) -> list[dict[str, Any]]:
    """Return the evaluations of a sample, each with its claims and the texts cut at those."""
    interaction, judged = found.sample.interaction, []
    for stored in found.evaluations:
        claims = claims_of(stored.evaluation.metadata)
        passages = marked_passages([c.text for c in interaction.contexts], claims)
        output = marked_output(interaction.output, claims)
        judged.append({"stored": stored, "claims": claims, "output": output, "passages": passages})
    return judged


def claims_of(metadata: Mapping[str, Any] | None) -> list[ClaimLine]:
    """Return the claims that an evaluation lists, without malformed ones."""
    listed = (metadata or {}).get("claims")
    if not isinstance(listed, list):
        return []
    lines = []
    for number, item in enumerate(listed, 1):
        if not isinstance(item, dict) or not isinstance(item.get("text"), str):
            continue
        support, index = item.get("support"), item.get("context_index")
        lines.append(
            ClaimLine(
                number=number,
                text=item["text"].removesuffix("…"),
                kind=_LABELS.get(str(item.get("verdict")), "no claim"),
                support=float(support) if isinstance(support, int | float) else None,
                evidence=str(item.get("evidence") or "").removesuffix("…"),
                context_index=index if isinstance(index, int) else None,
                reason=str(item.get("reason") or ""),
            )
        )
    return lines


def marked_output(output: str, claims: Iterable[ClaimLine]) -> list[MarkedText]:
    """
    Cut an output into pieces, each claim one that carries its verdict.

    A claim is found by its words, in order, so that emphasis marks and line breaks
    between them do not matter; one that is not found stands in the list only.
    """
    return _cut(output, [(claim.text, claim.kind, claim.number) for claim in claims])


def marked_passages(texts: Sequence[str], claims: Sequence[ClaimLine]) -> list[list[MarkedText]]:
    """Return each context in pieces, those that support or contradict a claim marked."""
    evidence = [(c.context_index, (c.evidence, c.kind, c.number)) for c in claims if c.evidence]
    return [
        _cut(text, [wanted for index, wanted in evidence if index in (i, None)])
        for i, text in enumerate(texts)
    ]


def _cut(text: str, wanted: Sequence[tuple[str, str, int]]) -> list[MarkedText]:
    found = sorted(
        (*where, kind, number)
        for phrase, kind, number in wanted
        if (where := _find(text, phrase)) is not None
    )
    pieces: list[MarkedText] = []
    at = 0
    for start, end, kind, number in found:
        if start < at:  # two claims on the same words: the first one stands
            continue
        pieces += [MarkedText(text[at:start])] if start > at else []
        pieces.append(MarkedText(text[start:end], kind, number))
        at = end
    return pieces + ([MarkedText(text[at:])] if at < len(text) else [])


def _find(text: str, phrase: str) -> tuple[int, int] | None:
    """Return where the words of *phrase* are in *text*, if only punctuation is between them."""
    plain = text.find(phrase) if phrase else -1
    if plain >= 0:
        return plain, plain + len(phrase)
    words = _WORD.findall(phrase)
    between = r"[^\w]+".join(map(re.escape, words))
    found = re.search(rf"\b{between}\b", text, re.IGNORECASE) if words else None
    return found.span() if found else None
