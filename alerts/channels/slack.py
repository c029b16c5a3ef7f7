"""Slack, through an incoming webhook; its URL is the secret and leaves this file only as a call."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from pydantic import SecretStr

from alerts.channels.base import Receipt
from alerts.channels.quiet import quiet_http
from alerts.channels.slack_payload import payload, text_only
from alerts.message import Message
from monitor.errors import DeliveryError

_MOST_BODY_BYTES = 4096
_LEAST_PAUSE_S, _USUAL_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0, 3600.0
#: Slack's own words for "the way you wrote this": worth one more try in plain text.
_BAD_PAYLOAD = {"invalid_payload", "invalid_blocks", "msg_blocks_too_long", "msg_too_long"}
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class SlackChannel:
    """Posts to one Slack channel."""

    name = "slack"
    addresses = ("",)

    def __init__(self, webhook_url: SecretStr, *, timeout_s: float = 20.0) -> None:
        self._url = webhook_url
        self.timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Post once; a message whose form Slack refuses is posted again as plain text."""
        del attempt
        code, status, retry_after = self._post(payload(message, delivery_id))
        if code in _BAD_PAYLOAD:
            code, status, retry_after = self._post(text_only(message))
        if status == httpx.codes.OK and code == "ok":
            return Receipt(answer="200 ok")
        raise _refusal(code, status, retry_after)

    def _post(self, body: dict[str, Any]) -> tuple[str, int, str | None]:
        error: DeliveryError
        try:
            with quiet_http():
                return asyncio.run(self._exchange(json.dumps(body).encode()))
        except _NEVER_SENT as problem:
            error = _failure(problem, ambiguous=False)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            error = DeliveryError("Slack: wrong address", code="wrong_url", transient=False)
        except (httpx.TransportError, TimeoutError) as problem:
            error = _failure(problem, ambiguous=True)
        # Outside of `except`: what was caught holds the request and with it the URL.
        raise error

    async def _exchange(self, body: bytes) -> tuple[str, int, str | None]:
        self._tls = self._tls or httpx.create_ssl_context()
        headers = {"Content-Type": "application/json; charset=utf-8", "Accept-Encoding": "identity"}
        # httpx counts its time-outs anew with every byte that drips in; this one does not.
        async with (
            asyncio.timeout(self.timeout_s),
            httpx.AsyncClient(verify=self._tls, timeout=self.timeout_s) as client,
            client.stream(
                "POST", self._url.get_secret_value(), content=body, headers=headers
            ) as response,
        ):
            answer = b""
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) >= _MOST_BODY_BYTES:
                    break
            retry_after = response.headers.get("Retry-After")
            return _code(answer), response.status_code, retry_after


def _failure(problem: Exception, *, ambiguous: bool) -> DeliveryError:
    kind = type(problem).__name__
    return DeliveryError(f"Slack: {kind}", code=f"http:{kind}", ambiguous=ambiguous)


def _code(answer: bytes) -> str:
    """Give Slack's word for how it went; '' for an answer that is not Slack's."""
    text = answer.decode("ascii", "replace").strip()
    return text if re.fullmatch(r"[a-z_]{2,60}", text) else ""


def _refusal(code: str, status: int, retry_after: str | None) -> DeliveryError:
    name = code if code not in {"", "ok"} else f"http_{status}"
    if status == httpx.codes.TOO_MANY_REQUESTS:
        pause_s = _pause_s(retry_after)
        return DeliveryError("Slack: slow down", code="rate_limited", retry_after_s=pause_s)
    if httpx.codes.is_server_error(status) or status == httpx.codes.REQUEST_TIMEOUT:
        return DeliveryError(f"Slack: {name}", code=name)
    if httpx.codes.is_success(status) and not code:
        text = "Slack: the answer is not Slack's; does a proxy or login page stand between?"
        return DeliveryError(text, code="not_slack")
    return DeliveryError(
        f"Slack refused: {name}; check GROUNDWATCH_SLACK_WEBHOOK_URL", code=name, transient=False
    )


def _pause_s(header: str | None) -> float:
    """Read Retry-After, in seconds or as a date, within sensible bounds."""
    pause_s = _USUAL_PAUSE_S
    if header and header.strip().isdecimal():
        pause_s = float(header[:9])
    elif header:
        try:
            pause_s = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            pause_s = _USUAL_PAUSE_S
    return min(max(pause_s, _LEAST_PAUSE_S), _LONGEST_PAUSE_S)
