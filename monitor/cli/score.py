"""``groundwatch evaluate``: evaluate the records of a file, without any server."""

from __future__ import annotations

import fcntl
import itertools
import json
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, NamedTuple, Self, TypeVar

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.cli.console import PRIVATE_FILE, FromTool, JudgeKind, err, readable, warn
from monitor.errors import BudgetReachedError, GroundwatchError, JudgeOutageError
from monitor.models import Interaction
from monitor.queue.consumer import connect
from monitor.report.words import reasons
from monitor.scoring.base import Scorer
from monitor.scoring.limits.budget import caps_from
from monitor.scoring.registry import asks_judge, make_scorer
from monitor.settings import Settings
from monitor.testsets.records import RecordFile

_A = TypeVar("_A")
_B = TypeVar("_B")
_CHUNK = 32  # records; a process is told more than one at a time
#: Fewer records than this are scored before other processes have started.
_FEW = 256


def score(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSONL, JSON, CSV or Parquet; - is JSONL from the standard input.",
            callback=readable,
        ),
    ],
    source: FromTool = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.")
    ] = "groundedness,relevance",
    judge: Annotated[
        JudgeKind | None, typer.Option(help="Who judges; unset: GROUNDWATCH_SCORER.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL; unset: stdout.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over, whatever the output holds.")
    ] = False,
) -> None:
    """
    Evaluate each record; write one line of evaluations a record, in the same order.

    Run again with the same output, it goes on after the last whole line.
    """
    settings = Settings.from_env()
    names = tuple(name.strip() for name in metrics.split(",") if name.strip())
    chosen = settings.scorer if judge is None else judge.value
    settings = settings.model_copy(update={"metrics": names, "scorer": chosen})
    # What it shares with the workers is the budget, and nothing else.
    client = connect(settings.broker_url) if asks_judge(settings) and caps_from(settings) else None
    scorer = make_scorer(settings, client=client, once=True)
    found: Counter[str] = Counter()
    with (
        closing(scorer),
        RecordFile.opened(file, lambda text: warn(f"{file.name} {text}"), source) as records,
        closing(ScoreOutput.open(output, not_over=records.path, overwrite=overwrite)) as target,
    ):
        target.check(scorer.versions)
        if target.done:
            err.print(f"{len(target.done):,} records are scored already; going on", soft_wrap=True)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=err,
        ) as bar:
            task = bar.add_task("scoring", total=records.lines, completed=len(target.done))
            try:
                rest = _rest(records, target)
                here = asks_judge(settings)  # who waits for an answer needs no further process
                for scored in (
                    score_here(rest, scorer) if here else score_on_all_cores(rest, settings, scorer)
                ):
                    found.update(scored.statuses)
                    target.write(scored.line)
                    bar.advance(task)
            except (JudgeOutageError, BudgetReachedError) as error:
                raise type(error)(f"{error}; run it again to resume where it stopped") from None
            bar.update(task, total=records.lines - records.unreadable.total())
    err.print(
        f"evaluations {reasons(found)}; bad lines {reasons(records.unreadable)}", soft_wrap=True
    )
    if records.unreadable:
        raise typer.Exit(1)


def _rest(records: RecordFile, target: ScoreOutput) -> Iterator[Interaction]:
    """Pass over the records that are done."""
    for position, record in enumerate(records):
        if position < len(target.done):
            target.check_record(position, record.interaction.id)
        else:
            yield record.interaction


@dataclass(slots=True)
class ScoreOutput:
    """
    A file of scores, one line a record, or stdout.

    ``done`` holds the ids of the records whose lines are there already, in order. A
    last line that was cut off is taken away.
    """

    path: Path | None
    done: list[str] = field(default_factory=list)
    _target: IO[bytes] | None = None
    _first: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, *, not_over: Path, overwrite: bool = False) -> Self:
        """
        Open the file to write to; never the one that is read, nor one that is written to.

        What is not a file, such as ``/dev/null`` or a pipe, is written to from the start.

        Raises
        ------
        typer.BadParameter
            If it is the file that is read, holds something else than scores, or another
            run writes to it now.
        """
        if path is None:
            return cls(None)
        if path.exists() and path.samefile(not_over):
            raise typer.BadParameter(f"{path} is the file that is read; write to another one")
        made = cls(path)
        if path.exists() and not path.is_file():
            made._target = path.open("wb")
            return made
        made._target = target = os.fdopen(
            os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), "r+b"
        )
        try:
            # Keep others from writing; the lock ends with us, however we end.
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise typer.BadParameter(f"{path} is being written to by another run") from None
            target.truncate(0 if overwrite else made._read(target))
        except BaseException:
            made.close()
            raise
        target.seek(0, 2)
        return made

    def check(self, versions: Mapping[str, str]) -> None:
        """
        Check that what is there was made by the same scorer.

        Raises
        ------
        typer.BadParameter
            If it was not.
        """
        if self.done and self._first != dict(versions):
            raise self._refused("it was scored in another way")

    def check_record(self, position: int, record_id: str) -> None:
        """
        Check that the line at *position* is about this record.

        Raises
        ------
        typer.BadParameter
            If it is not.
        """
        if self.done[position] != record_id:
            raise self._refused(f"its line {position + 1} is about another record")

    def write(self, line: str) -> None:
        """
        Write a line, whole and at once.

        Raises
        ------
        GroundwatchError
            If it cannot be written, as on a full disk.
        """
        if self._target is None:
            typer.echo(line)
            return
        # Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON writes it.
        try:
            self._target.write(line.encode("utf-8", "backslashreplace") + b"\n")
            self._target.flush()
        except OSError as error:
            raise GroundwatchError(
                f"{self.path}: {error.strerror}; make room and run it again to go on"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._target is not None:
            with suppress(OSError):  # on a full disk the last line could not be written either
                self._target.close()

    def _read(self, lines: IO[bytes]) -> int:
        """Note the ids of the lines that are whole; give the length of those."""
        whole = 0
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
                is_score = isinstance(row["id"], str) and isinstance(row["evaluations"], list)
            except (ValueError, RecursionError, TypeError, LookupError):
                is_score = False
            if not is_score:
                raise self._refused(f"its line {len(self.done) + 1} is not a score")
            if not self.done:
                self._first = {
                    str(e.get("evaluator_name")): e.get("evaluator_version")
                    for e in row["evaluations"]
                }
            self.done.append(row["id"])
            whole += len(line)
        return whole

    def _refused(self, what: str) -> typer.BadParameter:
        return typer.BadParameter(
            f"{self.path} is there and cannot be gone on with: {what};"
            " name another file, or add --overwrite"
        )


class Scored(NamedTuple):
    """The line of one record, and how its evaluations ended."""

    line: str
    statuses: Counter[str]


def score_here(interactions: Iterable[Interaction], scorer: Scorer) -> Iterator[Scored]:
    """Score in this process, as many at once as the scorer says: for judges one waits for."""
    at_once = scorer.concurrency
    if at_once == 1:
        yield from (_scored(interaction, scorer) for interaction in interactions)
        return
    with _cancelling(ThreadPoolExecutor(at_once, "groundwatch-score")) as pool:
        # More than run at once, so that a slow first one does not hold the others up.
        yield from _in_order(pool, interactions, lambda item: _scored(item, scorer), 8 * at_once)


def score_on_all_cores(
    interactions: Iterable[Interaction], settings: Settings, scorer: Scorer
) -> Iterator[Scored]:
    """
    Score in a process a core: for scorers that compute.

    Raises
    ------
    GroundwatchError
        If one of the processes dies.
    """
    rest = iter(interactions)
    few = list(itertools.islice(rest, _FEW))
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(few) < _FEW or (workers or 1) == 1:
        yield from (_scored(item, scorer) for item in itertools.chain(few, rest))
        return
    bare = settings.model_copy(update={"openai_api_key": None})
    made = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=begin_process, initargs=(bare,)
    )
    with _cancelling(made) as pool:
        all_of_them = itertools.chain(few, rest)
        chunks = iter(lambda: list(itertools.islice(all_of_them, _CHUNK)), [])
        try:
            for lines in _in_order(pool, chunks, score_chunk, 4 * (workers or 1)):
                yield from lines
        except BrokenProcessPool:
            raise GroundwatchError(
                "a process that scores has died; is there too little memory?"
            ) from None


def _in_order(
    pool: Executor, items: Iterable[_A], work: Callable[[_A], _B], window: int
) -> Iterator[_B]:
    waiting: deque[Future[_B]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        while len(waiting) >= window or (waiting and waiting[0].done()):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextmanager
def _cancelling(pool: Executor) -> Iterator[Executor]:
    """
    Leave without what has not begun: whoever stops early wants to stop.

    An interrupt does not even wait for what has begun; closing the scorer ends that.
    """
    wait = True
    try:
        yield pool
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


_scorers: list[Scorer] = []  #: the one of this process


def begin_process(settings: Settings) -> None:
    """Make the scorer of this process, which ends with its parent."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    _scorers.append(make_scorer(settings))


def end_with_parent() -> None:
    """End this process when who started it is killed: nobody else would tell it to."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def score_chunk(interactions: list[Interaction]) -> list[Scored]:
    """Score interactions with the scorer of this process."""
    return [_scored(interaction, _scorers[-1]) for interaction in interactions]


def _scored(interaction: Interaction, scorer: Scorer) -> Scored:
    found = scorer.score(interaction, key=interaction.id)
    evaluations = [item.model_dump(mode="json") for item in found]
    line = json.dumps({"id": interaction.id, "evaluations": evaluations}, ensure_ascii=False)
    return Scored(line, Counter(item.status.value for item in found))
