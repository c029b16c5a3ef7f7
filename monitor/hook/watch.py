"""``@groundwatch.watch``: record the calls of any kind of function, which behaves as before."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Generator, Mapping
from os import getpid
from typing import Any

from .capture import CONTEXTS_NAMES, answer_in, lookup
from .interaction import FIELDS, HookProtocol

#: Characters collected of one stream; the recorder's own limit is usually far below.
LONGEST_STREAM = 2_000_000
QUERY_NAMES = ("query", "question", "prompt", "input", "message")
HISTORY_NAMES = ("history", "chat_history", "messages")

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
    wrapped = _wrapped(function, Reader(function, hook, names, fields))
    with contextlib.suppress(AttributeError):
        setattr(wrapped, _MARK, hook)
        for name in _OF_CACHES if isinstance(function, _Cached) else ():
            setattr(wrapped, name, getattr(function, name))
    return wrapped


def _wrapped(function: Function, reader: Reader) -> Function:
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, reader)
    if inspect.isgeneratorfunction(function):
        return _generator(function, reader)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    ):
        return _coroutine(function, reader)
    return _plain(function, reader)


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
        collected = Collected(reader, args, kwargs)
        try:
            result = yield from relay(function(*args, **kwargs), collected)
        except Exception as error:
            reader.hook.fail(error, counted=collected.rate is not None)
            raise
        else:
            collected.end()
            return result
        finally:
            reader.take_stream(collected)

    return watched_generator


def _async_generator(function: Function, reader: Reader) -> Function:
    @functools.wraps(function)
    async def watched_async_generator(*args: Any, **kwargs: Any) -> Any:
        collected = Collected(reader, args, kwargs)
        inner = function(*args, **kwargs)
        step = inner.asend(None)
        try:
            while True:
                try:
                    chunk = await step
                except StopAsyncIteration:
                    collected.end()
                    return
                collected.see(chunk)
                try:
                    sent = yield chunk
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001  # the generator's to handle
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)
        except Exception as error:
            reader.hook.fail(error, counted=collected.rate is not None)
            raise
        finally:
            del step  # it may hold an error whose frames hold it
            reader.take_stream(collected)

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
        self.parameters = _parameters(function)
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

    def take_stream(self, collected: Collected) -> None:
        """Record a stream that has ended or was left; never raises."""
        if not collected.ours:
            return
        try:
            given = {**self._fields, **collected.asked, "output": collected.text()}
            if given.get("contexts") is None:
                given["contexts"] = collected.contexts
            if not collected.complete:
                metadata = given.get("metadata")
                known = metadata if isinstance(metadata, dict) else {}
                given["metadata"] = {**known, "incomplete": True}
        except Exception:  # noqa: BLE001  # as above
            given = dict(self._fields)
        self.hook.take(given, collected.rate)

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Find the question, the passages and earlier turns in the arguments, as they are now."""
        contexts = self.contexts(args, kwargs, None)
        found = {"query": self.query(args, kwargs), "contexts": shallow(contexts)}
        if self._history is not None:
            turns: Any = _argument(self._history, args, kwargs)
            if turns and type(turns) in {list, tuple}:
                found["history"] = [*turns]
                if found["query"] is None and lookup(turns[-1], ("role",)) == "user":
                    found["query"] = lookup(turns[-1], ("content",))
        return found

    def part(self, result: object) -> object:
        """Find the answer, or the piece of it, in a result or a chunk."""
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


class Collected:
    """What has passed of one stream; whether to keep it is decided at the first chunk."""

    def __init__(self, reader: Reader, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
                part = self._reader.part(chunk)
                if isinstance(part, (bytes, bytearray)):
                    part = part.decode("utf-8", "replace")
                if isinstance(part, str) and self._chars < LONGEST_STREAM:
                    self._chars += len(part)
                    self._parts.append(part)
                if self.contexts is None and not isinstance(chunk, (str, bytes)):
                    # Not the list itself, which may change until the stream ends.
                    self.contexts = shallow(self._reader.passages(chunk))
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


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    """Return the parameters by which it is called; what it wraps may take more, or others."""
    try:
        own = dict(inspect.signature(function, follow_wrapped=False).parameters)
        if any(parameter.kind in _VARIADIC for parameter in own.values()):
            return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}
    return own


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
