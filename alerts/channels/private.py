"""A channel that is told everything but what the scorer said of single samples."""

from __future__ import annotations

from dataclasses import dataclass

from alerts.channels.base import Channel, Rate, Receipt, rate_of
from alerts.message import Message, without_samples


@dataclass(frozen=True, slots=True)
class WithoutExplanations:
    """Sends through *inner*; explanations, which may quote a transcript, stay here."""

    inner: Channel

    @property
    def name(self) -> str:
        """The name of the channel."""
        return self.inner.name

    @property
    def addresses(self) -> tuple[str, ...]:
        """The places of the channel."""
        return self.inner.addresses

    @property
    def timeout_s(self) -> float:
        """The time after which an exchange is given up."""
        return self.inner.timeout_s

    @property
    def rate(self) -> Rate:
        """The rate of the channel."""
        return rate_of(self.inner)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Try once to deliver, without the samples."""
        return self.inner.send(without_samples(message), delivery_id, attempt)
