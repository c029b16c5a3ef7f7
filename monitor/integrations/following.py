"""Follow a streamed reply: every chunk is handed on at once, and collected if it is to be kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from ..hook.watch import LONGEST_STREAM

#: Chunks that are kept for the tool calls in them.
_MOST_CHUNKS = 10_000


class Take(Protocol):
    """Records a stream."""

    def __call__(
        self, given: dict[str, Any], answer: str, replies: list[object], rate: float, /
    ) -> None:
        """Record what was given, the answer, and what the other chunks hold."""


class Following:
    """What has passed of one stream; whether to keep it is decided at its first text."""

    def __init__(
        self,
        *,
        chance: Callable[[], float],
        piece: Callable[[object], str | None],
        asked: Callable[[], dict[str, Any]],
        take: Take,
        fail: Callable[..., None],
    ) -> None:
        self._chance = chance
        self._piece = piece
        self._ask = asked
        self._take = take
        self._fail = fail
        self._ended = False
        self._rate: float | None = None  # 0: it is not to be kept
        self._given: dict[str, Any] = {}
        self._texts: list[str] = []
        self._chars = 0
        self._others: list[object] = []

    def see(self, chunk: object) -> None:
        """Look at a chunk that is about to be handed on; never raises."""
        if self._rate == 0:
            return
        try:
            piece = self._piece(chunk)
            # The first chunk always, which names the model of a stream that is left early.
            if not (piece and self._others) and len(self._others) < _MOST_CHUNKS:
                self._others.append(chunk)
            if piece and self._rate is None:
                self._rate = self._chance()
                # Read now, because the caller may add to the messages meanwhile.
                self._given = self._ask() if self._rate else {}
            if piece and self._rate and self._chars < LONGEST_STREAM:
                self._chars += len(piece)
                self._texts.append(piece)
        except Exception:  # noqa: BLE001  # a mistake of ours must not reach the host
            self._rate = 0.0

    def end(self, *, complete: bool, error: BaseException | None = None) -> None:
        """Record the stream, once, and whether it failed; never raises."""
        if not complete and error is not None and not self._ended:
            self._fail(error, counted=self._rate is not None)
        rate, self._rate, self._ended = self._rate, 0.0, True
        if not rate:
            return
        try:
            if not complete:
                metadata = self._given.get("metadata") or {}
                self._given["metadata"] = {**metadata, "incomplete": True}
            self._take(self._given, "".join(self._texts), self._others, rate)
        except Exception:  # noqa: BLE001  # as above
            return


class Chunks:
    """The chunks of a synchronous stream."""

    def __init__(self, inner: Any, following: Following) -> None:
        self._inner = inner
        self._following = following

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._inner)
        except BaseException as error:
            self._following.end(complete=isinstance(error, StopIteration), error=error)
            raise
        self._following.see(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __del__(self) -> None:
        self._following.end(complete=False)


class AsyncChunks:
    """The chunks of an asynchronous stream."""

    def __init__(self, inner: Any, following: Following) -> None:
        self._inner = inner
        self._following = following

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await anext(self._inner)
        except BaseException as error:
            self._following.end(complete=isinstance(error, StopAsyncIteration), error=error)
            raise
        self._following.see(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __del__(self) -> None:
        self._following.end(complete=False)


class AnyChunks(Chunks, AsyncChunks):
    """The chunks of a stream that is read in either way, as LiteLLM's are."""
