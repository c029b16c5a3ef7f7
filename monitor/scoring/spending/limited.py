"""Judge and asker behind one gate: what they are asked, how long it is, where it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from monitor.models import Interaction
from monitor.scoring.base import Judge, Judgement
from monitor.scoring.declaration import CriteriaJudge, Criterion, Reply
from monitor.scoring.spending.limiter import Call, JudgeLimiter
from monitor.scoring.spending.verdict_cache import (
    content_key,
    judgement_from,
    question_key,
    reply_from,
)

_CHARS_PER_TOKEN = 4
_PROMPT_TOKENS = 1_000


A = TypeVar("A", Judge, CriteriaJudge)


@dataclass(frozen=True, slots=True)
class _Governed(Generic[A]):
    """Asks *inner* as far as the gate lets it."""

    inner: A
    gate: JudgeLimiter

    @property
    def version(self) -> str:
        """Name what judges or answers."""
        return self.inner.version

    def close(self) -> None:
        """Give connections back."""
        self.inner.close()


class GovernedJudge(_Governed[Judge]):
    """Has *inner* judge as far as the gate lets it."""

    __slots__ = ()

    def judge(self, interaction: Interaction) -> Judgement:
        """
        Judge one interaction, or raise a ``JudgeError``.

        Raises
        ------
        JudgeOutageError
            If the judge answers nobody, also when another process has heard that.
        """
        return self.gate.answer(
            Call(
                ask=lambda: self.inner.judge(interaction),
                key=content_key(self.version, interaction),
                restore=judgement_from,
                tokens=_about(interaction),
            )
        )


class GovernedAsker(_Governed[CriteriaJudge]):
    """Puts questions to *inner* as far as the gate lets it."""

    __slots__ = ()

    def ask(
        self, interaction: Interaction, criteria: Sequence[Criterion], fields: frozenset[str]
    ) -> Reply:
        """
        Answer all criteria at once, or raise a ``JudgeError``.

        Raises
        ------
        JudgeOutageError
            If the judge answers nobody, also when another process has heard that.
        """
        questions = sum(len(criterion.question) for criterion in criteria)
        return self.gate.answer(
            Call(
                ask=lambda: self.inner.ask(interaction, criteria, fields),
                key=question_key(self.version, interaction, criteria, fields),
                restore=reply_from,
                tokens=_about(interaction) + questions // _CHARS_PER_TOKEN,
            )
        )


def _about(interaction: Interaction) -> int:
    """Guess the tokens of a call: prompt, texts, and an answer as long as the output."""
    contexts = sum(len(context.text) for context in interaction.contexts)
    chars = contexts + len(interaction.query or "") + 2 * len(interaction.output)
    return _PROMPT_TOKENS + chars // _CHARS_PER_TOKEN
