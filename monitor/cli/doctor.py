"""``groundwatch doctor``: is everything where it should be, and does it work?"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from monitor.cli.console import parse_duration_s
from monitor.cli.findings import Check, Finding, show
from monitor.cli.hook_doctor import trial
from monitor.cli.reconcile import run
from monitor.cli.stores import open_store
from monitor.queue.consumer import backlog, connect, live_workers, translated
from monitor.queue.stalls import read_stalls
from monitor.queue.told_events import read_events
from monitor.report.words import duration
from monitor.settings import Settings, masked_url
from monitor.store.hooks import last_heartbeat
from monitor.store.lease import current_owner
from workers.context import Context

#: What waits may take this share of Redis; the rest is for Celery and for the work itself.
_MOST_OF_MEMORY = 0.7
#: A worker that ended itself for want of progress is pointed to for so long.
_STALL_SHOWN_S = 3600.0


class Part(StrEnum):
    """One process to look at alone, as a container's health check does."""

    WORKER = "worker"
    SCHEDULER = "scheduler"


class Topic(StrEnum):
    """Something to look at more closely."""

    HOOK = "hook"


def doctor(
    topic: Annotated[
        Topic | None,
        typer.Argument(help="hook: send a test interaction and follow it to the store."),
    ] = None,
    only: Annotated[
        Part | None, typer.Option(help="Look at the worker of this host, or at the scheduler.")
    ] = None,
    reconcile: Annotated[
        bool, typer.Option("--reconcile", help="Prove that nothing was lost or counted twice.")
    ] = False,
    window: Annotated[
        str, typer.Option(help="With --reconcile: rows so far back are counted one by one.")
    ] = "24h",
    as_json: Annotated[bool, typer.Option("--json", help="With --reconcile: as JSON.")] = False,
) -> None:
    """Check names, settings, Redis, store, workers, scheduler and hooks; say what to do."""
    if reconcile:
        raise typer.Exit(run(Settings.from_env(), parse_duration_s(window), as_json=as_json))
    checks = _CHECKS if only is None else (_ALONE[only],)
    if topic is not None:
        checks = _CLOSER[topic]
    raise typer.Exit(0 if show(checks, Settings.from_env()) else 1)


def _packages(_: Settings) -> Iterator[Finding]:
    """Tell where the three generic names come from: another module may hide ours."""
    for name in ("monitor", "workers", "alerts"):
        spec = find_spec(name)
        origin = spec.origin if spec and spec.origin else "nowhere"
        advice = "a module of this name in your app hides ours"
        yield Finding(
            f"package {name}", ok=origin.endswith("__init__.py"), found=origin, advice=advice
        )


def _setup(settings: Settings) -> Iterator[Finding]:
    context = Context(settings)
    scorer = f"{settings.scorer}, {', '.join(settings.metrics)}"
    yield Finding("scorer", ok=context.scorer is not None, found=scorer)
    channels = ", ".join(context.channels)
    yield Finding(
        "alert channels",
        ok=bool(channels),
        found=channels or "none",
        advice="set GROUNDWATCH_SLACK_WEBHOOK_URL, or GROUNDWATCH_SMTP_URL and _EMAIL_TO",
        optional=True,
    )
    context.close()


def _redis(settings: Settings) -> Iterator[Finding]:
    client: Any = connect(settings.broker_url)
    with translated():
        info = client.info()
        policy = info.get("maxmemory_policy", "unknown")
    version = f"{masked_url(settings.broker_url)}, version {info.get('redis_version')}"
    yield Finding("Redis", ok=True, found=version)
    yield Finding(
        "Redis keeps data over a restart",
        ok=bool(info.get("aof_enabled")),
        found="append-only file on" if info.get("aof_enabled") else "append-only file off",
        advice="set appendonly yes, or samples that wait are lost with the server",
    )
    yield Finding(
        "Redis never evicts",
        ok=policy == "noeviction",
        found=f"maxmemory-policy {policy}",
        advice="set maxmemory-policy noeviction; another policy deletes samples unseen",
    )
    most_bytes = int(info.get("maxmemory") or info.get("total_system_memory") or 0)
    queue_bytes = settings.queue_limit_megabytes * 1_000_000
    yield Finding(
        "Redis has room for a full queue",
        ok=queue_bytes <= _MOST_OF_MEMORY * most_bytes,
        found=f"up to {queue_bytes / 1e6:,.0f} MB may wait, of {most_bytes / 1e6:,.0f} MB",
        advice="lower GROUNDWATCH_QUEUE_LIMIT_MEGABYTES in the app, or raise maxmemory: a Redis"
        " that is full cannot even be emptied",
    )
    now_s = time.time()
    waiting = backlog(client)
    age = f", the oldest for {duration(waiting.oldest_age_s)}" if waiting.oldest_age_s else ""
    yield Finding(
        "queue",
        ok=waiting.lost == 0,
        found=f"{waiting.waiting:,} waiting{age}; {waiting.lost:,} lost to the size limit",
        advice="add workers, or lower GROUNDWATCH_SAMPLE_RATE",
    )
    if settings.evaluation_events_url is not None:
        events = read_events(client)
        lost = events.get("dropped", 0) + events.get("failed", 0)
        yield Finding(
            "evaluation events",
            ok=lost == 0,
            found=f"{events.get('sent', 0):,} sent, {events.get('failed', 0):,} failed,"
            f" {events.get('dropped', 0):,} dropped, ever",
            advice="the receiver at GROUNDWATCH_EVALUATION_EVENTS_URL is away or too slow",
        )
    workers = live_workers(client, now_s=now_s)
    advice = "start one: groundwatch up, or groundwatch worker"
    found = ", ".join(workers) or "none alive"
    yield Finding("workers", ok=bool(workers), found=found, advice=advice)
    yield from _stalls(client, now_s)


def _stalls(client: Any, now_s: float) -> Iterator[Finding]:
    stalls = read_stalls(client)
    if stalls.count:
        ended = "1 ended itself" if stalls.count == 1 else f"{stalls.count:,} ended themselves"
        age_s = now_s - stalls.at_s
        yield Finding(
            "workers that made no progress",
            ok=age_s > _STALL_SHOWN_S,
            found=f"{ended}, the last {duration(age_s)} ago: {stalls.why}",
            advice=f"see the log of {stalls.worker}; docs/operations.md says more",
            optional=True,
        )


def _store(settings: Settings) -> Iterator[Finding]:
    store = open_store(settings)
    where = store.engine.url.render_as_string(hide_password=True)
    yield Finding("store", ok=True, found=where)
    with store.read() as connection:
        owner = current_owner(connection, "scheduler")
        heartbeat = last_heartbeat(connection)
    store.close()
    advice = "start one: groundwatch up, or groundwatch scheduler"
    yield Finding("scheduler", ok=owner is not None, found=owner or "none alive", advice=advice)
    if heartbeat is None:
        found = "none was ever heard of"
    else:
        found = f"last heard of {duration((datetime.now(UTC) - heartbeat).total_seconds())} ago"
    advice = "call monitor.sample(...) in your app, with the same GROUNDWATCH_REDIS_URL"
    yield Finding("hooks", ok=heartbeat is not None, found=found, advice=advice)


def _own_worker(settings: Settings) -> Iterator[Finding]:
    """Look for a worker on this very host: a dead one must not hide behind its neighbours."""
    here = f"@{socket.gethostname()}/"
    client = connect(settings.broker_url)
    found = [n for n in live_workers(client, now_s=time.time()) if here in n]
    yield Finding("worker", ok=bool(found), found=", ".join(found) or f"none alive on {here[1:-1]}")


def _scheduler(settings: Settings) -> Iterator[Finding]:
    store = open_store(settings)
    with store.read() as connection:
        owner = current_owner(connection, "scheduler")
    store.close()
    yield Finding("scheduler", ok=owner is not None, found=owner or "none alive")


_CHECKS: tuple[Check, ...] = (_packages, _setup, _redis, _store)
_CLOSER: dict[Topic, tuple[Check, ...]] = {Topic.HOOK: (trial,)}
_ALONE = {Part.WORKER: _own_worker, Part.SCHEDULER: _scheduler}
