"""Hear the judge on one interaction until every sentence has its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from monitor.errors import JudgeError, JudgeReplyError
from monitor.scoring.judges.openai_call import ChatCall, Spent
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.otherwise import Otherwise
from monitor.scoring.judges.question import Case, Question
from monitor.scoring.judges.quotes import Quotable
from monitor.scoring.judges.reply import (
    AskOtherwiseError,
    JudgeReply,
    TruncatedReplyError,
    VerdictRow,
)


class Hearing(Otherwise[Case]):
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
            except (ContextTooLongError, AskOtherwiseError) as error:
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
