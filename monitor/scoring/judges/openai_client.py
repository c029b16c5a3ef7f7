"""One OpenAI client a process: made when first needed, and anew after a fork."""

from __future__ import annotations

import logging
import os

import openai

_NO_KEY = "not-needed"
#: These write requests, with the judged text, at DEBUG and addresses at INFO.
_TALKATIVE = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")


class SharedClient:
    """Hands out the client of this process; threads share it."""

    def __init__(self, api_key: str | None, base_url: str | None, timeout_s: float) -> None:
        self._api_key = api_key or _NO_KEY
        self._base_url = base_url
        self._timeout_s = timeout_s
        # By process: a forked child must not write to its parent's connections. No lock,
        # because a fork may copy it while it is held.
        self._clients: dict[int, openai.OpenAI] = {}

    def get(self) -> openai.OpenAI:
        """Return the client, made if this process has none."""
        client = self._clients.get(os.getpid())
        return client if client is not None else self._make()

    def close(self) -> None:
        """Close the connections of this process; those of a parent are left alone."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def _make(self) -> openai.OpenAI:
        quieten()
        made = openai.OpenAI(
            api_key=self._api_key, base_url=self._base_url, timeout=self._timeout_s, max_retries=0
        )
        kept = self._clients.setdefault(os.getpid(), made)
        if kept is not made:  # another thread was first
            made.close()
        return kept


def quieten() -> None:
    """Raise the libraries' loggers to WARNING, also those that were set lower by hand."""
    for name in (*_TALKATIVE, *logging.root.manager.loggerDict):
        if name.split(".")[0] in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
