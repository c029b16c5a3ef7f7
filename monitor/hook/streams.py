"""Collect a stream's chunks as they pass, without delaying one or changing the generator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from os import getpid
from typing import Any, Protocol, Self, TypedDict

from monitor.hook.options import Mask

#: Characters collected of one stream; the recorder's own limit is usually far below.
LONGEST_STREAM = 2_000_000


class HookProtocol(Protocol):
    """What integrations need of a hook: one question before an interaction, one call after it."""

    def chance(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is chosen, 0 if it is not."""

    def take(self, given: Mapping[str, object], rate: float | None = None) -> None:
        """Record an interaction that was chosen with *rate*."""

    def ignore(self, reason: str) -> None:
        """Count something that was left out, by *reason*, for ``stats()["ignored"]``."""


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
        """Return whether it was chosen, and in this process: a stream may be forked under way."""
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


# --- interaction ---
# ``with monitor.interaction()``: an interaction whose pieces come one by one.


class Fields(TypedDict, total=False):
    """The fields of a record beside query, contexts and output."""

    tool_calls: Any
    expected: Mapping[str, Any] | None
    trace_id: str | None
    session_id: str | None
    user_id: str | None
    release: str | None
    environment: str | None
    tags: Mapping[str, str] | None
    metadata: Mapping[str, Any] | None
    mask: Mask | None
    id: str | None
    label: int | None


FIELDS = frozenset({"query", "contexts", "output", *Fields.__annotations__})


class OpenInteraction:
    """
    One interaction under way; set ``contexts``, ``output`` and any other field on it.

    It is recorded at the end of the block, unless there is no output. An exception
    passes through unchanged. Attributes that are no fields are kept in ``metadata``.
    """

    query: Any
    contexts: Any
    output: Any
    metadata: Any
    # Not there until they are set.
    tool_calls: Any
    expected: Any
    trace_id: Any
    session_id: Any
    user_id: Any
    release: Any
    environment: Any
    tags: Any
    mask: Any
    id: Any
    label: Any

    def __init__(self, hook: HookProtocol, fields: Mapping[str, object]) -> None:
        self._hook = hook
        self._tool_calls: list[dict[str, object]] = []
        self.query = self.contexts = self.output = self.metadata = None
        vars(self).update(fields)

    def tool_call(
        self,
        name: str,
        *,
        arguments: Any = None,
        result: Any = None,
        duration_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """Note a tool that was called on the way to the answer."""
        call = {
            "name": name, "arguments": arguments, "result": result,
            "duration_ms": duration_ms, "error": error,
        }  # fmt: skip
        self._tool_calls.append({key: value for key, value in call.items() if value is not None})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        rate = 0.0 if self.output is None else self._hook.chance(vars(self).get("trace_id"))
        if not rate:
            return
        try:
            given = self._given()
        except Exception:  # noqa: BLE001  # what the host put here must not hurt it
            given = {"output": self.output}
        self._hook.take(given, rate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def _given(self) -> dict[str, object]:
        set_here = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        given = {key: value for key, value in set_here.items() if key in FIELDS}
        unknown = {key: value for key, value in set_here.items() if key not in FIELDS}
        if unknown:
            metadata = given.get("metadata")
            given["metadata"] = unknown | (dict(metadata) if isinstance(metadata, dict) else {})
        if self._tool_calls:
            more = given.get("tool_calls")
            given["tool_calls"] = [*(more if isinstance(more, list) else ()), *self._tool_calls]
        return given
