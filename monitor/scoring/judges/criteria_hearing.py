"""Ask the judge all criteria about one interaction until every one has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from monitor.scoring.declaration import Answer, Criterion
from monitor.scoring.judges.criteria_case import CriteriaCase, CriteriaQuestion
from monitor.scoring.judges.openai_call import ChatCall, Spent
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.otherwise import Otherwise
from monitor.scoring.judges.reply import AskOtherwiseError, TruncatedReplyError


class CriteriaHearing(Otherwise[CriteriaCase]):
    """
    The questions about one case: one when all goes well, and more only for a reason.

    A question that is too long for the model is asked with shorter texts, one whose
    answer is cut off in two halves, one whose answer lacks the canary with marked texts.
    """

    def __init__(self, call: ChatCall, prompt: str, case: CriteriaCase) -> None:
        super().__init__(call, case)
        self._prompt = prompt

    def hear(
        self, criteria: Sequence[Criterion], spent: Spent, depth: int = 0
    ) -> dict[str, Answer]:
        """Ask until all *criteria* are answered, or raise a ``JudgeError``."""
        while True:
            try:
                return self._call.ask(partial(self._question, criteria), spent)
            except TruncatedReplyError as error:
                halves = self._halves(criteria, depth, error)
                first, second = (self.hear(half, spent, depth + 1) for half in halves)
                return first | second
            except (ContextTooLongError, AskOtherwiseError) as error:
                self._adapt(error)

    @property
    def case(self) -> CriteriaCase:
        """The case as it was asked about last."""
        return self._case

    def details(self) -> dict[str, Any]:
        """Put on record how it was asked; what is as usual is left out."""
        found = {"canary_missed": self._canaries_missed, "answer_split": self._splits}
        return self._case.details() | {key: value for key, value in found.items() if value}

    def _question(self, criteria: Sequence[Criterion]) -> CriteriaQuestion:
        return self._case.question(self._prompt, criteria)
