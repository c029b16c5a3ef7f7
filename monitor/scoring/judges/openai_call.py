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
from monitor.scoring.judges.openai_errors import error_from, names
from monitor.scoring.judges.reply import (
    SCHEMA,
    Envelope,
    TruncatedReplyError,
    read_content,
    read_envelope,
)

_T = TypeVar("_T")
_LARGEST_BODY = 4_000_000  # bytes; no verdict is that long
_FORMATS: tuple[dict[str, Any] | None, ...] = (
    {
        "type": "json_schema",
        "json_schema": {"name": "judgement", "strict": True, "schema": SCHEMA},
    },
    {"type": "json_object"},
    None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often to try: ``timeout_s`` is for all tries and waits together."""

    attempts: int = 3
    timeout_s: float = 30.0
    backoff_s: float = 0.5  #: doubled with every try
    longest_wait_s: float = 5.0  #: a longer Retry-After gives the sample back at once


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
    """Asks one model of one endpoint; remembers which arguments it does not take."""

    def __init__(self, client: SharedClient, model: str, patience: Patience) -> None:
        self._client = client
        self._model = model
        self._patience = patience
        self._format = 0
        self._temperature = True

    def ask(self, messages: list[dict[str, str]], read: Callable[[str], _T], spent: Spent) -> _T:
        """
        Return what *read* makes of the answer; count in *spent*.

        An answer that *read* rejects with ``JudgeReplyError`` is asked for again, like
        a call that failed for a passing reason, while tries and time are left.
        """
        deadline = time.monotonic() + self._patience.timeout_s
        while True:
            spent.tries += 1
            try:
                return read(self._answer(messages, deadline, spent))
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

    def _answer(self, messages: list[dict[str, str]], deadline: float, spent: Spent) -> str:
        """Ask once; an argument that the endpoint does not take is left out from then on."""
        while True:
            request = self._request(messages)
            try:
                envelope = read_envelope(self._post(request, deadline))
            except openai.APIStatusError as error:
                if not self._leave_out(error, request):
                    raise error_from(error) from None
            except openai.APITimeoutError:
                raise self._late() from None
            except openai.APIConnectionError as error:
                cause = type(error.__cause__).__name__ if error.__cause__ else "no connection"
                raise JudgeUnavailableError(
                    f"the judge's endpoint cannot be reached ({cause})"
                ) from None
            else:
                spent.add(envelope)
                return read_content(envelope.choice)

    def _request(self, messages: list[dict[str, str]]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "messages": messages}
        if self._temperature:
            request["temperature"] = 0
        response_format = _FORMATS[self._format]
        if response_format is not None:
            request["response_format"] = response_format
        return request

    def _leave_out(self, error: openai.APIStatusError, request: dict[str, Any]) -> bool:
        """Drop the argument that a 400 names; says whether asking again makes sense."""
        if "response_format" in request and (
            names(error, "response_format") or names(error, "json_schema")
        ):
            used = _FORMATS.index(request["response_format"])
            self._format = max(self._format, used + 1)  # threads may have seen it first
            return True
        if "temperature" in request and names(error, "temperature"):
            self._temperature = False
            return True
        return False

    def _post(self, request: dict[str, Any], deadline: float) -> bytes:
        """Send, and read the body in pieces, so that a slow drip cannot outlast the deadline."""
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._late()
        completions = self._client.get().chat.completions.with_streaming_response
        body = bytearray()
        with completions.create(**request, timeout=remaining_s) as response:
            pieces = response.iter_bytes()
            while (piece := _next(pieces)) is not None:
                body += piece
                if len(body) > _LARGEST_BODY:
                    raise JudgeReplyError("the judge's answer is larger than 4 MB")
                if time.monotonic() > deadline:
                    raise self._late()
        return bytes(body)

    def _late(self) -> JudgeUnavailableError:
        return JudgeUnavailableError(f"the judge gave no answer in {self._patience.timeout_s:g} s")


def _next(pieces: Any) -> bytes | None:
    """Take the next piece of a body; what breaks while reading is a lost connection."""
    try:
        piece: bytes | None = next(pieces, None)
    except Exception as error:  # noqa: BLE001 - the transport's own errors, of either httpx
        raise JudgeUnavailableError(
            f"the judge's answer broke off ({type(error).__name__})"
        ) from None
    return piece


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
