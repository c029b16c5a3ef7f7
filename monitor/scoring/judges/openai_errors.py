"""Turn what goes wrong with an endpoint into our errors, without its text or our key."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime

import openai

from monitor.errors import (
    JudgeError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeUnavailableError,
)

_BAD_REQUEST, _TIMED_OUT, _CONFLICT, _TOO_MANY = 400, 408, 409, 429
_SERVER_ERRORS = 500
_NO_CODE = re.compile(r"[^a-z0-9_.-]+", re.IGNORECASE)
_LONGEST_CODE = 60
_WHAT_TO_DO = {
    401: "check OPENAI_API_KEY",
    403: "the key may not use this model or endpoint",
    404: "check GROUNDWATCH_JUDGE_MODEL and OPENAI_BASE_URL",
}


def error_from(error: openai.APIStatusError) -> JudgeError:
    """Choose our error for a status; its text has the status and the vendor's code, no more."""
    status, code = error.status_code, error_code(error)
    what = f"the judge's endpoint answered {status}" + (f" ({code})" if code else "")
    found: JudgeError
    if code in {"insufficient_quota", "billing_hard_limit_reached"}:
        found = JudgeRefusedError(f"{what}: the account has no money left")
    elif status == _TOO_MANY:
        found = JudgeRateLimitedError(what, retry_after_s=retry_after_s(error))
    elif status in {_TIMED_OUT, _CONFLICT} or status >= _SERVER_ERRORS:
        found = JudgeUnavailableError(what)
    elif code == "context_length_exceeded":
        found = JudgeRefusedError(f"{what}: query, passages and output are too long for the model")
    else:
        found = JudgeRefusedError(
            f"{what}: {_WHAT_TO_DO.get(status, 'it does not accept the call')}"
        )
    found.context["http_status"] = status
    return found


def error_code(error: openai.APIStatusError) -> str:
    """Name the vendor's error code, or its type, in plain characters."""
    code = error.code or error.type or ""
    return _NO_CODE.sub("", str(code))[:_LONGEST_CODE]


def names(error: openai.APIStatusError, argument: str) -> bool:
    """Say whether a 400 is about *argument*."""
    return error.status_code == _BAD_REQUEST and argument in f"{error.param} {error.message}"


def retry_after_s(error: openai.APIStatusError) -> float | None:
    """Read how long the endpoint asks us to wait: milliseconds, seconds or a date."""
    headers = error.response.headers
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
