"""Bugs that are planted, to see whether the properties notice; the list is planted_bugs.toml."""

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def plant() -> Callable[..., types.ModuleType]:
    """Load a copy of a module with one piece of its source replaced; none when *old* is empty."""

    def load(name: str, old: str = "", new: str = "", **others: object) -> types.ModuleType:
        path = importlib.import_module(name).__file__
        assert path is not None
        source = Path(path).read_text(encoding="utf-8")
        assert old in source, f"{name} has changed: {old}"
        copy = types.ModuleType(f"{name}_planted")
        sys.modules[copy.__name__] = copy
        exec(compile(source.replace(old, new), path, "exec"), vars(copy))
        vars(copy).update(others)
        return copy

    return load
