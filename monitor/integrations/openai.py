"""``watch_openai``: record what an OpenAI client is asked and answers, streamed or not."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from .context import active_trace_id, app_hook, current_passages
from .following import AsyncChunks, Chunks, Following
from .messages import as_list, earlier_turns, part_of
from .openai_replies import ChatReader, CompletionsReader, ReplyReader, ResponsesReader, cost_of

C = TypeVar("C")

#: Which methods make answers, by their path from the client.
_METHODS: tuple[tuple[str, Callable[[], ReplyReader]], ...] = (
    ("chat.completions.create", ChatReader),
    ("chat.completions.parse", ChatReader),
    ("beta.chat.completions.create", ChatReader),
    ("beta.chat.completions.parse", ChatReader),
    ("completions.create", CompletionsReader),
    ("responses.create", ResponsesReader),
    ("responses.parse", ResponsesReader),
)
_COPIES = ("copy", "with_options")

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
    the tools' calls and results are on the record of the answer that follows.

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
    taker = app_hook(hook)
    wraps: dict[str, Callable[[Any], Any]] = {
        path: functools.partial(_watched, _Watch(reader(), taker, contexts, dict(fields)))
        for path, reader in _METHODS
    }
    again = functools.partial(watch_openai, contexts=contexts, hook=taker, **fields)
    wraps |= {name: functools.partial(_copied, again) for name in _COPIES}
    missing = [path for path, wrap in wraps.items() if not _replace(client, path, wrap)]
    # Older clients do not have them all.
    level = logging.WARNING if "chat.completions.create" in missing else logging.DEBUG
    if missing:
        logger.log(
            level,
            "client_lacks_methods client=%s missing=%s",
            type(client).__name__,
            ",".join(missing),
        )
    return client


class _Watch(NamedTuple):
    """What is needed to record the answers of one method."""

    reader: ReplyReader
    hook: HookProtocol
    contexts: Callable[[Any], object] | None
    fields: dict[str, Any]

    def see(self, arguments: Mapping[str, Any], handed_on: Any, began_s: float) -> Any:
        """Record a reply that is about to be handed on; never raises."""
        try:
            # Of `with_raw_response`, as LangChain and LiteLLM call it; it keeps what it has parsed.
            raw = type(handed_on).__name__ == "LegacyAPIResponse"
            reply = handed_on.parse() if raw else handed_on
            if arguments.get("stream") is True:
                self._follow(arguments, reply, began_s)
            elif answer := self.reader.answer(reply):
                trace_id = self._trace_id()
                rate = self.hook.chance(trace_id)
                if rate:
                    asked = self.reader.asked(arguments)
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
            metadata |= cost_of(part_of(reply, "response") or reply)
        metadata |= given.get("metadata") or {}
        found = {"output": answer, "tool_calls": calls or None, "metadata": metadata}
        self.hook.take({**given, **found}, rate)

    def _follow(self, arguments: Mapping[str, Any], stream: Any, began_s: float) -> None:
        inner = getattr(stream, "_iterator", None)
        if inner is None:
            return
        # Inside the stream, which stays the object that the client made.
        asked, passages = self.reader.asked(arguments), current_passages()
        trace_id = self._trace_id()
        following = Following(
            chance=lambda: self.hook.chance(trace_id),
            piece=self.reader.piece,
            asked=lambda: self.given(asked, passages, trace_id),
            take=functools.partial(self.take, began_s=began_s),
        )
        wrap = AsyncChunks if hasattr(inner, "__anext__") else Chunks
        stream._iterator = wrap(inner, following)  # noqa: SLF001  # it has no other door
        _replace(stream, "close", functools.partial(_closing, following))

    def _trace_id(self) -> object:
        return self.fields.get("trace_id") or active_trace_id()


def _watched(watch: _Watch, method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def watched_coroutine(*args: Any, **kwargs: Any) -> Any:
            began_s = time.perf_counter()
            return watch.see(kwargs, await method(*args, **kwargs), began_s)

        return watched_coroutine

    @functools.wraps(method)
    def watched_method(*args: Any, **kwargs: Any) -> Any:
        began_s = time.perf_counter()
        reply = method(*args, **kwargs)
        if not inspect.isawaitable(reply):
            return watch.see(kwargs, reply, began_s)

        async def later() -> Any:
            return watch.see(kwargs, await reply, began_s)

        # The async client's methods are plain functions that return a coroutine.
        return later()

    return watched_method


def _copied(again: Callable[[Any], Any], method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def copy(*args: Any, **kwargs: Any) -> Any:
        return again(method(*args, **kwargs))

    return copy


def _closing(following: Following, close: Callable[[], Any]) -> Callable[[], Any]:
    """Record a stream that is closed before its end."""
    if inspect.iscoroutinefunction(close):

        @functools.wraps(close)
        async def close_later() -> Any:
            try:
                return await close()
            finally:
                following.end(complete=False)

        return close_later

    @functools.wraps(close)
    def close_now() -> Any:
        try:
            return close()
        finally:
            following.end(complete=False)

    return close_now


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
