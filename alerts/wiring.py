"""All channels there are, and who hears of what: from the settings and the routes file."""

from __future__ import annotations

from typing import NamedTuple

from alerts.channels import registry
from alerts.channels.base import Channel
from alerts.plan import Plan
from alerts.routes_file import read_routes_file
from alerts.routing.routes import Router
from monitor.settings import Settings


class Wiring(NamedTuple):
    """The channels by name, and the plan of who hears of what through them."""

    channels: dict[str, Channel]
    plan: Plan


def wiring_from(settings: Settings) -> Wiring:
    """
    Make the channels and the plan; without a routes file everyone hears of everything.

    Raises
    ------
    SettingsError
        If the routes file has mistakes, with a line for each.
    """
    channels = registry.channels_from(settings)
    if settings.alerts_file is None:
        return Wiring(channels, Plan.everyone(registry.recipients_of(channels)))
    file = read_routes_file(settings.alerts_file, channels, settings.delivery_timeout_s)
    plan = Plan(
        router=Router(file.routes),
        addresses={name: channel.addresses for name, channel in file.channels.items()},
        maintenance=file.maintenance,
        app_labels=file.app_labels,
        group_wait_s=file.group_wait_s,
        rules=file.rules,
    )
    return Wiring(dict(file.channels), plan)
