"""``groundwatch replay``: send the records of a file through the real hook, every one sampled."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import redis
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from monitor.cli.console import FromTool, err, open_store, out, parse_duration_s, readable, warn
from monitor.errors import QueueUnavailableError, StoreError
from monitor.hook import Hook
from monitor.hook.options import check
from monitor.queue.consumer import backlog, connect, live_workers, translated
from monitor.report.words import reasons
from monitor.settings import Settings
from monitor.store.lease import current_owner
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.verdicts import read_verdicts
from monitor.testsets.records import Record, RecordFile

_ENDED = (Kind.SCORED, Kind.FAILED, Kind.SKIPPED, Kind.EXPIRED)
_CHECK_QUEUE_EVERY = 500
_PAUSE_S = 0.05
_GIVE_UP_AFTER_S = 120.0
_POLL_EVERY_S = 0.25


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSONL, JSON, CSV or Parquet; - is JSONL from the standard input.",
            callback=readable,
        ),
    ],
    app: Annotated[str, typer.Option(help="Name of the app the records count for.")],
    source: FromTool = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Records per second; unset: at full speed."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are scored.")] = False,
    worker_within: Annotated[
        str, typer.Option(help="With --wait: how long to wait for a worker to be there.")
    ] = "30s",
) -> None:
    """Send real records through the real hook and, on request, wait for their scores."""
    within_s = parse_duration_s(worker_within)
    settings = Settings.from_env()
    try:
        check({"app": app})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if wait:
        await_worker(settings, within_s=within_s)
    client = connect(settings.broker_url)
    with translated():
        client.ping()
    waiter = _Waiter(settings, app) if wait else None
    with (
        RecordFile.opened(file, lambda text: warn(f"{file.name} {text}"), source) as records,
        Progress(
            *(TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn()),
            TimeRemainingColumn(),
            console=err,
        ) as progress,
    ):
        hook = Hook(app=app, sample_rate=1.0, redis_url=settings.broker_url, enabled=True)
        sender = _Sender(hook, client, settings, rate)
        task = progress.add_task("sent", total=records.lines)
        for record in records:
            sender.send(record)
            progress.update(task, completed=sender.count)
        progress.update(task, total=sender.count)
        sender.finish()
        sent = int(hook.stats()["sent"])
        if waiter is not None:
            scored = progress.add_task("scored", total=sent)
            waiter.wait(sent, lambda done: progress.update(scored, completed=done))
            waiter.wait_for_verdict()
    stats = hook.stats()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_row("records sent", f"{sender.count:,}", f"{sender.cut:,} of them cut to size")
    table.add_row("bad lines", reasons(records.unreadable))
    table.add_row("seen", f"{stats['seen']:,}", f"= sampled {stats['sampled']:,} + not sampled 0")
    table.add_row("delivered", f"{stats['sent']:,}", f"dropped {reasons(stats['dropped'])}")
    if waiter is not None:
        ended = waiter.ended()
        for kind in _ENDED:
            parts = {reason: n for (k, reason), n in sorted(ended.items()) if k is kind}
            table.add_row(kind.value, reasons(parts))
    out.print(table)
    hook.close()
    if records.unreadable or hook.stats()["dropped"]:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Sender:
    """Hands records to the hook, at a rate, and no faster than the queue takes them."""

    hook: Hook
    client: redis.Redis
    settings: Settings
    rate: float | None
    count: int = 0
    cut: int = 0
    _started_s: float = field(default_factory=time.monotonic)

    def send(self, record: Record) -> None:
        if self.rate is not None:
            time.sleep(max(0.0, self._started_s + self.count / self.rate - time.monotonic()))
        while int(self.hook.stats()["buffered"]) >= self.settings.hook_limits.buffer_samples // 2:
            self._still_there()
            time.sleep(_PAUSE_S)
        if self.count % _CHECK_QUEUE_EVERY == 0:
            while backlog(self.client).waiting > self.settings.hook_limits.queue_limit // 2:
                time.sleep(_PAUSE_S)
        item = record.interaction
        metadata = dict(item.metadata)
        if item.timestamp is not None:
            metadata["recorded_at"] = item.timestamp.isoformat()
        self.hook.sample(
            id=item.id,
            query=item.query,
            contexts=[passage.model_dump(exclude_none=True) for passage in item.contexts],
            output=item.output,
            history=[turn.model_dump() for turn in item.history],
            tool_calls=[call.model_dump(exclude_none=True) for call in item.tool_calls],
            expected=item.expected,
            trace_id=item.trace_id,
            session_id=item.session_id,
            user_id=item.user_id,
            release=item.release,
            environment=item.environment,
            tags=item.tags,
            metadata=metadata,
            label=item.label,
        )
        self.count += 1
        if record.size_bytes > self.settings.hook_limits.max_text_chars:
            self.cut += 1
            warn(
                f"line {record.line}: {record.size_bytes:,} bytes are more than"
                f" {self.settings.hook_limits.max_text_chars:,}; its texts are cut"
                " (GROUNDWATCH_MAX_TEXT_CHARS)"
            )

    def _still_there(self) -> None:
        with translated():
            self.client.ping()

    def finish(self) -> None:
        """Wait until the hook has delivered or counted everything."""
        while not self.hook.flush(timeout=2.0):
            self._still_there()


class _Waiter:
    """Watches the ledger until what was sent has ended somewhere."""

    def __init__(self, settings: Settings, app: str) -> None:
        self._store = open_store(settings)
        self._app = app
        self._evaluate_every_s = settings.evaluate_every_s
        self._before = self._counts()

    def wait(self, sent: int, show: Any) -> None:
        last, last_s = -1, time.monotonic()
        while True:
            done = sum(n for (kind, _), n in self.ended().items() if kind in _ENDED)
            show(done)
            if done >= sent:
                return
            if done != last:
                last, last_s = done, time.monotonic()
            elif time.monotonic() - last_s > _GIVE_UP_AFTER_S:
                raise QueueUnavailableError(
                    f"nothing was scored for {_GIVE_UP_AFTER_S:.0f} s; {sent - done} samples wait;"
                    " look at the worker's log, or run: groundwatch doctor"
                )
            time.sleep(0.2)

    def wait_for_verdict(self) -> None:
        """Wait until the scheduler, if one runs, has evaluated the last score as well."""
        scored_at = datetime.now(UTC)
        with self._store.read() as connection:
            if current_owner(connection, "scheduler") is None:
                return
        end_s = time.monotonic() + 2 * self._evaluate_every_s + 5
        while time.monotonic() < end_s:
            with self._store.read() as connection:
                verdicts = read_verdicts(connection, self._app).values()
            if any(verdict.evaluated_at > scored_at for verdict in verdicts):
                return
            time.sleep(0.2)

    def ended(self) -> Counter[Booking]:
        """Count what has ended since the replay began."""
        return self._counts() - self._before

    def _counts(self) -> Counter[Booking]:
        with self._store.read() as connection:
            return read_totals(connection, self._app).get(self._app, Counter())


def await_worker(settings: Settings, *, within_s: float) -> None:
    """
    Wait until a worker is alive, for at most *within_s*; say once what is waited for.

    Raises
    ------
    QueueUnavailableError
        If none came; it says what is missing, and what to do.
    """
    end_s = time.monotonic() + within_s
    told = ""
    while missing := _missing(settings):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise QueueUnavailableError(
                f"{missing}; nothing was sent; start everything with: groundwatch up"
            )
        if missing != told:
            warn(f"{missing}; waiting up to {left_s:.0f} s, in case it is starting")
            told = missing
        time.sleep(min(_POLL_EVERY_S, left_s))


def _missing(settings: Settings) -> str:
    """Name the first thing without which nothing is scored; empty when all is there."""
    try:
        # Read again at every look: `up` writes down where its Redis is.
        with closing(connect(settings.broker_url)) as client, translated():
            client.ping()
            workers = live_workers(client, now_s=time.time())
        open_store(settings).close()
    except (QueueUnavailableError, StoreError) as error:
        return str(error)
    return "" if workers else "no worker is alive"
