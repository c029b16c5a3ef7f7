"""Ask the judge about stored samples once more, past the cache: what it says today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import redis

from monitor.models import Evaluation, Interaction
from monitor.rolling.tallies import tally_of
from monitor.scoring.pipeline import MetricPipeline
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings


@dataclass(slots=True)
class JudgeAgain:
    """
    The judge of the settings, under the shared budget, without kept verdicts.

    A cached verdict would say what the judge said before.
    """

    scorer: MetricPipeline
    pass_score: float
    calls: int = field(default=0)

    @classmethod
    def make(
        cls, settings: Settings, client: redis.Redis | None, *, metric: str | None = None
    ) -> Self:
        """
        Make it for one metric, or for all that the settings name; no endpoint is contacted yet.

        Raises
        ------
        SettingsError
            If the judge lacks its key or its model, or the metric is unknown.
        """
        limits = settings.judge_limits.model_copy(update={"verdict_cache_s": 0})
        changed: dict[str, object] = {"scorer": "judge", "judge_limits": limits}
        if metric is not None:
            changed["metrics"] = (metric,)
        asked = settings.model_copy(update=changed)
        return cls(make_scorer(asked, client=client, once=True), settings.pass_score)

    def evaluations(self, interaction: Interaction) -> tuple[Evaluation, ...]:
        """
        Return what the judge says now.

        Raises
        ------
        JudgeOutageError, BudgetReachedError, QueueUnavailableError
            If it cannot be asked.
        """
        self.calls += 1
        return self.scorer.score(interaction)

    def verdicts(self, interaction: Interaction) -> Mapping[str, bool]:
        """Return whether the sample passes now, by metric; without a verdict it is left out."""
        return self.passes(self.evaluations(interaction))

    def passes(self, evaluations: Iterable[Evaluation]) -> Mapping[str, bool]:
        """Return which evaluations pass, by metric; one without a verdict is left out."""
        found = {}
        for evaluation in evaluations:
            tally = tally_of(evaluation, sample_rate=1.0, pass_score=self.pass_score)
            if tally.n:
                found[evaluation.evaluator_name] = bool(tally.passed)
        return found

    def close(self) -> None:
        """Close its connections."""
        self.scorer.close()
