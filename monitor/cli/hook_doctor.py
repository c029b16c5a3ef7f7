"""``groundwatch doctor hook``: one interaction through the real hook, followed to the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

from sqlalchemy import select

from monitor.cli.findings import Finding
from monitor.cli.stores import open_store
from monitor.hook import Hook
from monitor.hook.rules import resolve_sampling
from monitor.queue import names
from monitor.queue.consumer import backlog, connect, live_workers
from monitor.report.words import reasons
from monitor.settings import Settings, masked_url
from monitor.store.engine import Store
from monitor.store.tables import samples

_FLUSH_S = 3.0
_STORED_S = 20.0
_LOOK_EVERY_S = 0.05


def trial(settings: Settings) -> Iterator[Finding]:
    """
    Send an interaction and say where it went: hook, Redis, worker, store, with times.

    It bears an app of its own, which workers store without scoring and no statistic counts.
    """
    try:
        resolve_sampling({}, settings.app)
    except ValueError as error:
        advice = "correct it: it switches the hook of your app off"
        yield Finding("sampling", ok=False, found=str(error), advice=advice)
        return
    mark = f"doctor-{uuid.uuid4()}"
    started_s = time.perf_counter()
    sent = _sent(settings, mark)
    yield sent
    if not sent.ok:
        return
    client = connect(settings.broker_url)
    now_s = time.time()
    workers, waiting = live_workers(client, now_s=now_s), backlog(client).waiting
    yield Finding(
        "worker",
        ok=bool(workers),
        found=", ".join(workers) or f"none alive; {waiting:,} waiting in Redis, this one included",
        advice="start one: groundwatch up, or groundwatch worker",
    )
    if workers:
        yield _stored(settings, mark, started_s)


def _sent(settings: Settings, mark: str) -> Finding:
    """Sample one interaction in this very process and wait until Redis has it."""
    # Whatever the app's own rules and limits say, this one is sampled.
    hook = Hook(
        app=names.DOCTOR_APP, sample_rate=1.0, redis_url=settings.broker_url, enabled=True,
        rules=[], min_rate=0.0, max_rate=1.0,
    )  # fmt: skip
    started_s = time.perf_counter()
    hook.sample(id=mark, query="Is anybody there?", contexts=["The doctor asks."], output="Yes.")
    called_s = time.perf_counter() - started_s
    arrived = hook.flush(timeout=_FLUSH_S)
    took_s = time.perf_counter() - started_s
    stats = hook.stats()
    hook.close(timeout=0.2)
    if arrived and stats["sent"] == 1:
        found = (
            f"{masked_url(settings.broker_url)} has it after {took_s * 1e3:,.0f} ms;"
            f" the call itself took {called_s * 1e6:,.0f} µs"
        )
        return Finding("hook → Redis", ok=True, found=found)
    if stats["last_error"] or not stats["dropped"]:
        why = stats["last_error"] or f"no answer within {_FLUSH_S:g} s"
        advice = "set GROUNDWATCH_REDIS_URL, start everything with: groundwatch up"
    else:
        why = f"dropped {reasons(stats['dropped'])}"
        advice = "docs/hook.md says what each reason means"
    return Finding("hook → Redis", ok=False, found=f"not delivered: {why}", advice=advice)


def _stored(settings: Settings, mark: str, started_s: float) -> Finding:
    store = open_store(settings)
    until_s = time.monotonic() + _STORED_S
    try:
        while not _is_there(store, mark):
            if time.monotonic() > until_s:
                found = f"not after {_STORED_S:.0f} s; it still waits in Redis or is in work"
                advice = "look at the worker's log; do worker and doctor use the same database?"
                return Finding("worker → store", ok=False, found=found, advice=advice)
            time.sleep(_LOOK_EVERY_S)
    finally:
        store.close()
    took_ms = (time.perf_counter() - started_s) * 1e3
    return Finding("worker → store", ok=True, found=f"stored after {took_ms:,.0f} ms in all")


def _is_there(store: Store, mark: str) -> bool:
    query = select(samples.c.sample_id).where(
        (samples.c.app == names.DOCTOR_APP) & (samples.c.interaction_id == mark)
    )
    with store.read() as connection:
        return connection.execute(query).first() is not None
