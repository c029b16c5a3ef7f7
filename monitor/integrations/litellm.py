"""``watch_litellm``: record what LiteLLM's functions are asked and answer, streamed or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from ..hook.interaction import HookProtocol, RecordFields
from .messages import ChatReader, CompletionsReader, ResponsesReader
from .openai import watch_client

C = TypeVar("C")

_METHODS = {
    **dict.fromkeys(("completion", "acompletion"), ChatReader),
    **dict.fromkeys(("text_completion", "atext_completion"), CompletionsReader),
    **dict.fromkeys(("responses", "aresponses"), ResponsesReader),
}


def watch_litellm(
    library: C,
    *,
    contexts: Callable[[Any], object] | None = None,
    hook: HookProtocol | None = None,
    **fields: Unpack[RecordFields],
) -> C:
    """
    Record the answers of the module ``litellm``; returns it.

    Its functions are replaced, so call them as ``litellm.completion(...)``; routers do. Unlike
    LiteLLM's own callbacks, which run on threads of their own, this knows the passages of
    ``retrieved`` and the active trace. Parameters, and what is recorded, as in
    ``monitor.integrations.openai.watch_openai``.
    """
    return watch_client(library, _METHODS, contexts=contexts, hook=hook, fields=fields)
