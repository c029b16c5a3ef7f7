"""Ask an OpenAI-compatible endpoint until it answers: bounded tries under one deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import openai

from monitor.errors import JudgeError, JudgeOutageError, JudgeReplyError, JudgeUnavailableError
from monitor.retry import backoff_s, retry_after_s
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.openai_errors import (
    RefusedCall,
    error_from,
    error_in,
    refusal,
)
from monitor.scoring.judges.question import Askable
from monitor.scoring.judges.reply import (
    SCHEMA,
    Envelope,
    RetryDifferentlyError,
    read_content,
    read_envelope,
)
from monitor.scoring.spending.meter import Attempt, Meter

_T = TypeVar("_T")
_LARGEST_BODY = 4_000_000  # bytes; no verdict is that long
_MOST_REQUESTS = 24  # for one interaction, whatever its questions are split into


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often to try: ``timeout_s`` is for all tries and waits together."""

    attempts: int = 3  #: for each question
    timeout_s: float = 30.0
    backoff_s: float = 0.5  #: doubled with every try
    longest_wait_s: float = 5.0  #: with a longer Retry-After the judge counts as away


@dataclass(slots=True)
class Spent:
    """
    What all requests about one interaction used together.

    Tokens are None once an answer did not say. A request that broke off may have been
    billed all the same: ``unanswered`` counts those.
    """

    deadline: float
    tries: int = 0  #: requests, whatever became of them
    unanswered: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int = 0
    model: str | None = None
    started: float = field(default_factory=time.perf_counter)

    def add(self, envelope: Envelope) -> None:
        """Count what one answer used."""
        self.model = envelope.model or self.model
        self.input_tokens = _sum(self.input_tokens, envelope.input_tokens)
        self.output_tokens = _sum(self.output_tokens, envelope.output_tokens)
        self.cached_tokens += envelope.cached_tokens

    @property
    def duration_ms(self) -> float:
        """Say how long it has taken so far."""
        return (time.perf_counter() - self.started) * 1000


class ChatCall:
    """Asks one model of one endpoint until it answers."""

    def __init__(
        self,
        client: SharedClient,
        model: str,
        patience: Patience,
        meter: Meter | None = None,
        schema: dict[str, Any] = SCHEMA,
    ) -> None:
        self._meter = meter or Meter()
        self._client = client
        self._arguments = Arguments(model, schema)
        self._patience = patience

    def begin(self) -> Spent:
        """Start the clock for one interaction."""
        return Spent(deadline=time.monotonic() + self._patience.timeout_s)

    def leave_room_for_thoughts(self) -> bool:
        """Let answers be longer from now on; says whether asking again makes sense."""
        return self._arguments.leave_room_for_thoughts()

    def ask(self, make: Callable[[], Askable[_T]], spent: Spent) -> _T:
        """
        Return the answer to the question that *make* makes anew for every try.

        An answer that is not as asked is asked for again, like a call that failed for a
        passing reason, while tries and time are left.

        Raises
        ------
        JudgeError
            ``RetryDifferentlyError`` and ``ContextTooLongError`` call for another question.
        """
        tries = 0
        while True:
            tries += 1
            question = make()
            try:
                return question.read(self._answer(question, spent))
            except JudgeError as error:
                self._wait_or_raise(error, tries, spent)

    def _wait_or_raise(self, error: JudgeError, tries: int, spent: Spent) -> None:
        again = error.transient or isinstance(error, JudgeReplyError)
        wait_s = self._wait_s(error, tries)
        if again and wait_s > self._patience.longest_wait_s:
            raise _away(error, wait_s) from None
        if (
            not again
            or isinstance(error, RetryDifferentlyError)
            or tries >= self._patience.attempts
        ):
            raise error
        if spent.tries >= _MOST_REQUESTS or time.monotonic() + wait_s >= spent.deadline:
            raise error
        time.sleep(wait_s)

    def _wait_s(self, error: JudgeError, tries: int) -> float:
        if isinstance(error, JudgeReplyError):
            return 0.0  # the endpoint is well, only this answer was not
        asked_s = getattr(error, "retry_after_s", None)
        if asked_s is not None:
            return float(asked_s)
        patience = self._patience
        return backoff_s(tries, first_s=patience.backoff_s, longest_s=patience.longest_wait_s)

    def _answer(self, question: Askable[Any], spent: Spent) -> str:
        """Ask once; an argument that the endpoint does not take is left out from then on."""
        while True:
            request = self._arguments.request(question)
            try:
                body = self._post(request, spent)
            except JudgeError:
                raise
            except Exception as error:  # noqa: BLE001 - the transport's own, of either httpx
                refused = refusal(error)
                if refused is None or refused.may_be_billed:
                    spent.unanswered += 1
                if refused is None:
                    raise self._unavailable(error) from None
                if not self._arguments.leave_out(refused, request):
                    raise error_from(refused) from None
            else:
                return self._content(body, spent)

    def _content(self, body: bytes, spent: Spent) -> str:
        try:
            envelope = read_envelope(body)
        except JudgeReplyError:
            spent.unanswered += 1
            raise
        spent.add(envelope)
        return read_content(envelope.choice)

    def _post(self, request: dict[str, Any], spent: Spent) -> bytes:
        remaining_s = spent.deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._late()
        if spent.tries >= _MOST_REQUESTS:
            raise JudgeReplyError(f"the judge gave no whole answer in {_MOST_REQUESTS} requests")
        spent.tries += 1
        endpoint = self._client.get()
        exchange = _exchange(endpoint.client, request, remaining_s, self._meter)
        try:
            return endpoint.run(exchange, remaining_s)
        except JudgeReplyError:
            spent.unanswered += 1
            raise

    def _unavailable(self, error: Exception) -> JudgeUnavailableError:
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return self._late()
        if isinstance(error, openai.APIConnectionError):
            cause = type(error.__cause__).__name__ if error.__cause__ else "no connection"
            return JudgeUnavailableError(f"the judge's endpoint cannot be reached ({cause})")
        return JudgeUnavailableError(f"the judge's answer broke off ({type(error).__name__})")

    def _late(self) -> JudgeUnavailableError:
        return JudgeUnavailableError(f"the judge gave no answer in {self._patience.timeout_s:g} s")


def _away(error: JudgeError, wait_s: float) -> JudgeOutageError:
    away = JudgeOutageError(
        f"{error}; it asks to be left alone for {wait_s:g} s", retry_after_s=wait_s
    )
    away.context |= error.context
    return away


async def _exchange(
    client: openai.AsyncOpenAI, request: dict[str, Any], timeout_s: float, meter: Meter
) -> bytes:
    """Send, and tell the meter what came of it."""
    async with meter.attempt(request) as attempt:
        try:
            body = await _read(client, request, timeout_s, attempt)
        except Exception as error:
            if refused := refusal(error):
                attempt.refused(refused.status, refused.headers, retry_after_s(refused.headers))
            raise
        attempt.read(body)
    if broken := error_in(body):
        raise broken
    return body


async def _read(
    client: openai.AsyncOpenAI, request: dict[str, Any], timeout_s: float, attempt: Attempt
) -> bytes:
    """Read the body in pieces, so that a large one is not read whole."""
    completions = client.chat.completions.with_streaming_response
    body = bytearray()
    async with completions.create(**request, timeout=timeout_s) as response:
        attempt.answered(response.headers)
        async for piece in response.iter_bytes():
            body += piece
            if len(body) > _LARGEST_BODY:
                raise JudgeReplyError("the judge's answer is larger than 4 MB")
    return bytes(body)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


# --- openai request ---
# What a judge's endpoint is sent, without the arguments that it was seen not to take.


_LIMITS: tuple[str | None, ...] = ("max_tokens", "max_completion_tokens", None)
_TOKENS_AROUND, _TOKENS_A_SENTENCE = 2_000, 200
_MOST_TOKENS = 16_000  # common models refuse to be asked for more
_LEAST_TOKENS = 500
_THINKING_TOKENS = 8_000  # models that want max_completion_tokens count their thoughts in it


class Arguments:
    """Builds requests to one model; remembers, for all threads, what it does not take."""

    def __init__(self, model: str, schema: dict[str, Any] = SCHEMA) -> None:
        self._model = model
        self._formats = _formats(schema)
        self._format = 0
        self._limit = 0
        self._temperature = True
        self._seed = True
        self._thinks = False

    def request(self, question: Askable[Any]) -> dict[str, Any]:
        """Build the request that asks *question*."""
        request: dict[str, Any] = {"model": self._model, "messages": question.messages}
        if self._temperature:
            request["temperature"] = 0
        if self._seed:
            request["seed"] = question.seed
        response_format, limit = self._formats[self._format], _LIMITS[self._limit]
        if response_format is not None:
            request["response_format"] = response_format
        if limit is not None:
            tokens = min(_TOKENS_AROUND + len(question.asked) * _TOKENS_A_SENTENCE, _MOST_TOKENS)
            thinks = self._thinks or limit == "max_completion_tokens"
            thoughts = _THINKING_TOKENS if thinks else 0
            # The answer takes its room from the same context as the question.
            request[limit] = max((tokens + thoughts) >> question.squeezed, _LEAST_TOKENS)
        return request

    def leave_room_for_thoughts(self) -> bool:
        """Ask for longer answers from now on; says whether that is longer than before."""
        before, self._thinks = self._thinks, True
        return not before and _LIMITS[self._limit] == "max_tokens"

    def leave_out(self, error: RefusedCall, request: dict[str, Any]) -> bool:
        """Drop the argument that the endpoint names; says whether asking again makes sense."""
        if error.too_long:
            return False  # some say so by way of the limit of the answer
        # Threads may have seen it first: what is dropped never comes back.
        if "response_format" in request and (
            error.names("response_format") or error.names("json_schema")
        ):
            used = self._formats.index(request["response_format"])
            self._format = max(self._format, used + 1)
            return True
        if "temperature" in request and error.names("temperature"):
            self._temperature = False
            return True
        if "seed" in request and error.names("seed"):
            self._seed = False
            return True
        for number, limit in enumerate(_LIMITS):
            if limit is not None and limit in request and error.names(limit):
                self._limit = max(self._limit, number + 1)
                return True
        return False


def _formats(schema: dict[str, Any]) -> tuple[dict[str, Any] | None, ...]:
    """List the ways to ask for JSON, the strictest first."""
    strict = {"name": "judgement", "strict": True, "schema": schema}
    return ({"type": "json_schema", "json_schema": strict}, {"type": "json_object"}, None)
