"""How a judge's version names its model and its endpoint."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from monitor.scoring.unicode import storable

USUAL_INPUT_TOKENS = 16_000
_LONGEST_NAME = 120  # the column of evaluator_version holds 200, a metric's own version included


def model_name(model: str) -> str:
    """Shorten a model's name for the version; different models keep different names."""
    name = storable(model, _LONGEST_NAME)
    if name == model:
        return name
    return f"{name}~{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"


def sent_mark(input_tokens: int, pieces: int = 0) -> str:
    """Say how much of the texts is sent, where that is not the usual: it shapes the answers."""
    room = "" if input_tokens == USUAL_INPUT_TOKENS else f"t{input_tokens}"
    return (f"p{pieces}" if pieces else "") + room


def endpoint_mark(base_url: str | None) -> str:
    """
    Tell endpoints apart that serve a model under the same name; empty for OpenAI's own.

    A hash, because a version is stored and shown, and an address is nobody's business.
    """
    parts = urlsplit(base_url or "")
    host = parts.hostname or ""
    if not host or host == "api.openai.com" or host.endswith(".api.openai.com"):
        return ""
    # Without user, password and query: those may be secrets, and do not name a model.
    place = f"{host}:{parts.port or ''}{parts.path.rstrip('/')}"
    return f"@{hashlib.sha256(place.lower().encode()).hexdigest()[:6]}"
