"""Call the app that is evaluated: a function, an HTTP endpoint, or answers on record."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, model_validator

from monitor.errors import MissingExtraError, RecordError, SettingsError, first_mistake
from monitor.hook.api import REPLAYABLE
from monitor.models.interaction import Passage, ToolCall
from monitor.models.records import ALIASES, passages
from monitor.queue.wire import mended
from monitor.retry import retry_after_s
from monitor.testsets.cases import TestCase
from monitor.testsets.records import RecordFile

T = TypeVar("T")
RECORDED = "recorded"
#: What a function may ask for by the names of its arguments, besides the question.
_OFFERED = ("history", "contexts", "model", "case")
_CONTEXT_FIELDS = ("contexts", *ALIASES["contexts"])
_OUTPUT_FIELDS = ("output", *ALIASES["output"], "text", "content")


class AppAnswer(BaseModel, frozen=True, extra="forbid"):
    """What an app answered, with the passages it used; ``contexts`` None: those of the case."""

    output: str
    contexts: tuple[Passage, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    metadata: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _mend(cls, value: object) -> object:
        """Replace lone surrogates, as the hook does."""
        return mended(value)

    @classmethod
    def read(cls, value: object) -> AppAnswer:
        """
        Read what an app returned.

        A text; a text and its passages; or an object with ``output`` (or ``answer``, ``response``,
        ``text``), ``contexts``, ``tool_calls`` and ``metadata``. Raise RecordError if it is nothing
        of this.
        """
        if isinstance(value, BaseModel):
            value = value.model_dump()
        if isinstance(value, str):
            return cls(output=value)
        if isinstance(value, tuple) and len(value) == 2:  # noqa: PLR2004 - answer and passages
            value = {"output": value[0], "contexts": value[1]}
        if not isinstance(value, Mapping):
            text = getattr(value, "output", None) or getattr(value, "content", None)
            if isinstance(text, str):
                return cls(output=text)
            raise RecordError(
                f"the app returned {type(value).__name__}; expected a text, (text, passages) or"
                ' {"output": ..., "contexts": [...]}'
            )
        fields = dict(value)
        output = next((fields.pop(name) for name in _OUTPUT_FIELDS if name in fields), None)
        contexts = next((fields.pop(name) for name in _CONTEXT_FIELDS if name in fields), None)
        metadata = fields.pop("metadata", None) or {}
        calls = fields.pop("tool_calls", None) or ()
        try:
            return cls.model_validate({
                "output": output, "contexts": passages(contexts), "tool_calls": calls,
                "metadata": {**fields, **metadata},
            })  # fmt: skip
        except (ValidationError, TypeError) as error:
            where = first_mistake(error)[0] if isinstance(error, ValidationError) else "answer"
            raise RecordError(f"the app's answer has a wrong or missing {where}") from None


class EvaluatedApp(ABC):
    """Something that answers test cases; ``name`` is written into the run."""

    name: str

    @abstractmethod
    async def answer(self, case: TestCase, model: str | None) -> AppAnswer:
        """Answer a case, with *model* where several are compared; any error is the app's."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections."""


def open_app(
    app: object, *, timeout_s: float, tell: Callable[[str], None] = lambda _: None
) -> EvaluatedApp:
    """
    Return the app that *app* names.

    Parameters
    ----------
    app
        A function (sync, async or a generator of pieces), an object with ``run``,
        ``"module:function"``, an ``http(s)://`` address, the path of a file of recorded answers,
        or ``"recorded"`` or None for the answers that the cases themselves carry.
    timeout_s
        The longest wait for one answer over HTTP.
    tell
        Gets one sentence for each of the first lines of a file that cannot be read.

    Raises
    ------
    SettingsError
        If there is no such function, or it does not fit.
    RecordError
        If the file cannot be read.
    """
    if app is None or app == RECORDED:
        return _Recorded(RECORDED, tell)
    if callable(app) or callable(getattr(app, "run", None)):
        return _Function(app)
    text = str(app)
    if text.startswith(("http://", "https://")):
        return _Endpoint(text, timeout_s)
    if Path(text).is_file():
        return _Recorded(text, tell)
    if isinstance(app, str) and ":" in app:
        return _Function(imported(app), name=app)
    raise SettingsError(
        f"Invalid app {text!r}: expected module:function, an http address or a file of answers"
    )


def imported(name: str) -> object:
    """
    Import ``module:function`` as seen from the current directory.

    Of a module alone, what it registered with ``groundwatch.replayable``.
    """
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = import_module(module)
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise SettingsError(
                f"app {name!r} needs {error.name}, which is not installed"
            ) from None
        raise SettingsError(
            f"there is no module {module!r}; name one that can be imported from {Path.cwd()}"
        ) from None
    except AttributeError:
        raise SettingsError(f"module {module!r} has no {attribute!r}") from None
    if not attribute:
        marked = [each for each in vars(found).values() if getattr(each, REPLAYABLE, False) is True]
        if len(marked) != 1:
            raise SettingsError(
                f"module {module!r} has {len(marked)} functions for groundwatch.replayable():"
                f" name one as {module}:function"
            )
        return marked[0]
    if not callable(found) and not callable(getattr(found, "run", None)):
        raise SettingsError(f"{name!r} is not a function")
    return found


class _Function(EvaluatedApp):
    """A function of the user's, called in this process."""

    def __init__(self, app: object, name: str = "") -> None:
        call = app if callable(app) else app.run  # type: ignore[attr-defined]
        self._call: Callable[..., Any] = call
        qualified = f"{getattr(call, '__module__', '')}:{getattr(call, '__qualname__', '')}"
        self.name = name or (qualified if qualified != ":" else type(app).__qualname__)
        try:
            names = inspect.signature(call).parameters
        except (TypeError, ValueError):  # a builtin
            names = {}  # type: ignore[assignment]
        self._takes = [each for each in _OFFERED if each in names]
        self._is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004 - of an object with an async __call__
        )

    async def answer(self, case: TestCase, model: str | None) -> AppAnswer:
        offered = {
            "history": list(case.history), "contexts": [each.text for each in case.contexts],
            "model": model, "case": case,
        }  # fmt: skip

        def whole(value: object) -> object:  # of a generator: its pieces, joined
            return "".join(map(str, value)) if isinstance(value, Generator) else value

        call = partial(self._call, case.query, **{name: offered[name] for name in self._takes})
        found = await (call() if self._is_async else in_thread(lambda: whole(call())))
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AsyncIterable):
            found = "".join([str(piece) async for piece in found])
        return AppAnswer.read(found)


async def in_thread(call: Callable[[], T]) -> T:
    """
    Await *call* in a thread of its own, which nothing waits for once it is given up.

    Threads of a pool are joined when the program ends; one call that hangs would hold it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        outcome: tuple[T | None, Exception | None]
        try:
            outcome = call(), None
        except BaseException as error:  # noqa: BLE001 - handed on to who waits
            # sys.exit() ends the call and not the run; StopIteration is nothing a future takes.
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            outcome = None, error if is_plain else RuntimeError(f"{type(error).__name__}: {error}")  # type: ignore[assignment]
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(finish, *outcome)

    context = contextvars.copy_context()
    threading.Thread(
        target=context.run, args=(run,), daemon=True, name="groundwatch-eval-app"
    ).start()
    return await done


class EndpointError(RecordError):
    """An endpoint that answered with an error, and the seconds it asks callers to wait, if any."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class _Endpoint(EvaluatedApp):
    """An app behind HTTP: one POST of JSON a case."""

    def __init__(self, url: str, timeout_s: float) -> None:
        try:
            import httpx  # noqa: PLC0415 - of an extra
        except ModuleNotFoundError:
            raise MissingExtraError("an app behind HTTP", "eval") from None
        self.name = url
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        self._client = httpx.AsyncClient(timeout=timeout_s, limits=limits)

    async def answer(self, case: TestCase, model: str | None) -> AppAnswer:
        body: dict[str, Any] = {"id": case.id, "query": case.query}
        if case.history:
            body["history"] = list(case.history)
        if case.contexts:
            body["contexts"] = [each.text for each in case.contexts]
        if model is not None:
            body["model"] = model
        reply = await self._client.post(self.name, json=body)
        if reply.is_error or reply.is_redirect:
            raise EndpointError(f"HTTP {reply.status_code}", retry_after_s(reply.headers))
        if "json" in reply.headers.get("content-type", ""):
            return AppAnswer.read(reply.json())
        return AppAnswer.read(reply.text)

    async def close(self) -> None:
        await self._client.aclose()


class _Recorded(EvaluatedApp):
    """Answers that were recorded before: of the cases, or of a file with their ids or questions."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self.name = name
        self._by_id: dict[str, AppAnswer] = {}
        self._by_query: dict[str, AppAnswer] = {}
        if name == RECORDED:
            return
        for record in RecordFile(Path(name), tell):
            found = record.interaction
            answer = AppAnswer(
                output=found.output, contexts=found.contexts or None,
                tool_calls=found.tool_calls, metadata=found.metadata,
            )  # fmt: skip
            self._by_id[found.id] = answer
            if found.query:
                self._by_query.setdefault(found.query, answer)

    async def answer(self, case: TestCase, model: str | None) -> AppAnswer:  # noqa: ARG002
        if self.name == RECORDED and case.output is not None:
            return AppAnswer(output=case.output)
        found = self._by_id.get(case.id) or self._by_query.get(case.query or "")
        if found is None:
            raise RecordError("no recorded answer; name an app that answers, or add an output")
        return found
