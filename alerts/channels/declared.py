"""Channels as the routes file declares them; each knows how to make itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from alerts.channels.alertmanager import AlertmanagerChannel
from alerts.channels.apprise import AppriseChannel
from alerts.channels.base import Channel
from alerts.channels.console import ConsoleChannel
from alerts.channels.discord import DiscordChannel
from alerts.channels.email import EmailChannel
from alerts.channels.pagerduty import PagerDutyChannel
from alerts.channels.slack import SlackChannel
from alerts.channels.slack_bot import SlackBotChannel
from alerts.channels.teams import TeamsChannel
from alerts.channels.webhook import WebhookChannel
from alerts.routing.secrets import NamedSecret


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list) else [value]


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    explanations: bool = True  #: what the scorer said of the worst samples goes with it


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
