"""What a silence would hold back, before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from alerts.ledger import last_snapshot, open_incidents
from alerts.plan import Plan
from alerts.routing.matchers import Matcher, all_match
from monitor.models.alerting import Incident, Level
from monitor.store.verdicts import read_verdicts


class Preview(NamedTuple):
    """What fires now, what of it would be held back, and what is odd about the matchers."""

    firing: int
    held: list[Incident]
    warning: str = ""


def preview(connection: Connection, plan: Plan, matchers: Sequence[Matcher]) -> Preview:
    """Tell what a silence with these matchers would hold back now."""
    firing = open_incidents(connection)
    held = [i for i in firing if all_match(matchers, _labels(connection, plan, i))]
    known = list(read_verdicts(connection).values())
    both = [plan.labels(verdict, level) for verdict in known for level in Level]
    could = sum(all_match(matchers, labels) for labels in both)
    warning = ""
    if known and not could:
        warning = "it matches nothing that is evaluated; is a name misspelt?"
    elif known and could == len(both):
        warning = "it matches everything there is"
    return Preview(len(firing), held, warning)


def _labels(connection: Connection, plan: Plan, incident: Incident) -> dict[str, str]:
    last = last_snapshot(connection, incident.incident_id)
    return plan.labels(last.verdict, incident.level)
