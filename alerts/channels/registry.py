"""The channels that the settings alone describe; `alerts.wiring` adds those of the routes file."""

from __future__ import annotations

from collections.abc import Mapping

from alerts.channels.base import Channel, Recipient
from alerts.channels.email import EmailChannel
from alerts.channels.slack import SlackChannel
from monitor.settings import Settings

__all__ = ["Recipient", "channels_from", "recipients_from", "recipients_of"]


def channels_from(settings: Settings) -> dict[str, Channel]:
    """Make the channels that the settings name; none when they name none."""
    channels: list[Channel] = []
    if settings.slack_webhook_url is not None:
        channels.append(
            SlackChannel(settings.slack_webhook_url, timeout_s=settings.delivery_timeout_s)
        )
    if settings.smtp_url is not None:
        channels.append(
            EmailChannel(
                settings.smtp_url,
                sender=settings.email_from,
                recipients=settings.email_to,
                timeout_s=settings.delivery_timeout_s,
            )
        )
    return {channel.name: channel for channel in channels}


def recipients_from(settings: Settings) -> list[Recipient]:
    """List every place that alerts go to, each with its channel."""
    return recipients_of(channels_from(settings))


def recipients_of(channels: Mapping[str, Channel]) -> list[Recipient]:
    """List every place that these channels send to."""
    return [Recipient(c.name, address) for c in channels.values() for address in c.addresses]
