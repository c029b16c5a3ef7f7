"""``groundwatch evaluate``: evaluate the records of a file, without any server."""
# ruff: noqa: PLC0415 - the help of a command loads nothing that only its work needs

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from monitor.cli import console
from monitor.errors import BudgetReachedError, GroundwatchError, JudgeOutageError, RecordError
from monitor.format import count, plain_text

if TYPE_CHECKING:
    from monitor.models import Interaction
    from monitor.scoring.base import Scorer
    from monitor.settings import Settings
    from monitor.testsets.records import RecordFile
    from monitor.testsets.runs import LineFile

_A = TypeVar("_A")
_B = TypeVar("_B")
_CHUNK = 32  # records; a process is given more than one at a time
#: Fewer records than this are scored before other processes have started.
_FEW = 256


def score(
    file: console.Records,
    source: console.FromTool = None,
    metrics: console.Metrics = "groundedness,relevance",
    judge: console.Judge = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL file; unset: stdout.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start over and replace the output.")
    ] = False,
) -> None:
    """
    Evaluate each record of a file; write one line per record, in the same order.

    Run it again with the same output to resume after the last complete line; an output about other
    records, or other answers, is refused. Exit code 1: some lines were bad, or evaluations failed
    and none was completed.
    """
    from monitor.metrics import all_read_output
    from monitor.report.words import reasons
    from monitor.scoring.registry import budget_client, make_scorer
    from monitor.settings import kinds

    chosen: dict[str, object] = {} if judge is None else {"scorer": judge.value}
    settings = console.read_settings().model_copy(
        update={"metrics": kinds.split_commas(metrics), **chosen}
    )
    # What it shares with the workers is the budget, and nothing else.
    scorer = make_scorer(settings, client=budget_client(settings), once=True)
    found: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    with (
        closing(scorer),
        console.opened_records(file, source, needs_output=all_read_output(scorer)) as records,
        closing(ScoreOutput(output, not_over=records.path, overwrite=overwrite)) as target,
    ):
        target.check(scorer.versions)
        if target.done:
            console.tell(f"{count(len(target.done), 'record')} scored already; resuming")
        # Who waits for an answer needs no further process.
        work = score_here if settings.asks_judge else score_on_all_cores
        with console.progress_bar() as bar:
            task = bar.add_task("scoring", total=records.lines, completed=len(target.done))
            try:
                for scored in work(target.rest(records), settings, scorer):
                    found.update(scored.statuses)
                    missing.update(scored.missing)
                    target.write(scored.line)
                    bar.advance(task)
            except (JudgeOutageError, BudgetReachedError) as error:
                raise type(error)(f"{error}; run it again to resume where it stopped") from None
            # Bad lines are no records, and rows of one trace are one.
            bar.update(task, total=bar.tasks[task].completed)
    console.tell(f"evaluations {reasons(found)}; bad lines {reasons(records.unreadable)}")
    console.tell_missing(missing)
    if records.unreadable or (found["failed"] and not found["completed"]):
        raise typer.Exit(1)


class ScoreOutput:
    """
    A file of scores, one line a record, or stdout.

    ``done`` says of which records, by id and content, the lines are that are there already, in
    order. A last line that was cut off is taken away. What is not a file, such as a pipe, is
    written to from the start. Raises typer.BadParameter if it is the file that is read, holds
    something else than scores, or another run writes to it now.
    """

    def __init__(self, path: Path | None, *, not_over: Path, overwrite: bool = False) -> None:
        from monitor.testsets.runs import LineFile

        self.path = path
        self.done: list[tuple[str, str | None]] = []
        self._first: dict[str, str | None] = {}
        self._file: LineFile | None = None
        if path is None:
            return
        if path.exists() and path.samefile(not_over):
            raise typer.BadParameter(f"{path} is the input; choose another output")
        try:
            self._file = LineFile(path, overwrite=overwrite)
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None
        try:
            for line in self._file.lines():
                self._note(line)
        except BaseException:
            self.close()
            raise

    def _note(self, line: bytes) -> None:
        """Note of which record a line is, and what the first one was scored by."""
        try:
            row = json.loads(line)
            is_score = isinstance(row["id"], str) and isinstance(row["evaluations"], list)
        except (ValueError, RecursionError, TypeError, LookupError):
            is_score = False
        if not is_score:
            raise self._refused(f"its line {len(self.done) + 1} is not a score")
        if not self.done:
            self._first = {
                str(e.get("evaluator_name")): e.get("evaluator_version") for e in row["evaluations"]
            }
        self.done.append((row["id"], row.get("content_hash")))

    def check(self, versions: Mapping[str, str]) -> None:
        """Raise typer.BadParameter if what is there was made by another scorer."""
        if self.done and self._first != dict(versions):
            raise self._refused("it was scored in another way")

    def rest(self, records: RecordFile) -> Iterator[Interaction]:
        """Yield what is not done; raise typer.BadParameter if a line is about another record."""
        read = 0
        for read, record in enumerate(records, start=1):
            interaction = record.interaction
            if read > len(self.done):
                yield interaction
                continue
            of, content = self.done[read - 1]
            if of != interaction.id:
                raise self._refused(f"its line {read} is about another record")
            if content != _content_hash(interaction):
                raise self._refused(
                    f"its line {read} is about other content of record {plain_text(of, 60)!r}"
                )
        if read < len(self.done):
            raise self._refused(f"it has {count(len(self.done), 'line')} for {read:,} records")

    def write(self, line: str) -> None:
        """Write a line; raise GroundwatchError if it cannot be written, as on a full disk."""
        if self._file is None:
            typer.echo(line)
        else:
            self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _refused(self, what: str) -> typer.BadParameter:
        return typer.BadParameter(
            f"{self.path} exists and cannot be resumed: {what}; name another file, or add"
            " --overwrite"
        )


def _content_hash(interaction: Interaction) -> str:
    """Return what tells a record from another with its id, such as a corrected answer."""
    from pydantic_core import to_jsonable_python

    from monitor.testsets.records import content_hash

    fields = interaction.model_dump(exclude_defaults=True)
    # Columns of Parquet may hold bytes.
    return content_hash(to_jsonable_python(fields, bytes_mode="base64", fallback=str))


class Scored(NamedTuple):
    """The line of one record, how its evaluations ended, and why some have no score."""

    line: str
    statuses: Counter[str]
    missing: Counter[str]


def score_here(
    interactions: Iterable[Interaction], _: Settings, scorer: Scorer
) -> Iterator[Scored]:
    """Score in this process, as many at once as the scorer says: for judges one waits for."""
    at_once = scorer.concurrency
    pool = ThreadPoolExecutor(at_once, "groundwatch-score")
    # More than run at once, so that a slow first one does not hold the others up.
    yield from _in_order(pool, interactions, lambda item: _scored(item, scorer), 8 * at_once)


def score_on_all_cores(
    interactions: Iterable[Interaction], settings: Settings, scorer: Scorer
) -> Iterator[Scored]:
    """Score in a process a core: for scorers that compute; GroundwatchError if one of them dies."""
    rest = iter(interactions)
    few = list(itertools.islice(rest, _FEW))
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    items = itertools.chain(few, rest)
    if len(few) < _FEW or (workers or 1) == 1:
        yield from (_scored(item, scorer) for item in items)
        return
    bare = settings.model_copy(update={"openai_api_key": None})
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=begin_process, initargs=(bare,)
    )
    chunks = iter(lambda: list(itertools.islice(items, _CHUNK)), [])
    try:
        for lines in _in_order(pool, chunks, score_chunk, 4 * (workers or 1)):
            yield from lines
    except BrokenProcessPool:
        raise GroundwatchError(
            "a scoring process died, perhaps for want of memory; run it again to go on"
        ) from None


def _in_order(
    pool: Executor, items: Iterable[_A], work: Callable[[_A], _B], window: int
) -> Iterator[_B]:
    """
    Yield what *work* makes of each item, at most *window* ahead; then end the pool.

    Whoever stops early wants to stop: what has not begun is cancelled, and an interrupt does not
    even wait for what has begun.
    """
    waiting: deque[Future[_B]] = deque()
    wait = True
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            while len(waiting) >= window or (waiting and waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


_scorers: list[Scorer] = []  #: the one of this process


def begin_process(settings: Settings) -> None:
    """Make the scorer of this process, which ends with its parent, even one that is killed."""
    from monitor.scoring.registry import make_scorer

    def end_with_parent() -> None:
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    _scorers.append(make_scorer(settings))


def score_chunk(interactions: list[Interaction]) -> list[Scored]:
    """Score interactions with the scorer of this process."""
    return [_scored(interaction, _scorers[-1]) for interaction in interactions]


def _scored(interaction: Interaction, scorer: Scorer) -> Scored:
    found = scorer.score(interaction, key=interaction.id)
    evaluations = [item.model_dump(mode="json") for item in found]
    row = {"id": interaction.id, "content_hash": _content_hash(interaction)}
    line = json.dumps(row | {"evaluations": evaluations}, ensure_ascii=False)
    statuses = Counter(item.status.value for item in found)
    return Scored(line, statuses, console.missing_scores(found))
