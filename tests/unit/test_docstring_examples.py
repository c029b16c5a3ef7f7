"""The examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("alerts", "groundwatch", "monitor", "workers")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_examples_give_their_stated_results(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
