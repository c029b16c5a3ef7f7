"""One OpenAI client a process: made when first needed, and anew after a fork."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import openai

from monitor.scoring.judges.openai_errors import RefusedCall
from monitor.scoring.spending.budget import GivenUpError

_T = TypeVar("_T")
_NO_KEY = "not-needed"
_CLOSE_S = 5.0
_GRACE_S = 1.0  # for what is given up to let go of its connection
_LARGEST_ERROR = 64_000  # bytes; openai would read the body of an error to its end
#: These write requests, with the judged text, at DEBUG and addresses at INFO.
_TALKATIVE = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")


class Endpoint:
    """
    A client and the event loop it lives in, on a thread of its own.

    Only a task can be given up wherever it waits: the time-outs of the library start
    anew with every byte, also within headers.
    """

    def __init__(self, api_key: str, base_url: str | None, timeout_s: float) -> None:
        self.client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout_s,
            max_retries=0,
            # A body is counted as it comes, so it must not swell when it is unpacked.
            default_headers={"Accept-Encoding": "identity"},
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [_refuse]}),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="groundwatch-judge", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        """Wait for *work*, or give it up after *timeout_s* with ``TimeoutError``."""
        future = asyncio.run_coroutine_threadsafe(_within(work, timeout_s), self._loop)
        try:
            return future.result(timeout_s + _GRACE_S)
        finally:
            future.cancel()  # when this thread is interrupted, so is the work

    def close(self) -> None:
        """Give up what is under way, close the connections and end the thread."""
        try:
            self.run(self._close(), _CLOSE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.close()


class SharedClient:
    """Hands out the endpoint of this process; threads share it."""

    def __init__(self, api_key: str | None, base_url: str | None, timeout_s: float) -> None:
        self._api_key = api_key or _NO_KEY
        self._base_url = base_url
        self._timeout_s = timeout_s
        # By process: a forked child must not write to its parent's connections. No lock,
        # because a fork may copy it while it is held.
        self._endpoints: dict[int, Endpoint] = {}
        self._closed: set[int] = set()

    def get(self) -> Endpoint:
        """
        Return the endpoint, made if this process has none.

        Raises
        ------
        GivenUpError
            If this process has closed it: whoever asks now was given up.
        """
        if os.getpid() in self._closed:
            raise GivenUpError("the judge was closed while it was asked", retry_after_s=1.0)
        endpoint = self._endpoints.get(os.getpid())
        return endpoint if endpoint is not None else self._make()

    def close(self) -> None:
        """
        Close the connections of this process, for good; those of a parent are left alone.

        Calls under way are given up, and are not made again.
        """
        self._closed.add(os.getpid())
        endpoint = self._endpoints.pop(os.getpid(), None)
        if endpoint is not None:
            endpoint.close()

    def _make(self) -> Endpoint:
        quieten()
        made = Endpoint(self._api_key, self._base_url, self._timeout_s)
        kept = self._endpoints.setdefault(os.getpid(), made)
        if kept is not made:  # another thread was first
            made.close()
        return kept


def quieten() -> None:
    """Raise the libraries' loggers to WARNING, also those that were set lower by hand."""
    for name in (*_TALKATIVE, *logging.root.manager.loggerDict):
        if name.split(".")[0] in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)


async def _within(work: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
    async with asyncio.timeout(timeout_s):
        return await work


async def _refuse(response: Any) -> None:
    """Read an answer that is an error as far as we need it; *response* is of either httpx."""
    if response.is_success or response.has_redirect_location:
        return
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) >= _LARGEST_ERROR:
            break
    raise RefusedCall(response.status_code, response.headers, bytes(body[:_LARGEST_ERROR]))
