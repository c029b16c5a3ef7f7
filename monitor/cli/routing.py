"""``groundwatch alerts route``: who would hear of an alert, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from alerts.plan import Plan
from alerts.routing.matchers import MONITOR_PREFIX
from alerts.routing.silences import Hush, hush_for
from alerts.stored_silences import silences_after
from alerts.wiring import wiring_from
from monitor.cli.console import out
from monitor.cli.stores import open_store
from monitor.errors import GroundwatchError, SettingsError
from monitor.models.alerting import Level
from monitor.report.words import harmless
from monitor.settings import Settings


def route(
    app: Annotated[str, typer.Option(help="The app that the alert is about.")],
    severity: Annotated[Level, typer.Option(help="How bad it is.")] = Level.CRITICAL,
    metric: Annotated[str, typer.Option(help="The metric that it is about.")] = "groundedness",
    label: Annotated[list[str] | None, typer.Option(help="More labels, as name=value.")] = None,
    at: Annotated[str, typer.Option(help="When: 2026-03-29T02:30+02:00; now if left out.")] = "",
) -> None:
    """Say who would hear of such an alert, and why; nothing is sent."""
    settings = Settings.from_env()
    now = _moment(at)
    plan = wiring_from(settings).plan
    labels = _labels(plan, app, severity, metric, label or [])
    for step in plan.router.explain(labels, now):
        verdict = "matches" if step.refusal is None else f"no: {step.refusal}"
        out.print(Text(harmless(f"{step.route.name}: {verdict}", 200)), soft_wrap=True)
    places = plan.places(labels, now)
    for to, fallback in places.items():
        instead = f", else {fallback}" if fallback else ""
        out.print(Text(harmless(f"-> {to.channel} {to.address}".rstrip() + instead, 200)))
    if not places:
        out.print("-> nobody: no channel is set up")
    hush = hush_for([*_silences(settings, now), *plan.maintenance], labels, now)
    if hush is not None:
        text = f"but it is silenced now: {hush.hush_id}, by {hush.author}"
        out.print(Text(harmless(text, 200), style="yellow"))


def _silences(settings: Settings, now: datetime) -> list[Hush]:
    """List the silences; a machine without a store has none."""
    try:
        with open_store(settings).read() as connection:
            return list(silences_after(connection, now))
    except GroundwatchError:
        return []


def _labels(plan: Plan, app: str, severity: Level, metric: str, more: list[str]) -> dict[str, str]:
    given = dict(_pair(text) for text in more)
    return plan.app_labels.of(app) | {
        "app": app,
        "metric": metric,
        "segment": "*",
        "severity": severity.value,
        "kind": "monitor" if metric.startswith(MONITOR_PREFIX) else "quality",
        **given,
    }


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SettingsError(f"--label {text!r}: write it as name=value")
    return name, value


def _moment(text: str) -> datetime:
    if not text:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"--at {text!r} is no time; write it as 2026-03-29T02:30+02:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
