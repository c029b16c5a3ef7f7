"""``groundwatch doctor``: is everything where it should be, and does it work?"""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from enum import StrEnum
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import GroundwatchError, QueueUnavailableError
from monitor.format import duration, file_size, plain_text, utc_time

if TYPE_CHECKING:
    from monitor.settings import Settings

#: What waits may take this share of Redis; the rest is for Celery and for the work itself.
_MOST_OF_MEMORY = 0.7
#: A worker that ended itself for want of progress is pointed to for so long.
_STALL_SHOWN_S = 3600.0
#: An app whose hooks dropped this share of what they sampled within the last hour is not well.
_MOST_DROPPED, _DROPS_WITHIN_S = 0.5, 3600.0
#: A larger SQLite file is not read whole to look for damage.
_MOST_CHECKED_BYTES = 1_000_000_000
#: Less is within what a host and the time between two reports may differ.
_CLOCK_BEHIND_S = 300.0
_FLUSH_S, _STORED_S, _POLL_EVERY_S = 3.0, 20.0, 0.05
_MOST_WRONG = 10


class CheckResult(NamedTuple):
    """One thing that was checked; *advice* says what to do if it is not ``ok``."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    optional: bool = False


DoctorCheck = Callable[["Settings"], Iterator[CheckResult]]


class Process(StrEnum):
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
        Process | None, typer.Option(help="Check only this host's worker, or only the scheduler.")
    ] = None,
    reconcile: Annotated[
        bool, typer.Option("--reconcile", help="Prove that nothing was lost or counted twice.")
    ] = False,
    window: Annotated[
        str, typer.Option(help="With --reconcile: how far back rows are counted one by one.")
    ] = "24h",
    as_json: console.AsJson = False,
) -> None:
    """Check packages, settings, Redis, judge, store, scheduler and hooks; say what to do."""
    if reconcile:
        span_s = console.parse_duration_s(window)
        raise typer.Exit(0 if reconciled(span_s, as_json=as_json) else 1)
    checks = _CHECKS if only is None else (_ALONE[only],)
    if topic is Topic.HOOK:
        checks = (trial,)
    settings = console.read_settings()
    if as_json:
        results = [item for check in checks for item in found_by(check, settings)]
        console.print_json(results)
        well = all(item.ok or item.optional for item in results)
    else:
        well = show(checks, settings)
    raise typer.Exit(0 if well else 1)


def found_by(check: DoctorCheck, settings: Settings) -> Iterator[CheckResult]:
    """Yield what *check* finds; an error that it ends with is a result as well."""
    try:
        yield from check(settings)
    except GroundwatchError as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        start = "start everything with: groundwatch up"
        # `up` starts no server elsewhere.
        elsewhere = {check_redis: settings.redis_url, check_store: settings.database_url}
        is_ours = check in elsewhere and elsewhere[check] is None and start not in str(error)
        yield CheckResult(name, ok=False, found=str(error), advice=start if is_ours else "")


def show(checks: Iterable[DoctorCheck], settings: Settings) -> bool:
    """Print what the checks find, each as soon as it is found; return whether all is well."""
    well = True
    for check in checks:
        for item in found_by(check, settings):
            if item.ok:
                mark = Text("✓ ", style="green")
            else:
                mark = Text("– ", style="yellow") if item.optional else Text("✗ ", style="bold red")
            out.print(mark + Text(f"{item.what}: {item.found}"), soft_wrap=True)
            if not item.ok and item.advice:
                console.say(f"  {item.advice}", style="yellow")
            well = well and (item.ok or item.optional)
    return well


def check_packages(_: Settings) -> Iterator[CheckResult]:
    """Find what an app started in this directory would import: its own modules may hide ours."""
    ours = Path(__file__).resolve().parents[2]
    for name in ("monitor", "workers", "alerts"):
        # The command line itself always loads ours, so the usual finders are not asked.
        spec = PathFinder.find_spec(name, [str(Path.cwd()), *sys.path])
        places = [*([spec.origin] if spec and spec.origin else ())]
        places = places or list((spec and spec.submodule_search_locations) or ())
        origin = places[0] if places else "not found"
        hidden = not Path(origin).resolve().is_relative_to(ours / name)
        advice = (
            "your app hides ours: write `import groundwatch` instead of `import monitor`"
            if name == "monitor"
            else "harmless to the hook; start workers with `groundwatch worker`, not `celery -A`"
        )
        yield CheckResult(
            f"package {name}",
            ok=not hidden,
            found=origin,
            advice=advice,
            optional=name != "monitor",
        )


def check_setup(settings: Settings) -> Iterator[CheckResult]:
    """Check that scorer and channels can be made from the settings."""
    from monitor.scoring.metric_config import unmet_needs
    from monitor.scoring.registry import describe_scorer, resolve_metrics
    from workers.context import Components

    context = Components(settings)
    yield CheckResult("scorer", ok=context.scorer is not None, found=describe_scorer(settings))
    yield CheckResult("metrics", ok=True, found=", ".join(settings.metrics))
    for name, needs in unmet_needs(resolve_metrics(settings), settings).items():
        yield CheckResult(name, ok=False, found=f"needs {needs}", optional=True)
    channels = ", ".join(context.wiring.channels)
    yield CheckResult(
        "alert channels",
        ok=bool(channels),
        found=channels or "none",
        advice="set GROUNDWATCH_SLACK_WEBHOOK_URL, or GROUNDWATCH_SMTP_URL and _EMAIL_TO",
        optional=True,
    )
    context.close()


def check_redis(settings: Settings) -> Iterator[CheckResult]:
    """Check Redis: its data, room and queue, its workers, and what they say of the judge."""
    from monitor.queue.consumer import backlog, connect, live_workers, translated
    from monitor.queue.snapshot import read_events, read_stalls
    from monitor.scoring.registry import small_budgets
    from monitor.settings import masked_url
    from workers.self_monitoring import JudgeWatch

    client: Any = connect(settings.broker_url)
    try:
        with translated():
            info = client.info()
    except QueueUnavailableError as error:
        raise QueueUnavailableError(f"{masked_url(settings.broker_url)}: {error}") from error
    policy = info.get("maxmemory_policy", "unknown")
    version = f"{masked_url(settings.broker_url)}, version {info.get('redis_version')}"
    yield CheckResult("Redis", ok=True, found=version)
    yield CheckResult(
        "Redis keeps data over a restart",
        ok=bool(info.get("aof_enabled")),
        found="append-only file on" if info.get("aof_enabled") else "append-only file off",
        advice="set appendonly yes, or samples that wait are lost with the server",
    )
    yield CheckResult(
        "Redis never evicts",
        ok=policy == "noeviction",
        found=f"maxmemory-policy {policy}",
        advice="set maxmemory-policy noeviction; another policy deletes samples unseen",
    )
    most_bytes = int(info.get("maxmemory") or info.get("total_system_memory") or 0)
    queue_bytes = settings.hook_limits.queue_limit_megabytes * 1_000_000
    yield CheckResult(
        "Redis has room for a full queue",
        ok=queue_bytes <= _MOST_OF_MEMORY * most_bytes,
        found=f"up to {file_size(queue_bytes)} may wait, of {file_size(most_bytes)}",
        advice="lower GROUNDWATCH_QUEUE_LIMIT_MEGABYTES in the app, or raise maxmemory: a Redis"
        " that is full cannot even be emptied",
    )
    now_s = time.time()
    waiting = backlog(client)
    age = f", the oldest for {duration(waiting.oldest_age_s)}" if waiting.oldest_age_s else ""
    yield CheckResult(
        "queue",
        ok=waiting.lost == 0,
        found=f"{waiting.waiting:,} waiting{age}; {waiting.lost:,} lost to the size limit",
        advice="add workers, or lower GROUNDWATCH_SAMPLE_RATE",
    )
    if settings.evaluation_events.evaluation_events_url is not None:
        events = read_events(client)
        lost = events.get("dropped", 0) + events.get("failed", 0)
        yield CheckResult(
            "evaluation events",
            ok=lost == 0,
            found=f"{events.get('sent', 0):,} sent, {events.get('failed', 0):,} failed,"
            f" {events.get('dropped', 0):,} dropped, ever",
            advice="the receiver at GROUNDWATCH_EVALUATION_EVENTS_URL is away or too slow",
        )
    workers = live_workers(client, now_s=now_s)
    advice = "start one: groundwatch up, or groundwatch worker"
    found = ", ".join(workers) or "none alive"
    yield CheckResult("workers", ok=bool(workers), found=found, advice=advice)
    stalls = read_stalls(client)
    if stalls.count:
        ended = "1 ended itself" if stalls.count == 1 else f"{stalls.count:,} ended themselves"
        age_s = now_s - stalls.at_s
        yield CheckResult(
            "workers that made no progress",
            ok=age_s > _STALL_SHOWN_S,
            found=f"{ended}, the last {duration(age_s)} ago: {stalls.why}",
            advice=f"see the log of {stalls.worker}; docs/operations.md says more",
            optional=True,
        )
    if settings.asks_judge:
        watch = JudgeWatch.make(settings, client)
        judge = watch.look()
        yield CheckResult(
            "judge",
            ok=judge.trouble is None,
            found=judge.away
            or judge.trouble
            or judge.note
            or "no outage and no reached cap reported",
            advice="no sample is lost while the judge is away" if judge.away else "",
        )
        usual_microusd = watch.budget.usual_microusd() if watch.budget is not None else None
        for words in small_budgets(settings, usual_microusd):
            yield CheckResult("judge budget", ok=False, found=words, optional=True)


def check_store(settings: Settings) -> Iterator[CheckResult]:
    """Check the store, the scheduler and the hooks, and what they dropped."""
    from monitor.models.status import OTHER
    from monitor.report.words import first_run_hint, reasons
    from monitor.store.ledger import Kind, last_heartbeat, read_between
    from monitor.store.retention import size_bytes
    from monitor.store.sample_index import PLACES, read_app_names
    from monitor.store.schema import file_problems
    from workers.reports import read_status

    with closing(console.open_store(settings)) as store:
        where = store.engine.url.render_as_string(hide_password=True)
        with store.read() as connection:
            is_checked = size_bytes(connection) <= _MOST_CHECKED_BYTES
        # Reads the whole file: a large one is for a quiet hour, as docs/operations.md says.
        problems = file_problems(store) if is_checked else []
        yield CheckResult(
            "store",
            ok=not problems,
            found="; ".join([where, *problems[:3]]),
            advice="the file is damaged: restore a backup, see docs/operations.md",
        )
        with store.read() as connection:
            heartbeat = last_heartbeat(connection)
            counted = read_between(connection, time.time() - _DROPS_WITHIN_S)
            names_of_apps = read_app_names(connection)
        status = read_status(store, settings, now=datetime.now(UTC))
    if names_of_apps.waiting:
        newest = plain_text(list(names_of_apps.waiting)[-1], 40)
        yield CheckResult(
            "apps",
            ok=False,
            found=f"more than {PLACES} names; the rest, such as {newest!r}, count as {OTHER}",
            advice="set GROUNDWATCH_APP to the name of a service, without ids or times in it",
        )
    yield from check_scheduler(settings)
    found = "no hook has reported yet"
    if heartbeat is not None:
        found = f"last report {duration((datetime.now(UTC) - heartbeat).total_seconds())} ago"
    advice = "call groundwatch.sample(...) in your app, with the same GROUNDWATCH_REDIS_URL"
    yield CheckResult("hooks", ok=heartbeat is not None, found=found, advice=advice)
    for item in status.apps:
        if said := first_run_hint(item.app, item.ledger, settings.min_n):
            yield CheckResult("first score", ok=False, found=said, optional=True)
    for app, counts in counted.items():
        # Report an app that loses most of what it samples: its statuses are based on the rest.
        sampled = sum(n for booking, n in counts.items() if booking.kind is Kind.SAMPLED)
        dropped = {b.reason: n for b, n in counts.items() if b.kind is Kind.DROPPED}
        share = sum(dropped.values()) / sampled if sampled else 0.0
        if share >= _MOST_DROPPED:
            yield CheckResult(
                f"samples of {plain_text(app, 40)}",
                ok=False,
                found=f"{share:.0%} of {sampled:,} dropped within an hour: {reasons(dropped)}",
                advice="groundwatch.stats()['last_error'] in the app names the cause; docs/hook.md"
                " explains each reason",
            )


def check_clocks(settings: Settings) -> Iterator[CheckResult]:
    """Check for hosts whose clock is behind: their samples count in the minutes that it says."""
    from monitor.queue import names
    from monitor.queue.consumer import connect, translated
    from monitor.store.tables import hooks

    behind = {}
    with suppress(GroundwatchError), closing(console.open_store(settings)) as store:
        client: Any = connect(settings.broker_url)
        with translated(), store.read() as connection:
            said_ms = dict(client.zrange(names.HOOKS, 0, -1, withscores=True))
            for row in connection.execute(hooks.select()):
                heard_ms = row.heartbeat_at_ms
                behind_s = (heard_ms - said_ms.get(row.hook_id.encode(), heard_ms)) / 1000
                if behind_s >= _CLOCK_BEHIND_S:
                    behind[row.host] = behind_s, row.app
    for host, (behind_s, app) in list(behind.items())[:_MOST_WRONG]:
        found = f"{duration(behind_s)} behind: samples of {plain_text(app, 40)} count as old"
        advice = "set the host's clock: what counts as old may reach no status"
        yield CheckResult(f"clock of {plain_text(host, 40)}", ok=False, found=found, advice=advice)


def check_own_worker(settings: Settings) -> Iterator[CheckResult]:
    """Check that a worker runs on this host: those of others do not count."""
    from monitor.queue.consumer import connect, live_workers

    here = f"@{socket.gethostname()}/"
    found = [n for n in live_workers(connect(settings.broker_url), now_s=time.time()) if here in n]
    yield CheckResult(
        "worker", ok=bool(found), found=", ".join(found) or f"none alive on {here[1:-1]}"
    )


def check_scheduler(settings: Settings) -> Iterator[CheckResult]:
    """Check that a scheduler holds the lease."""
    from monitor.store.engine import current_owner

    with closing(console.open_store(settings)) as store, store.read() as connection:
        owner = current_owner(connection, "scheduler")
    advice = "start one: groundwatch up, or groundwatch scheduler"
    yield CheckResult("scheduler", ok=owner is not None, found=owner or "none alive", advice=advice)


def trial(settings: Settings) -> Iterator[CheckResult]:
    """
    Send an interaction and say where it went: hook, Redis, worker, store, with times.

    It bears an app of its own, which workers store without scoring and no statistic counts.
    """
    from monitor.hook import Hook
    from monitor.hook.options import resolve
    from monitor.queue import names
    from monitor.queue.consumer import backlog, connect, live_workers
    from monitor.report.words import reasons
    from monitor.settings import masked_url

    try:
        resolve({"app": settings.app})
    except ValueError as error:
        advice = "correct it: it switches the hook of your app off"
        yield CheckResult("sampling", ok=False, found=str(error), advice=advice)
        return
    mark = f"doctor-{uuid.uuid4()}"
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
    is_sent, advice = arrived and stats["sent"] == 1, ""
    if is_sent:
        found = (
            f"{masked_url(settings.broker_url)} has it after {took_s * 1e3:,.0f} ms;"
            f" the call itself took {called_s * 1e6:,.0f} µs"
        )
    elif stats["last_error"] or not stats["dropped"]:
        found = f"not delivered: {stats['last_error'] or f'no answer within {_FLUSH_S:g} s'}"
        advice = "set GROUNDWATCH_REDIS_URL, start everything with: groundwatch up"
    else:
        found = f"not delivered: dropped {reasons(stats['dropped'])}"
        advice = "docs/hook.md says what each reason means"
    yield CheckResult("hook → Redis", ok=is_sent, found=found, advice=advice)
    if not is_sent:
        return
    client = connect(settings.broker_url)
    workers = live_workers(client, now_s=time.time())
    nobody = f"none alive; {backlog(client).waiting:,} waiting in Redis, this one included"
    advice = "start one: groundwatch up, or groundwatch worker"
    found = ", ".join(workers) or nobody
    yield CheckResult("worker", ok=bool(workers), found=found, advice=advice)
    if workers:
        yield _stored(settings, mark, started_s)


def _stored(settings: Settings, mark: str, started_s: float) -> CheckResult:
    """Wait until a worker has stored the interaction *mark*."""
    from sqlalchemy import select

    from monitor.queue import names
    from monitor.store.tables import samples

    query = select(samples.c.sample_id).where(
        (samples.c.app == names.DOCTOR_APP) & (samples.c.interaction_id == mark)
    )
    until_s = time.monotonic() + _STORED_S
    with closing(console.open_store(settings)) as store:
        while time.monotonic() <= until_s:
            with store.read() as connection:
                is_there = connection.execute(query).first() is not None
            took_ms = (time.perf_counter() - started_s) * 1e3
            if is_there:
                found = f"stored after {took_ms:,.0f} ms in all"
                return CheckResult("worker → store", ok=True, found=found)
            time.sleep(_POLL_EVERY_S)
    found = f"not after {_STORED_S:.0f} s; it still waits in Redis or is in work"
    advice = "see the worker's log, and check that worker and doctor use the same database"
    return CheckResult("worker → store", ok=False, found=found, advice=advice)


def reconciled(window_s: int, *, as_json: bool) -> bool:
    """Print each sum beside its counterpart; return whether all agree."""
    from monitor.queue.consumer import connect
    from workers.operations import reconcile as add_up

    with console.opened() as (settings, store), closing(connect(settings.broker_url)) as client:
        found = add_up(
            client, store, now_s=time.time(), window_s=window_s, bucket_s=settings.windows.bucket_s
        )
    if as_json:
        console.print_json(found.as_json())
    else:
        since = datetime.fromtimestamp(found.since_s, UTC)
        out.print(f"rows since {utc_time(since)}; ledger and streams as of all time")
        figures = ("of", "found", "counterpart", "difference")
        console.print_rows(found.checks if found.sums else (), {
            "": lambda check: (
                Text("✗", style="bold red") if check.wrong else Text("✓", style="green")
            ),
            "sum": lambda check: check.name,
            "of": lambda check: f"{check.sums:,}",
            "found": lambda check: _figure(check.found),
            "counterpart": lambda check: _figure(check.expected),
            "difference": lambda check: _figure(check.difference),
        }, none="nothing was counted so far", right=figures)  # fmt: skip
        for check in found.checks:
            for item in check.wrong[:_MOST_WRONG]:
                where = plain_text(item.where, 90)
                differs = f"{_figure(item.found)}, not {_figure(item.expected)}"
                console.say(f"  {check.name}: {where}: {differs}", "red")
            if len(check.wrong) > _MOST_WRONG:
                out.print(f"  {check.name}: and {len(check.wrong) - _MOST_WRONG:,} more")
        for note in found.notes:
            console.say(f"– {note}", style="yellow")
        if any(check.wrong for check in found.checks):
            console.warn("some sums differ; docs/operations.md says what each difference means")
    return found.holds


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


_CHECKS: tuple[DoctorCheck, ...] = (
    check_packages, check_setup, check_redis, check_store, check_clocks,
)  # fmt: skip
_ALONE: dict[Process, DoctorCheck] = {
    Process.WORKER: check_own_worker,
    Process.SCHEDULER: check_scheduler,
}
