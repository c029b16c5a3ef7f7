"""What to change about a question that the judge could not answer as it was put."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, Self, TypeVar

from monitor.errors import JudgeError
from monitor.scoring.judges.openai_call import ChatCall
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.reply import CanaryMissedError, TruncatedReplyError

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


class Otherwise(Generic[C]):
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
