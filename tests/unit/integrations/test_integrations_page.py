"""The code on the pages about integrations runs, and what the pages name is there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from monitor.cli.app import COMMANDS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "".join(
    (DOCS / name).read_text(encoding="utf-8") for name in ("integrations.md", "opentelemetry.md")
)
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
NAMES = re.findall(r"`(monitor\.integrations\.\w+)\.(\w+)`", PAGE)


@pytest.fixture(autouse=True)
def switched_off(monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_ENABLED", "false")


@pytest.mark.parametrize("code", CODE, ids=lambda code: code.splitlines()[0])
def test_example_code_on_the_page_runs(code):
    names = {}
    exec(code, names)
    if "stop" in names:
        names["stop"]()
    assert len(CODE) == 6


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_on_the_page_can_be_imported(module, name):
    assert hasattr(import_module(module), name)
    assert len(NAMES) == 8


def test_every_command_on_the_page_exists():
    assert {"otlp"} <= set(re.findall(r"`groundwatch (\w+)`", PAGE)) <= set(COMMANDS)


def test_links_have_an_existing_target():
    targets = re.findall(r"\]\(([^)#]+)", PAGE)
    assert [t for t in targets if not (DOCS / t).exists()] == []
