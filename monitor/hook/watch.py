"""``@groundwatch.watch``: record the calls of any kind of function, which behaves as before."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from os import getpid
from typing import Any

from .capture import CONTEXTS_NAMES, USERS, answer_in, lookup, turn_of
from .interaction import FIELDS, HookProtocol

#: Characters collected of one stream; the recorder's own limit is usually far below.
LONGEST_STREAM = 2_000_000
#: Chunks that are kept for the tool calls in them.
_MOST_CHUNKS = 10_000
QUERY_NAMES = ("query", "question", "prompt", "input", "message")
HISTORY_NAMES = ("history", "chat_history", "messages")

_BYTES = (bytes, bytearray)
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
#: What ``functools.lru_cache`` makes of a function, and the methods of that.
_Cached = type(functools.lru_cache(len))
_OF_CACHES = ("cache_info", "cache_clear")

#: On a watched function: the hook that watches it.
_MARK = "__groundwatch_hook__"

logger = logging.getLogger("groundwatch.hook")

Function = Callable[..., Any]
Names = Mapping[str, str | None]


def watched(
    function: Function, hook: HookProtocol, names: Names, fields: Mapping[str, Any]
) -> Function:
    """Wrap *function* so that its calls are recorded; it stays the kind of function it was."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(watched(function.__func__, hook, names, fields))
    if not callable(function):
        logger.warning("watch_not_a_function type=%s", type(function).__name__)
        return function
    if getattr(function, _MARK, None) is hook:
        return function  # twice would count twice
    reader = Reader(function, hook, names, fields)
    if inspect.isasyncgenfunction(function):
        wrapped = _async_generator(function, reader)
    elif inspect.isgeneratorfunction(function):
        wrapped = _generator(function, reader)
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    ):
        wrapped = _coroutine(function, reader)
    else:
        wrapped = _plain(function, reader)
    with contextlib.suppress(AttributeError):
        setattr(wrapped, _MARK, hook)
        for name in _OF_CACHES if isinstance(function, _Cached) else ():
            setattr(wrapped, name, getattr(function, name))
    return wrapped


def _plain(function: Function, reader: Reader) -> Function:
    chance = reader.chance

    @functools.wraps(function)
    def watched_function(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            reader.hook.fail(error)
            raise
        rate = chance()
        if rate:
            reader.take(args, kwargs, result, rate)
        return result

    return watched_function


def _coroutine(function: Function, reader: Reader) -> Function:
    chance = reader.chance

    @functools.wraps(function)
    async def watched_coroutine(*args: Any, **kwargs: Any) -> Any:
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            reader.hook.fail(error)
            raise
        rate = chance()
        if rate:
            reader.take(args, kwargs, result, rate)
        return result

    return watched_coroutine


def _generator(function: Function, reader: Reader) -> Function:
    @functools.wraps(function)
    def watched_generator(*args: Any, **kwargs: Any) -> Any:
        following = reader.follow(args, kwargs)
        try:
            result = yield from relay(function(*args, **kwargs), following)
        except BaseException as error:
            following.end(error)
            raise
        following.end()
        return result

    return watched_generator


def relay(inner: Generator[Any, Any, Any], following: Following) -> Generator[Any, Any, Any]:
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
        following.begin()
        following.see(chunk)
        try:
            value = yield chunk
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # noqa: BLE001  # the generator's to handle
            move, value = inner.throw, error
        else:
            move = inner.send


def _async_generator(function: Function, reader: Reader) -> Function:
    @functools.wraps(function)
    async def watched_async_generator(*args: Any, **kwargs: Any) -> Any:
        following = reader.follow(args, kwargs)
        inner = function(*args, **kwargs)
        step = inner.asend(None)
        try:
            while True:
                try:
                    chunk = await step
                except StopAsyncIteration:
                    following.end()
                    return
                following.begin()
                following.see(chunk)
                try:
                    sent = yield chunk
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001  # the generator's to handle
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)
        except BaseException as error:
            following.end(error)
            raise
        finally:
            del step  # it may hold an error whose frames hold it

    return watched_async_generator


class Reader:
    """Finds query, contexts and output of one function in its arguments and results."""

    def __init__(
        self, function: Function, hook: HookProtocol, names: Names, fields: Mapping[str, Any]
    ) -> None:
        self.hook = hook
        self._fields = {key: value for key, value in fields.items() if value is not None}
        trace_id = self._fields.get("trace_id")
        self.chance = functools.partial(hook.chance, trace_id) if trace_id else hook.chance
        #: By which it is called; what it wraps may take more, or others.
        self.parameters: Mapping[str, inspect.Parameter] = {}
        with contextlib.suppress(TypeError, ValueError):
            own = inspect.signature(function, follow_wrapped=False).parameters
            is_variadic = any(parameter.kind in _VARIADIC for parameter in own.values())
            self.parameters = inspect.signature(function).parameters if is_variadic else own
        self._query = _wanted(names["query"], QUERY_NAMES, self.parameters)
        self._contexts = _wanted(names["contexts"], CONTEXTS_NAMES, self.parameters)
        self._contexts_named = bool(names["contexts"])
        self._contexts_names = (names["contexts"],) if names["contexts"] else CONTEXTS_NAMES
        self._output = names["output"]
        self._history = _wanted(None, HISTORY_NAMES, self.parameters)
        if names["query"] and self._query is None:
            logger.warning("watch_unknown_parameter name=%r", names["query"])
        for unknown in sorted(self._fields.keys() - FIELDS):
            logger.warning("watch_unknown_field name=%r", unknown)

    def take(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: object, rate: float
    ) -> None:
        """Record one call whose interaction was chosen with *rate*; never raises."""
        try:
            given = {**self._fields, **self.asked(args, kwargs), "output": self.part(result)}
            if given["contexts"] is None:
                given["contexts"] = self.contexts(args, kwargs, result)
        except Exception:  # noqa: BLE001  # the host's objects may do anything
            given = dict(self._fields)
        self.hook.take(given, rate)

    def follow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Following:
        """Return what collects the stream that a call returns."""
        passages: list[object] = []

        def piece(chunk: object) -> str | None:
            part = self.part(chunk)
            if not passages and not isinstance(chunk, (str, bytes)):
                # Not the list itself, which may change until the stream ends.
                found = shallow(self.passages(chunk))
                passages.extend(() if found is None else (found,))
            decoded = part.decode("utf-8", "replace") if isinstance(part, _BYTES) else part
            return decoded if isinstance(decoded, str) else None

        def take(given: dict[str, Any], answer: str | None, _: object, rate: float) -> None:
            given = {**self._fields, **given, "output": answer}
            if given.get("contexts") is None:
                given["contexts"] = next(iter(passages), None)
            self.hook.take(given, rate)

        return Following(
            chance=self.chance,
            piece=piece,
            asked=lambda: self.asked(args, kwargs),
            take=take,
            fail=self.hook.fail,
        )

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Find the question, the passages and earlier turns in the arguments, as they are now."""
        contexts = self.contexts(args, kwargs, None)
        found = {"query": self.query(args, kwargs), "contexts": shallow(contexts)}
        if self._history is not None:
            turns: Any = _argument(self._history, args, kwargs)
            if turns and type(turns) in {list, tuple, deque}:
                found["history"] = [*turns]
                role, said = turn_of(turns[-1])
                if found["query"] is None and isinstance(role, str) and role.lower() in USERS:
                    found["query"] = said
        return found

    def part(self, result: object) -> object:
        """Find the answer, or a piece of the answer, in a result or a chunk."""
        if self._output:
            return lookup(result, (self._output,), named=True)
        return answer_in(result)

    def query(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Find the question among the arguments."""
        if self._query is not None:
            found = _argument(self._query, args, kwargs)
            if found is not inspect.Parameter.empty:
                return found
        texts = (value for value in (*args, *kwargs.values()) if isinstance(value, str))
        return next(texts, None)

    def contexts(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> object:
        """Find the passages among the arguments, else in the result."""
        if self._contexts is not None:
            found = _argument(self._contexts, args, kwargs)
            if found is not None and found is not inspect.Parameter.empty:
                return found
        return None if isinstance(result, str) else self.passages(result)

    def passages(self, result: object) -> object:
        """Find the passages in a result or a chunk."""
        return lookup(result, self._contexts_names, named=self._contexts_named)


def shallow(value: object) -> object:
    """Copy a list; what is in it stays the same."""
    return [*value] if type(value) is list else value


def _wanted(
    name: str | None, usual: tuple[str, ...], parameters: Mapping[str, inspect.Parameter]
) -> tuple[str, int, Any] | None:
    """
    Return where the wanted argument is: its name, its position (-1: by name only), its default.

    Where it is missing though it has no default, a decorator below hands it over: it is empty.
    """
    for candidate in (name,) if name else usual:
        if candidate in parameters:
            parameter = parameters[candidate]
            positional = parameter.kind in {
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            }
            position = list(parameters).index(candidate) if positional else -1
            return candidate, position, parameter.default
    return None


def _argument(where: tuple[str, int, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    name, position, default = where
    if 0 <= position < len(args):
        return args[position]
    return kwargs.get(name, default)


# --- streams: every chunk is handed on at once, and collected if it is to be kept ---


class Following:
    """
    What has passed of one stream; whether to keep it is decided at its first text.

    Parameters
    ----------
    chance
        Asked once; with which probability the stream is kept, 0 if it is not.
    piece
        Finds the text in a chunk; None where there is none.
    asked
        Reads the question and what else is known before the answer; called once.
    take
        Records the stream: what was asked, the answer, other chunks, the probability.
    fail
        Counts a stream that failed; ``counted`` if *chance* was asked.
    """

    def __init__(
        self,
        *,
        chance: Callable[[], float],
        piece: Callable[[object], object],
        asked: Callable[[], dict[str, Any]],
        take: Callable[[dict[str, Any], Any, list[object], float], None],
        fail: Callable[..., None],
    ) -> None:
        self._chance, self._piece, self._ask = chance, piece, asked
        self._take, self._fail = take, fail
        self._ended = False
        self._rate: float | None = None  # 0: it is not to be kept
        self._given: dict[str, Any] = {}
        self._texts: list[str] = []
        self._chars = 0
        self._others: list[object] = []
        self._pid = getpid()

    def begin(self) -> None:
        """Decide now, at the first chunk whatever it holds; never raises."""
        if self._rate is None:
            self._rate = self._chance()
            # Read now, because the caller may add to the messages meanwhile.
            with contextlib.suppress(Exception):  # the host's objects may do anything
                self._given = self._ask() if self._rate else {}

    def see(self, chunk: object) -> None:
        """Look at a chunk that is about to be handed on; never raises."""
        if self._rate == 0:
            return
        with contextlib.suppress(Exception):  # as in begin
            piece = self._piece(chunk)
            # The first chunk always, which names the model of a stream that is left early.
            if not (piece and self._others) and len(self._others) < _MOST_CHUNKS:
                self._others.append(chunk)
            if isinstance(piece, str):
                self.begin()
                if self._rate and self._chars < LONGEST_STREAM:
                    self._chars += len(piece)
                    self._texts.append(piece)

    def end(self, error: BaseException | None = None, *, complete: bool = True) -> None:
        """Record the stream, once, and whether it failed; never raises."""
        if error is not None and not self._ended:
            self._fail(error, counted=self._rate is not None)
        rate, self._rate, self._ended = self._rate, 0.0, True
        if not rate or self._pid != getpid():  # a stream may be forked under way
            return
        with contextlib.suppress(Exception):  # as in begin
            if error is not None or not complete:
                metadata = self._given.get("metadata")
                known = metadata if isinstance(metadata, dict) else {}
                self._given = {**self._given, "metadata": {**known, "incomplete": True}}
            answer = "".join(self._texts) if self._texts else None
            self._take(self._given, answer, self._others, rate)

    def closing(self, close: Callable[[], Any]) -> Callable[[], Any]:
        """Return *close* so that a stream that is closed before its end is recorded."""

        @functools.wraps(close)
        def close_now() -> Any:
            try:
                return close()
            finally:
                self.end(complete=False)

        @functools.wraps(close)
        async def close_later() -> Any:
            try:
                return await close()
            finally:
                self.end(complete=False)

        return close_later if inspect.iscoroutinefunction(close) else close_now


class _Passing:
    def __init__(self, inner: Any, following: Following) -> None:
        self._inner = inner
        self._following = following

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __del__(self) -> None:
        self._following.end(complete=False)


class Chunks(_Passing):
    """The chunks of a synchronous stream."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._inner)
        except BaseException as error:
            self._following.end(None if isinstance(error, StopIteration) else error)
            raise
        self._following.see(chunk)
        return chunk


class AsyncChunks(_Passing):
    """The chunks of an asynchronous stream; no ``__iter__``, which frameworks ask for first."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await anext(self._inner)
        except BaseException as error:
            self._following.end(None if isinstance(error, StopAsyncIteration) else error)
            raise
        self._following.see(chunk)
        return chunk


class AnyChunks(Chunks, AsyncChunks):
    """The chunks of a stream that is read in either way, as LiteLLM's are."""
