"""Read what an answer of a chat completion endpoint says it used."""

from __future__ import annotations

from typing import Any, NamedTuple

_MOST_TOKENS = 1_000_000_000


class Usage(NamedTuple):
    """Tokens of one answer; None where the endpoint does not say."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int  #: part of the input that the endpoint already had, at a lower price


def read_usage(payload: object) -> Usage:
    """Read the usage in the body of an answer, as OpenAI and vLLM say it, or as DeepSeek does."""
    usage = payload.get("usage") if isinstance(payload, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return Usage(given, made, min(_cached(usage), given or 0))


def _cached(usage: dict[str, Any]) -> int:
    details = usage.get("prompt_tokens_details")
    openai = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return (openai if openai is not None else _count(usage.get("prompt_cache_hit_tokens"))) or 0


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
