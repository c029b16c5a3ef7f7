"""From environment variables and files to values, and what people mistyped."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path

from monitor.errors import own_words

PREFIX = "GROUNDWATCH_"
FILE_SUFFIX = "_FILE"
#: Settings that keep the name they have everywhere else.
_USUAL_NAMES = {"openai_api_key": "OPENAI_API_KEY", "openai_base_url": "OPENAI_BASE_URL"}


def environment_value(name: str) -> str | None:
    """Read a variable that a file of ours names, such as the secret of a channel."""
    return os.environ.get(name) or None


def variable(field: str) -> str:
    """Name the environment variable of a setting."""
    return _USUAL_NAMES.get(field, PREFIX + field.upper())


def read_values(
    environ: Mapping[str, str], known: frozenset[str]
) -> tuple[dict[str, str], list[str]]:
    """Read the values that are there, and say what is wrong with the others."""
    values: dict[str, str] = {}
    mistakes: list[str] = []
    fields = {variable(name): name for name in known}
    for key, raw in environ.items():
        if raw == "" or not (key.startswith(PREFIX) or key.removesuffix(FILE_SUFFIX) in fields):
            continue
        if key in fields:
            values[fields[key]] = raw
        elif key.endswith(FILE_SUFFIX) and key.removesuffix(FILE_SUFFIX) in fields:
            try:
                text = Path(raw).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
                mistakes.append(f"{key}: cannot read {raw}: {why}")
                continue
            values.setdefault(fields[key.removesuffix(FILE_SUFFIX)], text)
        else:
            mistakes.append(f"{key}: no such setting{_did_you_mean(key, known)}")
    return values, mistakes


def _did_you_mean(key: str, known: frozenset[str]) -> str:
    name = key.removeprefix(PREFIX).removesuffix(FILE_SUFFIX).lower()
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    if not close:
        return "; `groundwatch config` lists them all"
    suffix = FILE_SUFFIX if key.endswith(FILE_SUFFIX) else ""
    return f"; did you mean {variable(close[0])}{suffix}?"


def mistake(loc: tuple[int | str, ...], message: str) -> str:
    """Say in a line what is wrong with a value."""
    message = own_words(message)
    return f"{variable(str(loc[0]))}: {message}" if loc else message
