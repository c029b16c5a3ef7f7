"""A call to somebody outside, while all is well: the one way to tell of one's own death."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from pydantic import SecretStr

from alerts.channels.http import HttpClient
from monitor.errors import DeliveryError

_log = structlog.get_logger("groundwatch.alerts")
_TIMEOUT_S = 5.0
_SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """When each link of the chain last did its work; None when it never has."""

    evaluated_at: datetime | None
    queue_read_at: datetime | None
    oldest_sample_s: float | None
    dispatched_at: datetime | None
    oldest_message_at: datetime | None


def broken_link(chain: Chain, now: datetime, *, fresh_s: float, patience_s: float) -> str | None:
    """Name the link that does not work; None when the whole chain is fresh."""
    links = {
        "the evaluator": chain.evaluated_at,
        "the queue": chain.queue_read_at,
        "the dispatcher": chain.dispatched_at,
    }
    for name, at in links.items():
        if at is None or abs(now - at) > timedelta(seconds=fresh_s):
            return f"{name} is late"
    if (chain.oldest_sample_s or 0.0) > patience_s:
        return "samples wait"
    if chain.oldest_message_at and now - chain.oldest_message_at > timedelta(seconds=patience_s):
        return "messages wait"
    return None


class DeadMansSwitch:
    """Calls an address, such as one of Healthchecks, while the chain is whole."""

    def __init__(self, url: SecretStr) -> None:
        self._url = url
        self._http = HttpClient("dead man's switch", timeout_s=_TIMEOUT_S)

    def call(self, broken: str | None) -> bool:
        """Call, unless a link is broken; say whether the call was taken."""
        if broken is not None:
            _log.warning("dead_mans_switch_held", broken=broken)
            return False
        try:
            answer = self._http.send(self._url, b"", {}, "GET")
        except DeliveryError as error:
            _log.warning("dead_mans_switch_failed", code=error.code)
            return False
        if answer.status not in _SUCCESS:
            _log.warning("dead_mans_switch_failed", code=f"http_{answer.status}")
        return answer.status in _SUCCESS
