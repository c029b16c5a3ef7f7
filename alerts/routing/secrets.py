"""Secrets in the routes file: named there, and kept in the environment or in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr

from monitor.settings import environment_value

_ADVICE = (
    "is a secret, and does not belong into this file;"
    ' write it as "env:NAME" or "file:/path", or as { env = "NAME" } or { file = "/path" }'
)


def read_secret(value: Any) -> SecretStr:
    """
    Read the secret that *value* names.

    Raises
    ------
    ValueError
        If it names none, or what it names is not there; never with the secret itself.
    """
    source, name = _source(value)
    if source == "env":
        found = environment_value(name)
        if found is None:
            raise ValueError(f"the environment variable {name} is not set")
    else:
        try:
            found = Path(name).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError):
            raise ValueError(f"the file {name} cannot be read") from None
        if not found:
            raise ValueError(f"the file {name} is empty")
    return SecretStr(found)


def _source(value: Any) -> tuple[str, str]:
    if isinstance(value, dict) and len(value) == 1:
        ((source, name),) = value.items()
    elif isinstance(value, str):
        source, _, name = value.partition(":")
    else:
        source, name = "", ""
    if source not in {"env", "file"} or not isinstance(name, str) or not name:
        raise ValueError(_ADVICE)
    return source, name


#: A field whose value is named, not written.
NamedSecret = Annotated[SecretStr, BeforeValidator(read_secret)]
