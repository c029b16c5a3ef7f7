"""Prometheus Alertmanager, API v2: for whom it routes, silences and pages already."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import ChannelRate, HttpClient, Receipt, refusal
from alerts.message import Message
from monitor.models.alerting import Severity

_OK, _BAD_REQUEST = 200, 400
#: Longer than the time between two reminders; an alert that is not renewed ends by itself.
_LASTS = timedelta(hours=26)
#: A test ends soon.
_TEST_LASTS = timedelta(minutes=5)
_NOT_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class AlertmanagerChannel:
    """
    Hands alerts to an Alertmanager.

    The labels name the incident and its severity, so what arrives twice is the same
    alert. With a severity that changes comes the end of the one before.
    """

    addresses = ("",)
    takes_digests = False
    rate = ChannelRate(per_minute=600, burst=100)

    def __init__(
        self,
        url: SecretStr,
        *,
        timeout_s: float = 20.0,
        name: str = "alertmanager",
        authorization: SecretStr | None = None,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._url = SecretStr(f"{url.get_secret_value().rstrip('/')}/api/v2/alerts")
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self._http = HttpClient("Alertmanager", timeout_s=timeout_s)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once; Alertmanager answers 200 with nothing."""
        del attempt
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
    labels = {
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
