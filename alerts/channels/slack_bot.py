"""Slack, with a bot's token: news answers in the thread, and the first message is kept up."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import Rate, Receipt
from alerts.channels.http import Answer, HttpClient, refusal, slow_down
from alerts.channels.slack import BAD_PAYLOAD
from alerts.channels.slack_payload import payload, text_only
from alerts.message import Message
from monitor.errors import DeliveryError

_API = "https://slack.com/api"
_OK = 200
#: Slack's words for trouble that passes.
_PASSES = {
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
}
_SLOW_DOWN = {"ratelimited", "rate_limited", "message_limit_exceeded"}


class SlackBotChannel:
    """
    Posts to one Slack channel through the Web API.

    The first message of an incident is its root; news answers it in the thread, and
    the root is changed to say how things stand now. Slack answers 200 to everything:
    only ``"ok": true`` is a yes.
    """

    addresses = ("",)
    rate = Rate(per_minute=60, burst=10)

    def __init__(
        self,
        token: SecretStr,
        *,
        channel: str,
        timeout_s: float = 20.0,
        name: str = "slack-bot",
        api_url: str = _API,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._headers = {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}")}
        self._channel = channel
        self._api = api_url.rstrip("/")
        # Two exchanges a message at most: each has half of the time.
        self._http = HttpClient("Slack", timeout_s=timeout_s / 2)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once, in the thread of the incident when there is one."""
        del attempt
        place: dict[str, Any] = {"channel": self._channel}
        root_channel, _, root = message.thread.partition(":")
        if root:
            # A thread is quiet: what got worse and what is over is shown in the channel too.
            loud = message.over or message.word.startswith(("NOW", "AGAIN"))
            place = {"channel": root_channel, "thread_ts": root, "reply_broadcast": loud}
        metadata = {
            "event_type": "groundwatch_alert",
            "event_payload": {"delivery_id": delivery_id},
        }
        body = payload(message, delivery_id) | place | {"metadata": metadata}
        answer = self._call("chat.postMessage", body)
        if answer.json.get("error") in BAD_PAYLOAD:
            answer = self._call("chat.postMessage", text_only(message) | place)
        found = answer.json
        if answer.status != _OK or found.get("ok") is not True:
            raise _refused(answer)
        if root:
            self._keep_up(message, delivery_id, root_channel, root)
            return Receipt(answer="200 ok", ref=message.thread)
        return Receipt(answer="200 ok", ref=f"{found.get('channel', '')}:{found.get('ts', '')}")

    def _keep_up(self, message: Message, delivery_id: str, channel: str, root: str) -> None:
        """Change the root; that is a comfort, and its failure no failure of the message."""
        body = payload(message, delivery_id) | {"channel": channel, "ts": root}
        with suppress(DeliveryError):
            self._call("chat.update", body)

    def _call(self, method: str, body: dict[str, Any]) -> Answer:
        return self._http.send_json(SecretStr(f"{self._api}/{method}"), body, self._headers)


def _refused(answer: Answer) -> DeliveryError:
    word = answer.json.get("error")
    code = word if isinstance(word, str) and re.fullmatch(r"[a-z_]{2,60}", word) else ""
    if code in _SLOW_DOWN:
        return slow_down("Slack", answer)
    if code and answer.status == _OK:
        transient = code in _PASSES
        advice = "" if transient else "; check token and channel, and invite the bot"
        return DeliveryError(f"Slack refused: {code}{advice}", code=code, transient=transient)
    return refusal("Slack", answer, code, check="the bot's token")
