"""Delete one person's data everywhere: store, alerts, queue and cache; counts stay."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import redis

from alerts.snapshot import forget_quotes
from monitor.errors import RecordError
from monitor.queue import names
from monitor.queue.consumer import Consumer, Entry, translated
from monitor.queue.wire import decode, user_of
from monitor.store.engine import Store
from monitor.store.retention import (
    FORGOTTEN,
    explanations_of,
    forget_letters,
    forget_samples,
    letters_of,
    samples_of,
)
from monitor.store.samples import note_act
from monitor.store.write import Result
from workers.scoring_run import Dead, Rules, commit, expired

_PAGE = 200


def forget_user(
    client: redis.Redis,
    store: Store,
    user_id: str,
    *,
    rules: Rules,
    who: str,
    now: datetime,
    dry_run: bool = False,
) -> Counter[str]:
    """
    Delete what is known of a user; count it by what it was. With *dry_run* only count.

    First what still waits, so that nothing comes behind. A sample that waits ends as
    expired; what a worker holds right now is not stored once it comes.
    """
    done: Counter[str] = Counter()
    done["waiting"] = _forget_waiting(client, store, user_id, rules, now, dry_run=dry_run)
    with store.read() as connection:
        sample_ids = samples_of(connection, user_id)
        said = explanations_of(connection, sample_ids)
        letters = letters_of(connection, user_id)
    done["set aside"] = len(letters)
    if dry_run:
        done["samples"] = len(sample_ids)
        with store.read() as connection:
            done["alerts"] = forget_quotes(connection, said, dry_run=True)
        return done
    with store.write() as connection:
        done["alerts"] = forget_quotes(connection, said, dry_run=False)
    done += forget_samples(store, sample_ids)
    forget_letters(store, letters)
    done["kept verdicts"] = _empty_cache(client) if sample_ids or done["waiting"] else 0
    with store.write() as connection:
        digest = hashlib.sha256(user_id.encode()).hexdigest()[:16]
        note_act(connection, who=who, act="forget", target=f"user sha256:{digest}", at=now)
    return done


def _forget_waiting(
    client: redis.Redis,
    store: Store,
    user_id: str,
    rules: Rules,
    now: datetime,
    *,
    dry_run: bool,
) -> int:
    found = [entry for entry in _waiting(client) if _is_of(entry, user_id)]
    if found and not dry_run:
        ended: list[Result | Dead] = []
        for entry in found:
            try:
                ended.append(expired(decode(entry.fields), rules, now=now, reason=FORGOTTEN))
            except RecordError as error:
                bare = Entry(entry.entry_id, {**entry.fields, names.FIELD_BODY.encode(): b""})
                ended.append(Dead.unreadable(bare, error))
        commit(store, ended, rules, now=now)
        Consumer(client, "forget").acknowledge([entry.entry_id for entry in found])
    return len(found)


def _waiting(client: redis.Redis) -> Iterator[Entry]:
    anything: Any = client
    at = "-"
    while True:
        with translated():
            page = anything.xrange(names.SAMPLES, min=at, count=_PAGE)
        if not page:
            return
        for entry_id, fields in page:
            yield Entry(entry_id.decode(), fields)
        at = f"({page[-1][0].decode()}"


def _is_of(entry: Entry, user_id: str) -> bool:
    return user_of(entry.fields.get(names.FIELD_BODY.encode(), b"")) == user_id


def _empty_cache(client: redis.Redis) -> int:
    """Delete all kept verdicts: they quote texts, and none of them says whose."""
    anything: Any = client
    with translated(), suppress(redis.ResponseError):
        keys = anything.zrange(names.VERDICTS, 0, -1)
        if keys:
            anything.delete(*keys)
        anything.delete(names.VERDICTS)
        return len(keys)
    return 0
