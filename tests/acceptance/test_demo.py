"""The demo, as ``make demo`` runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "demo", "--quick"],
        env=keep | {"TMPDIR": str(folder)}, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    return done, folder


def test_every_check_of_the_demo_passes(demo):
    done, _ = demo
    assert done.returncode == 0, done.stdout + done.stderr
    _, checks = done.stdout.split("what had to happen")  # messages may mark an example with ✗
    assert "✓" in checks
    assert "✗" not in checks


def test_status_goes_from_healthy_to_critical_and_back(demo):
    assert "healthy → critical → healthy" in demo[0].stdout


def test_demo_shows_messages_as_received(demo):
    for where in ("Slack received", "SMTP server received"):
        assert where in demo[0].stdout
    assert "RESOLVED" in demo[0].stdout


def test_demo_leaves_no_files_behind(demo):
    _, folder = demo
    assert list(Path(folder).iterdir()) == []
