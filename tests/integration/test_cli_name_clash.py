"""The command line in the folder of an app that has modules of our names."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monitor.cli.doctor import check_store, show
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.ledger import Entry, Kind, book
from monitor.store.schema import migrate

ROOT = Path(__file__).parents[2]
BESIDE_US = {"PYTHONPATH": f".{os.pathsep}{ROOT}"}


@pytest.fixture
def host(tmp_path):
    """An app with packages named like ours."""
    for name in ("monitor", "workers", "alerts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the host was imported')")
    return tmp_path


def run(host, *arguments, module="groundwatch", **environment):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=host,
        env=os.environ | {"GROUNDWATCH_HOME": str(host / "home")} | environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("environment", [{}, BESIDE_US], ids=["folder", "PYTHONPATH"])
def test_doctor_names_the_modules_that_shadow_ours(host, environment):
    done = run(host, "doctor", **environment)
    assert f"✗ package monitor: {host / 'monitor/__init__.py'}" in done.stdout
    assert "import groundwatch" in done.stdout
    assert f"– package workers: {host / 'workers/__init__.py'}" in done.stdout
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_python_m_monitor_names_shadowing_modules_too(host):
    shutil.rmtree(host / "monitor")  # which Python runs, where there is one
    done = run(host, "doctor", module="monitor", PYTHONPATH=str(ROOT))
    assert f"– package workers: {host / 'workers/__init__.py'}" in done.stdout
    assert "✗ store" in done.stdout
    assert "Traceback" not in done.stderr


def test_doctor_outside_the_host_folder_finds_our_package(tmp_path):
    done = run(tmp_path, "doctor")
    assert f"✓ package monitor: {ROOT / 'monitor/__init__.py'}" in done.stdout


@pytest.mark.parametrize("command", ["status", "config", "migrate"])
def test_commands_run_our_code_in_a_folder_with_our_module_names(host, command):
    done = run(host, command, **BESIDE_US)
    assert "the host was imported" not in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_fails_an_app_that_loses_most_of_its_samples(sqlite_url, capsys):
    store = Store(sqlite_url)
    migrate(store)
    with store.write() as connection:
        book(
            connection,
            [
                Entry("lost", int(time.time()), Kind.SAMPLED, "", 500),
                Entry("lost", int(time.time()), Kind.DROPPED, "encode_failed", 499),
                Entry("fine", int(time.time()), Kind.SAMPLED, "", 500),
                Entry("fine", int(time.time()), Kind.DROPPED, "buffer_full", 5),
            ],
        )
    store.close()
    assert not show((check_store,), Settings(database_url=sqlite_url))
    text = capsys.readouterr().out
    assert "✗ samples of lost: 100% of 500 dropped within an hour" in text
    assert "encode_failed" in text
    assert "samples of fine" not in text
