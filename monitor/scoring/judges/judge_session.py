"""Hear the judge on one interaction until every sentence has its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from monitor.errors import JudgeError, JudgeReplyError
from monitor.scoring.declaration import Answer, Criterion
from monitor.scoring.judges.criteria_case import CriteriaCase, CriteriaQuestion
from monitor.scoring.judges.openai_call import ChatCall, Spent
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.question import Case, Question
from monitor.scoring.judges.quotes import Quotable
from monitor.scoring.judges.reply import (
    CanaryMissedError,
    JudgeReply,
    RetryDifferentlyError,
    TruncatedReplyError,
    VerdictRow,
)

# --- otherwise ---
# What to change about a question that the judge could not answer as it was put.


_MOST_SPLITS = 3  # halvings: eight parts
_MOST_CANARIES_MISSED = 2


class Adaptable(Protocol):
    """Texts that can be sent in less room, and without force."""

    def squeezed_more(self) -> Self | None:
        """Halve the room that the texts take; None when there is nothing left to halve."""

    def with_marks(self) -> Self:
        """Take the force out of the texts."""


C = TypeVar("C", bound=Adaptable)
T = TypeVar("T")


class RetryStrategy(Generic[C]):
    """The case as it is to be asked about next, and how often it had to change."""

    def __init__(self, call: ChatCall, case: C) -> None:
        self._call = call
        self._case = case
        self._splits = self._canaries_missed = 0

    def _halves(
        self, asked: Sequence[T], depth: int, error: TruncatedReplyError
    ) -> tuple[Sequence[T], Sequence[T]]:
        """Cut what was asked in two, or raise *error* where it is not to be cut again."""
        if len(asked) < 2 or depth >= _MOST_SPLITS:  # noqa: PLR2004 - one has no halves
            raise error
        self._splits += 1
        middle = len(asked) // 2
        return asked[:middle], asked[middle:]

    def _adapt(self, error: JudgeError) -> None:
        """Change the case so that *error* need not come again, or raise it."""
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


class JudgeSession(RetryStrategy[Case]):
    """
    The questions about one case: one when all goes well, and more only for a reason.

    A question that is too long for the model is asked with shorter passages, one whose
    answer is cut off in two halves, one whose answer lacks the canary with marked texts;
    and once at the end for sentences without a verdict and for quotes that are not there,
    with marked texts if none is.
    """

    def __init__(self, call: ChatCall, prompt: str, case: Case, passages: Quotable) -> None:
        super().__init__(call, case)
        self._prompt = prompt
        self._passages = passages
        self._packed = case.packed()
        self._asked_again = 0
        self.rows: dict[int, VerdictRow] = {}
        self.whole: JudgeReply | None = None  #: the first answer, for what is about the whole

    def hear(self, spent: Spent) -> None:
        """Ask until ``whole`` is there and ``rows`` complete, or raise a ``JudgeError``."""
        self._ask(self._case.numbers(self._packed), (), spent)
        missing = [number for number in self.sentences if number not in self.rows]
        doubted = [number for number, row in self.rows.items() if self._unproven(row)]
        if not missing and not doubted:
            return
        if doubted and len(doubted) == len(self.rows):
            # Not one true quote: perhaps the texts spoke, and then about the whole as well.
            self._case, self.whole = self._case.with_marks(), None
        again = tuple(sorted((*missing, *doubted)))
        self._asked_again = len(again)
        self._ask(again, tuple(doubted), spent)
        if not set(self.sentences) <= self.rows.keys():
            raise JudgeReplyError("the judge gave no verdict on some sentences, twice")

    @property
    def sentences(self) -> dict[int, str]:
        """The sentences that were sent, by number; none without passages."""
        texts = self._packed.sentences
        return {number: texts[number - 1] for number in self._case.numbers(self._packed)}

    @property
    def case(self) -> Case:
        """The case as it was asked about last."""
        return self._case

    @property
    def sentences_left_out(self) -> int:
        """Sentences that nobody judged, because there are too many."""
        cut = len(self._case.sentences) - len(self._packed.sentences)
        return self._case.sentences_left_out + cut if self._case.contexts else 0

    def notes(self) -> tuple[str, ...]:
        """Say in words what a reader of the score should know."""
        packed = self._packed
        return (
            (f"contexts_packed: kept {packed.chars_kept} of {packed.chars} characters",)
            if packed.cut
            else ()
        )

    def details(self) -> dict[str, Any]:
        """Put on record how it was asked; what is as usual is left out."""
        packed = self._packed
        kept = {"chars_kept": packed.chars_kept, "chars": packed.chars}
        found: dict[str, Any] = {
            "contexts_packed": kept if packed.cut else None,
            "query_cut": packed.query_cut,
            "sentences_cut": packed.sentences_cut,
            "injection_suspected": list(self._case.suspects),
            "texts_marked": self._case.marked,
            "canary_missed": self._canaries_missed,
            "answer_split": self._splits,
            "asked_again": self._asked_again,
        }
        return {"seed": self._case.seed} | {key: value for key, value in found.items() if value}

    def _ask(
        self, numbers: Sequence[int], doubted: Sequence[int], spent: Spent, depth: int = 0
    ) -> None:
        while (asked := self._still_there(numbers)) or self.whole is None:
            try:
                self._take(self._call.ask(partial(self._question, asked, doubted), spent))
            except TruncatedReplyError as error:
                for half in self._halves(asked, depth, error):
                    self._ask(half, doubted, spent, depth + 1)
                return
            except (ContextTooLongError, RetryDifferentlyError) as error:
                self._adapt(error)
            else:
                return

    def _question(self, asked: Sequence[int], doubted: Sequence[int]) -> Question:
        return self._case.question(self._prompt, self._packed, asked, doubted)

    def _still_there(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if number in self.sentences]

    def _take(self, reply: JudgeReply) -> None:
        self.rows |= {row.number: row for row in reply.verdicts}
        self.whole = self.whole or reply

    def _adapt(self, error: JudgeError) -> None:
        super()._adapt(error)
        self._packed = self._case.packed()

    def _unproven(self, row: VerdictRow) -> bool:
        quote = (row.quote or "").strip()
        return row.verdict == "supported" and self._passages.find(quote) is None


# --- criteria hearing ---
# Ask the judge all criteria about one interaction until every one has its answer.


class CriteriaHearing(RetryStrategy[CriteriaCase]):
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
            except (ContextTooLongError, RetryDifferentlyError) as error:
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
