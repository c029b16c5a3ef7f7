"""Ask an OpenAI-compatible endpoint until it answers: bounded tries under one deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import openai

from monitor.errors import (
    JudgeError,
    JudgeRateLimitedError,
    JudgeReplyError,
    JudgeUnavailableError,
)
from monitor.scoring.judges.openai_client import SharedClient
from monitor.scoring.judges.openai_errors import error_from, refusal
from monitor.scoring.judges.openai_request import Arguments
from monitor.scoring.judges.reply import (
    SCHEMA,
    Envelope,
    TruncatedReplyError,
    read_content,
    read_envelope,
)

_T = TypeVar("_T")
_LARGEST_BODY = 4_000_000  # bytes; no verdict is that long


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often to try: ``timeout_s`` is for all tries and waits together."""

    attempts: int = 3
    timeout_s: float = 30.0
    backoff_s: float = 0.5  #: doubled with every try
    longest_wait_s: float = 5.0  #: a longer Retry-After fails the evaluation at once


@dataclass(slots=True)
class Spent:
    """What all tries of one call used together; None once a try did not say."""

    tries: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    model: str | None = None

    def add(self, envelope: Envelope) -> None:
        """Count what one answer used."""
        self.model = envelope.model or self.model
        self.input_tokens = _sum(self.input_tokens, envelope.input_tokens)
        self.output_tokens = _sum(self.output_tokens, envelope.output_tokens)


class ChatCall:
    """Asks one model of one endpoint until it answers."""

    def __init__(
        self,
        client: SharedClient,
        model: str,
        patience: Patience,
        schema: dict[str, Any] = SCHEMA,
    ) -> None:
        self._client = client
        self._arguments = Arguments(model, schema)
        self._patience = patience

    def ask(
        self,
        messages: list[dict[str, str]],
        sentences: int,
        read: Callable[[str], _T],
        spent: Spent,
    ) -> _T:
        """
        Return what *read* makes of the answer on *sentences* sentences; count in *spent*.

        An answer that *read* rejects with ``JudgeReplyError`` is asked for again, like
        a call that failed for a passing reason, while tries and time are left.
        """
        deadline = time.monotonic() + self._patience.timeout_s
        while True:
            spent.tries += 1
            try:
                return read(self._answer(messages, sentences, deadline, spent))
            except JudgeError as error:
                self._wait_or_raise(error, spent.tries, deadline)

    def _wait_or_raise(self, error: JudgeError, tries: int, deadline: float) -> None:
        again = error.transient or isinstance(error, JudgeReplyError)
        if not again or isinstance(error, TruncatedReplyError) or tries >= self._patience.attempts:
            raise error
        wait_s = self._wait_s(error, tries)
        if wait_s > self._patience.longest_wait_s or time.monotonic() + wait_s >= deadline:
            raise error
        time.sleep(wait_s)

    def _wait_s(self, error: JudgeError, tries: int) -> float:
        if isinstance(error, JudgeReplyError):
            return 0.0  # the endpoint is well, only this answer was not
        if isinstance(error, JudgeRateLimitedError) and error.retry_after_s is not None:
            return error.retry_after_s
        backoff_s: float = self._patience.backoff_s * 2 ** (tries - 1)
        return min(backoff_s, self._patience.longest_wait_s) * random.uniform(0.5, 1.0)  # noqa: S311

    def _answer(
        self, messages: list[dict[str, str]], sentences: int, deadline: float, spent: Spent
    ) -> str:
        """Ask once; an argument that the endpoint does not take is left out from then on."""
        while True:
            request = self._arguments.request(messages, sentences)
            try:
                envelope = read_envelope(self._post(request, deadline))
            except JudgeError:
                raise
            except Exception as error:  # noqa: BLE001 - the transport's own, of either httpx
                refused = refusal(error)
                if refused is None:
                    raise self._unavailable(error) from None
                if not self._arguments.leave_out(refused, request):
                    raise error_from(refused) from None
            else:
                spent.add(envelope)
                return read_content(envelope.choice)

    def _post(self, request: dict[str, Any], deadline: float) -> bytes:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._late()
        endpoint = self._client.get()
        return endpoint.run(_exchange(endpoint.client, request, remaining_s), remaining_s)

    def _unavailable(self, error: Exception) -> JudgeUnavailableError:
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return self._late()
        if isinstance(error, openai.APIConnectionError):
            cause = type(error.__cause__).__name__ if error.__cause__ else "no connection"
            return JudgeUnavailableError(f"the judge's endpoint cannot be reached ({cause})")
        return JudgeUnavailableError(f"the judge's answer broke off ({type(error).__name__})")

    def _late(self) -> JudgeUnavailableError:
        return JudgeUnavailableError(f"the judge gave no answer in {self._patience.timeout_s:g} s")


async def _exchange(client: openai.AsyncOpenAI, request: dict[str, Any], timeout_s: float) -> bytes:
    """Send, and read the body in pieces, so that a large one is not read whole."""
    completions = client.chat.completions.with_streaming_response
    body = bytearray()
    async with completions.create(**request, timeout=timeout_s) as response:
        async for piece in response.iter_bytes():
            body += piece
            if len(body) > _LARGEST_BODY:
                raise JudgeReplyError("the judge's answer is larger than 4 MB")
    return bytes(body)


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
