"""The console: for who runs everything in one terminal, or reads a container's log."""

from __future__ import annotations

import sys
from typing import TextIO

from alerts.channels.base import ChannelRate, Receipt
from alerts.message import Message
from monitor.errors import DeliveryError


class ConsoleChannel:
    """Writes messages to standard error; their text has no control characters."""

    addresses = ("",)
    rate = ChannelRate(per_minute=6000, burst=1000)

    def __init__(
        self, *, name: str = "console", stream: TextIO | None = None, timeout_s: float = 5.0
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._stream = stream

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Write once."""
        del attempt
        stream = self._stream or sys.stderr
        try:
            stream.write(f"{message.text.rstrip()}\ndelivery {delivery_id}\n\n")
            stream.flush()
        except (OSError, ValueError) as problem:
            raise DeliveryError("console: cannot write", code=type(problem).__name__) from None
        return Receipt(answer="written")
