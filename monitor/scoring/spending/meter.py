"""One attempt at a judge's endpoint: money is set aside before it and settled after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from monitor.errors import JudgeOutageError, QueueUnavailableError
from monitor.scoring.spending.budget import Budget, CrowdedError, Reservation, microusd_up
from monitor.scoring.spending.limiter import Slots
from monitor.scoring.spending.pace import Pace

_TOO_MANY, _OVERLOADED = 429, frozenset({429, 502, 503, 504, 529})
_CROWDED_TRIES, _CROWDED_S = 5, 0.3
_FRAME_TOKENS = 1_000  # roles, separators and the schema, which endpoints count too
#: Longest answer of a request that names no limit; the caller's patience ends it before that.
_UNLIMITED_TOKENS = 32_000


class Price(Protocol):
    """What tokens of one model cost, in US dollars; None when its price is not known."""

    def __call__(
        self, input_tokens: int, output_tokens: int, cached_tokens: int = 0, /
    ) -> float | None:
        """Price a call; cached tokens are part of the input."""


log = structlog.get_logger("groundwatch.scoring")


class Attempt(Protocol):
    """What the caller tells of one request as it goes on."""

    def answered(self, headers: Mapping[str, str]) -> None:
        """Note that an answer begins."""

    def read(self, body: bytes) -> None:
        """Note the whole answer, whatever it is."""

    def refused(self, status: int, headers: Mapping[str, str], retry_after_s: float | None) -> None:
        """Note that the endpoint answered with an error; but for late ones they are free."""


class Meter:
    """
    Counts the attempts of a judge against budget, pace and slots.

    Its calls to Redis are blocking ones on other threads, so that the event loop of
    the calls never waits for them.
    """

    def __init__(
        self, *, budget: Budget | None = None, price: Price | None = None, pace: Pace | None = None,
        slots: Slots | None = None,
    ) -> None:  # fmt: skip
        self._budget = budget
        self._price = price
        self._pace = pace
        self._slots = slots

    @asynccontextmanager
    async def attempt(self, request: Mapping[str, Any]) -> AsyncIterator[Attempt]:
        """
        Make one attempt; without a word of how it ended, it counts as paid in full.

        Raises
        ------
        BudgetReachedError
            If the budget does not allow it.
        JudgeOutageError
            If the budget is held by others, or cannot be read because Redis is away.
        """
        reservation = await self._reserved(request)
        seen = _Seen()
        try:
            yield seen
        finally:
            # Shielded: a call that is given up must still be settled.
            await asyncio.shield(asyncio.to_thread(self._settle, reservation, seen))

    async def _reserved(self, request: Mapping[str, Any]) -> Reservation | None:
        if self._budget is None or self._price is None:
            return None
        worst = microusd_up(self._price(*most_tokens(request)) or 0.0)
        for tries_left in reversed(range(_CROWDED_TRIES)):
            try:
                return await self._reserve(self._budget, worst)
            except CrowdedError:
                if not tries_left:
                    raise
                await asyncio.sleep(_CROWDED_S)
            except QueueUnavailableError:
                raise JudgeOutageError(
                    "Redis is away, and with it the budget: nobody is asked", retry_after_s=1.0
                ) from None
        raise AssertionError

    async def _reserve(self, budget: Budget, microusd: int) -> Reservation:
        asking = asyncio.ensure_future(asyncio.to_thread(budget.reserve, microusd))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            # Given up before anybody was asked: what is reserved meanwhile goes back.
            asking.add_done_callback(partial(_undo, budget))
            raise

    def _settle(self, reservation: Reservation | None, seen: _Seen) -> None:
        if self._slots is not None and seen.status in _OVERLOADED:
            self._slots.shrink()
        try:
            if self._budget is not None and reservation is not None:
                spent = self._spent(seen)
                # In doubt it is spent.
                self._budget.settle(reservation, reservation.microusd if spent is None else spent)
            if self._pace is not None and seen.headers is not None:
                pause_s = seen.retry_after_s if seen.status == _TOO_MANY else None
                self._pace.learn(seen.headers, pause_s=pause_s)
        except QueueUnavailableError as error:
            # What was reserved stays charged: too much rather than too little.
            log.warning("judge.not_settled", message=str(error))

    def _spent(self, seen: _Seen) -> int | None:
        """Price what an attempt has used, in micro-dollars; None when nobody can tell."""
        if seen.status is not None:
            return None if seen.status in MAY_BE_BILLED else 0
        used = _usage(seen.body)
        cost_usd = self._price(*used) if used is not None and self._price is not None else None
        return None if cost_usd is None else microusd_up(cost_usd)


def _undo(budget: Budget, asked: asyncio.Future[Reservation]) -> None:
    if not asked.cancelled() and asked.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, budget.settle, asked.result(), 0)


@dataclass(slots=True)
class _Seen:
    status: int | None = None  #: of an error
    headers: Mapping[str, str] | None = None
    retry_after_s: float | None = None
    body: bytes | None = None

    def answered(self, headers: Mapping[str, str]) -> None:
        self.headers = headers

    def read(self, body: bytes) -> None:
        self.body = body

    def refused(self, status: int, headers: Mapping[str, str], retry_after_s: float | None) -> None:
        self.status, self.headers, self.retry_after_s = status, headers, retry_after_s


def most_tokens(request: Mapping[str, Any]) -> tuple[int, int]:
    """
    Bound the tokens of a request, input and output.

    A token is at least one byte of text, so the bytes of all texts are never too few.
    """
    told = len(json.dumps(request.get("response_format")).encode())
    asked = sum(len(str(m.get("content", "")).encode()) for m in request.get("messages", ()))
    limit = request.get("max_tokens") or request.get("max_completion_tokens")
    return asked + told + _FRAME_TOKENS, int(limit or _UNLIMITED_TOKENS)


def _usage(body: bytes | None) -> tuple[int, int, int] | None:
    """Read input and output tokens, and how many of the input were cached; None when untold."""
    try:
        found = read_usage(json.loads(body or b""))
    except (ValueError, RecursionError):
        return None
    if found.input_tokens is None or found.output_tokens is None:
        return None
    return found.input_tokens, found.output_tokens, found.cached_tokens


# --- usage ---
# Read what an answer of a chat completion endpoint says it used.


_MOST_TOKENS = 1_000_000_000
#: Statuses of a gateway that gave up waiting: the model may have answered, and is paid for that.
MAY_BE_BILLED = frozenset({408, 504, 524})


class Usage(NamedTuple):
    """Tokens of one answer; None where the endpoint does not say."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int  #: part of the input that the endpoint already had, at a lower price


def read_usage(payload: object) -> Usage:
    """
    Read the usage in the body of an answer, as OpenAI and vLLM say it, or as DeepSeek does.

    Some vendors (xAI, Gemini) bill thoughts as output, and count them in the total alone.
    """
    usage = payload.get("usage") if isinstance(payload, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if given is not None and made is not None and total is not None:
        made = max(made, total - given)
    return Usage(given, made, min(_cached(usage), given or 0))


def _cached(usage: dict[str, Any]) -> int:
    details = usage.get("prompt_tokens_details")
    openai = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return (openai if openai is not None else _count(usage.get("prompt_cache_hit_tokens"))) or 0


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
