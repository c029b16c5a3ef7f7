"""
Slack, through an incoming webhook or with a bot's token.

The webhook's URL and the token are secrets; they leave this module only as a call. Messages are
blocks within Slack's limits, with everything dynamic escaped.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import (
    Channel,
    ChannelRate,
    HttpAnswer,
    HttpClient,
    Receipt,
    refusal,
    slow_down,
)
from alerts.message import Message
from monitor.errors import DeliveryError
from monitor.format import shorten

#: Slack's own words for "the way you wrote this": worth one more try in plain text.
BAD_PAYLOAD = {"invalid_payload", "invalid_blocks", "msg_blocks_too_long", "msg_too_long"}
_OK = 200
_API = "https://slack.com/api"
#: Slack's words for trouble that passes.
_PASSES = {
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
}
_SLOW_DOWN = {"ratelimited", "rate_limited", "message_limit_exceeded"}
_HEADER_CHARS = 150
_SECTION_CHARS = 3000
_TEXT_CHARS = 3500
_MARKS = {
    "RESOLVED": ":large_green_circle:",
    "WARNING": ":large_yellow_circle:",
    "CLOSED": ":white_circle:",
    "EXPIRED": ":white_circle:",
    "STABLE": ":large_green_circle:",
    "DIGEST": ":bar_chart:",
}


class SlackChannel(Channel):
    """Posts to one Slack channel."""

    name = "slack"
    rate = ChannelRate(per_minute=60, burst=30)

    def __init__(self, url: SecretStr, **usual: Any) -> None:
        super().__init__(**usual)
        self._url = url
        self._http = HttpClient("Slack", timeout_s=self.timeout_s)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once; a message whose form Slack refuses is posted again as plain text."""
        answer = self._http.send_json(self._url, payload(message, delivery_id))
        if _code(answer) in BAD_PAYLOAD:
            answer = self._http.send_json(self._url, text_only(message))
        if answer.status == _OK and _code(answer) == "ok":
            return Receipt(answer="200 ok")
        raise webhook_refusal(answer)


def webhook_refusal(answer: HttpAnswer) -> DeliveryError:
    """Make the error of an answer of an incoming webhook; only Slack's own words are final."""
    known = "" if _code(answer) == "ok" else _code(answer)
    check = "GROUNDWATCH_SLACK_WEBHOOK_URL"
    return refusal("Slack", answer, known, check=check, is_theirs=bool(known))


def _code(answer: HttpAnswer) -> str:
    """Return Slack's word for how it went; '' for an answer that is not Slack's."""
    return answer.text if re.fullmatch(r"[a-z_]{2,60}", answer.text) else ""


class SlackBotChannel(Channel):
    """
    Posts to one Slack channel through the Web API.

    The first message of an incident is its root; news answers it in the thread, and
    the root is changed to say how things stand now. Slack answers 200 to everything:
    only ``"ok": true`` is a yes.
    """

    name = "slack-bot"
    rate = ChannelRate(per_minute=60, burst=10)

    def __init__(
        self, token: SecretStr, *, channel: str, api_url: str = _API, **usual: Any
    ) -> None:
        super().__init__(**usual)
        self._headers = {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}")}
        self._channel = channel
        self._api = api_url.rstrip("/")
        # Two exchanges a message at most: each has half of the time.
        self._http = HttpClient("Slack", timeout_s=self.timeout_s / 2)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once, in the thread of the incident when there is one."""
        place: dict[str, Any] = {"channel": self._channel}
        root_channel, _, root = message.thread.partition(":")
        if root:
            # A thread is quiet: what got worse and what is over is shown in the channel too.
            loud = message.over or message.word.startswith(("NOW", "AGAIN"))
            place = {"channel": root_channel, "thread_ts": root, "reply_broadcast": loud}
        about = {"event_type": "groundwatch_alert", "event_payload": {"delivery_id": delivery_id}}
        body = payload(message, delivery_id) | place | {"metadata": about}
        answer = self._call("chat.postMessage", body)
        if answer.json.get("error") in BAD_PAYLOAD:
            answer = self._call("chat.postMessage", text_only(message) | place)
        found = answer.json
        if answer.status != _OK or found.get("ok") is not True:
            word = answer.json.get("error")
            code = word if isinstance(word, str) and re.fullmatch(r"[a-z_]{2,60}", word) else ""
            if code in _SLOW_DOWN:
                refused = slow_down("Slack", answer)
            elif code and answer.status == _OK:
                transient = code in _PASSES
                advice = "" if transient else "; check token and channel, and invite the bot"
                refused = DeliveryError(
                    f"Slack refused: {code}{advice}", code=code, transient=transient
                )
            else:
                refused = refusal("Slack", answer, code, check="the bot's token")
            raise refused
        if root:
            body = payload(message, delivery_id) | {"channel": root_channel, "ts": root}
            # Keeping the root current is a comfort; its failure is not a failure of the message.
            with suppress(DeliveryError):
                self._call("chat.update", body)
            return Receipt(answer="200 ok", ref=message.thread)
        return Receipt(answer="200 ok", ref=f"{found.get('channel', '')}:{found.get('ts', '')}")

    def _call(self, method: str, body: dict[str, Any]) -> HttpAnswer:
        return self._http.send_json(SecretStr(f"{self._api}/{method}"), body, self._headers)


def escape(text: str) -> str:
    """Escape *text* for Slack, where only these characters can begin a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def payload(message: Message, delivery_id: str) -> dict[str, Any]:
    """Return the message as blocks, with the text that screen readers and pop-ups use."""
    mark = _MARKS.get(message.word.rpartition(" ")[2], ":red_circle:")
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(f"{message.word}: {message.title}", _HEADER_CHARS)},
        _section(f"{mark} *{escape(message.headline)}*"),
    ]
    for section in message.sections:
        title = f"*{escape(section.title)}*"
        if section.is_chart:
            room = _SECTION_CHARS - len(title) - 7
            drawn = "\n".join(escape(line.replace("`", "'")) for line in section.lines)
            blocks.append(_section(f"{title}\n```{shorten(drawn, room)}```"))
            continue
        # Plain text: nothing in a name is a mark, and a command can be copied as it stands.
        lines = "\n".join(f"• {line}" for line in section.lines)
        blocks += [_section(title), {"type": "section", "text": _plain(lines, _SECTION_CHARS)}]
    if not message.sections:
        facts = (f"*{label}*  {escape(text)}" for label, text in message.facts)
        blocks.append(_section("\n".join(facts)))
    # Plain text: no bold, no link and no mention can come out of a transcript.
    if message.example is not None:
        example = message.example
        said = [f"Q  {example.question}", f"A  {example.answer}"]
        said += [f"✗  {example.finding}"] if example.finding else []
        blocks.append({"type": "section", "text": _plain("\n".join(said), _SECTION_CHARS)})
    if message.samples:
        listed = [f"{place}. {text}" for place, text in enumerate(message.samples, start=1)]
        worst = "Worst samples, as the scorer explains them\n" + "\n".join(listed)
        blocks.append({"type": "section", "text": _plain(worst, _SECTION_CHARS)})
    links = [f"<{escape(message.link)}|Open the incident>"] if message.link else []
    if message.example is not None and message.example.link:
        links.append(f"<{escape(message.example.link)}|Open the sample>")
    if message.silence_link:
        links.append(f"<{escape(message.silence_link)}|Silence>")
    command = escape(message.command.replace("`", "'"))
    blocks.append(_section("  ·  ".join((*links, f"*{message.advice}*  `{command}`"))))
    # The id of the delivery, invisible to people: the same on every attempt.
    blocks.append(
        {
            "type": "context",
            "block_id": f"groundwatch-{delivery_id}",
            "elements": [_plain(message.footer, _SECTION_CHARS)],
        }
    )
    figures = "; ".join(f"{label}: {text}" for label, text in message.facts[:4])
    summary = shorten(escape(f"{message.subject.rstrip('.')}. {figures}"), _TEXT_CHARS)
    return {"text": summary, "blocks": blocks, "unfurl_links": False}


def text_only(message: Message) -> dict[str, Any]:
    """Return the message as plain text, for when Slack refuses the blocks."""
    text = shorten(escape(message.text.strip()), _TEXT_CHARS)
    return {"text": text, "mrkdwn": False, "unfurl_links": False}


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": shorten(escape(text), limit), "emoji": False}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": shorten(text, _SECTION_CHARS)}}
