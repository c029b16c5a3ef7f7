"""The channels that the settings and the routes file declare: one table each, and its secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from alerts.channels.base import Channel
from alerts.channels.chat import AppriseChannel, ConsoleChannel, DiscordChannel, TeamsChannel
from alerts.channels.email import EmailChannel
from alerts.channels.programs import AlertmanagerChannel, PagerDutyChannel, WebhookChannel
from alerts.channels.slack import SlackBotChannel, SlackChannel
from monitor.settings import environment_value

_ADVICE = (
    "is a secret, and does not belong into this file;"
    ' write it as "env:NAME" or "file:/path", or as { env = "NAME" } or { file = "/path" }'
)


def read_secret(value: Any) -> SecretStr:
    """
    Read the secret that *value* names.

    Raise ValueError if it names none, or what it names is not there; never with the secret itself.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((source, name),) = value.items()
    else:
        source, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if source not in {"env", "file"} or not isinstance(name, str) or not name:
        raise ValueError(_ADVICE)
    if source == "env":
        found = environment_value(name)
        if found is None:
            raise ValueError(f"the environment variable {name} is not set")
        return SecretStr(found)
    try:
        found = Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        raise ValueError(f"the file {name} cannot be read") from None
    if not found:
        raise ValueError(f"the file {name} is empty")
    return SecretStr(found)


def one_or_more(value: object) -> object:
    """Return a list as it is, and a lone value as a list of one."""
    return value if isinstance(value, list) else [value]


#: A field whose value is named, not written.
NamedSecret = Annotated[SecretStr, BeforeValidator(read_secret)]


class _Declared(BaseModel):
    """One table of the routes file; its fields are the arguments of the channel's class."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    channel_class: ClassVar[Callable[..., Channel]]

    explanations: bool = True  #: send what the scorer said of the worst samples as well

    def make(self, name: str, timeout_s: float) -> Channel:
        """Make the channel."""
        names = type(self).model_fields.keys() - {"type", "explanations"}
        arguments = {field: getattr(self, field) for field in names}
        channel = type(self).channel_class(**arguments, name=name, timeout_s=timeout_s)
        channel.explanations = self.explanations
        return channel


class _ByUrl(_Declared):
    url: NamedSecret


class Slack(_ByUrl):
    """An incoming webhook."""

    channel_class = SlackChannel
    type: Literal["slack"]


class SlackBot(_Declared):
    """A bot's token and a channel's id."""

    channel_class = SlackBotChannel
    type: Literal["slack-bot"]
    token: NamedSecret
    channel: str = Field(pattern=r"^[CGD#][\w-]+$")
    api_url: str = "https://slack.com/api"


class Email(_ByUrl):
    """A mail server and who gets the mail."""

    channel_class = EmailChannel
    type: Literal["email"]
    sender: str = Field("groundwatch@localhost", alias="from")
    recipients: Annotated[list[str], BeforeValidator(one_or_more), Field(min_length=1)] = Field(
        alias="to"
    )


class Webhook(_ByUrl):
    """Any program that takes signed documents."""

    channel_class = WebhookChannel
    type: Literal["webhook"]
    secrets: Annotated[list[NamedSecret], BeforeValidator(one_or_more)] = Field(
        default_factory=list, alias="secret"
    )
    allow_private: bool = False


class PagerDuty(_Declared):
    """An integration's key."""

    channel_class = PagerDutyChannel
    type: Literal["pagerduty"]
    routing_key: NamedSecret
    api_url: str = "https://events.pagerduty.com"


class Teams(_ByUrl):
    """A workflow's webhook."""

    channel_class = TeamsChannel
    type: Literal["teams"]


class Discord(_ByUrl):
    """A channel's webhook."""

    channel_class = DiscordChannel
    type: Literal["discord"]


class Alertmanager(_ByUrl):
    """An Alertmanager of one's own."""

    channel_class = AlertmanagerChannel
    type: Literal["alertmanager"]
    authorization: NamedSecret | None = None


class Console(_Declared):
    """Standard error."""

    channel_class = ConsoleChannel
    type: Literal["console"]


class Apprise(_ByUrl):
    """Anything that the package `apprise` knows."""

    channel_class = AppriseChannel
    type: Literal["apprise"]


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
