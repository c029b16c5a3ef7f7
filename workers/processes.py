"""The one context of this process: made when first needed, forgotten in a fork."""

from __future__ import annotations

from contextlib import suppress

from monitor.errors import GroundwatchError
from monitor.queue.consumer import Consumer
from monitor.settings import Settings
from monitor.store.migrate import check_schema
from workers.context import Context

_state: dict[str, Context] = {}


def settings() -> Settings:
    """Give the settings of this process."""
    return context().settings


def context() -> Context:
    """Give the context of this process, made from the environment at the first call."""
    if "context" not in _state:
        _state["context"] = Context(Settings.from_env())
    return _state["context"]


def forget() -> None:
    """Drop a context inherited by a fork, without touching the parent's connections."""
    inherited = _state.pop("context", None)
    if inherited is not None and "store" in vars(inherited):
        inherited.store.engine.dispose(close=False)


def leave() -> None:
    """Sign off from the queue and close what was opened, at the end of a worker's process."""
    here = _state.pop("context", None)
    if here is not None:
        with suppress(GroundwatchError):
            Consumer(here.redis, here.name).leave()
        here.close()


def check() -> None:
    """
    Check that this process can work at all: scorer, channels and tables.

    Raises
    ------
    GroundwatchError
        With one clear line for what is wrong.
    """
    here = context()
    _ = here.scorer, here.channels, here.recipients
    check_schema(here.store)
