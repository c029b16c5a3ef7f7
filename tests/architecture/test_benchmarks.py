"""Benchmarks can be run, back what the docs say, and no test is based on one."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
#: These check the scripts themselves, and the paths that documents name.
MAY_NAME_THEM = {Path(__file__).name, "test_docs.py", "test_house.py"}


def test_every_benchmark_script_can_be_imported():
    names = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=BENCHMARKS, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_cost_table_matches_its_script():
    printed = subprocess.run(
        [sys.executable, "scale.py"],
        cwd=BENCHMARKS, capture_output=True, text=True, check=True, timeout=200,
    ).stdout  # fmt: skip
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert printed.strip() in page, "run: python benchmarks/scale.py, and put it into docs/scale.md"


def test_no_test_depends_on_a_benchmark():
    naming = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name not in MAY_NAME_THEM
        and re.search(r"benchmarks[/.]\w|[\"']benchmarks", path.read_text(encoding="utf-8"))
    ]
    assert naming == []
