"""Read what an answer of a chat completion endpoint says it used."""

from __future__ import annotations

from typing import Any, NamedTuple

_MOST_TOKENS = 1_000_000_000
#: Statuses of a gateway that gave up waiting: the model may have answered, and is paid for that.
MAY_BE_BILLED = frozenset({408, 504, 524})


class Usage(NamedTuple):
    """Tokens of one answer; None where the endpoint does not say."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int  #: part of the input that the endpoint already had, at a lower price


def read_usage(payload: object) -> Usage:
    """
    Read the usage in the body of an answer, as OpenAI and vLLM say it, or as DeepSeek does.

    Some vendors (xAI, Gemini) bill thoughts as output, and count them in the total alone.
    """
    usage = payload.get("usage") if isinstance(payload, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    if given is not None and made is not None and total is not None:
        made = max(made, total - given)
    return Usage(given, made, min(_cached(usage), given or 0))


def _cached(usage: dict[str, Any]) -> int:
    details = usage.get("prompt_tokens_details")
    openai = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return (openai if openai is not None else _count(usage.get("prompt_cache_hit_tokens"))) or 0


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None
