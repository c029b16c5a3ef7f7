"""
The fleet's budget: what the judge may cost an hour, a day, a month, whoever asks it.

Money is reserved before a call, at its worst price, and the rest is given back after
it. What a dead worker had reserved stays charged, as spent in doubt. So the sum of what
was really spent never exceeds a cap, however many ask and whatever fails. The periods
are Redis's clock's, in UTC; a call belongs to the period in which it began.

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
    """How a cap stands: what is spent or reserved, and how much of its period is left."""

    cap: Cap
    charged_microusd: int
    left_s: float
    length_s: float
    reached: bool = False  #: a call was refused, so that its period is over for all

    @property
    def words(self) -> str:
        """Name the cap for people."""
        article = "an" if self.cap.period == "hour" else "a"
        return (
            f"the judge's budget of ${self.cap.microusd / _MICRO:,.2f} {article} {self.cap.period}"
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for one call; ``periods`` are those it was charged to."""

    reservation_id: str
    microusd: int
    periods: tuple[int, ...]


class CrowdedError(JudgeOutageError):
    """Calls under way hold the rest of the budget; some of it will come back."""


class GivenUpError(CrowdedError):
    """Nobody waits for the call any more."""


def caps_from(settings: Settings) -> tuple[Cap, ...]:
    """Read the caps that are set, in whole micro-dollars, rounded down."""
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

    A reservation is held for as long as a call may take, *longest_call_s*, and some more:
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
        Set money aside for a call.

        Raises
        ------
        BudgetReachedError
            If a cap would be exceeded by what is spent already.
        CrowdedError
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
            raise CrowdedError(f"{words} is held by calls under way", retry_after_s=1.0)
        raise BudgetReachedError(f"{words} is reached")

    def settle(self, reservation: Reservation, microusd: int) -> None:
        """Replace what was reserved by what was spent; a second time changes nothing."""
        change = microusd - reservation.microusd
        arguments: list[Any] = [reservation.reservation_id, change, *reservation.periods]
        with translated():
            self._settle(keys=self._keys, args=arguments)

    def charges(self) -> list[Charge]:
        """Tell how every cap stands."""
        now = self._now()
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for key in self._keys[1:]:
                pipe.hmget(key, "period", "charged", "reached")
            rows = pipe.execute()
        return [_charge(cap, row, now) for cap, row in zip(self._caps, rows, strict=True)]

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


def _charge(cap: Cap, row: Sequence[bytes | None], now: datetime) -> Charge:
    period = _period(cap.period, now)
    current = row[0] is not None and int(row[0]) == period.number
    return Charge(
        cap,
        int(row[1] or 0) if current else 0,
        (period.ends - now).total_seconds(),
        (period.ends - period.starts).total_seconds(),
        reached=current and row[2] == row[0],
    )


_FRESH_S = 1.0
_STEEPNESS = 4


@dataclass(slots=True)
class BudgetWatch:
    """How the budget stands, looked up at most once a second; for threads."""

    budget: Budget
    _charges: list[Charge] = field(default_factory=list)
    _read_s: float = -_FRESH_S
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reached(self) -> Charge | None:
        """Give the cap that had no room for a call any more, if any."""
        return next((charge for charge in self._look() if charge.reached), None)

    def factor(self) -> float:
        """
        Say which part of the judge's share the budget leaves, in [0, 1].

        1 while at least as much of the money is left as of the time, else the fourth
        power of their quotient: steep enough to save in time, and smooth, so that
        what is left is spent over all that is left of the period. It looks at money and
        time only, so that a probability scaled by it stays known beforehand.
        """
        return min((_factor(charge) for charge in self._look()), default=1.0)

    def _look(self) -> list[Charge]:
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._read_s >= _FRESH_S:
                self._read_s = now_s
                # Without Redis what was known goes on; no call can be reserved then anyway.
                with suppress(QueueUnavailableError):
                    self._charges = self.budget.charges()
            return self._charges


def _factor(charge: Charge) -> float:
    money = max(0.0, 1 - charge.charged_microusd / max(charge.cap.microusd, 1))
    time_left = max(charge.left_s / charge.length_s, 1e-6)
    return float(min(1.0, (money / time_left) ** _STEEPNESS))
