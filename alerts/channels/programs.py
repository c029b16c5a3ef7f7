"""
Programs that take alerts over HTTP: a webhook of one's own, PagerDuty, Alertmanager.

A webhook is signed as Standard Webhooks 1.0 has it; PagerDuty gets Events API v2; Alertmanager,
for whom it routes, silences and pages already, API v2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import Channel, ChannelRate, HttpClient, Receipt, refusal
from alerts.message import Message
from monitor.errors import SettingsError
from monitor.format import shorten
from monitor.models.alerting import Severity

_PREFIX = "whsec_"
_MOST_BYTES = 20_000
_SUCCESS = range(200, 300)
_OK, _TAKEN = 200, 202
_PAGERDUTY_API = "https://events.pagerduty.com"
_SUMMARY_CHARS = 1024
#: Longer than the time between two reminders; an alert that is not renewed ends by itself.
_LASTS = timedelta(hours=26)
#: A test ends soon.
_TEST_LASTS = timedelta(minutes=5)
_NOT_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class WebhookChannel(Channel):
    """
    Posts a JSON document; the receiver can tell that it is ours, and a repeat by its id.

    ``webhook-id`` is the same on every attempt. Several secrets sign at once, so that they can be
    changed without a gap. Each is written as Standard Webhooks does: ``whsec_`` and base64. Raises
    SettingsError if a secret is not base64, or too short to be a secret.
    """

    name = "webhook"
    rate = ChannelRate(per_minute=600, burst=100)

    def __init__(
        self,
        url: SecretStr,
        *,
        secrets: Sequence[SecretStr] = (),
        allow_private: bool = False,
        **usual: Any,
    ) -> None:
        super().__init__(**usual)
        self._url = url
        self._keys = []
        for secret in secrets:
            text = secret.get_secret_value().removeprefix(_PREFIX)
            try:
                key = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) < 16:  # noqa: PLR2004 - less is guessed
                raise SettingsError(
                    "the secret of a webhook is whsec_ and at least 24 bytes in base64;"
                    " make one with: openssl rand -base64 32"
                )
            self._keys.append(key)
        self._http = HttpClient("webhook", timeout_s=self.timeout_s, only_public=not allow_private)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once; only 2xx is a yes."""
        body = document(message)
        at = str(int(time.time()))
        headers = {"webhook-id": delivery_id, "webhook-timestamp": at}
        signed = f"{delivery_id}.{at}.".encode() + body
        if self._keys:
            digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in self._keys)
            marks = (f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
            headers["webhook-signature"] = " ".join(marks)
        secret = {name: SecretStr(value) for name, value in headers.items()}
        answer = self._http.send(self._url, body, secret)
        if answer.status in _SUCCESS:
            return Receipt(answer=str(answer.status))
        raise refusal("webhook", answer, check="its address and secret")


def document(message: Message) -> bytes:
    """Return a message as the JSON document that webhooks get, within 20 kB."""
    data = dict(message.data) | {
        "subject": message.subject,
        "headline": message.headline,
        "facts": dict(message.facts),
        "samples": list(message.samples),
        "link": message.link,
    }
    found = {
        "type": f"groundwatch.{'' if message.sections else 'alert.'}{message.event}",
        "timestamp": message.at.isoformat(),
        "data": data,
    }
    body = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) <= _MOST_BYTES:
        return body
    found["data"] = data | {"samples": [], "others": [], "facts": {}, "shortened": True}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


class PagerDutyChannel(Channel):
    """
    Triggers and resolves an alert of PagerDuty.

    The incident is the ``dedup_key``: a message that arrives twice changes the same
    alert, and what follows updates it.
    """

    name = "pagerduty"
    takes_digests = False
    rate = ChannelRate(per_minute=60, burst=30)

    def __init__(
        self, routing_key: SecretStr, *, api_url: str = _PAGERDUTY_API, **usual: Any
    ) -> None:
        super().__init__(**usual)
        self._key = routing_key
        self._url = SecretStr(f"{api_url.rstrip('/')}/v2/enqueue")
        self._http = HttpClient("PagerDuty", timeout_s=self.timeout_s)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post one event; PagerDuty queues it, and cannot say yet that a phone rang."""
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


class AlertmanagerChannel(Channel):
    """
    Hands alerts to an Alertmanager.

    The labels name the incident and its severity, so what arrives twice is the same
    alert. With a severity that changes comes the end of the one before.
    """

    name = "alertmanager"
    takes_digests = False
    rate = ChannelRate(per_minute=600, burst=100)

    def __init__(
        self, url: SecretStr, *, authorization: SecretStr | None = None, **usual: Any
    ) -> None:
        super().__init__(**usual)
        self._url = SecretStr(f"{url.get_secret_value().rstrip('/')}/api/v2/alerts")
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self._http = HttpClient("Alertmanager", timeout_s=self.timeout_s)

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Post once; Alertmanager answers 200 with nothing."""
        current = alert(message, delivery_id)
        alerts = [current]
        if not message.first:
            # The alert of the same incident that is not as bad, or worse, ends.
            other = Severity.WARNING if message.severity == Severity.CRITICAL else Severity.CRITICAL
            labels = current["labels"] | {"severity": other.value}
            alerts.append(current | {"labels": labels, "endsAt": message.at.isoformat()})
        answer = self._http.send_json(self._url, alerts, self._headers)
        if answer.status == _OK and not answer.is_page:
            return Receipt(answer="200")
        raise refusal("Alertmanager", answer, check="its address")


def alert(message: Message, delivery_id: str) -> dict[str, Any]:
    """Write the message as an alert of Alertmanager."""
    own = {_NOT_A_LABEL.sub("_", name): text for name, text in message.labels.items()}
    labels = own | {
        "alertname": "groundwatch",
        "app": message.app,
        "incident": message.incident_id,
        "severity": message.severity,
    }
    begins = message.began.isoformat()
    lasts = _TEST_LASTS if message.test else _LASTS
    ends = message.at if message.over else message.at + lasts
    annotations = {"summary": message.subject, "description": message.text}
    annotations |= {_NOT_A_LABEL.sub("_", label.lower()): text for label, text in message.facts}
    return {
        "labels": labels,
        "annotations": annotations | {"delivery_id": delivery_id},
        "startsAt": begins,
        "endsAt": ends.isoformat(),
        **({"generatorURL": message.link} if message.link else {}),
    }
