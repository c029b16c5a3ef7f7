"""The rate limits that an endpoint tells in its headers, shared by all that ask it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import redis

from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.retry import clock_s, wait_s

_KINDS = ("requests", "tokens")
_MINUTE_MS = 60_000
_LONGEST_PAUSE_S = 10.0  # who wants to be left alone for longer is away
#: What OpenAI and those who follow it call their headers, and what Anthropic does.
_HEADERS = ("x-ratelimit-{what}-{kind}", "anthropic-ratelimit-{kind}-{what}")

# A bucket of each kind: what was left when the endpoint last told, and what comes back a
# millisecond. Takes from both or waits for both.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wait = math.max(0, tonumber(redis.call('HGET', KEYS[1], 'pause') or '0') - now)
local left = {}
for i, kind in ipairs({'requests', 'tokens'}) do
  local row = redis.call('HMGET', KEYS[1], kind, kind .. ':at', kind .. ':rate', kind .. ':limit')
  if row[1] then
    -- More than the whole bucket will never be there: then the bucket must be full.
    local need = math.min(tonumber(ARGV[i]), tonumber(row[4]))
    left[kind] = math.min(tonumber(row[4]), row[1] + (now - row[2]) * row[3]) - need
    if left[kind] < 0 then wait = math.max(wait, -left[kind] / row[3]) end
  end
end
if wait == 0 then
  for kind, rest in pairs(left) do
    redis.call('HSET', KEYS[1], kind, string.format('%.6f', rest), kind .. ':at', now)
  end
end
return math.ceil(wait)
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


class Pace:
    """
    Holds a fleet to what an endpoint allows: one pause and one bucket for all of it.

    Without a Redis nothing is shared and nothing held back; each call's own patience
    must do.
    """

    def __init__(self, client: redis.Redis | None, endpoint: str) -> None:
        self._redis: Any = client
        self._keys = [names.judge_pace(endpoint)]
        if client is not None:
            self._take = client.register_script(_TAKE)
            self._learn = client.register_script(_LEARN)

    def wait_s(self, tokens: int) -> float:
        """Take the right to a call of about *tokens* tokens; above 0: not yet, ask again then."""
        if self._redis is None:
            return 0.0
        with translated():
            return float(self._take(keys=self._keys, args=[1, tokens])) / 1000

    def wait(self, tokens: int, *, longest_s: float) -> bool:
        """Wait for that right; False when it would take longer than *longest_s*."""
        end_s = time.monotonic() + longest_s
        while wait_s := self.wait_s(tokens):
            if time.monotonic() + wait_s > end_s:
                return False
            time.sleep(wait_s)
        return True

    def learn(self, headers: Mapping[str, str], *, pause_s: float | None = None) -> None:
        """Note what the headers of an answer say, and for how long it wants to be left alone."""
        if self._redis is None:
            return
        told = [part for kind in _KINDS for part in _bucket(headers, kind)]
        if pause_s is not None and pause_s > _LONGEST_PAUSE_S:
            pause_s = None
        if told or pause_s is not None:
            pause = "" if pause_s is None else round(pause_s * 1000)
            with translated():
                self._learn(keys=self._keys, args=[pause, *told])


def _bucket(headers: Mapping[str, str], kind: str) -> tuple[str | float, ...]:
    """Read one kind of limit: its name, what is left, what comes back a millisecond, its size."""
    left = _number(_header(headers, "remaining", kind))
    limit = _number(_header(headers, "limit", kind))
    if left is None or limit is None or not 0 <= left <= limit or limit == 0:
        return ()
    reset_s = wait_s(_header(headers, "reset", kind), now_s=clock_s(headers))
    # Until the reset all of what is used comes back; without it, limits are a minute's.
    rate = (limit - left) / (reset_s * 1000) if reset_s and left < limit else limit / _MINUTE_MS
    return kind, left, rate, limit


def _header(headers: Mapping[str, str], what: str, kind: str) -> str:
    found = (headers.get(name.format(what=what, kind=kind)) for name in _HEADERS)
    return next((text for text in found if text), "")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else None
