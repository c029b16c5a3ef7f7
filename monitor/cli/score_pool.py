"""Score many records at once and give the lines back in order."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from monitor.errors import GroundwatchError
from monitor.models import Interaction
from monitor.scoring.base import ScoresSamples
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings

_A = TypeVar("_A")
_B = TypeVar("_B")
_CHUNK = 32  # records; a process is told more than one at a time
#: Fewer records than this are scored before other processes have started.
_FEW = 256


class Scored(NamedTuple):
    """The line of one record, and how its evaluations ended."""

    line: str
    statuses: Counter[str]


def score_here(interactions: Iterable[Interaction], scorer: ScoresSamples) -> Iterator[Scored]:
    """Score in this process, as many at once as the scorer says: for judges one waits for."""
    at_once = scorer.concurrency
    if at_once == 1:
        yield from (_scored(interaction, scorer) for interaction in interactions)
        return
    with _cancelling(ThreadPoolExecutor(at_once, "groundwatch-score")) as pool:
        # More than run at once, so that a slow first one does not hold the others up.
        yield from _in_order(pool, interactions, lambda item: _scored(item, scorer), 8 * at_once)


def score_on_all_cores(
    interactions: Iterable[Interaction], settings: Settings, scorer: ScoresSamples
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
        workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(bare,)
    )
    with _cancelling(made) as pool:
        chunks = _chunks(itertools.chain(few, rest))
        try:
            for lines in _in_order(pool, chunks, _score_chunk, 4 * (workers or 1)):
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


def _chunks(items: Iterator[Interaction]) -> Iterator[list[Interaction]]:
    while chunk := list(itertools.islice(items, _CHUNK)):
        yield chunk


_scorers: list[ScoresSamples] = []  #: the one of this process


def _begin(settings: Settings) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _scorers.append(make_scorer(settings))


def _end_with_parent() -> None:
    """End this process when who started it is killed: nobody else would tell it to."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _score_chunk(interactions: list[Interaction]) -> list[Scored]:
    return [_scored(interaction, _scorers[-1]) for interaction in interactions]


def _scored(interaction: Interaction, scorer: ScoresSamples) -> Scored:
    found = scorer.score(interaction, key=interaction.id)
    evaluations = [item.model_dump(mode="json") for item in found]
    line = json.dumps({"id": interaction.id, "evaluations": evaluations}, ensure_ascii=False)
    return Scored(line, Counter(item.status.value for item in found))
