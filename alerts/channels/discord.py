"""Discord, through a channel's webhook; nothing in a message can mention anybody."""

from __future__ import annotations

import re
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import ChannelRate, HttpClient, Receipt, refusal
from alerts.message import Message
from monitor.report.format import shorten

_COLOURS = {"critical": 0xB42318, "warning": 0x9A6700}
_OVER = 0x1A7F37
_TITLE, _TEXT, _LABEL, _VALUE, _FOOTER, _CONTENT = 256, 3000, 256, 400, 1000, 1900
_MOST_FACTS = 8
_OK, _NO_CONTENT, _BAD_REQUEST = 200, 204, 400
_MARKDOWN = re.compile(r"([\\`*_~|>\[\]()#:@<-])")


class DiscordChannel:
    """
    Posts an embed to one Discord channel.

    With ``wait=true`` Discord answers only after it has posted, and with the message.
    """

    addresses = ("",)
    rate = ChannelRate(per_minute=30, burst=5)

    def __init__(self, url: SecretStr, *, timeout_s: float = 20.0, name: str = "discord") -> None:
        self.name = name
        self.timeout_s = timeout_s
        text = url.get_secret_value()
        self._url = SecretStr(f"{text}{'&' if '?' in text else '?'}wait=true")
        self._http = HttpClient("Discord", timeout_s=timeout_s)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once; an embed that is refused for its form is posted again as plain text."""
        del attempt
        answer = self._http.send_json(self._url, embed(message, delivery_id))
        if answer.status == _BAD_REQUEST:
            text = shorten(escape(message.subject), _CONTENT)
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
    lines = [escape(message.headline)]
    lines += [f"{place}. {escape(text)}" for place, text in enumerate(message.samples, start=1)]
    lines.append(f"{message.advice}: {escape(message.command)}")
    fields = [
        {"name": shorten(escape(label), _LABEL), "value": shorten(escape(text), _VALUE)}
        for label, text in message.facts[:_MOST_FACTS]
    ]
    found: dict[str, Any] = {
        "title": shorten(escape(f"{message.word}: {message.title}"), _TITLE),
        "description": shorten("\n".join(lines), _TEXT - 400 * len(message.samples)),
        "color": _OVER if message.over else _COLOURS.get(message.severity, 0),
        "fields": [field for field in fields if field["value"]],
        "footer": {"text": shorten(f"{message.footer}, delivery {delivery_id}", _FOOTER)},
        "timestamp": message.at.isoformat(),
    }
    if message.link:
        found["url"] = message.link
    return _message(embeds=[found])


def escape(text: str) -> str:
    """Escape what Discord would read as Markdown, a mention or a link."""
    return _MARKDOWN.sub(r"\\\1", text)


def _message(**content: Any) -> dict[str, Any]:
    return content | {"username": "groundwatch", "allowed_mentions": {"parse": []}}
