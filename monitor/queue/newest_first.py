"""
What to do with a backlog: the newest first, the rest later, and what is of no use never.

A worker that is behind moves the group's position up to what is new, and notes the
stretch that it left out. Stretches are read from their newest end whenever nothing
new waits. Each step is one script, so that no entry is handed out twice and none is
forgotten, whoever dies in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from monitor.queue import names
from monitor.queue.consumer import Entry, translated

_POSITION = """
local function position()
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local found = {}
    for i = 1, #group, 2 do found[group[i]] = group[i + 1] end
    if found['name'] == ARGV[1] then return found['last-delivered-id'] end
  end
end
"""

# What was given back unharmed is pending without a delivery: it is anybody's.
_CLAIM = """
local function claim(id)
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if pending and pending[4] > 0 then return nil end
  return redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'RETRYCOUNT', 1, 'FORCE')[1]
end
"""

_SKIP = (
    _POSITION
    + """
local from, to = position(), ARGV[2]
if #redis.call('XRANGE', KEYS[1], '(' .. from, to, 'COUNT', 1) == 0 then return 0 end
redis.call('LPUSH', KEYS[2], '(' .. from .. ' ' .. to)
redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], to)
return 1
"""
)

_TAKE_LATER = (
    _CLAIM
    + """
local taken = {}
while #taken < tonumber(ARGV[3]) do
  local stretch = redis.call('LINDEX', KEYS[2], 0)
  if not stretch then break end
  local from, to = string.match(stretch, '(%S+) (%S+)')
  local found = redis.call('XREVRANGE', KEYS[1], to, from, 'COUNT', ARGV[3] - #taken)
  if #found == 0 then
    redis.call('LPOP', KEYS[2])
  else
    for _, entry in ipairs(found) do
      local claimed = claim(entry[1])
      if claimed then taken[#taken + 1] = claimed end
    end
    redis.call('LSET', KEYS[2], 0, from .. ' (' .. found[#found][1])
  end
end
return taken
"""
)

# The very oldest may be in work, all of them; so far is looked behind them.
_PAGES, _PAGE = 20, 250

_TAKE_OLDEST = (
    _CLAIM
    + """
local taken, from, most = {}, '-', tonumber(ARGV[3])
for _ = 1, ARGV[5] do
  local found = redis.call('XRANGE', KEYS[1], from, ARGV[4], 'COUNT', ARGV[6])
  for _, entry in ipairs(found) do
    local claimed = #taken < most and claim(entry[1])
    if claimed then taken[#taken + 1] = claimed end
  end
  if #found == 0 or #taken == most then break end
  from = '(' .. found[#found][1]
end
return taken
"""
)


class NewestFirst:
    """
    The steps of one reader; the group has to be there.

    Raises
    ------
    QueueUnavailableError
        From every method, when Redis does not answer.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        anything: Any = client
        self._name = name
        self._skip = anything.register_script(_SKIP)
        self._take_later = anything.register_script(_TAKE_LATER)
        self._take_oldest = anything.register_script(_TAKE_OLDEST)

    def skip_to(self, edge_s: float) -> bool:
        """Leave what came before *edge_s* (epoch seconds) for later; False if nothing did."""
        last = f"{int(edge_s * 1000) - 1}-18446744073709551615"
        with translated():
            return bool(self._skip(keys=[names.SAMPLES, names.LATER], args=[names.GROUP, last]))

    def take_later(self, count: int) -> list[Entry]:
        """Take of what was left for later, the newest first."""
        with translated():
            args = [names.GROUP, self._name, count]
            return _entries(self._take_later(keys=[names.SAMPLES, names.LATER], args=args))

    def take_oldest(self, count: int, *, before_s: float) -> list[Entry]:
        """Take the *count* oldest that came before *before_s* and that nobody works on."""
        with translated():
            before = f"{int(before_s * 1000)}-0"
            args = [names.GROUP, self._name, count, before, _PAGES, _PAGE]
            return _entries(self._take_oldest(keys=[names.SAMPLES], args=args))


def _entries(found: Sequence[Any]) -> list[Entry]:
    return [
        Entry(item[0].decode(), dict(zip(item[1][::2], item[1][1::2], strict=True)))
        for item in found
    ]
