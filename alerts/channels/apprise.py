"""Apprise, for the services that have no channel of their own: plain text, best effort."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import SecretStr

from alerts.channels.base import ChannelRate, Receipt
from alerts.message import Message
from monitor.errors import DeliveryError, MissingExtraError, SettingsError


class AppriseChannel:
    """
    Sends plain text through the `apprise` package.

    It tells neither status nor how long to wait, so that every failure counts as one
    that may pass, and whether a message arrived remains unknown.
    """

    addresses = ("",)
    rate = ChannelRate(per_minute=20, burst=5)

    def __init__(self, url: SecretStr, *, name: str = "apprise", timeout_s: float = 20.0) -> None:
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("the channel apprise", "apprise") from None
        self.name = name
        self.timeout_s = timeout_s
        # It logs whole addresses at DEBUG; they are secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        logging.getLogger("urllib3").setLevel(logging.WARNING)
        self._sender: Any = apprise.Apprise()
        if not self._sender.add(url.get_secret_value()):
            raise SettingsError(f"channel {name}: apprise does not know such an address")

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Send once."""
        del attempt
        text = f"{message.text}\ndelivery {delivery_id}"
        try:
            taken = self._sender.notify(title=message.subject, body=text, body_format="text")
        except Exception as problem:  # noqa: BLE001 - its text may hold the address
            taken, kind = False, type(problem).__name__
        else:
            kind = "refused"
        if not taken:
            raise DeliveryError("apprise: not delivered", code=f"apprise:{kind}", ambiguous=True)
        return Receipt(answer="taken", confirmed=False)
