"""Turn what goes wrong with an endpoint into our errors, without its text or our key."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from monitor.errors import (
    JudgeAwayError,
    JudgeError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeUnavailableError,
)

_WRONG_ARGUMENT = frozenset({400, 422})
_TIMED_OUT, _CONFLICT, _TOO_MANY = 408, 409, 429
_SERVER_ERRORS = 500
_NO_CODE = re.compile(r"[^a-z0-9_.-]+", re.IGNORECASE)
_LONGEST_CODE = 60
#: Statuses that say nothing about the text: every other call would meet them too.
_AWAY = {
    401: "check OPENAI_API_KEY",
    402: "the account has no money left",
    403: "the key may not use this model or endpoint",
    404: "check GROUNDWATCH_JUDGE_MODEL and OPENAI_BASE_URL",
}
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class RefusedCall(openai.OpenAIError):
    """
    The endpoint answered with an error; says which, as far as its body can be read.

    An OpenAIError, because the library passes those through.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__()
        error = _error_object(body)
        self.status = status
        self.headers = headers
        self.code = _NO_CODE.sub("", str(error.get("code") or error.get("type") or ""))
        self.code = self.code[:_LONGEST_CODE]
        self.param = _param(error)
        self.message = str(error.get("message") or "")

    def names(self, argument: str) -> bool:
        """Say whether the endpoint does not take *argument*; a mere mention is not enough."""
        if self.status not in _WRONG_ARGUMENT:
            return False
        if self.param:
            return re.split(r"[.\[]", self.param, maxsplit=1)[0] == argument
        name = re.escape(argument)
        quoted = rf"[\"'`]{name}[\"'`.]|\b(?:argument|parameter)s?(?: supplied)?: {name}\b"
        return re.search(quoted, self.message) is not None


def refusal(error: BaseException) -> RefusedCall | None:
    """Find the endpoint's answer in *error*; older versions of the library wrap it."""
    for found in (error, error.__cause__):
        if isinstance(found, RefusedCall):
            return found
    return None


def error_from(error: RefusedCall) -> JudgeError:
    """Choose our error for a status; its text has the status and the vendor's code, no more."""
    status, code = error.status, error.code
    what = f"the judge's endpoint answered {status}" + (f" ({code})" if code else "")
    found: JudgeError
    if code in _NO_MONEY:
        found = JudgeAwayError(f"{what}: {_AWAY[402]}")
    elif status in _AWAY:
        found = JudgeAwayError(
            f"{what}: {_AWAY[status]}", retry_after_s=retry_after_s(error.headers)
        )
    elif status == _TOO_MANY:
        found = JudgeRateLimitedError(what, retry_after_s=retry_after_s(error.headers))
    elif status in {_TIMED_OUT, _CONFLICT} or status >= _SERVER_ERRORS:
        found = JudgeUnavailableError(what)
    elif code == "context_length_exceeded":
        found = JudgeRefusedError(f"{what}: query, passages and output are too long for the model")
    else:
        found = JudgeRefusedError(f"{what}: it does not accept the call")
    found.context["http_status"] = status
    return found


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read how long the endpoint asks us to wait: milliseconds, seconds or a date."""
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds:
            return max(float(milliseconds) / 1000, 0.0)
        return max(float(seconds), 0.0) if seconds else None
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(str(seconds)).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError):
        return None


def _error_object(body: bytes) -> dict[str, Any]:
    """Find the object that describes the error; what is no JSON object is its message."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body.decode(errors="replace")}
    inner = value.get("error", value) if isinstance(value, dict) else value
    return inner if isinstance(inner, dict) else {"message": inner}


def _param(error: dict[str, Any]) -> str:
    """Name the argument at fault, as OpenAI does, or as FastAPI does with its 422."""
    detail = error.get("detail")
    first = detail[0] if isinstance(detail, list) and detail else None
    place = first.get("loc") if isinstance(first, dict) else None
    if isinstance(place, list):
        return ".".join(str(part) for part in place if part != "body")
    return str(error.get("param") or "")
