"""Wait for what `groundwatch up` is still starting: Redis, the store, a worker."""

from __future__ import annotations

import time
from contextlib import closing

from monitor.cli.console import warn
from monitor.cli.stores import open_store
from monitor.errors import QueueUnavailableError, StoreError
from monitor.queue.consumer import connect, live_workers, translated
from monitor.settings import Settings

_LOOK_EVERY_S = 0.25


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
        time.sleep(min(_LOOK_EVERY_S, left_s))


def _missing(settings: Settings) -> str:
    """Name the first thing without which nothing is scored; empty when all is there."""
    try:
        # Read anew at every look: `up` writes down where its Redis is.
        with closing(connect(settings.broker_url)) as client, translated():
            client.ping()
            workers = live_workers(client, now_s=time.time())
        open_store(settings).close()
    except (QueueUnavailableError, StoreError) as error:
        return str(error)
    return "" if workers else "no worker is alive"
