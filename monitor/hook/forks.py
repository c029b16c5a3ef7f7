"""What happens when the host forks: the child replaces everything and acquires nothing."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

#: A fork waits this long for our thread's imports; a child forked amid them could never import.
_IMPORTS_WAIT_S = 2.0


class Forked(Protocol):
    """Something that must start afresh in a forked child."""

    def after_fork(self) -> None:
        """Forget the parent's state; runs in the child, before anything else does."""


class _State:
    """Module state, in one place that the child can replace."""

    def __init__(self) -> None:
        self.importing = _thread.allocate_lock()
        #: Threads that took the lock for a fork of theirs; several may fork at once.
        self.held: set[int] = set()


_state = _State()
#: One hook of ours in the interpreter however many of these come and go.
_forked: WeakSet[Forked] = WeakSet()
_in_child: list[Callable[[], None]] = []


def register(forked: Forked) -> None:
    """Have *forked* told in each child, for as long as it lives."""
    _forked.add(forked)


def in_child(action: Callable[[], None]) -> None:
    """Have *action* called in each child."""
    _in_child.append(action)


def importing() -> _thread.LockType:
    """Give the lock to hold while importing on a thread of ours."""
    return _state.importing


def _before() -> None:
    if _state.importing.acquire(timeout=_IMPORTS_WAIT_S):
        _state.held.add(_thread.get_ident())


def _after_in_parent() -> None:
    thread = _thread.get_ident()
    if thread in _state.held:
        _state.held.discard(thread)
        _state.importing.release()


def _after_in_child() -> None:
    _state.__init__()  # type: ignore[misc]
    for action in _in_child:
        action()
    for forked in list(_forked):
        forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
