"""The verdict cache: answers that were paid for, for the same judge, prompt and texts."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import redis
from pydantic import TypeAdapter

from monitor.models import Interaction
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.base import Judgement
from monitor.scoring.declaration import Criterion, Reply

T = TypeVar("T", Judgement, Reply)
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {each: TypeAdapter(each) for each in (Judgement, Reply)}

#: Redis holds the queue as well, and must not fill with verdicts: about 20 MB.
_MOST_KEPT = 20_000
#: What answers refer to, whatever was asked: sentences, passages and the reference by number.
_ALWAYS_SENT = frozenset({"output", "contexts", "expected", "history"})

_PUT = """
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[3], KEYS[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3] - ARGV[2])
local over = redis.call('ZCARD', KEYS[1]) - ARGV[4]
if over > 0 then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, over - 1)
  redis.call('DEL', unpack(oldest))
  redis.call('ZREM', KEYS[1], unpack(oldest))
end
return 0
"""


class VerdictCache:
    """
    A bounded cache of answers in Redis; the oldest go first.

    The key is a digest of all that an answer depends on: the judge's version, which names
    model and prompt, the texts, and the questions where they differ from call to call. The
    answer itself quotes passages, as tables do.
    """

    def __init__(self, client: redis.Redis, *, kept_s: int, most: int = _MOST_KEPT) -> None:
        self._redis: Any = client
        self._put = self._redis.register_script(_PUT)
        self._kept_s = kept_s
        self._most = most

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return the answer under *key*, which costs nothing now; None without one."""
        with translated():
            packed = self._redis.get(names.verdict(key))
        if packed is None:
            return None
        try:
            found: Any = _ADAPTERS[kind].validate_python(json.loads(zlib.decompress(packed)))
        except (zlib.error, ValueError):
            return None  # of another version of this program
        more = {"kept": True}
        if kind is Reply:
            more = {"details": found.details | {"kept_verdict": True}}
        free: T = replace(found, cost_usd=0.0, duration_ms=0.0, **more)
        return free

    def put(self, key: str, answer: Judgement | Reply) -> None:
        """Keep an answer."""
        packed = zlib.compress(json.dumps(asdict(answer)).encode(), 1)
        arguments: list[Any] = [packed, self._kept_s, int(time.time()), self._most]
        with translated():
            self._put(keys=[names.VERDICTS, names.verdict(key)], args=arguments)


def content_key(version: str, interaction: Interaction) -> str:
    """Return a digest of all that a verdict depends on."""
    contexts = [context.text for context in interaction.contexts]
    history = [turn.model_dump() for turn in interaction.history]
    sent = [version, interaction.query or "", contexts, interaction.output]
    return _digest([*sent, history] if history else sent)


def question_key(
    version: str,
    interaction: Interaction,
    criteria: Sequence[Criterion],
    fields: frozenset[str],
) -> str:
    """Return a digest of all that answers to *criteria* depend on, when *fields* are sent."""
    asked = [asdict(criterion) for criterion in criteria]
    roots = {path.partition(".")[0] for path in fields}
    sent = interaction.model_dump(include=roots | _ALWAYS_SENT)
    return _digest([version, asked, sorted(fields), sent])


def _digest(sent: list[Any]) -> str:
    return hashlib.sha256(json.dumps(sent, default=str).encode()).hexdigest()
