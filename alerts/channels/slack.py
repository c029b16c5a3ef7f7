"""Slack, through an incoming webhook; its URL is the secret and leaves this file only as a call."""

from __future__ import annotations

import re

from pydantic import SecretStr

from alerts.channels.base import Rate, Receipt
from alerts.channels.http import Answer, HttpClient, refusal
from alerts.channels.slack_payload import payload, text_only
from alerts.message import Message

#: Slack's own words for "the way you wrote this": worth one more try in plain text.
BAD_PAYLOAD = {"invalid_payload", "invalid_blocks", "msg_blocks_too_long", "msg_too_long"}
_OK = 200


class SlackChannel:
    """Posts to one Slack channel."""

    addresses = ("",)
    rate = Rate(per_minute=60, burst=30)

    def __init__(
        self, webhook_url: SecretStr, *, timeout_s: float = 20.0, name: str = "slack"
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._url = webhook_url
        self._http = HttpClient("Slack", timeout_s=timeout_s)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once; a message whose form Slack refuses is posted again as plain text."""
        del attempt
        answer = self._http.send_json(self._url, payload(message, delivery_id))
        if _code(answer) in BAD_PAYLOAD:
            answer = self._http.send_json(self._url, text_only(message))
        code = _code(answer)
        if answer.status == _OK and code == "ok":
            return Receipt(answer="200 ok")
        known = "" if code == "ok" else code
        raise refusal("Slack", answer, known, check="GROUNDWATCH_SLACK_WEBHOOK_URL")


def _code(answer: Answer) -> str:
    """Give Slack's word for how it went; '' for an answer that is not Slack's."""
    return answer.text if re.fullmatch(r"[a-z_]{2,60}", answer.text) else ""
