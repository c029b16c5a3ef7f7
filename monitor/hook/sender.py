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
from typing import Any
from weakref import WeakSet

from .recorder import Recorder

EXIT_S = 2.0
#: A machine may be so slow that the sender is still loading the Redis client when the process
#: ends: it gets this long to load, and then as long again to deliver, up to the second figure.
_LOADED_WITHIN_S, _ONCE_LOADED_S = 4.0, 2.0
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
    for name in _FORKING_LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and name not in _finalizers:
            _finalizers.add(name)
            module.Finalize(None, finish_all, exitpriority=10)
    with contextlib.suppress(KeyError, AttributeError):
        _deliver_at_shutdown(sys.modules["uvicorn.server"].Server)
    # A lock of the same kind as the thread: gevent may have replaced both since the last start.
    recorder.wake = _thread.allocate_lock()
    recorder.wake.acquire()
    try:
        # threading.Thread.start() would wait until the new thread has run.
        _thread.start_new_thread(serve, (recorder,))
    except RuntimeError as error:
        recorder.last_error = f"RuntimeError: {error}"
        recorder.unstarted.append(True)  # another may start


def _deliver_at_shutdown(server: Any) -> None:
    """Have uvicorn's *server* deliver when it shuts down: it ends by its signal, without atexit."""
    shutdown = server.shutdown
    if shutdown.__module__ == __name__:
        return

    async def shut_down(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return await shutdown(self, *args, **named)
        finally:
            with contextlib.suppress(RuntimeError):  # its event loop is closing
                await deliver()

    server.shutdown = shut_down


def serve(recorder: Recorder) -> None:
    """Deliver until the recorder is finished; the body of the thread."""
    delivery = None
    try:
        # Redis and pydantic are loaded here, on our thread, and not by `import monitor`.
        with _state.importing:
            from .delivery import SenderLoop  # noqa: PLC0415
        delivery = SenderLoop(recorder)
        recorder.loaded = True
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
            logger.warning("sender_failed error=%s", type(error).__name__)
        _not_before[recorder.hook_id] = time.monotonic() + _RESTART_AFTER_S
        recorder.unstarted.append(True)  # another may start


def flush_all(timeout_s: float = EXIT_S) -> None:
    """
    Deliver what every hook of this process holds, as `finish_all` does, but go on afterwards.

    For a server that is about to end without running exit handlers. It takes *timeout_s* at most,
    half a second where Redis is away, and longer only while the Redis client is being loaded.
    """
    recorders = _recorders()
    reported(recorders, _loaded_deadline(recorders, timeout_s), down_s=_EXIT_WHEN_DOWN_S)


async def deliver() -> None:
    """Deliver as `flush_all` does, beside the event loop: for a server's own end."""
    import asyncio  # noqa: PLC0415  # who awaits this has both loaded
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio's
        flush_all()
    else:
        pool = ThreadPoolExecutor(1)  # the loop's own may be full of what does not end
        await loop.run_in_executor(pool, flush_all)
        pool.shutdown(wait=False)


def reported(recorders: list[Recorder], deadline: float, *, down_s: float | None = None) -> bool:
    """Have all senders report; give up at *deadline*, or *down_s* after Redis was found away."""
    goals = [(recorder, recorder.goal()) for recorder in recorders]
    while missing := [recorder for recorder, goal in goals if not recorder.has_reported(goal)]:
        if time.monotonic() >= deadline:
            return False
        for recorder in missing:
            if down_s is not None and recorder.last_error and not recorder.connected:
                deadline = min(deadline, time.monotonic() + down_s)
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
    """Finish every recorder of this process, all within one time-out, which loading may extend."""
    recorders = _recorders()
    for recorder in recorders:
        recorder.sampler.closed = True
    deadline = _loaded_deadline(recorders, timeout_s)
    for recorder in recorders:
        recorder.finish(deadline)
    for recorder in recorders:
        _await_end(recorder, deadline, hopeless_s=_EXIT_WHEN_DOWN_S)


def _recorders() -> list[Recorder]:
    # Not those of a parent that forked without our handlers: their threads are not here.
    pid = os.getpid()
    return [recorder for recorder in list(_running) if recorder.pid == pid]


def _loaded_deadline(recorders: list[Recorder], timeout_s: float) -> float:
    """Wait until the Redis client is loaded; return when to stop delivering (monotonic)."""
    started = now = time.monotonic()
    while any(not (each.unstarted or each.loaded) for each in recorders):
        if now >= started + _LOADED_WITHIN_S:
            return max(started + timeout_s, now)
        time.sleep(_POLL_S)
        now = time.monotonic()
    return max(started + timeout_s, now + min(now - started, _ONCE_LOADED_S))


def _await_end(recorder: Recorder, deadline: float, *, hopeless_s: float | None = None) -> None:
    while not recorder.ended and time.monotonic() < deadline:
        if recorder.claim():  # no thread could be had, or it broke: deliver on this one
            serve(recorder)
        if hopeless_s is not None and recorder.last_error and not recorder.connected:
            deadline, hopeless_s = min(deadline, time.monotonic() + hopeless_s), None
            recorder.finish(deadline)
        recorder.nudge()
        time.sleep(_POLL_S)


# --- when the host forks: the child replaces everything and acquires nothing ---

#: A fork waits this long for our thread's imports, which take a third of a second of CPU; a child
#: forked during them could never import. Long enough for a machine that is very busy.
_IMPORTS_WAIT_S = 15.0


class _State:
    """Module state, in one place that the child can replace."""

    def __init__(self) -> None:
        self.importing = _thread.allocate_lock()
        #: Threads that took the lock for a fork of theirs; several may fork at once.
        self.held: set[int] = set()

    def before_fork(self) -> None:
        if self.importing.acquire(timeout=_IMPORTS_WAIT_S):
            self.held.add(_thread.get_ident())

    def after_fork_in_parent(self) -> None:
        thread = _thread.get_ident()
        if thread in self.held:
            self.held.discard(thread)
            self.importing.release()

    def after_fork_in_child(self) -> None:
        self.__init__()  # type: ignore[misc]
        for collection in (_running, _finalizers, _not_before):
            collection.clear()
        for forked in list(_forked):
            forked.after_fork()


_state = _State()
#: What must start afresh in a child; one hook in the interpreter however many come and go.
_forked: WeakSet[Any] = WeakSet()


def register(forked: Any) -> None:
    """Call ``after_fork()`` of *forked* in each child, before anything else, while it lives."""
    _forked.add(forked)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_state.before_fork,
        after_in_parent=_state.after_fork_in_parent,
        after_in_child=_state.after_fork_in_child,
    )
atexit.register(finish_all)
