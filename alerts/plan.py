"""All that says who hears of what, as the settings and the routes file have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from alerts.channels.base import Recipient
from alerts.routing.matchers import AppLabels, Labels, Maintenance, Router, labels_of, to_everyone
from alerts.threshold_rules import ThresholdRule
from monitor.models.alerting import Level
from monitor.models.status import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfig:
    """Routes, the places behind each channel, maintenance windows and the labels of apps."""

    router: Router
    addresses: Mapping[str, tuple[str, ...]]  #: of each channel
    maintenance: Sequence[Maintenance] = ()
    app_labels: AppLabels = field(default_factory=AppLabels)
    group_wait_s: float = 0.0  #: a warning waits so long for others of its app
    rules: Sequence[ThresholdRule] = ()

    @classmethod
    def everyone(cls, recipients: Sequence[Recipient]) -> Self:
        """Make the plan of somebody who has no routes: everyone hears of everything."""
        addresses: dict[str, tuple[str, ...]] = {}
        for recipient in dict.fromkeys(recipients):
            known = addresses.get(recipient.channel, ())
            addresses[recipient.channel] = (*known, recipient.address)
        return cls(router=to_everyone(addresses), addresses=addresses)

    def labels(self, verdict: Verdict, level: Level) -> dict[str, str]:
        """Say what an alert about *verdict* is called by."""
        return labels_of(verdict, level, self.app_labels.of(verdict.app))

    def places(self, labels: Labels, now: datetime) -> dict[Recipient, str | None]:
        """List every place that hears of such an alert now, each with its fallback channel."""
        return {
            Recipient(target.channel, address): target.fallback
            for target in self.router.targets(labels, now)
            for address in self.addresses.get(target.channel, ())
        }
