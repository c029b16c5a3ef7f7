"""The fields of a record, and ``with groundwatch.interaction()``, whose pieces come one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypedDict

from .options import Mask


class HookProtocol(Protocol):
    """What integrations need of a hook: one question before an interaction, one call after it."""

    def chance(self, trace_id: object = None) -> float:
        """Count one interaction; return the probability with which it is chosen, 0 if it is not."""

    def take(self, given: Mapping[str, object], rate: float | None = None) -> None:
        """Record an interaction that was chosen with *rate*."""

    def ignore(self, reason: str) -> None:
        """Count something that was left out, by *reason*, for ``stats()["ignored"]``."""

    def fail(self, error: object, *, counted: bool = False) -> None:
        """Count a request that failed; *counted*: `chance` was asked about it."""


class RecordFields(TypedDict, total=False):
    """The fields of a record beside query, contexts and output."""

    history: Any
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


FIELDS = frozenset({"query", "contexts", "output", *RecordFields.__annotations__})


class OpenInteraction:
    """
    One interaction under way; set ``contexts``, ``output`` and any other field on it.

    It is recorded at the end of the block, unless there is no output. An exception passes
    through unchanged; without an output it counts as a request that failed. Attributes that are no
    fields are kept in ``metadata``.
    """

    query: Any
    contexts: Any
    output: Any
    metadata: Any
    # Not there until they are set.
    history: Any
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

    def __exit__(self, _: object, error: object, __: object) -> None:
        if error is not None and self.output is None:
            self._hook.fail(error)
            return
        rate = 0.0 if self.output is None else self._hook.chance(vars(self).get("trace_id"))
        if not rate:
            return
        try:
            here = {key: value for key, value in vars(self).items() if not key.startswith("_")}
            given = {key: value for key, value in here.items() if key in FIELDS}
            unknown = {key: value for key, value in here.items() if key not in FIELDS}
            if unknown:
                metadata = given.get("metadata")
                given["metadata"] = unknown | (dict(metadata) if isinstance(metadata, dict) else {})
            if self._tool_calls:
                more = given.get("tool_calls")
                given["tool_calls"] = [*(more if isinstance(more, list) else ()), *self._tool_calls]
        except Exception:  # noqa: BLE001  # what the host put here must not hurt it
            given = {"output": self.output}
        self._hook.take(given, rate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: object, __: object) -> None:
        self.__exit__(None, error, None)
