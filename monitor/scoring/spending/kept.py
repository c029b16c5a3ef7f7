"""Verdicts that were paid for once: kept for the same judge, prompt and texts."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from dataclasses import asdict, replace
from typing import Any

import redis

from monitor.models import Interaction
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.base import Claim, Judgement, Verdict

#: Redis holds the queue as well, and must not fill with verdicts: about 20 MB.
_MOST_KEPT = 20_000

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


class KeptVerdicts:
    """
    A bounded store of verdicts in Redis; the oldest go first.

    The key is a digest of the judge's version, which names model and prompt, and of
    query, passages and output; the verdict itself quotes passages, as tables do.
    """

    def __init__(self, client: redis.Redis, *, kept_s: int, most: int = _MOST_KEPT) -> None:
        self._redis: Any = client
        self._put = self._redis.register_script(_PUT)
        self._kept_s = kept_s
        self._most = most

    def get(self, version: str, interaction: Interaction) -> Judgement | None:
        """Find the verdict on the same texts; it costs nothing now."""
        with translated():
            packed = self._redis.get(names.verdict(content_key(version, interaction)))
        return None if packed is None else _unpacked(packed)

    def put(self, version: str, interaction: Interaction, judgement: Judgement) -> None:
        """Keep a verdict."""
        key = names.verdict(content_key(version, interaction))
        arguments: list[Any] = [_packed(judgement), self._kept_s, int(time.time()), self._most]
        with translated():
            self._put(keys=[names.VERDICTS, key], args=arguments)


def content_key(version: str, interaction: Interaction) -> str:
    """Digest all that a verdict depends on."""
    contexts = [context.text for context in interaction.contexts]
    texts = [version, interaction.query or "", contexts, interaction.output]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _packed(judgement: Judgement) -> bytes:
    return zlib.compress(json.dumps(asdict(judgement)).encode(), 1)


def _unpacked(packed: bytes) -> Judgement | None:
    try:
        values = json.loads(zlib.decompress(packed))
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        claims = tuple(
            Claim(**claim | {"verdict": Verdict(claim["verdict"])}) for claim in values["claims"]
        )
        judgement = Judgement(**values | {"claims": claims})
    except (zlib.error, ValueError, TypeError, KeyError):
        return None  # of another version of this program
    return replace(judgement, cost_usd=0.0, duration_ms=0.0, kept=True)
