"""docs/scale.md shows what its script prints from the figures that are committed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_script_prints():
    printed = subprocess.run(
        [sys.executable, "scale.py"],
        cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert printed.strip() in page, "run: python benchmarks/scale.py, and put it into docs/scale.md"
