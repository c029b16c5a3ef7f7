"""The probability that a passage entails a statement, by counted words: no model, no key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from monitor.models import Interaction
from monitor.scoring.base import Judgement, Verdict
from monitor.scoring.claims import is_checkable
from monitor.scoring.judges.local import LocalJudge
from monitor.scoring.metrics.grounding import Matrix

#: Gives the probability in [0, 1] that the premise (first) entails the hypothesis (second).
Entailment = Callable[[str, str], float]
#: A claim is compared with no more passages than this: the time is bounded.
MOST_PASSAGES = 20


@lru_cache(maxsize=1)
def _judge() -> LocalJudge:
    return LocalJudge()


def _look(premise: str, hypothesis: str) -> Judgement:
    fields = {"id": "entailment", "contexts": [premise], "output": hypothesis}
    return _judge().judge(Interaction.model_validate(fields))


@lru_cache(maxsize=4_096)
def local_entailment(premise: str, hypothesis: str) -> float:
    """
    Give the local scorer's support for *hypothesis* by *premise*, in [0, 1].

    1.0 where the statement stands in the passage word for word. Of several sentences the
    least supported counts. It counts words, numbers, names and negations: paraphrases and
    inferences score too low.
    """
    if not premise.strip() or not hypothesis.strip():
        return 0.0
    if _folded(hypothesis) in _folded(premise):
        return 1.0
    claims = [c for c in _look(premise, hypothesis).claims if c.verdict is not Verdict.NO_CLAIM]
    return min((claim.support for claim in claims), default=0.0)


@lru_cache(maxsize=4_096)
def local_contradiction(premise: str, hypothesis: str) -> bool:
    """Say whether the local scorer finds another number, an opposite or a negation."""
    if not premise.strip() or not hypothesis.strip():
        return False
    claims = _look(premise, hypothesis).claims
    return any(claim.verdict is Verdict.CONTRADICTED for claim in claims)


def local_matrix(claims: Sequence[str], passages: Sequence[str]) -> Matrix:
    """Ask for each claim and each passage; shape (claims, passages)."""
    rows = [[local_entailment(passage, claim) for passage in passages] for claim in claims]
    return np.asarray(rows, dtype=np.float64).reshape(len(claims), len(passages))


def checkable(sentences: Sequence[str]) -> list[str]:
    """Keep the sentences that state something."""
    return [sentence for sentence in sentences if is_checkable(sentence)]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
