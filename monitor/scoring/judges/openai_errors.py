"""Turn failed calls to an endpoint into judge errors that hold neither judged text nor the key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import openai

from monitor.errors import (
    JudgeError,
    JudgeOutageError,
    JudgeRateLimitedError,
    JudgeRefusedError,
    JudgeReplyError,
    JudgeUnavailableError,
)
from monitor.retry import retry_after_s
from monitor.scoring.limits.meter import MAY_BE_BILLED

_WRONG_ARGUMENT = frozenset({400, 422})
_REDIRECTS = range(300, 400)
_TIMED_OUT, _CONFLICT, _TOO_MANY = 408, 409, 429
_SERVER_ERRORS = 500
# Vendors without a code for it say it in words; the figures come before or after.
_TOO_LONG = re.compile(
    r"(?:maximum|model's|available) context (?:length|size|window)"
    r"|context (?:length|window) (?:is|of|exceeded)|exceeds? the (?:\w+ )?context"
    r"|(?:prompt|input) is too long|reduce the length of the (?:messages|input)"
    r"|max_tokens must be at least 1",
    re.IGNORECASE,
)
_TOO_LARGE = 413
_NO_CODE = re.compile(r"[^a-z0-9_.-]+", re.IGNORECASE)
_LONGEST_CODE = 60
#: Words of proxies that answer 400 though the text is not at fault (LiteLLM). Only what such a
#: pattern matches is quoted, and only a message's beginning is read: the rest may hold the key,
#: or a judged text that says the same.
_PROXY_OUTAGE_WITHIN = 120
_PROXY_OUTAGE = re.compile(
    r"invalid model name passed(?: in `?model=[\w./:@-]{1,80})?"
    r"|no healthy deployments?(?: (?:for this model|available))?"
    r"|authentication error|(?:invalid|incorrect) (?:proxy )?api key|no connected db",
    re.IGNORECASE,
)
#: Statuses that say nothing about the text: every other call would meet them too.
_OUTAGES = {
    401: "check OPENAI_API_KEY",
    402: "the account has no money left",
    403: "the key may not use this model or endpoint",
    404: "check GROUNDWATCH_JUDGE_MODEL and OPENAI_BASE_URL",
}
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
#: The model's answer was no JSON, and the endpoint that had promised some keeps it to itself.
_REPLY_CODES = frozenset({"json_validate_failed"})


class RefusedCall(openai.OpenAIError):
    """
    The endpoint answered with an error, described as far as its body can be read.

    An OpenAIError, because the library passes those through.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__()
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = body.decode(errors="replace")
        inner = value.get("error", value) if isinstance(value, dict) else value
        error = inner if isinstance(inner, dict) else {"message": inner}
        # The argument at fault, as OpenAI names it, or as FastAPI does with its 422.
        detail = error.get("detail")
        first = detail[0] if isinstance(detail, list) and detail else None
        place = first.get("loc") if isinstance(first, dict) else None
        self.param = str(error.get("param") or "")
        if isinstance(place, list):
            self.param = ".".join(str(part) for part in place if part != "body")
        self.status = status
        self.headers = headers
        self.code = _NO_CODE.sub("", str(error.get("code") or error.get("type") or ""))
        self.code = self.code[:_LONGEST_CODE]
        self.message = str(error.get("message") or "")
        reasons = error.get("metadata")
        self.flagged = isinstance(reasons, dict) and "flagged_input" in reasons

    @property
    def may_be_billed(self) -> bool:
        """Return whether the model may have answered all the same."""
        return self.status in MAY_BE_BILLED

    def names(self, argument: str) -> bool:
        """Return whether the error rejects *argument*; a mere mention is not enough."""
        if self.status not in _WRONG_ARGUMENT:
            return False
        if self.param:
            return re.split(r"[.\[]", self.param, maxsplit=1)[0] == argument
        name = re.escape(argument)
        complaint = (
            rf"[\"'`]{name}[\"'`.]|\b(?:argument|parameter)s?(?: supplied)?: {name}\b"
            rf"|\b{name}\b (?:is |does )?"
            r"(?:unsupported|deprecated|unknown|not (?:support|allowed|permitted))"
            rf"|\b{name}: \d"  # it is too large
        )
        return re.search(complaint, self.message) is not None

    @property
    def too_long(self) -> bool:
        """Return whether the request is too long for the model."""
        if self.status not in _WRONG_ARGUMENT:
            return self.status == _TOO_LARGE
        return self.code in _TOO_LONG_CODES or _TOO_LONG.search(self.message) is not None

    @property
    def is_about_the_text(self) -> bool:
        """Return whether a content filter stopped this text, whatever the status."""
        return self.code in _FILTER_CODES or self.flagged


class BrokenAnswer(RefusedCall):
    """An error in the body of an answer with status 200, as gateways forward it."""

    may_be_billed = True


def error_in(body: bytes) -> BrokenAnswer | None:
    """Return the error in the body of an answer with the status 200; None without one."""
    try:
        payload = json.loads(body) if b'"error"' in body else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(payload, dict):
        return None
    choices = payload.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    error = payload.get("error") or (first.get("error") if isinstance(first, dict) else None)
    if not error:
        return None
    # The status that the error would have had; a server in trouble where it names none.
    code = str(error.get("code") or error.get("status") or "") if isinstance(error, dict) else ""
    status = 400 if code in _TOO_LONG_CODES else _SERVER_ERRORS
    if re.fullmatch("[45][0-9][0-9]", code):
        status = int(code)
    return BrokenAnswer(status, {}, json.dumps({"error": error}).encode())


class ContextTooLongError(JudgeRefusedError):
    """Query, passages and output exceed the context window of the model; fewer may fit."""


def refusal(error: BaseException) -> RefusedCall | None:
    """Return the refused call that *error* is or wraps, as older versions of the library do."""
    for found in (error, error.__cause__):
        if isinstance(found, RefusedCall):
            return found
    return None


def error_from(error: RefusedCall) -> JudgeError:
    """Return the judge error of a refused call; it quotes the status and the vendor's code only."""
    status, code = error.status, error.code
    what = f"the judge's endpoint answered {status}" + (f" ({code})" if code else "")
    found: JudgeError
    if error.is_about_the_text:
        found = JudgeRefusedError(f"{what}: its filter stopped this text")
    elif code in _REPLY_CODES:
        found = JudgeReplyError(f"{what}: the judge's answer is not JSON")
    elif code in _NO_MONEY:
        found = JudgeOutageError(f"{what}: {_OUTAGES[402]}")
    elif status in _OUTAGES:
        found = JudgeOutageError(
            f"{what}: {_OUTAGES[status]}", retry_after_s=retry_after_s(error.headers)
        )
    elif status in _REDIRECTS:
        found = JudgeOutageError(
            f"{what}: it redirects to another origin, where no text is sent; set OPENAI_BASE_URL"
            " to the address that answers"
        )
    elif status == _TOO_MANY:
        found = JudgeRateLimitedError(what, retry_after_s=retry_after_s(error.headers))
    elif status in {_TIMED_OUT, _CONFLICT} or status >= _SERVER_ERRORS:
        found = JudgeUnavailableError(what, retry_after_s=retry_after_s(error.headers))
    elif status in _WRONG_ARGUMENT and (
        words := _PROXY_OUTAGE.search(error.message[:_PROXY_OUTAGE_WITHIN])
    ):
        found = JudgeOutageError(
            f"{what}: {words[0]}; check OPENAI_API_KEY and GROUNDWATCH_JUDGE_MODEL"
        )
    elif error.too_long:
        found = ContextTooLongError(f"{what}: query, passages and output are too long for it")
    else:
        found = JudgeRefusedError(f"{what}: it does not accept the call")
    found.context["http_status"] = status
    return found


def timed_out(timeout_s: float) -> JudgeUnavailableError:
    """Return the error of a call that had no answer within *timeout_s* seconds."""
    return JudgeUnavailableError(f"the judge gave no answer in {timeout_s:g} s")


def unavailable(error: Exception, timeout_s: float) -> JudgeUnavailableError:
    """Return the error of a call whose connection failed; it names only the class of the cause."""
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return timed_out(timeout_s)
    if isinstance(error, openai.APIConnectionError):
        cause = type(error.__cause__).__name__ if error.__cause__ else "no connection"
        return JudgeUnavailableError(
            f"the judge's endpoint cannot be reached ({cause}); check OPENAI_BASE_URL"
        )
    return JudgeUnavailableError(f"the judge's answer broke off ({type(error).__name__})")
