"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from monitor import errors

ROOT = Path(__file__).parents[2]
PACKAGES = ("monitor", "workers", "alerts")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MOST_LINES = 500
#: Revisions are made by a program and never changed.
WRITTEN = [path for path in MODULES if "versions" not in path.parts]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_no_module_grows_into_a_second_noun(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_flow_can_be_read_off_the_folders():
    first_lines = [
        path.read_text(encoding="utf-8").splitlines()[0].strip('"')
        for path in MODULES
        if path.name == "__init__.py"
    ]
    steps = sorted(line for line in first_lines if line.startswith("Step"))
    names = [re.match(r"Step (\d) of 7 · (\w+):", line).groups() for line in steps]
    assert names == [
        ("1", "hook"),
        ("2", "queue"),
        ("3", "scoring"),
        ("4", "store"),
        ("5", "rolling"),
        ("6", "alerts"),
        ("7", "report"),
    ]


def test_the_tree_of_errors_in_the_docstring_is_the_tree_of_the_classes():
    drawn = set(re.findall(r"^ *[*+-] (\w+)", errors.__doc__, flags=re.MULTILINE))
    defined = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and item.__module__ == errors.__name__
    }
    assert drawn == defined


def test_the_commands_run_as_a_module_too():
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("groundwatch ")
