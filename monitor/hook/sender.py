"""The one thread of a hook: started by the first interaction, ended within a deadline."""

from __future__ import annotations

import _thread
import atexit
import concurrent.futures.thread  # noqa: F401  # redis-py wants it, and it cannot be loaded at exit
import contextlib
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from monitor.hook import forks
from monitor.hook.recorder import Recorder

if TYPE_CHECKING:
    from monitor.hook.delivery import Delivery

EXIT_S = 2.0
#: Redis is known to be away: it gets this long to come back.
_EXIT_WHEN_DOWN_S = 0.5
_POLL_S = 0.002
#: A sender that broke is not started again at once.
_RESTART_AFTER_S = 10.0
#: These end a child by ``os._exit``, which skips atexit.
_FORKING_LIBRARIES = ("multiprocessing.util", "billiard.util")

logger = logging.getLogger("groundwatch.hook")
logger.addHandler(logging.NullHandler())

_running: set[Recorder] = set()
#: When a hook whose sender broke may start another, in monotonic seconds.
_not_before: dict[str, float] = {}
_finalizers: set[str] = set()


def start(recorder: Recorder, *, again: bool = False) -> None:
    """
    Start the sender's thread, once; where no thread can be had, the next call tries again.

    A sender that broke is replaced after a while, with *again* at once.
    """
    too_early = _not_before and time.monotonic() < _not_before.get(recorder.hook_id, 0.0)
    if (too_early and not again) or not recorder.claim():
        return
    _running.add(recorder)
    _at_child_exit()
    # A lock of the same kind as the thread: gevent may have replaced both since the last start.
    recorder.wake = _thread.allocate_lock()
    recorder.wake.acquire()
    try:
        # threading.Thread.start() would wait until the new thread has run.
        _thread.start_new_thread(serve, (recorder,))
    except RuntimeError as error:
        recorder.last_error = f"RuntimeError: {error}"
        recorder.unclaim()


def serve(recorder: Recorder) -> None:
    """Deliver until the recorder is finished; the body of the thread."""
    delivery = None
    try:
        delivery = _delivery(recorder)
        while (pause_s := delivery.step(time.monotonic())) is not None:
            recorder.wake.acquire(timeout=pause_s)
        recorder.ended = True
        _running.discard(recorder)
    except BaseException as error:  # noqa: BLE001  # the host's console is not ours
        recorder.last_error = f"{type(error).__name__} in the sender"
        recorder.connected = False
        if delivery is not None:
            delivery.abandon()
        with contextlib.suppress(Exception):
            logger.warning("the sender ended: %s", type(error).__name__)
        _not_before[recorder.hook_id] = time.monotonic() + _RESTART_AFTER_S
        recorder.unclaim()


def flush(recorder: Recorder, timeout_s: float) -> bool:
    """Wait until everything recorded so far, and the counters, have reached Redis; True if so."""
    goal, deadline = recorder.goal(), time.monotonic() + timeout_s
    while recorder.reported is None or not recorder.reported.covers(goal):
        if time.monotonic() >= deadline:
            return False
        start(recorder, again=True)
        recorder.hurry = True
        recorder.nudge()
        time.sleep(_POLL_S)
    return True


def finish(recorder: Recorder, timeout_s: float) -> bool:
    """Deliver what can be delivered within the time-out and end the thread; True when all was."""
    deadline = time.monotonic() + timeout_s
    recorder.finish(deadline)
    _await_end(recorder, deadline)
    return recorder.ended and not recorder.dropped.get("shutdown")


def finish_all(timeout_s: float = EXIT_S) -> None:
    """Finish every recorder of this process, all within one time-out."""
    pid, deadline = os.getpid(), time.monotonic() + timeout_s
    # Not those of a parent whose fork told nobody: their threads are not here.
    recorders = [recorder for recorder in list(_running) if recorder.pid == pid]
    for recorder in recorders:
        recorder.finish(deadline)
    for recorder in recorders:
        _await_end(recorder, deadline, hopeless_s=_EXIT_WHEN_DOWN_S)


def _await_end(recorder: Recorder, deadline: float, *, hopeless_s: float | None = None) -> None:
    while not recorder.ended and time.monotonic() < deadline:
        if recorder.claim():  # no thread could be had, or it broke: deliver on this one
            serve(recorder)
        if hopeless_s is not None and recorder.last_error and not recorder.connected:
            deadline, hopeless_s = min(deadline, time.monotonic() + hopeless_s), None
            recorder.finish(deadline)
        recorder.nudge()
        time.sleep(_POLL_S)


def _delivery(recorder: Recorder) -> Delivery:
    # Redis and pydantic are loaded here, on our thread, and not by `import monitor`.
    with forks.importing():
        from monitor.hook.delivery import Delivery  # noqa: PLC0415
    return Delivery(recorder)


def _at_child_exit() -> None:
    for name in _FORKING_LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and name not in _finalizers:
            _finalizers.add(name)
            module.Finalize(None, finish_all, exitpriority=10)


forks.in_child(_running.clear)
forks.in_child(_finalizers.clear)
forks.in_child(_not_before.clear)
atexit.register(finish_all)
