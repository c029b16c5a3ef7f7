"""
What each request to a judge may cost at most, and what it did cost.

`Meter.attempt` reserves the worst price of a request and settles it afterwards. Every byte of
the texts counts as a token, and an answer may be as long as the request allows. When that is
much of what the budget has left, the answer is limited to twice what answers have needed.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog

from monitor.errors import JudgeOutageError, QueueUnavailableError
from monitor.scoring.limits.budget import Budget, JudgeBusyError, Reservation, microusd_up
from monitor.scoring.limits.rate import Concurrency, RateLimiter

_BUSY_TRIES, _BUSY_WAIT_S = 5, 0.3
_TOO_MANY, _OVERLOADED = 429, frozenset({429, 502, 503, 504, 529})
#: Statuses of a gateway that gave up waiting: the model may have answered, and is paid for that.
MAY_BE_BILLED = frozenset({408, 504, 524})
_FRAME_TOKENS = 1_000  # roles, separators and the schema, which endpoints count too
_LIMITS = ("max_tokens", "max_completion_tokens")
#: Longest answer of a request that names no limit; the caller's deadline ends it before that.
_UNLIMITED_TOKENS = 32_000
_MOST_TOKENS = 1_000_000_000
_MARGIN = 1.1  # over the tokens a byte that an endpoint has counted
#: What a usual request reserves at least, input and output, for a sample of 2.5 kB.
USUAL_TOKENS = 3_000, 1_000
#: Answers after which the longest so far bounds the length of others, and by what factor.
_ENOUGH_ANSWERS, _LONGER = 10, 2
#: No tokenizer makes fewer tokens of our instructions: an endpoint that says so did not count.
_MOST_BYTES_A_TOKEN = 8

log = structlog.get_logger("groundwatch.scoring")

#: What input and output tokens cost, in US dollars, cached ones (part of the input) third and
#: optional; None when the price is not known.
TokenPrice = Callable[..., float | None]


@dataclass(slots=True)
class Attempt:
    """A request as it is to be sent, and what the caller notes as it goes on."""

    request: Mapping[str, Any]
    #: Of an error, which costs nothing unless it is one of `MAY_BE_BILLED`.
    status: int | None = None
    headers: Mapping[str, str] | None = None  #: of the answer, whatever it is
    retry_after_s: float | None = None
    body: bytes | None = None  #: the whole answer


class Meter:
    """
    Pays for each request to a judge, and passes on what the answer says of its rate limits.

    Its calls to Redis are blocking ones on other threads, so that the event loop of
    the calls never waits for them.
    """

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        price: TokenPrice | None = None,
        rate: RateLimiter | None = None,
        concurrency: Concurrency | None = None,
    ) -> None:
        self._budget = budget
        self._price = price
        self._rate = rate
        self._concurrency = concurrency
        self._counted = _Counted()

    @asynccontextmanager
    async def attempt(self, request: Mapping[str, Any]) -> AsyncIterator[Attempt]:
        """
        Make one attempt; if nothing is noted of how it ended, it counts as paid in full.

        Raises
        ------
        BudgetReachedError
            If the budget does not allow it.
        JudgeOutageError
            If calls under way hold the budget, or Redis, which keeps it, cannot be reached.
        """
        reservation, sent = await self._reserve(request)
        attempt = Attempt(sent)
        try:
            yield attempt
        finally:
            # Shielded: a call that is given up must still be settled.
            await asyncio.shield(asyncio.to_thread(self._settle, request, reservation, attempt))

    async def _reserve(
        self, request: Mapping[str, Any]
    ) -> tuple[Reservation | None, Mapping[str, Any]]:
        """Reserve the worst price; return the request too, its answer limited if money is short."""
        budget = self._budget
        if budget is None or self._price is None:
            return None, request
        given, most = self._counted.most_tokens(request)
        enough = self._counted.enough_tokens(most)
        limits = {name: enough for name in _LIMITS if request.get(name)}
        worst = microusd_up(self._price(given, most) or 0.0)
        least = microusd_up(self._price(given, enough) or 0.0) if limits else worst

        def undo(reserving: asyncio.Future[Reservation]) -> None:
            if not reserving.cancelled() and reserving.exception() is None:
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, budget.settle, reserving.result(), 0)

        for tries_left in reversed(range(_BUSY_TRIES)):
            reserving = asyncio.ensure_future(asyncio.to_thread(budget.reserve, worst, least))
            try:
                made = await asyncio.shield(reserving)
            except asyncio.CancelledError:
                # Given up before the request was sent: what is reserved meanwhile goes back.
                reserving.add_done_callback(undo)
                raise
            except JudgeBusyError:
                if not tries_left:
                    raise
                await asyncio.sleep(_BUSY_WAIT_S)
            except QueueUnavailableError:
                raise JudgeOutageError(
                    "Redis, which keeps the judge's budget, cannot be reached: judge calls are"
                    " paused",
                    retry_after_s=1.0,
                ) from None
            else:
                return made, {**request, **limits} if made.microusd < worst else request
        raise AssertionError

    def _settle(
        self, request: Mapping[str, Any], reservation: Reservation | None, attempt: Attempt
    ) -> None:
        if self._concurrency is not None and attempt.status in _OVERLOADED:
            self._concurrency.shrink()
        try:
            if self._budget is not None and reservation is not None:
                spent = self._spent_microusd(request, attempt)
                # In doubt it is spent.
                self._budget.settle(reservation, reservation.microusd if spent is None else spent)
            if self._rate is not None and attempt.headers is not None:
                pause_s = attempt.retry_after_s if attempt.status == _TOO_MANY else None
                self._rate.learn(attempt.headers, pause_s=pause_s)
        except QueueUnavailableError as error:
            # What was reserved stays charged: too much rather than too little.
            log.warning("judge_call_not_settled", message=str(error))

    def _spent_microusd(self, request: Mapping[str, Any], attempt: Attempt) -> int | None:
        """Price what an attempt has used; None when that cannot be known."""
        if attempt.status is not None:
            return None if attempt.status in MAY_BE_BILLED else 0
        if attempt.body is None:  # it broke off: anything may have been billed
            return None
        try:
            answer = json.loads(attempt.body)
        except (ValueError, RecursionError):
            answer = None
        usage = read_usage(answer) if isinstance(answer, dict) else Usage(None, None, 0)
        size = max(1, len(attempt.body))
        used: tuple[int, int, int] | None = None
        if usage.input_tokens is not None and usage.output_tokens is not None:
            used = usage.input_tokens, usage.output_tokens, usage.cached_tokens
            self._counted.add(request, usage.input_tokens, usage.output_tokens, size)
        elif "max_tokens" in request:
            # A whole answer, be it empty or a refusal; models that think unseen are asked with
            # another limit.
            used = *self._counted.probable_tokens(attempt.request, size), 0
        cost_usd = self._price(*used) if used is not None and self._price is not None else None
        return None if cost_usd is None else microusd_up(cost_usd)


@dataclass(slots=True)
class _Counted:
    """What an endpoint has counted so far, and what other requests may use, judged by that."""

    answers: int = 0  #: whose tokens are plausible
    input_share: float = 0.0  #: the most input tokens, over the most they could be
    tokens_a_byte: float = 0.0  #: the most output tokens a byte of answer
    output_share: float = 0.0  #: the most output tokens, over the limit of the answer
    #: The fewest input tokens of a request, by the size of schema and instructions: their texts
    #: differ from call to call, by the random marks around what is judged.
    instructions: dict[int, int] = field(default_factory=dict)

    def add(
        self, request: Mapping[str, Any], input_tokens: int, output_tokens: int, size: int
    ) -> None:
        """Note the tokens of an answer of *size* bytes."""
        most_input, most_output = most_tokens(request)
        common, own = _sizes(request)
        self.input_share = max(self.input_share, input_tokens / most_input)
        self.tokens_a_byte = max(self.tokens_a_byte, output_tokens / size)
        if output_tokens and _MOST_BYTES_A_TOKEN * input_tokens >= common + own:
            self.answers += 1
            self.output_share = max(self.output_share, output_tokens / most_output)
            known = self.instructions.get(common, input_tokens)
            self.instructions[common] = min(known, input_tokens)

    def most_tokens(self, request: Mapping[str, Any]) -> tuple[int, int]:
        """
        Return the most tokens that *request* can use, input and output.

        Instructions that an endpoint has counted before, within a whole request, cannot take more
        than that request did.
        """
        given, made = most_tokens(request)
        common, own = _sizes(request)
        return min(given, own + self.instructions.get(common, given)), made

    def enough_tokens(self, limit: int) -> int:
        """Return a smaller limit that most answers fit into; *limit* while too few are known."""
        if self.answers < _ENOUGH_ANSWERS:
            return limit
        return min(limit, max(1, math.ceil(_LONGER * self.output_share * limit)))

    def probable_tokens(self, request: Mapping[str, Any], size: int) -> tuple[int, int]:
        """
        Return the tokens that a request used whose answer of *size* bytes came without a count.

        Assume no higher shares than this endpoint has counted before, and one token per byte
        before it has counted any.
        """
        most_input, most_output = most_tokens(request)
        given, made = (
            min(1.0, _MARGIN * share or 1.0) for share in (self.input_share, self.tokens_a_byte)
        )
        return math.ceil(given * most_input), min(most_output, math.ceil(made * size))


def most_tokens(request: Mapping[str, Any]) -> tuple[int, int]:
    """
    Return the most tokens that a request can use, input and output.

    A token is at least one byte of text, so the bytes of all texts are never too few.
    """
    limit = next((request[name] for name in _LIMITS if request.get(name)), _UNLIMITED_TOKENS)
    return sum(_sizes(request)) + _FRAME_TOKENS, int(limit)


def _sizes(request: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of schema and instructions, and those of the last message."""
    schema = len(json.dumps(request.get("response_format")).encode())
    texts = [len(str(m.get("content", "")).encode()) for m in request.get("messages", ())]
    return schema + sum(texts[:-1]), sum(texts[-1:])


class Usage(NamedTuple):
    """Tokens of one answer; None where the endpoint does not say."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int  #: part of the input that the endpoint already had, at a lower price


def read_usage(payload: dict[str, Any]) -> Usage:
    """
    Read the usage in the body of an answer, as OpenAI and vLLM write it, or as DeepSeek does.

    Some vendors (xAI, Gemini) bill thoughts as output, and count them in the total alone.
    """
    usage = payload.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if given is not None and made is not None and total is not None:
        made = max(made, total - given)
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if cached is None:
        cached = _count(usage.get("prompt_cache_hit_tokens")) or 0
    return Usage(given, made, min(cached, given or 0))


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
