"""
The workers' side of the stream: take, keep alive, acknowledge; nothing is lost in between.

Everything here raises `QueueUnavailableError` if Redis does not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from ..errors import QueueUnavailableError
from . import names
from .producer import pool_of

#: An idle time longer than any worker waits before it takes over.
_LONG_AGO_MS = 365 * 86_400_000
_GROUP = names.GROUP.encode()
#: More arguments at once than this are too many for a script.
_AT_ONCE = 1000
#: One step, so that no death in between leaves entries that are gone and were not counted. A
#: Redis that is full lets a script go on that has begun to delete; a transaction it refuses.
_ACKNOWLEDGE = """
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
local deleted = redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
if deleted > 0 then redis.call('INCRBY', KEYS[2], deleted) end
"""

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

# All of the oldest may be in progress: scan this far past them.
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


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry of the stream, as taken; ``deliveries`` counts how often it was handed out."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1

    @property
    def added_at_s(self) -> float:
        """When Redis took it, in epoch seconds by its own clock."""
        return int(self.entry_id.split("-")[0]) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits in the stream."""

    waiting: int  #: entries in the stream, those in work included
    oldest_age_s: float | None  #: age of the oldest entry; None when empty
    news_age_s: float | None  #: age of the oldest that was not left for later; None when empty
    lost: int  #: entries that were trimmed away before anybody took them, ever


def connect(url: str, *, timeout_s: float = 10.0) -> redis.Redis:
    """Make a client for workers; replies in the one shape this module reads."""
    try:
        return redis.Redis.from_pool(
            pool_of(
                url,
                protocol=2,
                socket_timeout=timeout_s,
                socket_connect_timeout=min(timeout_s, 5.0),
                socket_keepalive=True,
                health_check_interval=15,
            )
        )
    except ValueError:
        # Without the client's own words, which may quote a part of the password.
        raise QueueUnavailableError(
            "GROUNDWATCH_REDIS_URL: no address of a Redis; it should be redis://host:6379/0"
            " or rediss://...; characters such as / in a password are written as %2F"
        ) from None


class Consumer:
    """One reader of the consumer group."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._redis: Any = client
        self._acknowledge = self._redis.register_script(_ACKNOWLEDGE)
        self.name = name

    def now_s(self) -> float:
        """Return the time by the clock that stamps entries, in epoch seconds."""
        with translated():
            seconds, microseconds = self._redis.time()
        return float(seconds) + float(microseconds) / 1e6

    def ensure_group(self) -> None:
        """Create the stream and its group where they are missing."""
        with translated():
            try:
                self._redis.xgroup_create(names.SAMPLES, names.GROUP, id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def take(self, count: int, *, block_ms: int | None = None) -> list[StreamEntry]:
        """Take up to *count* new entries; they are pending from this moment on."""
        with translated():
            reply = self._retry_without_group(
                lambda: self._redis.xreadgroup(
                    names.GROUP, self.name, {names.SAMPLES: ">"}, count=count, block=block_ms
                )
            )
        return [_entry(item) for _, items in reply or () for item in items]

    def take_abandoned(self, count: int, *, idle_ms: int) -> list[StreamEntry]:
        """
        Take over entries whose worker has been silent for *idle_ms*.

        Up to *count* of those that were given back unharmed, or else one alone: one
        of the others may have killed its worker, and that must not count against
        those that were only near it.
        """
        with translated():
            pending = self._retry_without_group(
                lambda: self._redis.xpending_range(
                    names.SAMPLES, names.GROUP, min="-", max="+", count=count, idle=idle_ms
                )
            )
            unharmed = [item["message_id"] for item in pending if not item["times_delivered"]]
            if unharmed:
                return self._claim(unharmed, idle_ms)
            for item in pending:
                again = item["times_delivered"] + 1
                if claimed := self._claim([item["message_id"]], idle_ms, again):
                    return claimed
        return []

    def _claim(
        self, entry_ids: Sequence[bytes], idle_ms: int, deliveries: int = 1
    ) -> list[StreamEntry]:
        """Claim what is still idle; Redis lets go of what was trimmed while it was pending."""
        claimed = self._redis.xclaim(names.SAMPLES, names.GROUP, self.name, idle_ms, entry_ids)
        return [_entry(item, deliveries) for item in claimed]

    def give_back(self, entries: Sequence[StreamEntry]) -> None:
        """Hand entries back unharmed: at once, and without counting this delivery."""
        with translated():
            for entry in entries:
                self._redis.xclaim(
                    *(names.SAMPLES, names.GROUP, self.name, 0, [entry.entry_id]),
                    idle=_LONG_AGO_MS,
                    retrycount=entry.deliveries - 1,
                    justid=True,
                )

    def keep(self, entry_ids: Sequence[str]) -> None:
        """Mark entries as still in progress, so that no other worker takes them over."""
        if not entry_ids:
            return
        with translated():
            self._redis.xclaim(
                names.SAMPLES, names.GROUP, self.name, 0, list(entry_ids), justid=True
            )

    def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Remove entries that are stored; call it after the commit."""
        keys = [names.SAMPLES, names.ACKNOWLEDGED]
        with translated():
            for first in range(0, len(entry_ids), _AT_ONCE):
                ids = entry_ids[first : first + _AT_ONCE]
                self._acknowledge(keys=keys, args=[names.GROUP, *ids])

    def leave(self) -> None:
        """Forget this consumer, unless entries are still pending under its name."""
        with translated():
            pending = self._redis.xpending_range(
                names.SAMPLES, names.GROUP, min="-", max="+", count=1, consumername=self.name
            )
            if not pending:
                self._redis.xgroup_delconsumer(names.SAMPLES, names.GROUP, self.name)

    def _retry_without_group(self, call: Any) -> Any:
        """Make the group again where Redis came back empty."""
        try:
            return call()
        except redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self.ensure_group()
            return call()


class NewestFirst:
    """
    What one reader does with a backlog: the newest first, the rest later, the useless never.

    A worker that is behind moves the group's position up to what is new, and notes the range that
    it left out. Ranges are read from their newest end whenever nothing new waits. Each step is one
    script, so that no entry is handed out twice or forgotten if a process dies in between.
    The group has to be there.
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

    def take_later(self, count: int) -> list[StreamEntry]:
        """Take of what was left for later, the newest first."""
        with translated():
            args = [names.GROUP, self._name, count]
            return _scripted(self._take_later(keys=[names.SAMPLES, names.LATER], args=args))

    def take_oldest(self, count: int, *, before_s: float) -> list[StreamEntry]:
        """Take the *count* oldest that came before *before_s* and that are not in progress."""
        with translated():
            before = f"{int(before_s * 1000)}-0"
            args = [names.GROUP, self._name, count, before, _PAGES, _PAGE]
            return _scripted(self._take_oldest(keys=[names.SAMPLES], args=args))


def read_hash(client: redis.Redis, key: str) -> dict[str, str]:
    """Read a small hash of ours, as text; empty when there is none."""
    anything: Any = client
    with translated():
        return {name.decode(): value.decode() for name, value in anything.hgetall(key).items()}


def backlog(client: redis.Redis) -> Backlog:
    """Measure the stream, by its own clock: how much waits, how old it is, what was lost."""
    anything: Any = client
    with translated(), anything.pipeline(transaction=True) as pipe:
        pipe.time()
        pipe.get(names.ACKNOWLEDGED)
        pipe.xlen(names.SAMPLES)
        pipe.xrange(names.SAMPLES, count=1)
        pipe.xinfo_stream(names.SAMPLES)
        pipe.llen(names.LATER)
        now, acknowledged, waiting, first, info, later = pipe.execute(raise_on_error=False)
        if isinstance(waiting, redis.RedisError):
            raise waiting
        # There is no stream before the first sample.
        added = 0 if isinstance(info, redis.ResponseError) else info["entries-added"]
    now_s = now[0] + now[1] / 1e6
    age = _age_s(first, now_s)
    lost = int(added) - int(acknowledged or 0) - int(waiting)
    news = age
    if later or not first:
        # How long the first entry waits that was neither taken nor left for later.
        with translated():
            groups = anything.xinfo_groups(names.SAMPLES) if anything.exists(names.SAMPLES) else []
            position = next((g["last-delivered-id"] for g in groups if g["name"] == _GROUP), b"0-0")
            news = _age_s(anything.xrange(names.SAMPLES, min=b"(" + position, count=1), now_s)
    return Backlog(waiting=waiting, oldest_age_s=age, news_age_s=news, lost=max(0, lost))


def _age_s(first: Sequence[tuple[bytes, Any]], now_s: float) -> float | None:
    """Return how long an entry waits; not less than nothing, though the clock was set back."""
    return max(0.0, now_s - int(first[0][0].split(b"-")[0]) / 1000) if first else None


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of the client into ours, at the one place where they can come up."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        raise QueueUnavailableError(
            f"Redis does not answer ({type(error).__name__}); start it or set GROUNDWATCH_REDIS_URL"
        ) from error
    except redis.RedisError as error:
        raise QueueUnavailableError(f"Redis refuses: {error}") from error


def _scripted(found: Sequence[Any]) -> list[StreamEntry]:
    pairs = (zip(fields[::2], fields[1::2], strict=True) for _, fields in found)
    return [_entry((item[0], dict(each))) for item, each in zip(found, pairs, strict=True)]


def _entry(item: tuple[bytes, Mapping[bytes, bytes]], deliveries: int = 1) -> StreamEntry:
    return StreamEntry(item[0].decode(), item[1], deliveries)


def live_workers(client: redis.Redis, *, now_s: float, within_s: float = 10.0) -> list[str]:
    """List the workers that were alive within the last *within_s* seconds."""
    anything: Any = client
    with translated():
        found = anything.zrangebyscore(names.WORKERS, now_s - within_s, "+inf")
    return [name.decode() for name in found]
