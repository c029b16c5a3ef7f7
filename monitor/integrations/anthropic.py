"""``watch_anthropic``: record what an Anthropic client is asked and answers, streamed or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from .messages import MessagesReader
from .openai import watch_client

C = TypeVar("C")

_METHODS = dict.fromkeys(
    (*("messages.create", "messages.stream", "messages.parse"), "beta.messages.create"),
    MessagesReader,
)


def watch_anthropic(
    client: C,
    *,
    contexts: Callable[[Any], object] | None = None,
    hook: HookProtocol | None = None,
    **fields: Unpack[RecordFields],
) -> C:
    """
    Record the answers of an Anthropic client, sync or async; returns the same client.

    Messages, whole and streamed, by ``stream=True`` or ``messages.stream``. Parameters, and what
    is recorded, as in ``monitor.integrations.openai.watch_openai``.
    """
    return watch_client(client, _METHODS, contexts=contexts, hook=hook, fields=fields)
