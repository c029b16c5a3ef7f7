"""The probability that a passage entails a statement, by counted words: no model, no key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from monitor.models import Interaction
from monitor.scoring.base import Claim, Verdict
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.support import ClaimFeatures, claim_features
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.metrics.grounding import Matrix
from monitor.scoring.sentences import is_checkable

#: A claim is compared with no more passages than this: the time is bounded.
MOST_PASSAGES = 20
_ALIGNED = 0.5


@lru_cache(maxsize=1)
def _judge() -> LocalJudge:
    return LocalJudge()


def supports(premise: str, hypotheses: tuple[str, ...]) -> tuple[float, ...]:
    """
    Give the local scorer's support for each of *hypotheses* by *premise*, in [0, 1].

    1.0 where the statement stands in the passage word for word. Of several sentences in one
    hypothesis the least supported counts. It counts words, numbers, names and negations:
    paraphrases and inferences score too low. All at once costs about as much as one, and what
    was asked lately is known.
    """
    return _supports(_Question(premise, hypotheses))


class _Question:
    """What is asked, as a key that is as small as its digest once it is answered."""

    __slots__ = ("_digest", "_texts")

    def __init__(self, premise: str, hypotheses: tuple[str, ...]) -> None:
        digest = hashlib.blake2b(digest_size=16)
        for text in (premise, *hypotheses):
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        self._digest = digest.digest()
        self._texts: tuple[str, tuple[str, ...]] | None = (premise, hypotheses)

    def take(self) -> tuple[str, tuple[str, ...]]:
        """Give the texts, once: the cache keeps us, and must not keep them."""
        texts, self._texts = self._texts, None
        return texts or ("", ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@lru_cache(maxsize=512)
def _supports(question: _Question) -> tuple[float, ...]:
    premise, hypotheses = question.take()
    if not premise.strip() or not hypotheses:
        return (0.0,) * len(hypotheses)
    text = "\n".join(" ".join(each.split()) for each in hypotheses)
    fields = {"id": "entailment", "contexts": [premise], "output": text}
    found = _judge().judge(Interaction.model_validate(fields)).claims
    if len(found) == len(hypotheses):
        return tuple(
            _literal(premise, each) or _support((claim,))
            for each, claim in zip(hypotheses, found, strict=True)
        )
    if len(hypotheses) == 1:
        return (_literal(premise, hypotheses[0]) or _support(found),)
    return tuple(supports(premise, (each,))[0] for each in hypotheses)


def forget() -> None:
    """Let go of what was asked lately, as for a measurement."""
    _supports.cache_clear()


def local_entailment(premise: str, hypothesis: str) -> float:
    """Give the support for one statement; see `supports`."""
    return supports(premise, (hypothesis,))[0]


def local_matrix(claims: Sequence[str], passages: Sequence[str]) -> Matrix:
    """Give the support for each claim by each passage; shape (claims, passages)."""
    columns = [supports(passage, tuple(claims)) for passage in passages]
    return np.asarray(columns, dtype=np.float64).reshape(len(passages), len(claims)).T


def contradictions(premise: str, statements: Sequence[str]) -> list[bool]:
    """
    Say which of *statements*, one sentence each, say otherwise than *premise* does.

    Otherwise means that the two share half of the statement's information, and differ in a
    number, an opposite word or a negation. Two true statements about the same thing may
    differ so ("opened in 1889", "restored in 1986"): look before you believe it.
    """
    passages = Passages([premise])
    found = (
        claim_features(each, passages, frozenset())
        if len(passages) and is_checkable(each)
        else None
        for each in statements
    )
    return [claim is not None and _differs(claim) for claim in found]


def checkable(sentences: Sequence[str]) -> list[str]:
    """Keep the sentences that state something."""
    return [sentence for sentence in sentences if is_checkable(sentence)]


def _differs(claim: ClaimFeatures) -> bool:
    odd = bool(claim.numbers_absent) or claim.antonym or claim.negation
    return claim.covered_two >= _ALIGNED and odd


def _support(claims: Sequence[Claim]) -> float:
    stated = (claim.support for claim in claims if claim.verdict is not Verdict.NO_CLAIM)
    return min(stated, default=0.0)


def _literal(premise: str, hypothesis: str) -> float:
    wanted = _folded(hypothesis)
    return float(bool(wanted) and wanted in _folded(premise))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
