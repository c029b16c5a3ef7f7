"""The Celery tasks; each loads what it needs and calls the domain."""

from __future__ import annotations

import contextlib
import time

import structlog
from celery import shared_task

from monitor.errors import GroundwatchError
from monitor.queue import names
from workers import processes
from workers.slots import DRAIN_FOR_S, Slot

log = structlog.get_logger("groundwatch.worker")


@shared_task(name=names.TASK_SCORE)
def score(worker: str, number: int) -> None:
    """Score what waits in the queue, for as long as this worker keeps its slot."""
    context = processes.context()
    slot = Slot(context.redis, worker, number)
    try:
        if not slot.begin(time.time()):
            return  # late: we are no longer wanted
    except GroundwatchError as error:
        log.warning("drain.not_begun", code=error.code, message=str(error))
        return
    try:
        if context.judge_is_away():
            return
        scored = context.drain(slot.keep).run(budget_s=DRAIN_FOR_S)
    except GroundwatchError as error:
        # Nothing was acknowledged, so nothing is lost; the pump wakes us again.
        log.error("drain.failed", code=error.code, message=str(error))  # noqa: TRY400
    else:
        if scored:
            log.info("drain.finished", scored=scored)
    finally:
        context.tell_events()
        with contextlib.suppress(GroundwatchError):
            slot.give_back()
