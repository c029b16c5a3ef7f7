"""Empty the outbox: claim, send outside any transaction, finish; one thread a channel."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import structlog

from alerts import outbox
from alerts.backoff import delay_s
from alerts.channels.base import Channel, Receipt
from alerts.message import render
from monitor.errors import DeliveryError
from monitor.models.alerting import DeliveryStatus
from monitor.store.engine import Store

_log = structlog.get_logger("groundwatch.alerts")
#: A send may take two exchanges and a slow name server; a lease must outlast that.
_LEASE_TIMEOUTS = 3
#: So many failures in a row end a channel's turn.
_MOST_FAILURES = 3


class Dispatcher:
    """
    Sends what is due; any number may run at once, in any process.

    A lease lasts longer than one send may take, so that only a process that died or
    was paused for long loses one; what it held is sent again under the same id.
    """

    def __init__(
        self,
        store: Store,
        channels: Mapping[str, Channel],
        clock: Callable[[], datetime],
        rng: random.Random,
        *,
        lease_s: float = 60.0,
        limit: int = 100,
    ) -> None:
        self._store = store
        self._channels = channels
        self._clock = clock
        self._rng = rng
        longest_s = max((channel.timeout_s for channel in channels.values()), default=0.0)
        self._lease_s = max(lease_s, _LEASE_TIMEOUTS * longest_s)
        self._limit = limit

    def run_once(self) -> Counter[str]:
        """
        Send up to *limit* messages on each channel, and count how they ended.

        A channel that hangs, or fails a few times in a row, is left alone until the
        next run. Counts: ``sent``, ``accepted``, ``retry``, ``dead``, ``lost_lease``.
        """
        counts: Counter[str] = Counter()
        buried = outbox.bury(self._store, self._clock(), tuple(self._channels))
        if buried:
            counts["dead"] = buried
            _log.error("alert_deliveries_given_up", count=buried)
        if self._channels:
            with ThreadPoolExecutor(len(self._channels), "groundwatch-send") as pool:
                for outcomes in pool.map(self._drain, self._channels.values()):
                    counts += outcomes
        return counts

    def _drain(self, channel: Channel) -> Counter[str]:
        outcomes: Counter[str] = Counter()
        failures, patience_until = 0, time.monotonic() + channel.timeout_s
        for _ in range(self._limit):
            due = outbox.claim(self._store, self._clock(), self._lease_s, 1, [channel.name])
            if not due:
                break
            outcome = self._deliver(channel, due[0])
            outcomes[outcome] += 1
            failures = failures + 1 if outcome == "retry" else 0
            hangs = failures > 0 and time.monotonic() >= patience_until
            if hangs or failures >= _MOST_FAILURES:
                break
        return outcomes

    def _deliver(self, channel: Channel, item: outbox.Claimed) -> str:
        """Send one message, and say how it ended."""
        try:
            receipt = self._send(channel, item)
        except DeliveryError as error:
            return self._failed(item, error)
        except Exception as error:  # noqa: BLE001 - its text may hold a secret; its class does not
            unexpected = DeliveryError(
                "unexpected error", code=f"unexpected:{type(error).__name__}", ambiguous=True
            )
            return self._failed(item, unexpected)
        return self._sent(item, receipt)

    def _send(self, channel: Channel, item: outbox.Claimed) -> Receipt:
        message = render(
            item.snapshot,
            item.tells,
            recipient=item.recipient,
            may_repeat=item.possible_duplicate,
        )
        return channel.send(message, item.delivery_id, item.attempt)

    def _sent(self, item: outbox.Claimed, receipt: Receipt) -> str:
        now = self._clock()
        if not outbox.finish_sent(self._store, item, now, confirmed=receipt.confirmed):
            return self._lost(item)
        outcome = "sent" if receipt.confirmed else "accepted"
        _log.info(f"alert_{outcome}", delivery_id=item.delivery_id, attempt=item.attempt,
                  channel=item.channel)  # fmt: skip
        return outcome

    def _failed(self, item: outbox.Claimed, error: DeliveryError) -> str:
        wait_s = delay_s(item.attempt, self._rng)
        status = outbox.finish_failed(self._store, item, self._clock(), error, wait_s)
        if status is None:
            return self._lost(item)
        outcome = "dead" if status is DeliveryStatus.DEAD else "retry"
        _log.warning(f"alert_{outcome}", delivery_id=item.delivery_id, attempt=item.attempt,
                     channel=item.channel, error_code=error.code)  # fmt: skip
        return outcome

    def _lost(self, item: outbox.Claimed) -> str:
        _log.warning("alert_lease_lost", delivery_id=item.delivery_id, channel=item.channel)
        return "lost_lease"
