"""
Chat through a webhook: Microsoft Teams with an Adaptive Card, Discord with an embed.

Nothing in a message can mention anybody. Plain text goes to the console, and through Apprise to
services without a channel of their own.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, TextIO

from pydantic import SecretStr

from alerts.channels.base import Channel, ChannelRate, HttpClient, Receipt, refusal, slow_down
from alerts.message import Message
from monitor.errors import DeliveryError, MissingExtraError, SettingsError
from monitor.format import shorten

_TEAMS_COLOURS = {"critical": "attention", "warning": "warning"}
_MOST_BYTES = 26_000  # Teams takes 28 kB, with all that the flow adds
_TEXT_CHARS = 2000
_OK, _NO_CONTENT, _BAD_REQUEST, _TOO_LARGE = 200, 204, 400, 413
_TEAMS_MARKDOWN = re.compile(r"([\\`*_\[\]()#~|>!])")


class TeamsChannel(Channel):
    """
    Posts a card to a Teams workflow ("when a Teams webhook request is received").

    A workflow answers 202 before it posts, so that nobody can tell whether a message
    was shown. Old connectors say no in the body of a 200.
    """

    name = "teams"
    rate = ChannelRate(per_minute=100 / 60, burst=20)

    def __init__(self, url: SecretStr, **usual: Any) -> None:
        super().__init__(**usual)
        self._url = url
        self._http = HttpClient("Teams", timeout_s=self.timeout_s)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once; a card that is refused for its form is posted again as plain text."""
        answer = self._http.send_json(self._url, card(message, delivery_id))
        if answer.status in {_BAD_REQUEST, _TOO_LARGE}:
            answer = self._http.send_json(self._url, _wrapped(_plain_body(message), message))
        if answer.status == _OK and "HTTP error 429" in answer.text:
            raise slow_down("Teams", answer)
        if answer.status == _OK and answer.text == "1":
            return Receipt(answer="200 1")
        if answer.status in {201, 202}:
            return Receipt(answer=str(answer.status), confirmed=False)
        raise refusal("Teams", answer, check="the workflow's address, and who owns the workflow")


def card(message: Message, delivery_id: str) -> dict[str, Any]:
    """Write the message as an Adaptive Card, within Teams' size."""
    colour = "good" if message.over else _TEAMS_COLOURS.get(message.severity, "default")
    body: list[dict[str, Any]] = [
        _block(f"{message.word}: {message.title}", size="large", weight="bolder", color=colour),
        _block(message.headline),
        {
            "type": "FactSet",
            "facts": [
                {"title": label, "value": escape_teams(text)} for label, text in message.facts
            ],
        },
    ]
    if message.samples:
        body.append(_block("Worst samples, as the scorer explains them", weight="bolder"))
        body += [_block(f"{place}. {text}") for place, text in enumerate(message.samples, start=1)]
    body.append(_block(f"{message.advice}: {message.command}"))
    body.append(_block(f"{message.footer}, delivery {delivery_id}", isSubtle=True, size="small"))
    found = _wrapped(body, message)
    if len(json.dumps(found)) <= _MOST_BYTES:
        return found
    return _wrapped(_plain_body(message), message)


def escape_teams(text: str) -> str:
    """Escape what Teams would read as Markdown; a mention cannot come from text alone."""
    return _TEAMS_MARKDOWN.sub(r"\\\1", text)


def _plain_body(message: Message) -> list[dict[str, Any]]:
    return [_block(f"{message.subject}"), _block(f"{message.advice}: {message.command}")]


def _wrapped(body: list[dict[str, Any]], message: Message) -> dict[str, Any]:
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": {"width": "Full"},
    }
    if message.link:
        content["actions"] = [
            {"type": "Action.OpenUrl", "title": "Open the incident", "url": message.link}
        ]
    # An array, or the flow fails.
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": content,
    }
    return {"type": "message", "attachments": [attachment]}


def _block(text: str, **options: Any) -> dict[str, Any]:
    return {
        "type": "TextBlock",
        "text": escape_teams(shorten(text, _TEXT_CHARS)),
        "wrap": True,
    } | options


_DISCORD_COLOURS = {"critical": 0xB42318, "warning": 0x9A6700}
_OVER = 0x1A7F37
_TITLE, _TEXT, _LABEL, _VALUE, _FOOTER, _CONTENT = 256, 3000, 256, 400, 1000, 1900
_MOST_FACTS = 8
_DISCORD_MARKDOWN = re.compile(r"([\\`*_~|>\[\]()#:@<-])")


class DiscordChannel(Channel):
    """
    Posts an embed to one Discord channel.

    With ``wait=true`` Discord answers only after it has posted, and with the message.
    """

    name = "discord"
    rate = ChannelRate(per_minute=30, burst=5)

    def __init__(self, url: SecretStr, **usual: Any) -> None:
        super().__init__(**usual)
        text = url.get_secret_value()
        self._url = SecretStr(f"{text}{'&' if '?' in text else '?'}wait=true")
        self._http = HttpClient("Discord", timeout_s=self.timeout_s)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once; an embed that is refused for its form is posted again as plain text."""
        answer = self._http.send_json(self._url, embed(message, delivery_id))
        if answer.status == _BAD_REQUEST:
            text = shorten(escape_discord(message.subject), _CONTENT)
            answer = self._http.send_json(self._url, _message(content=text))
        found = answer.json.get("id")
        if answer.status == _OK and isinstance(found, str):
            return Receipt(answer="200", ref=found[:300])
        if answer.status == _NO_CONTENT:
            return Receipt(answer="204")
        code = answer.json.get("code")
        known = f"discord_{code}" if isinstance(code, int) and code else ""
        raise refusal("Discord", answer, known, check="the webhook's address")


def embed(message: Message, delivery_id: str) -> dict[str, Any]:
    """Write the message as an embed, within Discord's sizes."""
    lines = [escape_discord(message.headline)]
    lines += [
        f"{place}. {escape_discord(text)}" for place, text in enumerate(message.samples, start=1)
    ]
    lines.append(f"{message.advice}: {escape_discord(message.command)}")
    fields = [
        {
            "name": shorten(escape_discord(label), _LABEL),
            "value": shorten(escape_discord(text), _VALUE),
        }
        for label, text in message.facts[:_MOST_FACTS]
    ]
    found: dict[str, Any] = {
        "title": shorten(escape_discord(f"{message.word}: {message.title}"), _TITLE),
        "description": shorten("\n".join(lines), _TEXT - 400 * len(message.samples)),
        "color": _OVER if message.over else _DISCORD_COLOURS.get(message.severity, 0),
        "fields": [field for field in fields if field["value"]],
        "footer": {"text": shorten(f"{message.footer}, delivery {delivery_id}", _FOOTER)},
        "timestamp": message.at.isoformat(),
    }
    if message.link:
        found["url"] = message.link
    return _message(embeds=[found])


def escape_discord(text: str) -> str:
    """Escape what Discord would read as Markdown, a mention or a link."""
    return _DISCORD_MARKDOWN.sub(r"\\\1", text)


def _message(**content: Any) -> dict[str, Any]:
    return content | {"username": "groundwatch", "allowed_mentions": {"parse": []}}


class ConsoleChannel(Channel):
    """
    Writes messages to standard error: for one terminal, or a container's log.

    Their text has no control characters.
    """

    name = "console"
    rate = ChannelRate(per_minute=6000, burst=1000)

    def __init__(self, *, stream: TextIO | None = None, **usual: Any) -> None:
        super().__init__(**usual)
        self._stream = stream

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Write once."""
        stream = self._stream or sys.stderr
        try:
            stream.write(f"{message.text.rstrip()}\ndelivery {delivery_id}\n\n")
            stream.flush()
        except (OSError, ValueError) as problem:
            raise DeliveryError("console: cannot write", code=type(problem).__name__) from None
        return Receipt(answer="written")


class AppriseChannel(Channel):
    """
    Sends plain text through the `apprise` package.

    It tells neither status nor how long to wait, so that every failure counts as one
    that may pass, and whether a message arrived remains unknown.
    """

    name = "apprise"
    rate = ChannelRate(per_minute=20, burst=5)

    def __init__(self, url: SecretStr, **usual: Any) -> None:
        super().__init__(**usual)
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("the channel apprise", "apprise") from None
        # It logs whole addresses at DEBUG; they are secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        logging.getLogger("urllib3").setLevel(logging.WARNING)
        self._sender: Any = apprise.Apprise()
        if not self._sender.add(url.get_secret_value()):
            raise SettingsError(f"channel {self.name}: apprise does not know such an address")

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Send once."""
        text = f"{message.text}\ndelivery {delivery_id}"
        try:
            taken = self._sender.notify(title=message.subject, body=text, body_format="text")
        except Exception as problem:  # noqa: BLE001 - its text may hold the address
            taken, kind = False, type(problem).__name__
        else:
            kind = "refused"
        if not taken:
            raise DeliveryError("apprise: not delivered", code=f"apprise:{kind}", ambiguous=True)
        return Receipt(answer="taken", confirmed=False)
