"""How OpenAI, Azure, vLLM and Ollama say the same things differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One vendor's way: where it listens, how it words errors, what it adds to answers."""

    path: str
    error: Callable[[int, str, str, str | None], _Payload]  #: of status, code, message, param
    decorate: Callable[[_Payload], None]
    too_long: str  #: the words for a text that does not fit


def _openai_error(_: int, code: str, message: str, param: str | None) -> _Payload:
    return {"error": {"message": message, "type": "error", "param": param, "code": code}}


def _azure_error(status: int, code: str, message: str, param: str | None) -> _Payload:
    named = {404: "DeploymentNotFound", 429: "RateLimitReached", 401: "401"}
    error: _Payload = {"code": named.get(status, code), "message": message}
    if code == "content_filter":
        error |= {"param": "prompt", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    return {"error": error | ({"param": param} if param else {})}


def _vllm_error(status: int, _: str, message: str, param: str | None) -> _Payload:
    kind = "NotFoundError" if status == 404 else "BadRequestError"
    return {"object": "error", "message": message, "type": kind, "param": param, "code": status}


def _ollama_error(_: int, __: str, message: str, ___: str | None) -> _Payload:
    return {"error": {"message": message, "type": "api_error", "param": None, "code": None}}


def _as_openai(payload: _Payload) -> None:
    payload["system_fingerprint"] = "fp_1"
    payload["service_tier"] = "default"


def _as_azure(payload: _Payload) -> None:
    payload["model"] = f"{payload['model']}-2025-04-14"
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    payload["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": safe}]
    payload["choices"][0]["content_filter_results"] = safe


def _as_vllm(payload: _Payload) -> None:
    payload["choices"][0] |= {"logprobs": None, "stop_reason": None}
    message = payload["choices"][0]["message"]
    message |= {"reasoning_content": None, "tool_calls": []}
    message.pop("refusal")
    payload["usage"]["prompt_tokens_details"] = None


def _as_ollama(payload: _Payload) -> None:
    payload["system_fingerprint"] = "fp_ollama"
    payload["choices"][0]["message"].pop("refusal")


DIALECTS: dict[str, Dialect] = {
    "openai": Dialect("/v1", _openai_error, _as_openai, "The context is too long"),
    "azure": Dialect("/openai/v1", _azure_error, _as_azure, "The context is too long"),
    "vllm": Dialect(
        "/v1",
        _vllm_error,
        _as_vllm,
        "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.",
    ),
    "ollama": Dialect("/v1", _ollama_error, _as_ollama, "the input exceeds the context length"),
}
