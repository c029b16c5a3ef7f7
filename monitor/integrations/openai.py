"""``watch_openai``, and what all watched clients share: they answer as before."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from ..hook.watch import AnyChunks, AsyncChunks, Chunks, Following
from . import active_trace_id, app_hook, current_passages
from .messages import (
    ChatReader,
    CompletionsReader,
    ResponsesReader,
    as_list,
    cost_of,
    earlier_turns,
    part_of,
)

C = TypeVar("C")

#: Methods that make answers, by their path from the client, and who reads the replies.
Methods = Mapping[str, type[ChatReader]]
_METHODS = {
    "chat.completions.create": ChatReader,
    "chat.completions.parse": ChatReader,
    "beta.chat.completions.create": ChatReader,
    "beta.chat.completions.parse": ChatReader,
    "completions.create": CompletionsReader,
    "responses.create": ResponsesReader,
    "responses.parse": ResponsesReader,
}
_COPIES = ("copy", "with_options")
#: Where a manager of Anthropic's keeps the request that it will make.
_OPENINGS = tuple(f"_{kind}MessageStreamManager__api_request" for kind in ("", "Async"))

logger = logging.getLogger("groundwatch.integrations")


def watch_openai(
    client: C,
    *,
    contexts: Callable[[Any], object] | None = None,
    hook: HookProtocol | None = None,
    **fields: Unpack[RecordFields],
) -> C:
    """
    Record the answers of an OpenAI client, sync or async; returns the same client.

    Chat completions, responses and the older completions, whole, streamed and by
    ``with_raw_response``, and copies made by ``with_options``; with the model, its tokens and the
    latency. A reply without text, such as one that only asks for tools, is not an interaction;
    the tools' calls and results are on the record of the answer that follows. A call that
    raises counts as a request that failed.

    Parameters
    ----------
    client
        An ``OpenAI``, ``AsyncOpenAI`` or Azure client.
    contexts
        Finds the passages in the messages (or in ``input``); unset: those of
        ``monitor.integrations.retrieved``.
    hook
        Where interactions go; unset: the app's own hook.
    fields
        Put on every record: ``tags``, ``release``, ``environment``, ``metadata``, ``mask``.
    """
    return watch_client(client, _METHODS, contexts=contexts, hook=hook, fields=fields)


def watch_client(
    client: C,
    methods: Methods,
    *,
    contexts: Callable[[Any], object] | None,
    hook: HookProtocol | None,
    fields: RecordFields,
) -> C:
    """
    Record the answers that *client* gives by *methods*, the first of which it should have.

    The methods of this instance are replaced, and those of the copies that it makes.
    """

    def copied(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def copy(*args: Any, **kwargs: Any) -> Any:
            new = method(*args, **kwargs)
            return watch_client(new, methods, contexts=contexts, hook=hook, fields=fields)

        return copy

    wraps: dict[str, Callable[[Any], Any]] = {
        path: Watch(reader(), app_hook(hook), contexts, dict(fields)).wrapped
        for path, reader in methods.items()
    }
    wraps |= dict.fromkeys(_COPIES, copied)
    missing = [path for path, wrap in wraps.items() if not _replace(client, path, wrap)]
    if missing:  # as older clients do not have them all
        level = logging.WARNING if next(iter(methods)) in missing else logging.DEBUG
        name = type(client).__name__
        logger.log(level, "client_lacks_methods client=%s missing=%s", name, ",".join(missing))
    return client


class Watch(NamedTuple):
    """What is needed to record the answers of one method."""

    reader: ChatReader
    hook: HookProtocol
    contexts: Callable[[Any], object] | None
    fields: dict[str, Any]

    def wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return *method* with its replies recorded; one that is a coroutine function stays one."""
        names = [*inspect.signature(method).parameters]

        async def later(reply: Awaitable[Any], given: Mapping[str, Any], began_s: float) -> Any:
            try:
                return self.see(given, await reply, began_s)
            except Exception as error:
                self.hook.fail(error)
                raise

        @functools.wraps(method)
        def watched_method(*args: Any, **kwargs: Any) -> Any:
            began_s = time.perf_counter()
            given = dict(zip(names, args, strict=False)) | kwargs
            try:
                reply = method(*args, **kwargs)
            except Exception as error:
                self.hook.fail(error)
                raise
            if inspect.isawaitable(reply):
                return later(reply, given, began_s)
            return self.see(given, reply, began_s)

        @functools.wraps(method)
        async def watched_coroutine(*args: Any, **kwargs: Any) -> Any:
            return await watched_method(*args, **kwargs)

        return watched_coroutine if inspect.iscoroutinefunction(method) else watched_method

    def see(self, arguments: Mapping[str, Any], handed_on: Any, began_s: float) -> Any:
        """Record a reply that is about to be handed on; never raises."""
        try:
            # Of `with_raw_response`, as LangChain and LiteLLM call it; it keeps what it has parsed.
            raw = type(handed_on).__name__ == "LegacyAPIResponse"
            reply = handed_on.parse() if raw else handed_on
            if opening := next((name for name in _OPENINGS if hasattr(reply, name)), None):
                self._follow_later(arguments, reply, opening, began_s)
            elif arguments.get("stream") is True:
                followed = self._follow(arguments, reply, began_s)
                return handed_on if raw else followed
            elif answer := self.reader.answer(reply):
                trace_id = self._trace_id()
                rate = self.hook.chance(trace_id)
                if rate:
                    asked = arguments.get(self.reader.asked_as)
                    given = self.given(asked, current_passages(), trace_id)
                    self.take(given, answer, [reply], rate, began_s=began_s)
        except Exception as error:  # noqa: BLE001  # a mistake of ours must not reach the host
            logger.debug("reply_failed error=%s", type(error).__name__)
        return handed_on

    def given(self, asked: object, passages: object, trace_id: object) -> dict[str, Any]:
        """Read what is known before the answer."""
        if self.contexts is not None:
            try:
                passages = self.contexts(asked)
            except Exception as error:  # noqa: BLE001  # the host's callable may raise anything
                logger.debug("contexts_failed error=%s", type(error).__name__)
                passages = None
        found = {
            "query": self.reader.query(asked),
            "contexts": passages,
            "history": earlier_turns(as_list(asked)),
            "tool_calls": self.reader.calls_before(asked),
        }
        return {"trace_id": trace_id, **self.fields, **found}

    def take(
        self,
        given: dict[str, Any],
        answer: str,
        replies: list[object],
        rate: float,
        *,
        began_s: float,
    ) -> None:
        """Record an interaction that was chosen."""
        calls = [*given["tool_calls"], *self.reader.calls_in(replies)]
        metadata: dict[str, object] = {
            "latency_ms": round(1000 * (time.perf_counter() - began_s), 1)
        }
        for reply in replies:
            metadata |= cost_of(part_of(reply, "response", "message") or reply)
        metadata |= given.get("metadata") or {}
        found = {"output": answer, "tool_calls": calls or None, "metadata": metadata}
        self.hook.take({**given, **found}, rate)

    def _follow(self, arguments: Mapping[str, Any], stream: Any, began_s: float) -> Any:
        asked, passages = arguments.get(self.reader.asked_as), current_passages()
        trace_id = self._trace_id()
        following = Following(
            chance=lambda: self.hook.chance(trace_id),
            piece=lambda chunk: self.reader.piece(chunk) or None,
            asked=lambda: self.given(asked, passages, trace_id),
            take=functools.partial(self.take, began_s=began_s),
            fail=self.hook.fail,
        )
        inner = getattr(stream, "_iterator", stream)
        if inner is stream:
            return AnyChunks(stream, following)
        wrap = AsyncChunks if hasattr(inner, "__anext__") else Chunks
        # Inside the stream, which stays the object that the client made.
        stream._iterator = wrap(inner, following)  # noqa: SLF001  # it has no other door
        _replace(stream, "close", following.closing)
        return stream

    def _follow_later(
        self, arguments: Mapping[str, Any], manager: Any, name: str, began_s: float
    ) -> None:
        """Follow the stream that a manager opens when its block begins."""

        def followed(stream: Any) -> Any:
            return self.see({**arguments, "stream": True}, stream, began_s)

        async def later() -> Any:
            return followed(await opening)

        opening = getattr(manager, name)
        is_async = inspect.isawaitable(opening)
        setattr(manager, name, later() if is_async else lambda: followed(opening()))

    def _trace_id(self) -> object:
        return self.fields.get("trace_id") or active_trace_id()


def _replace(owner: Any, path: str, wrap: Callable[[Any], Any]) -> bool:
    """Put the wrapped method on the instance, once; False when there is no such method."""
    *holders, name = path.split(".")
    try:
        owner = functools.reduce(getattr, holders, owner)
        method = getattr(owner, name)
        if not getattr(method, "_groundwatch", False):
            wrapped = wrap(method)
            wrapped._groundwatch = True  # noqa: SLF001  # our own mark
            setattr(owner, name, wrapped)
    except Exception:  # noqa: BLE001  # whatever was handed over stays what it is
        return False
    return True
