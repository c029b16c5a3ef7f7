"""The documentation is built without a dead link, and its quick start works as it is written."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("docs_reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "http.md"])
def test_generated_page_is_what_the_program_says(name):
    written = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert written == generator().PAGES[name](), "run: python docs/reference.py"


def test_site_is_built_without_a_dead_link(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr
    assert (tmp_path / "quickstart" / "index.html").exists()


def test_quick_start_works_as_it_is_written(tmp_path):
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "app.py").write_text(program.replace("time.sleep(0.05)", "time.sleep(0.005)"))
    lines = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    assert {
        "groundwatch up",
        "groundwatch status",
        "python app.py",
        "groundwatch alerts ls",
    } <= set(lines)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GROUNDWATCH_")}
    environment |= {"GROUNDWATCH_HOME": str(tmp_path / "home")}

    def run(line, code=0, **more):
        words = [
            sys.executable,
            *(["-m", "monitor"] if line[0] == "groundwatch" else []),
            *line[1:],
        ]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment | more,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def status(code):
        deadline = time.monotonic() + 60
        while (found := run(["groundwatch", "status"], None)).returncode != code:
            assert time.monotonic() < deadline, found.stdout
        return found.stdout

    up = subprocess.Popen(
        [sys.executable, "-m", "monitor", "up"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert any("to stop" in line for line in up.stdout)
        run(["python", "app.py"])
        assert "healthy" in status(0)
        run(["python", "app.py"], BROKEN="1")
        assert "CRITICAL" in status(2)
        assert "refund-desk" in run(["groundwatch", "alerts", "ls"]).stdout
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)
    assert up.returncode == 0
