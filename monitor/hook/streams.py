"""Collect a stream's chunks as they pass, without delaying one or changing the generator."""

from __future__ import annotations

from collections.abc import Callable, Generator
from os import getpid
from typing import Any, Protocol

#: Characters collected of one stream; the recorder's own limit is usually far below.
LONGEST_STREAM = 2_000_000


class Chunks(Protocol):
    """Knows what a chunk holds."""

    @property
    def chance(self) -> Callable[[], float]:
        """Decides with which probability to record the interaction, 0 if not."""

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Find the question and the passages in the arguments, as they are now."""

    def part(self, result: object) -> object:
        """Find the piece of the answer in a chunk."""

    def passages(self, result: object) -> object:
        """Find the passages in a chunk."""


class Collected:
    """What has passed of one stream; whether to keep it is decided at the first chunk."""

    def __init__(self, reader: Chunks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._reader = reader
        self._arguments = args, kwargs
        self._pid = getpid()
        self.asked: dict[str, Any] = {}
        self._parts: list[str] = []
        self._chars = 0
        self.contexts: object = None
        self.rate: float | None = None  #: with which it was chosen; 0 if it was not
        self.complete = False

    def see(self, chunk: object) -> None:
        """Look at a chunk that is about to be handed on; never raises."""
        first = self.rate is None
        if first:
            self.rate = self._reader.chance()
        if self.rate:
            try:
                if first:
                    self.asked = self._reader.asked(*self._arguments)
                self._keep(chunk)
            except Exception:  # noqa: BLE001  # the host's objects may do anything
                return

    def end(self) -> None:
        """Note that the stream came to its own end."""
        self.complete = True

    @property
    def ours(self) -> bool:
        """Say whether it was chosen, and in this process: a stream may be forked under way."""
        return bool(self.rate) and self._pid == getpid()

    def text(self) -> str | None:
        """Join the pieces; None when there were none."""
        return "".join(self._parts) if self._parts else None

    def _keep(self, chunk: object) -> None:
        part = self._reader.part(chunk)
        if isinstance(part, (bytes, bytearray)):
            part = part.decode("utf-8", "replace")
        if isinstance(part, str) and self._chars < LONGEST_STREAM:
            self._chars += len(part)
            self._parts.append(part)
        if self.contexts is None and not isinstance(chunk, (str, bytes)):
            # Not the list itself, which may change until the stream ends.
            self.contexts = shallow(self._reader.passages(chunk))


def shallow(value: object) -> object:
    """Copy a list; what is in it stays the same."""
    return [*value] if type(value) is list else value


def relay(inner: Generator[Any, Any, Any], collected: Collected) -> Generator[Any, Any, Any]:
    """Pass everything on in both directions, as ``yield from`` does, and look at each chunk."""
    move: Callable[[Any], Any] = inner.send
    value: Any = None
    while True:
        try:
            chunk = move(value)
        except StopIteration as end:
            return end.value
        finally:
            value = move = None  # type: ignore[assignment]  # an error would hold its own frame
        collected.see(chunk)
        try:
            value = yield chunk
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # noqa: BLE001  # the generator's to handle
            move, value = inner.throw, error
        else:
            move = inner.send
