"""``watch_openai``: record what an OpenAI client is asked and answers, streamed or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from .clients import watch_client
from .replies import ChatReader, CompletionsReader, ResponsesReader

C = TypeVar("C")

_METHODS = {
    "chat.completions.create": ChatReader,
    "chat.completions.parse": ChatReader,
    "beta.chat.completions.create": ChatReader,
    "beta.chat.completions.parse": ChatReader,
    "completions.create": CompletionsReader,
    "responses.create": ResponsesReader,
    "responses.parse": ResponsesReader,
}


def watch_openai(
    client: C,
    *,
    contexts: Callable[[Any], object] | None = None,
    hook: HookProtocol | None = None,
    **fields: Unpack[RecordFields],
) -> C:
    """
    Record the answers of an OpenAI client, sync or async; returns the same client.

    Chat completions, responses and the older completions, whole, streamed and by
    ``with_raw_response``, and copies made by ``with_options``; with the model, its tokens and the
    latency. A reply without text, such as one that only asks for tools, is not an interaction;
    the tools' calls and results are on the record of the answer that follows. A call that
    raises counts as a request that failed.

    Parameters
    ----------
    client
        An ``OpenAI``, ``AsyncOpenAI`` or Azure client.
    contexts
        Finds the passages in the messages (or in ``input``); unset: those of
        ``monitor.integrations.retrieved``.
    hook
        Where interactions go; unset: the app's own hook.
    fields
        Put on every record: ``tags``, ``release``, ``environment``, ``metadata``, ``mask``.
    """
    return watch_client(client, _METHODS, contexts=contexts, hook=hook, fields=fields)
