"""
Every error of groundwatch, in one tree.

* GroundwatchError                   ``transient`` says whether trying again can help
  + SettingsError                    lists every wrong setting at once
  + RecordError                      a record that cannot be read; says which field and why
    - UnknownSchemaError             written by a newer version; kept, not dropped
    - RecordTooLargeError            larger than any worker reads
  + QueueError
    - QueueUnavailableError          transient
  + JudgeError                       becomes an evaluation with status "failed", never a score; may
                                     carry ``retry_after_s``
    - JudgeUnavailableError          transient
    - JudgeRateLimitedError          transient
    - JudgeRefusedError              it refuses this text: trying again cannot help
    - JudgeOutageError                 no call can succeed now: key, model, quota, long Retry-After
    - JudgeReplyError                the answer is not what was asked for
    - TooExpensiveError              one sample took more CPU time than a sample may
    - MetricFunctionError            a metric's own function raised, or returned no score
    - BudgetReachedError             the judge's budget is spent; no call was made
  + StoreError
    - StoreUnavailableError          transient
    - LeaseLostError                 another scheduler holds the lease now
    - RowRefusedError                the database does not take this value; the others it does
  + DeliveryError                    transient unless the other side said no for good
  + ServerStartError                 a server of ours (Redis, PostgreSQL) did not start
  + NotComparableError               two runs of other data, or by other evaluators
  + MissingExtraError                the message is the pip command
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class GroundwatchError(Exception):
    """The base of every error raised on purpose; its text says what to do."""

    transient: bool = False
    code: str = "error"


class SettingsError(GroundwatchError):
    """One or more settings are wrong or unknown."""

    code = "settings"


class RecordError(GroundwatchError):
    """A record cannot be read."""

    code = "invalid_record"


class UnknownSchemaError(RecordError):
    """The record was written in a schema version this program does not know."""

    code = "unknown_schema"


class RecordTooLargeError(RecordError):
    """The record is so large that scoring it would hold up all others."""

    code = "too_large"


class QueueError(GroundwatchError):
    """The queue cannot do what was asked."""

    code = "queue"


class QueueUnavailableError(QueueError):
    """Redis cannot be reached."""

    transient = True
    code = "queue_unavailable"


class JudgeError(GroundwatchError):
    """
    The judge gave no usable verdict; ``context`` holds tries, status, tokens and cost.

    ``retry_after_s`` is the wait that its endpoint asked for; None: unknown.
    """

    code = "judge_error"

    def __init__(self, *args: object, retry_after_s: float | None = None) -> None:
        super().__init__(*args)
        self.retry_after_s = retry_after_s
        self.context: dict[str, Any] = {}


class JudgeUnavailableError(JudgeError):
    """The judge did not answer: connection, time-out or a server error."""

    transient = True
    code = "judge_unavailable"


class JudgeRateLimitedError(JudgeError):
    """The judge's endpoint limits our rate."""

    transient = True
    code = "judge_rate_limited"


class JudgeRefusedError(JudgeError):
    """The judge's endpoint refuses this text, or the call as such."""

    code = "judge_refused"


class JudgeOutageError(JudgeError):
    """
    No call to the judge can succeed now: wrong key, unknown model, no money, a long Retry-After.

    No fault of the sample: whoever holds it should give it back and ask again after
    ``retry_after_s`` (None: unknown), not count it as failed. ``transient``
    is False, because the same call at once cannot help.
    """

    code = "judge_away"


class JudgeReplyError(JudgeError):
    """The judge answered, but not with what was asked for."""

    code = "judge_reply_invalid"


class TooExpensiveError(JudgeError):
    """One sample took more CPU time than a sample may; the others go on."""

    code = "too_expensive"


class MetricFunctionError(JudgeError):
    """A metric's own function raised, or returned what is not a score."""

    code = "function_failed"


class BudgetReachedError(JudgeError):
    """The budget of the judge is spent for now; what happens then is a setting."""

    code = "budget_reached"


class StoreError(GroundwatchError):
    """The store cannot do what was asked."""

    code = "store"


class StoreUnavailableError(StoreError):
    """The database cannot be reached."""

    transient = True
    code = "store_unavailable"


class LeaseLostError(StoreError):
    """Another scheduler holds the lease; whatever was decided is not written."""

    code = "lease_lost"


class RowRefusedError(StoreError):
    """The database refuses a value, and with it all that was written beside it."""

    code = "refused_by_store"


class DeliveryError(GroundwatchError):
    """A message did not reach its channel."""

    code = "delivery"

    def __init__(
        self,
        message: str,
        *,
        code: str = "delivery",
        transient: bool = True,
        ambiguous: bool = False,
        retry_after_s: float | None = None,
        give_up_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.transient = transient
        self.ambiguous = ambiguous
        self.retry_after_s = retry_after_s
        self.give_up_after_s = give_up_after_s


class ServerStartError(GroundwatchError):
    """A server that groundwatch starts itself did not come up."""

    code = "server_start"


class NotComparableError(GroundwatchError):
    """Two runs have nothing that can be compared."""

    code = "not_comparable"


class MissingExtraError(GroundwatchError, ImportError):
    """A part of groundwatch needs packages that are not installed."""

    code = "missing_extra"

    def __init__(self, part: str, extra: str = "server") -> None:
        super().__init__(f"{part} needs more packages: pip install 'groundwatch[{extra}]'")


def own_words(message: str) -> str:
    """Return pydantic's message in our words: "expected a valid number", "missing"."""
    said = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    said = _SAID.get(said, said)
    if (bound := said.removeprefix("Input should be ")) == said:
        return said
    bound = bound.replace("a valid tuple", "a list").partition(" or instance of ")[0]
    bound = bound.replace("a valid dictionary", "an object")
    return f"expected {'a value ' if bound.startswith(('greater', 'less')) else ''}{bound}"


_SAID = {"Field required": "missing", "Extra inputs are not permitted": "unknown field"}


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """Return where the first mistake is, such as ``contexts.0.text``, and what it is."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, first["loc"])), own_words(first["msg"])
