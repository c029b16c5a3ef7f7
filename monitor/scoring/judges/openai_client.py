"""
One request at a time to an OpenAI-compatible endpoint, under the deadline of its interaction.

`ChatEndpoint.answer` sends one request and returns the text of the reply; an argument that the
endpoint does not take is left out from then on. All requests of a process are tasks on one
event loop, since only a task can be given up wherever it waits. The library retries nothing
itself (``max_retries=0``): every attempt has to be paid for and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import openai

from monitor.errors import JudgeError, JudgeReplyError
from monitor.retry import backoff_s, retry_after_s
from monitor.scoring.judges.openai_errors import (
    RefusedCall,
    error_from,
    error_in,
    refusal,
    timed_out,
    unavailable,
)
from monitor.scoring.judges.reply import Envelope, read_content, read_envelope
from monitor.scoring.judges.request import Request
from monitor.scoring.limits.budget import CallAbandonedError
from monitor.scoring.limits.meter import Meter
from monitor.settings import Settings

_T = TypeVar("_T")
_NO_KEY = "not-needed"
_CLOSE_S = 5.0
_GRACE_S = 1.0  # for what is given up to let go of its connection
_LARGEST_BODY = 4_000_000  # bytes; no verdict is that long
_LARGEST_ERROR = 64_000  # bytes; openai would read the body of an error to its end
_MOST_REQUESTS = 24  # for one interaction, whatever its questions are split into
#: These write requests, with the judged text, at DEBUG and addresses at INFO.
_TALKATIVE = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
#: How the limit of the answer is called, the usual name first; some endpoints take none.
_LIMITS: tuple[str | None, ...] = ("max_tokens", "max_completion_tokens", None)
#: Ways to ask for JSON, the strictest first.
_FORMATS: tuple[str | None, ...] = ("json_schema", "json_object", None)
_TOKENS_AROUND, _TOKENS_AN_ENTRY = 2_000, 200
_MOST_TOKENS = 16_000  # common models refuse to be asked for more
_LEAST_TOKENS = 500
_THINKING_TOKENS = 8_000  # models that want max_completion_tokens count their thoughts in it


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long and how often to try: ``timeout_s`` is for all tries and waits together."""

    attempts: int = 3  #: for each question
    timeout_s: float = 30.0
    backoff_s: float = 0.5  #: doubled with every try
    longest_wait_s: float = 5.0  #: a longer Retry-After is an outage of the judge


@dataclass(slots=True)
class Spent:
    """
    What all requests about one interaction used together.

    Tokens are None once an answer did not say. A request that broke off may have been
    billed all the same: ``unanswered`` counts those.
    """

    deadline: float  #: monotonic seconds
    tries: int = 0  #: requests, whatever became of them
    unanswered: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int = 0
    model: str | None = None
    fingerprint: str = ""
    started: float = field(default_factory=time.perf_counter)

    def add(self, envelope: Envelope) -> None:
        """Count what one answer used."""
        self.model = envelope.model or self.model
        self.fingerprint = envelope.fingerprint or self.fingerprint
        usage, known = envelope.usage, (self.input_tokens, self.output_tokens)
        self.input_tokens, self.output_tokens = (
            None if total is None or more is None else total + more
            for total, more in zip(known, usage[:2], strict=True)
        )
        self.cached_tokens += usage.cached_tokens

    @property
    def duration_ms(self) -> float:
        """How long it has taken so far."""
        return (time.perf_counter() - self.started) * 1000


def access_from(settings: Settings) -> dict[str, Any]:
    """Return key, address and retry policy of the endpoint that the settings name."""
    key, limits = settings.openai_api_key, settings.judge_limits
    return {
        "api_key": key.get_secret_value() if key else None,
        "base_url": settings.openai_base_url,
        "policy": RetryPolicy(attempts=limits.judge_attempts, timeout_s=limits.judge_timeout_s),
    }


class ChatEndpoint:
    """
    Asks one model of one endpoint; may be shared by threads.

    The connection of a process is made when it is first needed, and closed for good.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None,
        policy: RetryPolicy,
        meter: Meter | None = None,
    ) -> None:
        self.policy = policy
        self.arguments = Arguments(model)
        self._api_key, self._base_url = api_key or _NO_KEY, base_url
        self._meter = meter or Meter()
        # By process: a forked child must not write to its parent's connections. No lock,
        # because a fork may copy it while it is locked.
        self._connections: dict[int, Connection] = {}
        self._closed: set[int] = set()

    def begin(self) -> Spent:
        """Start the clock for one interaction."""
        return Spent(deadline=time.monotonic() + self.policy.timeout_s)

    def answer(self, request: Request[Any], spent: Spent) -> str:
        """
        Send *request* and return the text of the reply.

        Raises
        ------
        JudgeError
            Of the class that says whether asking again can help.
        """
        while True:
            arguments = self.arguments.of(request)
            try:
                body = self._post(arguments, spent)
            except JudgeError:
                raise
            except Exception as error:  # noqa: BLE001 - the transport's own, of either httpx
                refused = refusal(error)
                if refused is None or refused.may_be_billed:
                    spent.unanswered += 1
                if refused is None:
                    raise unavailable(error, self.policy.timeout_s) from None
                if not self.arguments.leave_out(refused, arguments):
                    raise error_from(refused) from None
                continue
            try:
                envelope = read_envelope(body)
            except JudgeReplyError:
                spent.unanswered += 1
                raise
            spent.add(envelope)
            return read_content(envelope.choice)

    def close(self) -> None:
        """
        Close the connection of this process, for good; those of a parent are left unchanged.

        Calls under way are given up, and are not made again.
        """
        self._closed.add(os.getpid())
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def _post(self, arguments: dict[str, Any], spent: Spent) -> bytes:
        remaining_s = spent.deadline - time.monotonic()
        if remaining_s <= 0:
            raise timed_out(self.policy.timeout_s)
        if spent.tries >= _MOST_REQUESTS:
            raise JudgeReplyError(f"the judge gave no whole answer in {_MOST_REQUESTS} requests")
        spent.tries += 1
        if os.getpid() in self._closed:
            raise CallAbandonedError("the judge was closed while it was asked", retry_after_s=1.0)
        connection = self._connections.get(os.getpid())
        if connection is None:
            # Raise the libraries' loggers to WARNING, also those that were set lower by hand.
            for name in (*_TALKATIVE, *logging.root.manager.loggerDict):
                if name.split(".")[0] in _TALKATIVE:
                    logging.getLogger(name).setLevel(logging.WARNING)
            made = Connection(self._api_key, self._base_url, self.policy.timeout_s)
            connection = self._connections.setdefault(os.getpid(), made)
            if connection is not made:  # another thread was first
                made.close()
        exchange = _exchange(connection.client, arguments, remaining_s, self._meter)
        try:
            return connection.run(exchange, remaining_s)
        except JudgeReplyError:
            spent.unanswered += 1
            raise

    def pause_s(self, error: JudgeError, tries: int) -> float:
        """Return the seconds to wait after *tries* requests: as *error* asks, else ever more."""
        asked_s = getattr(error, "retry_after_s", None)
        if asked_s is not None:
            return float(asked_s)
        policy = self.policy
        return backoff_s(tries, first_s=policy.backoff_s, longest_s=policy.longest_wait_s)

    def may_ask_again(self, spent: Spent, *, wait_s: float) -> bool:
        """Return whether another request after *wait_s* seconds is within all bounds."""
        return spent.tries < _MOST_REQUESTS and time.monotonic() + wait_s < spent.deadline


async def _exchange(
    client: openai.AsyncOpenAI, arguments: dict[str, Any], timeout_s: float, meter: Meter
) -> bytes:
    """Send a request and return the body, read in pieces, so that a large one is not read whole."""
    async with meter.attempt(arguments) as attempt:
        try:
            completions = client.chat.completions.with_streaming_response
            async with completions.create(**attempt.request, timeout=timeout_s) as response:
                attempt.headers = response.headers
                body = await _read(response.iter_bytes(), _LARGEST_BODY)
        except Exception as error:
            if refused := refusal(error):
                attempt.status, attempt.headers = refused.status, refused.headers
                attempt.retry_after_s = retry_after_s(refused.headers)
            raise
        if len(body) > _LARGEST_BODY:
            raise JudgeReplyError("the judge's answer is larger than 4 MB")
        attempt.body = body
    if broken := error_in(body):
        raise broken
    return body


async def _read(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """Read a body as far as it is needed: with more than *most* bytes it has not ended."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            break
    return bytes(body)


class Arguments:
    """Builds requests to one model; remembers, for all threads, what it does not take."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._format = 0
        self._limit = 0
        self._optional = frozenset({"temperature", "seed"})
        self._thinks = False

    def of(self, request: Request[Any]) -> dict[str, Any]:
        """Return the arguments of the call that sends *request*."""
        arguments: dict[str, Any] = {"model": self._model, "messages": request.messages}
        given = {"temperature": 0, "seed": request.seed}
        arguments |= {name: given[name] for name in given if name in self._optional}
        kind, limit = _FORMATS[self._format], _LIMITS[self._limit]
        if kind is not None:
            arguments["response_format"] = {"type": kind}
        if kind == "json_schema":
            strict = {"name": "judgement", "strict": True, "schema": request.schema}
            arguments["response_format"]["json_schema"] = strict
        if limit is not None:
            tokens = min(_TOKENS_AROUND + request.entries * _TOKENS_AN_ENTRY, _MOST_TOKENS)
            thinks = self._thinks or limit == "max_completion_tokens"
            thoughts = _THINKING_TOKENS if thinks else 0
            # The answer takes its room from the same context as the question.
            arguments[limit] = max((tokens + thoughts) >> request.squeezed, _LEAST_TOKENS)
        return arguments

    def leave_room_for_thoughts(self) -> bool:
        """Ask for longer answers from now on; return whether that is longer than before."""
        before, self._thinks = self._thinks, True
        return not before and _LIMITS[self._limit] == "max_tokens"

    def leave_out(self, error: RefusedCall, arguments: dict[str, Any]) -> bool:
        """Drop the argument that the endpoint names; return whether to ask again without it."""
        if error.too_long:
            return False  # some say so by way of the limit of the answer
        # Threads may have seen it first: what is dropped never comes back.
        if "response_format" in arguments and (
            error.names("response_format") or error.names("json_schema")
        ):
            used = _FORMATS.index(arguments["response_format"]["type"])
            self._format = max(self._format, used + 1)
            return True
        for name in self._optional & arguments.keys():
            if error.names(name):
                self._optional -= {name}
                return True
        for number, limit in enumerate(_LIMITS):
            if limit is not None and limit in arguments and error.names(limit):
                self._limit = max(self._limit, number + 1)
                return True
        return False


class Connection:
    """
    An OpenAI client and the event loop it lives in, on a thread of its own.

    Only a task can be given up wherever it waits: the time-outs of the library start
    again with every byte, also within headers.
    """

    def __init__(self, api_key: str, base_url: str | None, timeout_s: float) -> None:
        self.client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout_s,
            max_retries=0,
            # A body is counted as it comes, so it must not swell when it is unpacked.
            default_headers={"Accept-Encoding": "identity"},
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [_refuse]}),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="groundwatch-judge", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        """Wait for *work*, or give it up after *timeout_s* with ``TimeoutError``."""

        async def within() -> _T:
            async with asyncio.timeout(timeout_s):
                return await work

        future = asyncio.run_coroutine_threadsafe(within(), self._loop)
        try:
            return future.result(timeout_s + _GRACE_S)
        finally:
            future.cancel()  # when this thread is interrupted, so is the work

    def close(self) -> None:
        """Cancel what is under way, close the connections and end the thread."""

        async def close() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self.client.close()

        try:
            self.run(close(), _CLOSE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _refuse(response: Any) -> None:
    """
    Read an answer that is an error as far as we need it; *response* is of either httpx.

    A redirect to another origin is one: what is judged goes only where the settings say.
    """
    if response.is_success:
        return
    if response.has_redirect_location:
        here = str(response.request.url)
        if _origin(urljoin(here, response.headers["location"])) == _origin(here):
            return
        raise RefusedCall(response.status_code, response.headers, b"")
    body = await _read(response.aiter_raw(), _LARGEST_ERROR)
    raise RefusedCall(response.status_code, response.headers, body[:_LARGEST_ERROR])


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
