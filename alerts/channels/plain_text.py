"""Plain text: on the console, and through Apprise for services without a channel of their own."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

from pydantic import SecretStr

from alerts.channels.base import Channel, ChannelRate, Receipt
from alerts.message import Message
from monitor.errors import DeliveryError, MissingExtraError, SettingsError


class ConsoleChannel(Channel):
    """
    Writes messages to standard error: for one terminal, or a container's log.

    Their text has no control characters.
    """

    name = "console"
    rate = ChannelRate(per_minute=6000, burst=1000)

    def __init__(self, *, stream: TextIO | None = None, **usual: Any) -> None:
        super().__init__(**usual)
        self._stream = stream

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Write once."""
        stream = self._stream or sys.stderr
        try:
            stream.write(f"{message.text.rstrip()}\ndelivery {delivery_id}\n\n")
            stream.flush()
        except (OSError, ValueError) as problem:
            raise DeliveryError("console: cannot write", code=type(problem).__name__) from None
        return Receipt(answer="written")


class AppriseChannel(Channel):
    """
    Sends plain text through the `apprise` package.

    It tells neither status nor how long to wait, so that every failure counts as one
    that may pass, and whether a message arrived remains unknown.
    """

    name = "apprise"
    rate = ChannelRate(per_minute=20, burst=5)

    def __init__(self, url: SecretStr, **usual: Any) -> None:
        super().__init__(**usual)
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("the channel apprise", "apprise") from None
        # It logs whole addresses at DEBUG; they are secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        logging.getLogger("urllib3").setLevel(logging.WARNING)
        self._sender: Any = apprise.Apprise()
        if not self._sender.add(url.get_secret_value()):
            raise SettingsError(f"channel {self.name}: apprise does not know such an address")

    def send(self, message: Message, delivery_id: str) -> Receipt:
        """Send once."""
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
