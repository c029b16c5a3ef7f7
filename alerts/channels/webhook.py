"""Any program that takes messages over HTTP, signed as Standard Webhooks 1.0 has it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Sequence

from pydantic import SecretStr

from alerts.channels.base import ChannelRate, HttpClient, Receipt, refusal
from alerts.message import Message
from monitor.errors import SettingsError

_PREFIX = "whsec_"
_MOST_BYTES = 20_000
_SUCCESS = range(200, 300)


class WebhookChannel:
    """
    Posts a JSON document; the receiver can tell that it is ours, and a repeat by its id.

    ``webhook-id`` is the same on every attempt. Several secrets sign at once, so that
    they can be changed without a gap. Each is written as Standard Webhooks does: ``whsec_`` and
    base64.

    Raises
    ------
    SettingsError
        If a secret is not base64, or too short to be a secret.
    """

    addresses = ("",)
    rate = ChannelRate(per_minute=600, burst=100)

    def __init__(
        self,
        url: SecretStr,
        *,
        secrets: Sequence[SecretStr] = (),
        timeout_s: float = 20.0,
        name: str = "webhook",
        allow_private: bool = False,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
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
        self._http = HttpClient("webhook", timeout_s=timeout_s, only_public=not allow_private)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once; only 2xx is a yes."""
        del attempt
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
