"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from monitor import errors

ROOT = Path(__file__).parents[2]
PACKAGES = ("groundwatch", "monitor", "workers", "alerts")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TOPS = (*PACKAGES, "tests", "benchmarks", "docs", "examples")
#: Revisions are made by a program and never changed.
WRITTEN = [path for path in MODULES if "versions" not in path.parts]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_states_its_purpose(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for path in WRITTEN:
        for item in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
                places[item.name].append(name_of(path))
    del places["InteractionMiddleware"]  # ASGI's and WSGI's: an app imports one of the two
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_cited_sources_are_public():
    """Formulas come from papers, standards or plain descriptions, not from private documents."""
    texts = [*MODULES, ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert [name_of(path) for path in texts if re.search(r"(?i)\bseed 00", path.read_text())] == []


def test_package_docstrings_number_the_data_flow():
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


def test_documented_error_tree_matches_the_classes():
    drawn = set(re.findall(r"^ *[*+-] (\w+)", errors.__doc__, flags=re.MULTILINE))
    defined = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and item.__module__ == errors.__name__
    }
    assert drawn == defined


def test_embedded_programs_import_existing_names():
    """Tests hold programs that run in processes of their own, and no linter reads them."""
    ours = r"(?:^|[;\"'])\s*from ((?:groundwatch|monitor|workers|alerts)[\w.]*) import ([\w, ]+)"
    named = {
        (module, name.split()[0])
        for path in (ROOT / "tests").rglob("*.py")
        for module, names in re.findall(ours, path.read_text(encoding="utf-8"), re.MULTILINE)
        for name in names.split(",")
        if name.strip()
    }
    for module, name in sorted(named):
        if (module, name) == ("monitor.metrics", "faithfulnes") or module == "workers.tasks":
            continue  # a mistake that is answered with the name, and a module of a host
        found = import_module(module)
        if not hasattr(found, name):
            import_module(f"{module}.{name}")


def test_commands_also_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("groundwatch ")


def test_architecture_page_names_existing_files_and_stays_short():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{'|'.join(TOPS)})/[\w/.]+)`", page))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert len(page.splitlines()) <= 250


def test_every_architecture_row_names_what_its_files_contain():
    """A name with a dot, an underscore or a capital is a function, a class or a constant."""
    ours = {name_of(path): path for top in TOPS for path in (ROOT / top).rglob("*.*")}
    ours |= {path.name: path for path in ROOT.glob("*.*")}
    missing = []
    for row in re.findall(r"^\| .*", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE):
        named, texts = re.findall(r"`([\w./-]+)`", row), []
        for name in named:
            if re.search(r"/|\.(py|md|toml|html)$", name):
                part = f"/{name}" if name.endswith("/") else f"/{name}$"
                found = [path for at, path in ours.items() if re.search(part, f"/{at}")]
                texts += [path.read_text("utf-8") for path in found if path.suffix == ".py"]
                missing += [] if found else [(row[:60], name)]
        for name in re.findall(r"`((?!GROUNDWATCH_|_)\w+(?:\.\w+)?)`", row) if texts else ():
            last = name.rpartition(".")[2]
            defined = rf"(?m)(?:def|class) {last}\b|^ *{last}(?:\[[^=]*)?(?::.*)? ="
            is_ours = re.search(r"[A-Z_.]", name) and last not in {"py", "md", "toml", "html"}
            if is_ours and not any(re.search(defined, text) for text in texts):
                missing.append((row[:60], name))
    assert missing == []
