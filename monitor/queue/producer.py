"""The hook's connection to Redis: a batch of samples and the counters in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitor.errors import QueueError, QueueUnavailableError
from monitor.queue import names

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0
COUNTERS_KEPT_S = 7 * 86_400
#: The stream's own bound, above the hooks' limit: it holds when counters are late.
_MAXLEN_FACTOR = 1.2
_LONGEST_TEXT = 200

Entry = Mapping[bytes, bytes]


class Producer:
    """
    Writes to one Redis; not for several threads at once.

    Nothing is tried twice here: redis-py's own ten retries would block for a
    minute, and when to try again is for the caller to say.
    """

    def __init__(self, url: str, *, queue_limit: int) -> None:
        self._secrets = _secrets(url)
        self._maxlen = int(queue_limit * _MAXLEN_FACTOR)
        try:
            self._redis = redis.Redis.from_url(
                url,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                socket_timeout=ANSWER_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except Exception:  # noqa: BLE001  # parsers quote the address, which may hold a password
            raise QueueError(
                "the Redis address cannot be read: it should look like redis://host:6379/0"
            ) from None

    def send(
        self,
        entries: Sequence[Entry],
        *,
        hook_id: str,
        counters: Mapping[str, str | int],
        heartbeat_at_ms: int,
    ) -> int:
        """
        Append the entries and replace the hook's counters, all or nothing.

        Returns
        -------
        int
            How many samples wait in the stream now.

        Raises
        ------
        QueueUnavailableError
            If Redis did not confirm; whether it has written is then unknown, and
            sending the same again does no harm.
        """
        # MULTI, so that the counters never tell of samples that are not there.
        pipe = self._redis.pipeline(transaction=True)
        for entry in entries:
            pipe.execute_command(
                "XADD", names.SAMPLES, "MAXLEN", "~", self._maxlen, "*",
                *(part for pair in entry.items() for part in pair),
            )  # type: ignore[no-untyped-call]  # fmt: skip
        key = names.hook(hook_id)
        pipe.hset(key, items=[*_flat(counters), "heartbeat_at_ms", heartbeat_at_ms])
        pipe.expire(key, COUNTERS_KEPT_S)
        pipe.zadd(names.HOOKS, {hook_id: heartbeat_at_ms})
        pipe.xlen(names.SAMPLES)
        try:
            return int(pipe.execute()[-1])
        except Exception as error:  # noqa: BLE001  # redis-py, the resolver and TLS raise their own
            self.close()
            raise QueueUnavailableError(self._described(error)) from None

    def close(self) -> None:
        """Drop the connection; the next send opens a new one."""
        self._redis.close()

    def _described(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return f"{type(error).__name__}: {text}"[:_LONGEST_TEXT]


def _flat(counters: Mapping[str, str | int]) -> list[str | int]:
    return [part for pair in counters.items() for part in pair]


def _secrets(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    found = {part for part in (parts.password, parts.username) if part}
    return tuple(found | {unquote(part) for part in found})
