"""PagerDuty, Events API v2: one alert an incident, whatever is sent twice."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from alerts.channels.base import ChannelRate, HttpClient, Receipt, refusal
from alerts.message import Message
from monitor.report.format import shorten

_API = "https://events.pagerduty.com"
_SUMMARY_CHARS = 1024
_TAKEN = 202


class PagerDutyChannel:
    """
    Triggers and resolves an alert of PagerDuty.

    The incident is the ``dedup_key``: a message that arrives twice changes the same
    alert, and what follows updates it.
    """

    addresses = ("",)
    takes_digests = False
    rate = ChannelRate(per_minute=60, burst=30)

    def __init__(
        self,
        routing_key: SecretStr,
        *,
        timeout_s: float = 20.0,
        name: str = "pagerduty",
        api_url: str = _API,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._key = routing_key
        self._url = SecretStr(f"{api_url.rstrip('/')}/v2/enqueue")
        self._http = HttpClient("PagerDuty", timeout_s=timeout_s)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post one event; PagerDuty queues it, and cannot say yet that a phone rang."""
        del attempt
        event = event_of(message, delivery_id, self._key.get_secret_value())
        answer = self._http.send_json(self._url, event)
        if answer.status == _TAKEN and answer.json.get("status") == "success":
            return Receipt(answer="202 success")
        word = str(answer.json.get("status") or "")
        code = word.replace(" ", "_") if word.replace(" ", "").isalpha() else ""
        raise refusal("PagerDuty", answer, code[:60], check="the routing key")


def event_of(message: Message, delivery_id: str, routing_key: str) -> dict[str, Any]:
    """Write the message as an event of PagerDuty."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if message.over else "trigger",
        "dedup_key": f"groundwatch-{message.incident_id}",
    }
    if message.over:
        return event
    details = dict(message.facts) | {
        "delivery_id": delivery_id,
        message.advice: message.command,
    }
    event["payload"] = {
        "summary": shorten(message.subject, _SUMMARY_CHARS),
        "source": message.app,
        "severity": message.severity,
        "timestamp": message.at.isoformat(),
        "component": message.title,
        "class": str(message.data.get("metric", "")),
        "custom_details": details | {"samples": list(message.samples)},
    }
    event["client"] = "groundwatch"
    if message.link:
        event["client_url"] = message.link
        event["links"] = [{"href": message.link, "text": "Open the incident"}]
    return event
