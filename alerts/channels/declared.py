"""Channels as the routes file declares them; each knows how to make itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from alerts.channels.alertmanager import AlertmanagerChannel
from alerts.channels.apprise import AppriseChannel
from alerts.channels.base import Channel, Recipient
from alerts.channels.console import ConsoleChannel
from alerts.channels.discord import DiscordChannel
from alerts.channels.email import EmailChannel
from alerts.channels.pagerduty import PagerDutyChannel
from alerts.channels.slack import SlackBotChannel, SlackChannel
from alerts.channels.teams import TeamsChannel
from alerts.channels.webhook import WebhookChannel
from monitor.settings import Settings, environment_value

__all__ = [
    "Alertmanager",
    "Apprise",
    "Console",
    "DeclaredChannel",
    "Discord",
    "Email",
    "NamedSecret",
    "PagerDuty",
    "Recipient",
    "Slack",
    "SlackBot",
    "Teams",
    "Webhook",
    "channels_from",
    "read_secret",
    "recipients_from",
    "recipients_of",
]


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list) else [value]


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    explanations: bool = True  #: what the scorer said of the worst samples goes with it


# --- secrets ---
# Secrets in the routes file: named there, and kept in the environment or in files of their own.


_ADVICE = (
    "is a secret, and does not belong into this file;"
    ' write it as "env:NAME" or "file:/path", or as { env = "NAME" } or { file = "/path" }'
)


def read_secret(value: Any) -> SecretStr:
    """
    Read the secret that *value* names.

    Raises
    ------
    ValueError
        If it names none, or what it names is not there; never with the secret itself.
    """
    source, name = _source(value)
    if source == "env":
        found = environment_value(name)
        if found is None:
            raise ValueError(f"the environment variable {name} is not set")
    else:
        try:
            found = Path(name).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError):
            raise ValueError(f"the file {name} cannot be read") from None
        if not found:
            raise ValueError(f"the file {name} is empty")
    return SecretStr(found)


def _source(value: Any) -> tuple[str, str]:
    if isinstance(value, dict) and len(value) == 1:
        ((source, name),) = value.items()
    elif isinstance(value, str):
        source, _, name = value.partition(":")
    else:
        source, name = "", ""
    if source not in {"env", "file"} or not isinstance(name, str) or not name:
        raise ValueError(_ADVICE)
    return source, name


#: A field whose value is named, not written.
NamedSecret = Annotated[SecretStr, BeforeValidator(read_secret)]


class Slack(_Declared):
    """An incoming webhook."""

    type: Literal["slack"]
    url: NamedSecret

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return SlackChannel(self.url, timeout_s=timeout_s, name=name)


class SlackBot(_Declared):
    """A bot's token and a channel's id."""

    type: Literal["slack-bot"]
    token: NamedSecret
    channel: str = Field(pattern=r"^[CGD#][\w-]+$")
    api_url: str = "https://slack.com/api"

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return SlackBotChannel(
            self.token, channel=self.channel, timeout_s=timeout_s, name=name, api_url=self.api_url
        )


class Email(_Declared):
    """A mail server and who gets the mail."""

    type: Literal["email"]
    url: NamedSecret
    sender: str = Field("groundwatch@localhost", alias="from")
    to: Annotated[list[str], BeforeValidator(_one_or_more), Field(min_length=1)]

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return EmailChannel(
            self.url, sender=self.sender, recipients=tuple(self.to), timeout_s=timeout_s, name=name
        )


class Webhook(_Declared):
    """Any program that takes signed documents."""

    type: Literal["webhook"]
    url: NamedSecret
    secret: Annotated[list[NamedSecret], BeforeValidator(_one_or_more)] = Field(
        default_factory=list
    )
    allow_private: bool = False

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return WebhookChannel(
            self.url,
            secrets=self.secret,
            timeout_s=timeout_s,
            name=name,
            allow_private=self.allow_private,
        )


class PagerDuty(_Declared):
    """An integration's key."""

    type: Literal["pagerduty"]
    routing_key: NamedSecret
    api_url: str = "https://events.pagerduty.com"

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return PagerDutyChannel(
            self.routing_key, timeout_s=timeout_s, name=name, api_url=self.api_url
        )


class Teams(_Declared):
    """A workflow's webhook."""

    type: Literal["teams"]
    url: NamedSecret

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return TeamsChannel(self.url, timeout_s=timeout_s, name=name)


class Discord(_Declared):
    """A channel's webhook."""

    type: Literal["discord"]
    url: NamedSecret

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return DiscordChannel(self.url, timeout_s=timeout_s, name=name)


class Alertmanager(_Declared):
    """An Alertmanager of one's own."""

    type: Literal["alertmanager"]
    url: NamedSecret
    authorization: NamedSecret | None = None

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return AlertmanagerChannel(
            self.url, timeout_s=timeout_s, name=name, authorization=self.authorization
        )


class Console(_Declared):
    """Standard error."""

    type: Literal["console"]

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        del timeout_s
        return ConsoleChannel(name=name)


class Apprise(_Declared):
    """Anything that the package `apprise` knows."""

    type: Literal["apprise"]
    url: NamedSecret

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        return AppriseChannel(self.url, name=name, timeout_s=timeout_s)


DeclaredChannel = Annotated[
    Slack
    | SlackBot
    | Email
    | Webhook
    | PagerDuty
    | Teams
    | Discord
    | Alertmanager
    | Console
    | Apprise,
    Field(discriminator="type"),
]


# --- registry ---
# The channels that the settings alone describe; `alerts.routes_file` adds those of the routes file.


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
