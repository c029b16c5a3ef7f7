"""Ask the judge all criteria about one interaction until every one has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from monitor.errors import JudgeError
from monitor.scoring.declaration import Answer, Criterion
from monitor.scoring.judges.criteria_case import CriteriaCase, CriteriaQuestion
from monitor.scoring.judges.openai_call import ChatCall, Spent
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.reply import (
    AskOtherwiseError,
    CanaryMissedError,
    TruncatedReplyError,
)

_MOST_SPLITS = 3  # halvings: eight parts
_MOST_CANARIES_MISSED = 2


class CriteriaHearing:
    """
    The questions about one case: one when all goes well, and more only for a reason.

    A question that is too long for the model is asked with shorter texts, one whose
    answer is cut off in two halves, one whose answer lacks the canary with marked texts.
    """

    def __init__(self, call: ChatCall, prompt: str, case: CriteriaCase) -> None:
        self._call = call
        self._prompt = prompt
        self._case = case
        self._splits = self._canaries_missed = 0

    def hear(
        self, criteria: Sequence[Criterion], spent: Spent, depth: int = 0
    ) -> dict[str, Answer]:
        """Ask until all *criteria* are answered, or raise a ``JudgeError``."""
        while True:
            try:
                return self._call.ask(partial(self._question, criteria), spent)
            except TruncatedReplyError:
                if len(criteria) < 2 or depth >= _MOST_SPLITS:  # noqa: PLR2004 - one has no halves
                    raise
                self._splits += 1
                middle = len(criteria) // 2
                halves = criteria[:middle], criteria[middle:]
                first, second = (self.hear(half, spent, depth + 1) for half in halves)
                return first | second
            except (ContextTooLongError, AskOtherwiseError) as error:
                self._adapt(error)

    def details(self) -> dict[str, Any]:
        """Put on record how it was asked; what is as usual is left out."""
        found = {"canary_missed": self._canaries_missed, "answer_split": self._splits}
        return self._case.details() | {key: value for key, value in found.items() if value}

    def _question(self, criteria: Sequence[Criterion]) -> CriteriaQuestion:
        return self._case.question(self._prompt, criteria)

    def _adapt(self, error: JudgeError) -> None:
        """Change the question so that *error* need not come again, or raise it."""
        if isinstance(error, ContextTooLongError):
            case = self._case.squeezed_more()
        elif isinstance(error, CanaryMissedError):
            self._canaries_missed += 1
            missed_often = self._canaries_missed >= _MOST_CANARIES_MISSED
            case = None if missed_often else self._case.with_marks()
        else:
            case = self._case if self._call.leave_room_for_thoughts() else None
        if case is None:
            raise error
        self._case = case
