"""A metric with its parameters and the line at which it passes: what a scorer works with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from monitor.models import Interaction
from monitor.models.passing import Direction, PassRule
from monitor.scoring.declaration import Asked, Computed, Declaration, Metric, Read, version_of


@dataclass(frozen=True, slots=True)
class Bound:
    """One metric as the settings want it."""

    metric: Metric
    parameters: BaseModel
    rule: PassRule

    @property
    def declaration(self) -> Declaration:
        """What the metric says about itself."""
        return self.metric.declaration

    @property
    def name(self) -> str:
        """What everything calls it."""
        return self.declaration.name

    @property
    def version(self) -> str:
        """Version and parameters, as far as they are not as shipped."""
        return version_of(self.declaration, self.parameters)

    def is_plain(self, pass_score: float) -> bool:
        """Say whether it is as shipped, better when higher, and passes at *pass_score*."""
        as_shipped = self.parameters == self.declaration.parameters()
        return as_shipped and self.rule == PassRule(pass_score, Direction.HIGHER)

    def evaluator(self) -> Read:
        """Give the evaluator of a metric that is read out of the shared judgement."""
        assert isinstance(self.metric, Read)
        return replace(self.metric, parameters=self.parameters)

    def unmet(self, interaction: Interaction) -> str | None:
        """Name what *interaction* lacks; None when it can be scored."""
        reason = self.declaration.unmet(interaction)
        if reason is None and isinstance(self.metric, Asked):
            return self.metric.unmet_too(interaction)
        return reason

    def criteria(self) -> dict[str, Any]:
        """Say at which line it passes, which way, and with which parameters."""
        changed = self.parameters.model_dump(mode="json", exclude_defaults=True)
        return self.rule.criteria() | changed


def is_local(bound: Bound, *, has_asker: bool) -> bool:
    """Say whether it is computed here, without asking anybody."""
    if isinstance(bound.metric, Asked):
        return not has_asker and bound.metric.screen is not None
    return isinstance(bound.metric, Computed)
