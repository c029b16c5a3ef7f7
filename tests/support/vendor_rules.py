"""What vendors document of the messages they take: shapes, sizes, and how they say yes and no."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

Response = tuple[int, Mapping[str, str], bytes]


class Refused(Exception):
    """The message breaks the vendor's rules."""

    def __init__(self, response: Response) -> None:
        super().__init__(response)
        self.response = response


class Rules(Protocol):
    """One vendor."""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a message, or raise `Refused`."""
        ...

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Give the vendor's own way to say something; None when it has none."""
        ...


def _json(status: int, body: Any, **headers: str) -> Response:
    return status, {"Content-Type": "application/json", **headers}, json.dumps(body).encode()


def _need(condition: bool, response: Response) -> None:
    if not condition:
        raise Refused(response)


@dataclass
class Slack:
    """The Web API: 200 to everything, and ``ok`` in the body."""

    posted: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a call of chat.postMessage or chat.update."""
        call = json.loads(body)
        _need(headers.get("Authorization") == "Bearer xoxb-good", self._no("invalid_auth"))
        blocks, channel = call.get("blocks", []), call.get("channel")
        _need(
            len(blocks) <= 50 and len(json.dumps(blocks)) < 13_200, self._no("msg_blocks_too_long")
        )
        _need(bool(call.get("text")), self._no("no_text"))
        if path.endswith("chat.update"):
            _need(call.get("ts") in self.posted, self._no("message_not_found"))
            self.posted[call["ts"]] = call
            return _json(200, {"ok": True, "channel": channel, "ts": call["ts"]})
        _need(channel == "C0123", self._no("channel_not_found"))
        ts = f"1700000000.{len(self.posted):06d}"
        self.posted[ts] = call
        return _json(200, {"ok": True, "channel": channel, "ts": ts, "message": call})

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it as Slack does."""
        limited = _json(429, {"ok": False, "error": "ratelimited"}, **{"Retry-After": retry_after})
        return {
            "ok_but_no": self._no("channel_not_found"),
            "rate_limited": limited,
            "gone": self._no("account_inactive"),
            "bad_payload": self._no("invalid_blocks"),
        }.get(reaction)

    @staticmethod
    def _no(error: str) -> Response:
        return _json(200, {"ok": False, "error": error})


class PagerDuty:
    """Events API v2."""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take an event."""
        del headers
        event, bad = json.loads(body), self._bad("Event object is invalid")
        _need(path == "/v2/enqueue" and len(body) <= 512_000, bad)
        _need(len(event.get("routing_key", "")) == 32, bad)
        _need(0 < len(event.get("dedup_key", "")) <= 255, bad)
        _need(event.get("event_action") in {"trigger", "acknowledge", "resolve"}, bad)
        if event["event_action"] == "trigger":
            payload = event["payload"]
            _need(0 < len(payload["summary"]) <= 1024 and bool(payload["source"]), bad)
            _need(payload["severity"] in {"critical", "warning", "error", "info"}, bad)
            datetime.fromisoformat(payload["timestamp"])
        answer = {
            "status": "success",
            "message": "Event processed",
            "dedup_key": event["dedup_key"],
        }
        return _json(202, answer)

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it as PagerDuty does."""
        limited = {"status": "throttle exceeded", "message": "Requests for this service..."}
        return {
            "ok_but_no": _json(202, {"status": "invalid event"}),
            "rate_limited": _json(429, limited, **{"Retry-After": retry_after}),
            "gone": (404, {}, b""),
            "bad_payload": self._bad("'payload.severity' is invalid"),
        }.get(reaction)

    @staticmethod
    def _bad(message: str) -> Response:
        return _json(400, {"status": "invalid event", "message": message, "errors": []})


class Teams:
    """A workflow: 202, whatever becomes of the card later; an old connector: 200 and 1."""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a card."""
        del path, headers
        message = json.loads(body)
        bad: Response = (400, {}, b"Bad payload received by generic incoming webhook.")
        _need(len(body) <= 28_000, (413, {}, b""))
        _need(
            message.get("type") == "message" and isinstance(message.get("attachments"), list), bad
        )
        for attachment in message["attachments"]:
            _need(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", bad)
            card = attachment["content"]
            _need(card["type"] == "AdaptiveCard" and bool(card["version"]), bad)
            _need(all(isinstance(block.get("type"), str) for block in card["body"]), bad)
        return 202, {}, b""

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it as Teams does."""
        del retry_after
        refused = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned "
        return {
            "ok_but_no": (200, {}, refused + b"HTTP error 404"),
            "rate_limited": (200, {}, refused + b"HTTP error 429 with ContextId tcid=0"),
            "gone": (410, {}, b""),
            "bad_payload": (400, {}, b"Bad payload received by generic incoming webhook."),
        }.get(reaction)


class Discord:
    """A webhook with ``wait=true``."""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a message."""
        del headers
        message, bad = json.loads(body), _json(400, {"code": 50035, "message": "Invalid Form Body"})
        _need("wait=true" in path, (204, {}, b""))
        _need(message.get("allowed_mentions") == {"parse": []}, bad)
        _need(len(message.get("content", "")) <= 2000, bad)
        _need(bool(message.get("content") or message.get("embeds")), bad)
        for embed in message.get("embeds", []):
            texts = [embed.get("title", ""), embed.get("description", "")]
            texts.append(embed.get("footer", {}).get("text", ""))
            _need(len(texts[0]) <= 256 and len(texts[1]) <= 4096 and len(texts[2]) <= 2048, bad)
            fields = embed.get("fields", [])
            _need(len(fields) <= 25, bad)
            for each in fields:
                _need(0 < len(each["name"]) <= 256 and 0 < len(each["value"]) <= 1024, bad)
                texts += [each["name"], each["value"]]
            _need(sum(map(len, texts)) <= 6000, bad)
        return _json(200, {"id": "1234567890", "channel_id": "1", "content": ""})

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it as Discord does: how long to wait stands in the body."""
        limited = {"message": "You are being rate limited.", "retry_after": float(retry_after)}
        return {
            "ok_but_no": _json(200, {"code": 0, "message": "no"}),
            "rate_limited": _json(429, limited | {"global": False}),
            "gone": _json(404, {"message": "Unknown Webhook", "code": 10015}),
            "bad_payload": _json(400, {"code": 50035, "message": "Invalid Form Body"}),
        }.get(reaction)


class Alertmanager:
    """API v2: a list of alerts, 200 and nothing."""

    _LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take alerts."""
        del headers
        _need(path == "/api/v2/alerts", (404, {}, b""))
        for alert in json.loads(body):
            bad = _json(400, "invalid alert")
            _need(bool(alert["labels"].get("alertname")), bad)
            names = [*alert["labels"], *alert["annotations"]]
            _need(all(self._LABEL.fullmatch(name) for name in names), bad)
            _need(all(isinstance(v, str) for v in alert["labels"].values()), bad)
            begin, end = (datetime.fromisoformat(alert[key]) for key in ("startsAt", "endsAt"))
            _need(begin <= end, _json(400, "start time must be before end time"))
        return 200, {}, b""

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it as Alertmanager does."""
        return {
            "ok_but_no": (200, {}, b"<html>Sign in</html>"),
            "rate_limited": (429, {"Retry-After": retry_after}, b""),
            "gone": (404, {}, b""),
            "bad_payload": _json(400, "invalid label set"),
        }.get(reaction)


class Webhook:
    """A receiver as Standard Webhooks describes it."""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a document; who checks the signature is the test."""
        del path
        given = {name.lower() for name in headers}
        _need({"webhook-id", "webhook-timestamp"} <= given, (400, {}, b""))
        _need(len(body) <= 20_000, (413, {}, b""))
        document = json.loads(body)
        _need({"type", "timestamp", "data"} <= document.keys(), (400, {}, b""))
        return 200, {}, b""

    def says(self, reaction: str, retry_after: str) -> Response | None:
        """Say it with the status alone."""
        return {
            "ok_but_no": (304, {}, b""),
            "rate_limited": (429, {"Retry-After": retry_after}, b""),
            "gone": (410, {}, b""),
            "bad_payload": (400, {}, b""),
        }.get(reaction)


RULES: dict[str, Rules] = {
    "slack-bot": Slack(),
    "pagerduty": PagerDuty(),
    "teams": Teams(),
    "discord": Discord(),
    "alertmanager": Alertmanager(),
    "webhook": Webhook(),
}
