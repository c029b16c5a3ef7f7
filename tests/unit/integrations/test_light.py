"""An integration loads its own library at most, and says which extra it needs."""

import subprocess
import sys

import pytest

HEAVY = [
    "openai", "httpx", "starlette", "fastapi", "flask", "uvicorn", "langchain_core", "llama_index",
    "opentelemetry", "google.protobuf", "redis", "pydantic", "numpy",
]  # fmt: skip
NEEDS_NOTHING = ["", ".asgi", ".wsgi", ".openai", ".spans", ".traces", ".runs"]


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200
    )
    return done.stdout + done.stderr


def test_integrations_without_a_library_load_nothing_heavy():
    names = [f"monitor.integrations{name}" for name in NEEDS_NOTHING]
    shown = run(
        f"import sys, {', '.join(names)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert shown.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("monitor.integrations.langchain", "langchain_core", "langchain"),
        ("monitor.integrations.llama_index", "llama_index", "llama-index"),
        ("monitor.integrations.otel", "opentelemetry", "otel"),
        ("monitor.ingest", "google.protobuf", "otlp"),
        ("monitor.ingest", "starlette", "otlp"),
    ],
)
def test_missing_library_names_the_pip_command(module, library, extra):
    shown = run(f"import sys; sys.modules[{library!r}] = None; import {module}")
    assert "MissingExtraError: " in shown
    assert f"pip install 'groundwatch[{extra}]'" in shown.splitlines()[-1]
