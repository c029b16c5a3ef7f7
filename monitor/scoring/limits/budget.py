"""
The judge's budget: what it may cost an hour, a day, a month, whichever worker asks it.

Money is reserved before a request, at its worst price, and the rest is given back after
it (`monitor.scoring.limits.meter`). What a dead worker had reserved stays charged, as spent
in doubt. So the sum of what was really spent never exceeds a cap, however many ask and
whatever fails. The periods are those of Redis's clock, in UTC; a request belongs to the
period in which it began.

The cap holds as long as Redis keeps its data: an emptied Redis has spent nothing.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import redis

from monitor.errors import BudgetReachedError, JudgeOutageError, QueueUnavailableError
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.settings import Settings

_MICRO = 1_000_000
#: From then on a reservation counts as spent; never before the longest call may have ended.
_LEAST_HELD_S = 300
#: What a call may take beyond its time-out, until it is settled.
_TO_SETTLE_S = 60
_FRESH_S = 1.0  # of what is known of the charges
_STEEPNESS = 4

_RESERVE = """
local now, id, most, least = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
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
local usual = tonumber(redis.call('HGET', KEYS[1], 'usual') or least)
usual = usual + (math.min(least, 4 * math.max(usual, 1)) - usual) / 20
local answer, room = {'granted', 0}, math.huge
for i = 2, #KEYS do
  local period, cap = tonumber(ARGV[2 * i + 2]), tonumber(ARGV[2 * i + 3])
  local known = tonumber(redis.call('HGET', KEYS[i], 'period') or '-1')
  if period > known then redis.call('HSET', KEYS[i], 'period', period, 'charged', 0) end
  local left = cap - redis.call('HGET', KEYS[i], 'charged')
  room = math.min(room, left)
  if least > left + held then
    -- A call that needs more than others do does not end the period for them.
    if left + held < usual then redis.call('HSET', KEYS[i], 'reached', period .. ':' .. cap) end
    redis.call('HSET', KEYS[1], 'usual', usual)
    return {'reached', i - 1}
  end
  if least > left then answer = {'crowded', i - 1} end
end
if answer[1] == 'granted' then
  local amount = 10 * most <= room and most or least
  redis.call('HSET', KEYS[1], 'usual', usual, id, string.format('%d:%d', amount, ARGV[5]))
  for i = 2, #KEYS do redis.call('HINCRBY', KEYS[i], 'charged', amount) end
  answer[2] = amount
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

    @property
    def words(self) -> str:
        """The cap in words for people."""
        article = "an" if self.period == "hour" else "a"
        return f"the judge's budget of ${self.microusd / _MICRO:,.2f} {article} {self.period}"


class Charge(NamedTuple):
    """What is spent or reserved of a cap, and how much of its period is left."""

    cap: Cap
    charged_microusd: int
    left_s: float
    length_s: float
    reached: bool = False  #: no room for a usual call: none is made in the rest of this period


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money reserved for one call; ``periods`` are those it was charged to."""

    reservation_id: str
    microusd: int
    periods: tuple[int, ...]


class JudgeBusyError(JudgeOutageError):
    """Calls under way use up a limit; a part will be free again soon."""


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

    def reserve(self, microusd: int, least_microusd: int | None = None) -> Reservation:
        """
        Reserve money for a call: *microusd* up to a tenth of what is left, else *least_microusd*.

        A cap is reached for all calls when it has no room for a usual one, and until then only
        for those that need more.

        Raises
        ------
        BudgetReachedError
            If what is spent already leaves too little of a cap.
        JudgeBusyError
            If it would be only because of calls under way: trying again soon can help.
        """
        now = self._now()
        periods = tuple(_period(cap.period, now).number for cap in self._caps)
        limits = [
            x for pair in zip(periods, self._caps, strict=True) for x in (pair[0], pair[1][1])
        ]
        name, now_s = uuid.uuid4().hex, int(now.timestamp())
        least = microusd if least_microusd is None else least_microusd
        arguments: list[Any] = [now_s, name, microusd, least, now_s + self._held_s, *limits]
        with translated():
            answer, number = self._reserve(keys=self._keys, args=arguments)
        if answer == b"granted":
            return Reservation(name, int(number), periods)
        cap = self._caps[int(number) - 1]
        if answer == b"crowded":
            raise JudgeBusyError(f"{cap.words} is reserved by calls under way", retry_after_s=1.0)
        raise BudgetReachedError(f"{cap.words} is reached")

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
            # With its cap: one that was raised meanwhile has room again.
            reached_in, _, reached_at = (reached or b"").decode().partition(":")
            current = number is not None and int(number) == period.number
            charges.append(
                Charge(
                    cap,
                    int(charged or 0) if current else 0,
                    (period.ends - now).total_seconds(),
                    (period.ends - period.starts).total_seconds(),
                    reached=reached_in == str(period.number)
                    and cap.microusd <= int(reached_at or 0),
                )
            )
        return charges

    def usual_microusd(self) -> int | None:
        """Return what a usual call reserves at least; None before the first one."""
        with translated():
            usual = self._redis.hget(self._keys[0], "usual")
        return None if usual is None else math.ceil(float(usual))

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
