"""``groundwatch replay``: send the records of a file through the real hook, every one sampled."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import console
from monitor.cli.console import out
from monitor.errors import QueueUnavailableError, StoreError

if TYPE_CHECKING:
    import redis

    from monitor.hook import Hook
    from monitor.models import Interaction
    from monitor.settings import Settings
    from monitor.store.engine import Store
    from monitor.store.ledger import Booking

_ENDED = ("scored", "failed", "skipped", "expired")  #: kinds of the ledger
_CHECK_QUEUE_EVERY = 500
_PAUSE_S, _POLL_EVERY_S = 0.05, 0.25
_GIVE_UP_AFTER_S = 120.0


def replay(
    file: console.Records,
    app: Annotated[str, typer.Option(help="App that the records count for.")],
    source: console.FromTool = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Records per second; unset: at full speed.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until every record is scored.")
    ] = False,
    worker_within: Annotated[
        str, typer.Option(help="With --wait: how long to wait for a worker to start.")
    ] = "30s",
) -> None:
    """Send recorded answers through the real hook, every one sampled."""
    from rich.table import Table

    from monitor.hook import Hook
    from monitor.hook.options import check
    from monitor.queue.consumer import connect, translated
    from monitor.report.words import reasons
    from monitor.store.ledger import Booking

    within_s = console.parse_duration_s(worker_within)
    settings = console.read_settings()
    with console.usage_errors():
        check({"app": app})
    if wait:
        await_worker(settings, within_s=within_s)
    client = connect(settings.broker_url)
    with translated():
        client.ping()
    kept = closing(console.open_store(settings)) if wait else nullcontext()
    hook = Hook(app=app, sample_rate=1.0, redis_url=settings.broker_url, enabled=True)
    limit, started_s = settings.hook_limits.max_text_chars, time.monotonic()
    count = cut = 0
    with (
        kept as store,
        console.opened_records(file, source) as records,
        console.progress_bar() as progress,
    ):
        before = _counts(store, app) if store else Counter[Booking]()
        task = progress.add_task("sent", total=records.lines)
        for record in records:
            _await_turn(hook, client, settings, count, started_s + count / (rate or math.inf))
            _send(hook, record.interaction)
            count += 1
            progress.update(task, completed=count)
            if record.size_bytes > limit:
                cut += 1
                console.warn(
                    f"line {record.line}: {record.size_bytes:,} bytes are more than {limit:,};"
                    " its texts are cut (GROUNDWATCH_MAX_TEXT_CHARS)"
                )
        progress.update(task, total=count)
        while not hook.flush(timeout=2.0):  # until all is delivered, or counted as dropped
            with translated():
                client.ping()
        if store is not None:
            sent = int(hook.stats()["sent"])
            scored = progress.add_task("scored", total=sent)
            for done in _scored_until(store, app, before, sent):
                progress.update(scored, completed=done)
            _await_verdict(store, app, settings)
            ended = sorted((_counts(store, app) - before).items())
    stats = hook.stats()
    rows: list[tuple[str, ...]] = [
        ("records sent", f"{count:,}", f"{cut:,} of them cut to size"),
        ("bad lines", reasons(records.unreadable)),
        ("seen", f"{stats['seen']:,}", f"= sampled {stats['sampled']:,} + not sampled 0"),
        ("delivered", f"{stats['sent']:,}", f"dropped {reasons(stats['dropped'])}"),
    ]
    if wait:
        rows += [
            (kind, reasons({b.reason: n for b, n in ended if b.kind.value == kind}))
            for kind in _ENDED
        ]
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    out.print(table)
    hook.close()
    if records.unreadable or hook.stats()["dropped"]:
        raise typer.Exit(1)


def _await_turn(
    hook: Hook, client: redis.Redis, settings: Settings, count: int, due_s: float
) -> None:
    """Send no record before it is due, and no faster than the hook and the queue take them."""
    from monitor.queue.consumer import backlog, translated

    time.sleep(max(0.0, due_s - time.monotonic()))
    limits = settings.hook_limits
    while int(hook.stats()["buffered"]) >= limits.buffer_samples // 2:
        with translated():
            client.ping()
        time.sleep(_PAUSE_S)
    if count % _CHECK_QUEUE_EVERY == 0:
        while backlog(client).waiting > limits.queue_limit // 2:
            time.sleep(_PAUSE_S)


def _send(hook: Hook, item: Interaction) -> None:
    recorded = {} if item.timestamp is None else {"recorded_at": item.timestamp.isoformat()}
    known = item.model_dump(exclude_none=True, exclude={"app", "timestamp"})
    hook.sample(**known | {"metadata": {**item.metadata, **recorded}})


def _counts(store: Store, app: str) -> Counter[Booking]:
    from monitor.store.ledger import read_totals

    with store.read() as connection:
        return read_totals(connection, app).get(app, Counter())


def _scored_until(store: Store, app: str, before: Counter[Booking], n: int) -> Iterator[int]:
    """Yield how many of *n* samples have ended somewhere, until all have."""
    last, last_s = -1, time.monotonic()
    while last < n:
        ended = _counts(store, app) - before
        done = sum(count for (kind, _), count in ended.items() if kind.value in _ENDED)
        yield done
        if done != last:
            last, last_s = done, time.monotonic()
        elif time.monotonic() - last_s > _GIVE_UP_AFTER_S:
            raise QueueUnavailableError(
                f"nothing was scored for {_GIVE_UP_AFTER_S:.0f} s; {n - done} samples wait;"
                " see the worker's log, or run: groundwatch doctor"
            )
        time.sleep(_POLL_EVERY_S)


def _await_verdict(store: Store, app: str, settings: Settings) -> None:
    """Wait until the scheduler, if one runs, has evaluated the last score as well."""
    from monitor.store.engine import current_owner
    from monitor.store.verdicts import read_verdicts

    scored_at = datetime.now(UTC)
    with store.read() as connection:
        if current_owner(connection, "scheduler") is None:
            return
    end_s = time.monotonic() + 2 * settings.evaluate_every_s + 5
    while time.monotonic() < end_s:
        with store.read() as connection:
            verdicts = read_verdicts(connection, app).values()
        if any(verdict.evaluated_at > scored_at for verdict in verdicts):
            return
        time.sleep(_POLL_EVERY_S)


def await_worker(settings: Settings, *, within_s: float) -> None:
    """
    Wait until a worker is alive, for at most *within_s*; say once what is waited for.

    Raise QueueUnavailableError if none came; it says what is missing, and what to do.
    """
    end_s = time.monotonic() + within_s
    last_shown = ""
    while missing := _missing(settings):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise QueueUnavailableError(
                f"{missing}; nothing was sent; start everything with: groundwatch up"
            )
        if missing != last_shown:
            console.warn(f"{missing}; waiting up to {math.ceil(left_s)} s, in case it is starting")
            last_shown = missing
        time.sleep(min(_POLL_EVERY_S, left_s))


def _missing(settings: Settings) -> str:
    """Return the first thing without which nothing is scored; empty when all is there."""
    from monitor.queue.consumer import connect, live_workers, translated

    try:
        # Read again at every look: `up` writes down where its Redis is.
        with closing(connect(settings.broker_url)) as client, translated():
            client.ping()
            workers = live_workers(client, now_s=time.time())
        console.open_store(settings).close()
    except (QueueUnavailableError, StoreError) as error:
        return str(error)
    return "" if workers else "no worker is alive"
