"""``with monitor.interaction()``: an interaction whose pieces come one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypedDict

from monitor.hook.options import Mask


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


class Taker(Protocol):
    """What records: a hook."""

    def chosen(self, trace_id: object = None) -> bool:
        """Count one interaction and say whether to record it."""

    def take(self, given: Mapping[str, object]) -> None:
        """Record an interaction that was chosen."""


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

    def __init__(self, taker: Taker, fields: Mapping[str, object]) -> None:
        self._taker = taker
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
        if self.output is None or not self._taker.chosen(vars(self).get("trace_id")):
            return
        try:
            given = self._given()
        except Exception:  # noqa: BLE001  # what the host put here must not hurt it
            given = {"output": self.output}
        self._taker.take(given)

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
