"""What happens to samples when the judge's budget is reached."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from monitor.errors import BudgetReachedError, QueueUnavailableError
from monitor.models import Evaluation, Interaction
from monitor.scoring.base import ScoresSamples
from monitor.scoring.spending.budget import Budget, Charge

_FRESH_S = 1.0
_STEEPNESS = 4


@dataclass(slots=True)
class BudgetWatch:
    """How the budget stands, looked up at most once a second; for threads."""

    budget: Budget
    _charges: list[Charge] = field(default_factory=list)
    _read_s: float = -_FRESH_S
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reached(self) -> Charge | None:
        """Give the cap that had no room for a call any more, if any."""
        return next((charge for charge in self._look() if charge.reached), None)

    def factor(self) -> float:
        """
        Say which part of the judge's share the budget leaves, in [0, 1].

        1 while at least as much of the money is left as of the time, else the fourth
        power of their quotient: steep enough to save in time, and smooth, so that
        what is left is spent over all that is left of the period. It looks at money and
        time only, so that a probability scaled by it stays known beforehand.
        """
        return min((_factor(charge) for charge in self._look()), default=1.0)

    def _look(self) -> list[Charge]:
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._read_s >= _FRESH_S:
                self._read_s = now_s
                # Without Redis what was known goes on; no call can be reserved then anyway.
                with suppress(QueueUnavailableError):
                    self._charges = self.budget.charges()
            return self._charges


def _factor(charge: Charge) -> float:
    money = max(0.0, 1 - charge.charged_microusd / max(charge.cap.microusd, 1))
    time_left = max(charge.left_s / charge.length_s, 1e-6)
    return float(min(1.0, (money / time_left) ** _STEEPNESS))


@dataclass(slots=True)
class CappedScorer:
    """
    Scores with *inner* while the budget lasts, then with *fallback* or not at all.

    While it is reached, all samples fare alike, also those about which a cascade
    would not have asked: else those that remain would not stand for the others.
    """

    inner: ScoresSamples
    watch: BudgetWatch
    skipping: ScoresSamples
    fallback: ScoresSamples | None = None

    @property
    def version(self) -> str:
        """The version while the budget lasts."""
        return self.inner.version

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` are worth having in flight."""
        return self.inner.concurrency

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:
        """Make one evaluation a metric; ``skipped: budget_reached`` where nobody may be asked."""
        paid_usd = None
        if self.watch.reached() is None:
            try:
                return self.inner.score(interaction, key=key)
            except BudgetReachedError as error:
                paid_usd = error.context.get("cost_usd")
        instead = self.fallback or self.skipping
        return with_cost(instead.score(interaction, key=key), paid_usd)

    def close(self) -> None:
        """Give connections back."""
        self.inner.close()


def with_cost(
    evaluations: tuple[Evaluation, ...], paid_usd: float | None
) -> tuple[Evaluation, ...]:
    """Share out what was paid before the budget had no room for the next question."""
    if not paid_usd:
        return evaluations
    each = {"cost_usd": paid_usd / len(evaluations)}
    return tuple(evaluation.model_copy(update=each) for evaluation in evaluations)


@dataclass(frozen=True, slots=True)
class SkippingScorer:
    """Skips everything, under the name of another scorer."""

    version: str
    metrics: tuple[str, ...]
    concurrency: int = 1

    def score(self, interaction: Interaction, *, key: str = "") -> tuple[Evaluation, ...]:  # noqa: ARG002
        """Say that the budget is reached."""
        return tuple(
            Evaluation.skipped(
                reason="budget_reached",
                target_event_id=interaction.id,
                evaluator_name=metric,
                evaluator_version=self.version,
            )
            for metric in self.metrics
        )

    def close(self) -> None:
        """Give nothing back: nothing is held."""
