"""What a judge's endpoint is sent, without the arguments that it was seen not to take."""

from __future__ import annotations

from typing import Any

from monitor.scoring.judges.openai_errors import RefusedCall
from monitor.scoring.judges.question import Askable
from monitor.scoring.judges.reply import SCHEMA

_LIMITS: tuple[str | None, ...] = ("max_tokens", "max_completion_tokens", None)
_TOKENS_AROUND, _TOKENS_A_SENTENCE = 2_000, 200
_MOST_TOKENS = 16_000  # common models refuse to be asked for more
_LEAST_TOKENS = 500
_THINKING_TOKENS = 8_000  # models that want max_completion_tokens count their thoughts in it


class Arguments:
    """Builds requests to one model; remembers, for all threads, what it does not take."""

    def __init__(self, model: str, schema: dict[str, Any] = SCHEMA) -> None:
        self._model = model
        self._formats = _formats(schema)
        self._format = 0
        self._limit = 0
        self._temperature = True
        self._seed = True
        self._thinks = False

    def request(self, question: Askable[Any]) -> dict[str, Any]:
        """Build the request that asks *question*."""
        request: dict[str, Any] = {"model": self._model, "messages": question.messages}
        if self._temperature:
            request["temperature"] = 0
        if self._seed:
            request["seed"] = question.seed
        response_format, limit = self._formats[self._format], _LIMITS[self._limit]
        if response_format is not None:
            request["response_format"] = response_format
        if limit is not None:
            tokens = min(_TOKENS_AROUND + len(question.asked) * _TOKENS_A_SENTENCE, _MOST_TOKENS)
            thinks = self._thinks or limit == "max_completion_tokens"
            thoughts = _THINKING_TOKENS if thinks else 0
            # The answer takes its room from the same context as the question.
            request[limit] = max((tokens + thoughts) >> question.squeezed, _LEAST_TOKENS)
        return request

    def leave_room_for_thoughts(self) -> bool:
        """Ask for longer answers from now on; says whether that is longer than before."""
        before, self._thinks = self._thinks, True
        return not before and _LIMITS[self._limit] == "max_tokens"

    def leave_out(self, error: RefusedCall, request: dict[str, Any]) -> bool:
        """Drop the argument that the endpoint names; says whether asking again makes sense."""
        if error.too_long:
            return False  # some say so by way of the limit of the answer
        # Threads may have seen it first: what is dropped never comes back.
        if "response_format" in request and (
            error.names("response_format") or error.names("json_schema")
        ):
            used = self._formats.index(request["response_format"])
            self._format = max(self._format, used + 1)
            return True
        if "temperature" in request and error.names("temperature"):
            self._temperature = False
            return True
        if "seed" in request and error.names("seed"):
            self._seed = False
            return True
        for number, limit in enumerate(_LIMITS):
            if limit is not None and limit in request and error.names(limit):
                self._limit = max(self._limit, number + 1)
                return True
        return False


def _formats(schema: dict[str, Any]) -> tuple[dict[str, Any] | None, ...]:
    """List the ways to ask for JSON, the strictest first."""
    strict = {"name": "judgement", "strict": True, "schema": schema}
    return ({"type": "json_schema", "json_schema": strict}, {"type": "json_object"}, None)
