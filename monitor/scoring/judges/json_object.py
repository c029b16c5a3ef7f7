"""Find the JSON object in what a model writes: bare, fenced, behind thoughts or among words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from monitor.errors import JudgeReplyError

_END_OF_THOUGHTS = "</think>"  # some servers leave thoughts in the answer, or their end alone
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL | re.IGNORECASE)


def find_object(content: str) -> dict[str, Any]:
    """
    Read the JSON object in *content*.

    Raises
    ------
    JudgeReplyError
        If there is none, or one of its keys stands there twice, so that it says two things.
    """
    for text in _readings(content):
        try:
            value = json.loads(text, object_pairs_hook=_each_once)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise JudgeReplyError("the judge's answer is not JSON")


def _readings(content: str) -> Iterator[str]:
    """Give the places where it may stand, the likeliest first."""
    yield content  # whole: a quote may hold anything, also what ends thoughts or a fence
    behind_last = content.rpartition(_END_OF_THOUGHTS)[2]
    behind_first = content.partition(_END_OF_THOUGHTS)[2] or content
    for text in dict.fromkeys((behind_last, behind_first)):
        fenced = _FENCE.search(text)
        end = text.rfind("}") + 1
        yield text
        yield fenced.group(1) if fenced else ""
        yield text[text.find("{") : end]
        yield text[text.rfind("\n{") + 1 : end]  # no string of JSON holds such a line


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found
