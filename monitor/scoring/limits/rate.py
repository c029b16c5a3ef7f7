"""How fast a judge is asked: its rate limits, calls in flight, and a circuit breaker."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import redis

from monitor.errors import JudgeOutageError
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.retry import clock_s, wait_s

_LEAST_FIRST = 8  # calls in flight
#: How long a process relies on its last reading of the breaker and the rate limits.
FRESH_S = 1.0
_SHRINK_EVERY_S = 1.0  # calls that fail together are one piece of news
#: Without a Retry-After a call is tried after a minute; at most an hour, whatever it said.
_UNKNOWN_OUTAGE_S, _LONGEST_OUTAGE_S = 60.0, 3600.0
_LONGEST_REASON = 300
_KINDS = ("requests", "tokens")
_MINUTE_MS = 60_000
_LONGEST_PAUSE_S = 10.0  # an endpoint that asks for a longer one is away
#: What OpenAI and those who follow it call their headers, and what Anthropic does.
_HEADERS = ("x-ratelimit-{what}-{kind}", "anthropic-ratelimit-{kind}-{what}")

# A bucket of each kind: what was left when the endpoint last said so, and what comes back a
# millisecond. Takes for as many calls of a size as there is room for, up to ARGV[3], from both
# or waits for both; -1 calls where no limit is known.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wait = math.max(0, tonumber(redis.call('HGET', KEYS[1], 'pause') or '0') - now)
local left, granted, known = {}, tonumber(ARGV[3]), false
for i, kind in ipairs({'requests', 'tokens'}) do
  local row = redis.call('HMGET', KEYS[1], kind, kind .. ':at', kind .. ':rate', kind .. ':limit')
  if row[1] then
    -- More than the whole bucket will never be there: then the bucket must be full.
    local need = math.min(tonumber(ARGV[i]), tonumber(row[4]))
    local have = math.min(tonumber(row[4]), row[1] + (now - row[2]) * row[3])
    if have < need then
      wait = math.max(wait, (need - have) / row[3])
    else
      granted = math.min(granted, math.floor(have / need))
    end
    left[kind], known = {have, need}, true
  end
end
if wait == 0 then
  for kind, row in pairs(left) do
    local rest = string.format('%.6f', row[1] - granted * row[2])
    redis.call('HSET', KEYS[1], kind, rest, kind .. ':at', now)
  end
end
return {math.ceil(wait), known and granted or -1}
"""

_LEARN = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[1] ~= '' then
  local known = tonumber(redis.call('HGET', KEYS[1], 'pause') or '0')
  redis.call('HSET', KEYS[1], 'pause', math.max(known, now + ARGV[1]))
end
for i = 2, #ARGV, 4 do
  local kind = ARGV[i]
  redis.call('HSET', KEYS[1], kind, ARGV[i + 1], kind .. ':at', now,
    kind .. ':rate', ARGV[i + 2], kind .. ':limit', ARGV[i + 3])
end
redis.call('PEXPIRE', KEYS[1], 600000)
return 0
"""


class RateLimiter:
    """
    Keeps all workers within what an endpoint allows: one pause and one token bucket for all.

    The limits are those that the endpoint names in its headers. A process takes at once for as
    many calls as it made in the last second, and where no limit is known it asks once a second.
    """

    def __init__(self, client: redis.Redis, endpoint: str) -> None:
        self._keys = [names.judge_pace(endpoint)]
        self._take: Any = client.register_script(_TAKE)
        self._learn: Any = client.register_script(_LEARN)
        self._lock = threading.Lock()
        self._left, self._size = 0, 0  #: calls taken and not made yet; the tokens of each
        self._read_s = -FRESH_S
        self._calls = self._calls_before = 0  #: in this second and the one before

    def wait_s(self, tokens: int) -> float:
        """Take tokens for a call from the bucket; above 0: try again after so many seconds."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._read_s >= FRESH_S:
                self._calls_before, self._calls, self._left = self._calls, 0, 0
                self._read_s = now_s
            self._calls += 1
            if self._left < 0:
                return 0.0
            if self._left and tokens <= self._size:
                self._left -= 1
                return 0.0
            wanted = max(1, self._calls_before - self._calls)
        with translated():
            wait_ms, granted = self._take(keys=self._keys, args=[1, tokens, wanted])
        with self._lock:
            if not wait_ms and granted < 0:
                self._left = -1
            elif not wait_ms and granted > 1:
                self._left, self._size = int(granted) - 1, tokens
        return float(wait_ms) / 1000

    def wait(self, tokens: int, *, longest_s: float) -> bool:
        """Wait until a call of about *tokens* may begin; False if longer than *longest_s*."""
        end_s = time.monotonic() + longest_s
        while wait_s := self.wait_s(tokens):
            if time.monotonic() + wait_s > end_s:
                return False
            time.sleep(wait_s)
        return True

    def learn(self, headers: Mapping[str, str], *, pause_s: float | None = None) -> None:
        """Note the limits in the headers of an answer, and a pause that it asks for."""
        limits: list[str | float] = []
        for kind in _KINDS:  # its name, what is left, what comes back a millisecond, its size
            left = _number(_header(headers, "remaining", kind))
            limit = _number(_header(headers, "limit", kind))
            if left is None or limit is None or not 0 <= left <= limit or limit == 0:
                continue
            reset_s = wait_s(_header(headers, "reset", kind), now_s=clock_s(headers))
            # Until the reset all of what is used comes back; without it, limits are a minute's.
            used, by_minute = limit - left, limit / _MINUTE_MS
            limits += [
                kind,
                left,
                used / (reset_s * 1000) if reset_s and used else by_minute,
                limit,
            ]
        if pause_s is not None and pause_s > _LONGEST_PAUSE_S:
            pause_s = None
        if limits or pause_s is not None:
            with self._lock:
                self._left = 0 if pause_s is not None else max(0, self._left)
            pause = "" if pause_s is None else round(pause_s * 1000)
            with translated():
                self._learn(keys=self._keys, args=[pause, *limits])


def _header(headers: Mapping[str, str], what: str, kind: str) -> str:
    found = (headers.get(name.format(what=what, kind=kind)) for name in _HEADERS)
    return next((text for text in found if text), "")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else None


class Concurrency:
    """
    How many calls a process keeps in flight: additive increase, multiplicative decrease.

    It begins with half of ``most``, which bounds it, and doubles as long as nothing has gone wrong.
    A whole round of calls that went well adds one; a request to slow down, or time-outs,
    halve their number, at most once a second. May be shared by threads.

    References
    ----------
    .. [1] D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for
       congestion avoidance", Computer Networks and ISDN Systems 17 (1989), 1-14.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(most, max(_LEAST_FIRST, most // 2)))
        self._taken = 0
        self._shrunk_s = -_SHRINK_EVERY_S
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    def take(self, *, longest_s: float | None = None) -> bool:
        """Wait for a place and take it; False when none was free in *longest_s*."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._taken < self.limit, longest_s):
                return False
            self._taken += 1
            return True

    def give_back(self) -> None:
        """Free a place that was taken."""
        with self._changed:
            self._taken -= 1
            self._changed.notify()

    def grow(self) -> None:
        """Note a call that went well; it counts only while most places are in use."""
        with self._changed:
            if self._taken >= self.limit - 1:
                # Doubling a round as long as nothing has gone wrong yet, then one a round.
                step = 1.0 if self._shrunk_s < 0 else 1.0 / self._limit
                self._limit = min(float(self._most), self._limit + step)
                self._changed.notify()

    def shrink(self) -> None:
        """Note that the endpoint is overloaded."""
        with self._changed:
            now_s = time.monotonic()
            if now_s - self._shrunk_s >= _SHRINK_EVERY_S:
                self._shrunk_s = now_s
                self._limit = max(1.0, self._limit / 2)


class Outage(NamedTuple):
    """Why the judge answers no call, and for how long it is not called."""

    reason: str
    for_s: float


class CircuitBreaker:
    """The word to all workers that a judge's endpoint answers no call; it ends by itself."""

    def __init__(self, client: redis.Redis, endpoint: str) -> None:
        self._redis: Any = client
        self._key = names.judge_away(endpoint)
        self._closed_s = -math.inf  #: when it was last found closed

    def open(self, error: JudgeOutageError) -> bool:
        """Keep all workers from calling for as long as *error* says; False if it was open."""
        for_s = _UNKNOWN_OUTAGE_S
        if error.retry_after_s is not None:
            for_s = min(max(error.retry_after_s, 1.0), _LONGEST_OUTAGE_S)
        self._closed_s = -math.inf
        with translated():
            reason = str(error)[:_LONGEST_REASON]
            return bool(self._redis.set(self._key, reason, px=round(for_s * 1000), nx=True))

    def outage(self, *, fresh_s: float = 0.0) -> Outage | None:
        """Return why the breaker is open; None when it is closed, or was *fresh_s* ago."""
        now_s = time.monotonic()
        if now_s - self._closed_s < fresh_s:
            return None
        with translated(), self._redis.pipeline(transaction=True) as pipe:
            pipe.get(self._key)
            pipe.pttl(self._key)
            reason, left_ms = pipe.execute()
        if reason is None:
            self._closed_s = now_s
            return None
        return Outage(reason.decode("utf-8", "replace"), max(left_ms, 0) / 1000)

    def close(self) -> None:
        """Let all workers call again."""
        with translated():
            self._redis.delete(self._key)
