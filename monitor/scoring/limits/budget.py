"""
The judge's budget: what it may cost an hour, a day, a month, whichever worker asks it.

Money is reserved before a request, at its worst price, and the rest is given back after
it. What a dead worker had reserved stays charged, as spent in doubt. So the sum of what
was really spent never exceeds a cap, however many ask and whatever fails. The periods
are those of Redis's clock, in UTC; a request belongs to the period in which it began.

The cap holds as long as Redis keeps its data: an emptied Redis has spent nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import redis
import structlog

from monitor.errors import BudgetReachedError, JudgeOutageError, QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.limits.rate import Concurrency, RateLimiter
from monitor.settings import Settings

_MICRO = 1_000_000
#: From then on a reservation counts as spent; never before the longest call may have ended.
_LEAST_HELD_S = 300
#: What a call may take beyond its time-out, until it is settled.
_TO_SETTLE_S = 60
_FRESH_S = 1.0  # of what is known of the charges
_STEEPNESS = 4
_BUSY_TRIES, _BUSY_WAIT_S = 5, 0.3
_TOO_MANY, _OVERLOADED = 429, frozenset({429, 502, 503, 504, 529})
#: Statuses of a gateway that gave up waiting: the model may have answered, and is paid for that.
MAY_BE_BILLED = frozenset({408, 504, 524})
_FRAME_TOKENS = 1_000  # roles, separators and the schema, which endpoints count too
#: Longest answer of a request that names no limit; the caller's deadline ends it before that.
_UNLIMITED_TOKENS = 32_000
_MOST_TOKENS = 1_000_000_000
_MARGIN = 1.1  # over the tokens a byte that an endpoint has counted

log = structlog.get_logger("groundwatch.scoring")

_RESERVE = """
local now, id, amount = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local held = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local what, till = string.match(all[i + 1], '(%d+):(%d+)')
  if till and tonumber(till) < now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif till then
    held = held + what
  end
end
local usual = tonumber(redis.call('HGET', KEYS[1], 'usual') or amount)
local answer = {'granted', 0}
for i = 2, #KEYS do
  local period, cap = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local known = tonumber(redis.call('HGET', KEYS[i], 'period') or '-1')
  if period > known then redis.call('HSET', KEYS[i], 'period', period, 'charged', 0) end
  local charged = tonumber(redis.call('HGET', KEYS[i], 'charged'))
  if charged + amount > cap then
    if charged - held + amount > cap then
      -- One call that is far larger than others does not end the period for them.
      if amount <= 4 * usual or charged - held > cap / 2 then
        redis.call('HSET', KEYS[i], 'reached', period)
      end
      return {'reached', i - 1}
    end
    answer = {'crowded', i - 1}
  end
end
if answer[1] == 'granted' then
  usual = string.format('%d', usual + (amount - usual) / 20)
  redis.call('HSET', KEYS[1], 'usual', usual)
  for i = 2, #KEYS do redis.call('HINCRBY', KEYS[i], 'charged', amount) end
  redis.call('HSET', KEYS[1], id, string.format('%d:%d', amount, ARGV[4]))
end
return answer
"""

_SETTLE = """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 2, #KEYS do
  if redis.call('HGET', KEYS[i], 'period') == ARGV[i + 1] then
    redis.call('HINCRBY', KEYS[i], 'charged', ARGV[2])
  end
end
return 1
"""


class Cap(NamedTuple):
    """The most that may be spent in one period."""

    period: str  #: hour, day or month
    microusd: int


class Charge(NamedTuple):
    """What is spent or reserved of a cap, and how much of its period is left."""

    cap: Cap
    charged_microusd: int
    left_s: float
    length_s: float
    reached: bool = False  #: a call was refused, so none is made in the rest of this period

    @property
    def words(self) -> str:
        """The cap in words for people."""
        article = "an" if self.cap.period == "hour" else "a"
        return (
            f"the judge's budget of ${self.cap.microusd / _MICRO:,.2f} {article} {self.cap.period}"
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money reserved for one call; ``periods`` are those it was charged to."""

    reservation_id: str
    microusd: int
    periods: tuple[int, ...]


class JudgeBusyError(JudgeOutageError):
    """Calls under way use up a limit; some of it will come back soon."""


class CallAbandonedError(JudgeBusyError):
    """The caller no longer waits for the call."""


def caps_from(settings: Settings) -> tuple[Cap, ...]:
    """Return the caps that the settings name, in whole micro-dollars, rounded down."""
    given = {
        "hour": settings.judge_budget.budget_usd_per_hour,
        "day": settings.judge_budget.budget_usd_per_day,
        "month": settings.judge_budget.budget_usd_per_month,
    }
    return tuple(
        Cap(name, math.floor(round(usd * _MICRO, 3))) for name, usd in given.items() if usd
    )


def microusd_up(usd: float) -> int:
    """Round dollars up to whole micro-dollars: never charge less than was spent."""
    return math.ceil(round(usd * _MICRO, 3))


class Budget:
    """
    Caps on what is spent by all that share a Redis; safe for threads and processes.

    A reservation lasts as long as a call may take, *longest_call_s*, and some more:
    settled later, it would stay charged at its worst price.

    Raises
    ------
    QueueUnavailableError
        From every method, when Redis does not answer.
    """

    def __init__(
        self, client: redis.Redis, caps: Sequence[Cap], *, longest_call_s: float = 0.0
    ) -> None:
        self._redis: Any = client
        self._held_s = max(_LEAST_HELD_S, math.ceil(longest_call_s) + _TO_SETTLE_S)
        self._caps = tuple(caps)
        self._keys = [names.BUDGET_HELD, *(names.budget(cap.period) for cap in caps)]
        self._reserve = self._redis.register_script(_RESERVE)
        self._settle = self._redis.register_script(_SETTLE)

    def reserve(self, microusd: int) -> Reservation:
        """
        Reserve money for a call.

        Raises
        ------
        BudgetReachedError
            If a cap would be exceeded by what is spent already.
        JudgeBusyError
            If it would be only because of calls under way: trying again soon can help.
        """
        now = self._now()
        periods = tuple(_period(cap.period, now).number for cap in self._caps)
        limits = [
            x for pair in zip(periods, self._caps, strict=True) for x in (pair[0], pair[1][1])
        ]
        made = Reservation(uuid.uuid4().hex, microusd, periods)
        now_s = int(now.timestamp())
        arguments: list[Any] = [now_s, made.reservation_id, microusd, now_s + self._held_s, *limits]
        with translated():
            answer, which = self._reserve(keys=self._keys, args=arguments)
        if answer == b"granted":
            return made
        cap = self._caps[int(which) - 1]
        words = Charge(cap, 0, 0, 0).words
        if answer == b"crowded":
            raise JudgeBusyError(f"{words} is reserved by calls under way", retry_after_s=1.0)
        raise BudgetReachedError(f"{words} is reached")

    def settle(self, reservation: Reservation, microusd: int) -> None:
        """Replace what was reserved by what was spent; a second time changes nothing."""
        change = microusd - reservation.microusd
        arguments: list[Any] = [reservation.reservation_id, change, *reservation.periods]
        with translated():
            self._settle(keys=self._keys, args=arguments)

    def charges(self) -> list[Charge]:
        """Return what is charged to each cap."""
        now = self._now()
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for key in self._keys[1:]:
                pipe.hmget(key, "period", "charged", "reached")
            rows = pipe.execute()
        charges = []
        for cap, (number, charged, reached) in zip(self._caps, rows, strict=True):
            period = _period(cap.period, now)
            current = number is not None and int(number) == period.number
            charges.append(
                Charge(
                    cap,
                    int(charged or 0) if current else 0,
                    (period.ends - now).total_seconds(),
                    (period.ends - period.starts).total_seconds(),
                    reached=current and reached == number,
                )
            )
        return charges

    def _now(self) -> datetime:
        with translated():
            seconds, _ = self._redis.time()
        return datetime.fromtimestamp(seconds, UTC)


class _Period(NamedTuple):
    number: int
    starts: datetime
    ends: datetime


def _period(name: str, now: datetime) -> _Period:
    hour = now.replace(minute=0, second=0, microsecond=0)
    if name == "hour":
        return _Period(int(hour.timestamp()) // 3600, hour, hour + timedelta(hours=1))
    day = hour.replace(hour=0)
    if name == "day":
        return _Period(int(day.timestamp()) // 86_400, day, day + timedelta(days=1))
    first = day.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return _Period(now.year * 12 + now.month, first, following)


@dataclass(slots=True)
class BudgetWatch:
    """What is charged to a budget, read at most once a second; may be shared by threads."""

    budget: Budget
    _charges: list[Charge] = field(default_factory=list)
    _read_s: float = -_FRESH_S
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reached(self) -> Charge | None:
        """Return the cap that had no room for another call, if any."""
        return next((charge for charge in self._fresh() if charge.reached), None)

    def factor(self) -> float:
        """
        Return which part of the judge's share the budget leaves, in [0, 1].

        1 while at least as much of the money is left as of the time, else the fourth
        power of their quotient: steep enough to save in time, and smooth, so that
        what is left is spent over all that is left of the period. It depends on money and
        time only, so that a probability scaled by it stays known beforehand.
        """
        factors = [1.0]
        for charge in self._fresh():
            money = max(0.0, 1 - charge.charged_microusd / max(charge.cap.microusd, 1))
            time_left = max(charge.left_s / charge.length_s, 1e-6)
            factors.append((money / time_left) ** _STEEPNESS)
        return min(factors)

    def _fresh(self) -> list[Charge]:
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._read_s >= _FRESH_S:
                self._read_s = now_s
                # Without Redis what was known goes on; no call can be reserved then anyway.
                with suppress(QueueUnavailableError):
                    self._charges = self.budget.charges()
            return self._charges


#: What input and output tokens cost, in US dollars, cached ones (part of the input) third and
#: optional; None when the price is not known.
TokenPrice = Callable[..., float | None]


@dataclass(slots=True)
class Attempt:
    """What the caller notes of one request as it goes on."""

    status: int | None = (
        None  #: of an error, which costs nothing unless it is one of `MAY_BE_BILLED`
    )
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
        #: The most tokens counted so far: input over the most it can be, output a byte of answer.
        self._shares: tuple[float, ...] = (0.0, 0.0)

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
        reservation = await self._reserve(request)
        attempt = Attempt()
        try:
            yield attempt
        finally:
            # Shielded: a call that is given up must still be settled.
            await asyncio.shield(asyncio.to_thread(self._settle, request, reservation, attempt))

    async def _reserve(self, request: Mapping[str, Any]) -> Reservation | None:
        budget = self._budget
        if budget is None or self._price is None:
            return None
        worst = microusd_up(self._price(*most_tokens(request)) or 0.0)

        def undo(reserving: asyncio.Future[Reservation]) -> None:
            if not reserving.cancelled() and reserving.exception() is None:
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, budget.settle, reserving.result(), 0)

        for tries_left in reversed(range(_BUSY_TRIES)):
            reserving = asyncio.ensure_future(asyncio.to_thread(budget.reserve, worst))
            try:
                return await asyncio.shield(reserving)
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
        most_input, most_output = most_tokens(request)
        size = max(1, len(attempt.body))
        used: tuple[int, int, int] | None = None
        if usage.input_tokens is not None and usage.output_tokens is not None:
            used = usage.input_tokens, usage.output_tokens, usage.cached_tokens
            shares = usage.input_tokens / most_input, usage.output_tokens / size
            self._shares = tuple(map(max, self._shares, shares))
        elif "max_tokens" in request:
            # A whole answer, be it empty or a refusal: it took at most a token a byte, and no
            # more than this endpoint has counted before; models that think unseen are asked
            # with another limit.
            given, made = (min(1.0, _MARGIN * share or 1.0) for share in self._shares)
            used = math.ceil(given * most_input), min(most_output, math.ceil(made * size)), 0
        cost_usd = self._price(*used) if used is not None and self._price is not None else None
        return None if cost_usd is None else microusd_up(cost_usd)


def most_tokens(request: Mapping[str, Any]) -> tuple[int, int]:
    """
    Return the most tokens that a request can use, input and output.

    A token is at least one byte of text, so the bytes of all texts are never too few.
    """
    schema = len(json.dumps(request.get("response_format")).encode())
    texts = sum(len(str(m.get("content", "")).encode()) for m in request.get("messages", ()))
    limit = request.get("max_tokens") or request.get("max_completion_tokens")
    return texts + schema + _FRAME_TOKENS, int(limit or _UNLIMITED_TOKENS)


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
