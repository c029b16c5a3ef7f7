"""What a channel is: a name, addresses, a rate, and one attempt to deliver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from alerts.message import Message, without_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The other side took the message; not ``confirmed`` when it cannot say that it arrived."""

    answer: str
    confirmed: bool = True
    ref: str | None = None  #: what the other side calls it, to answer or change it later


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRate:
    """The most messages a minute, and at once after a pause."""

    per_minute: float = 60.0
    burst: float = 30.0


class Channel(Protocol):
    """One way to reach people."""

    @property
    def name(self) -> str:
        """The name in settings, outbox and reports."""
        ...

    @property
    def addresses(self) -> tuple[str, ...]:
        """The places this channel sends to; ``("",)`` when there is only one."""
        ...

    @property
    def timeout_s(self) -> float:
        """The time after which one exchange with the other side is given up."""
        ...

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """
        Try once to deliver; never retries and never sleeps.

        Raises
        ------
        DeliveryError
            If the message was not taken, or may not have been; its text holds a code
            and no address, password or URL.
        """
        ...


def takes_digests(channel: Channel) -> bool:
    """Return whether a channel is for reading, and not for paging or counting."""
    return bool(getattr(channel, "takes_digests", True))


def rate_of(channel: Channel) -> ChannelRate:
    """Return the rate of a channel; one that names none has the usual."""
    rate = getattr(channel, "rate", None)
    return rate if isinstance(rate, ChannelRate) else ChannelRate()


@dataclass(frozen=True, slots=True)
class WithoutExplanations:
    """Sends through *inner* without examples and explanations, which may quote a transcript."""

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
    def takes_digests(self) -> bool:
        """Whether the channel is for reading, not for waking people."""
        return takes_digests(self.inner)

    @property
    def rate(self) -> ChannelRate:
        """The rate of the channel."""
        return rate_of(self.inner)

    def send(self, message: Message, delivery_id: str, attempt: int) -> Receipt:
        """Try once to deliver, without the samples."""
        return self.inner.send(without_samples(message), delivery_id, attempt)
