"""`import monitor` costs the user's app almost nothing."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import monitor

HEAVY = [
    *("celery", "kombu", "openai", "numpy", "scipy", "sqlalchemy", "structlog", "httpx"),
    *("jinja2", "rich", "typer", "redis", "pydantic", "pydantic_core", "asyncio"),
    "multiprocessing",
]


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout


@pytest.mark.parametrize(
    "first",
    ["import monitor", "import groundwatch", "import groundwatch as g; g.init(app='bot')"],
)
def test_importing_monitor_loads_nothing_heavy(first):
    shown = run(f"{first}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert shown.strip() == "[]"


def test_using_a_disabled_hook_loads_nothing_heavy():
    code = (
        "import monitor, sys; monitor.init(enabled=False); monitor.sample(output='x');"
        f"monitor.flush(); print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_version_equals_the_distributions():
    assert monitor.__version__ == version("groundwatch")


def test_public_api_is_exactly_its_documented_names():
    assert set(monitor.__all__) == {
        "Hook", "Rule", "__version__", "choose", "feedback", "flush", "init", "interaction",
        "replayable", "sample", "stats", "watch",
    }  # fmt: skip


def test_listing_commands_loads_none_of_them():
    code = (
        "import sys; from monitor.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'scipy', 'sqlalchemy', 'celery') if m in sys.modules])"
    )
    shown = run(code)
    assert "Run everything on this machine." in shown
    assert shown.strip().endswith("[]")


def test_command_help_loads_no_heavy_dependencies():
    heavy = [*HEAVY[:8], "starlette", "redis", "workers", "monitor.settings"]
    code = (
        "import contextlib, sys; from monitor.cli.app import COMMANDS, app\n"
        "for name in COMMANDS:\n"
        "    with contextlib.suppress(SystemExit): app([name, '--help'])\n"
        "    loaded = [m for m in HEAVY if m in sys.modules]\n"
        "    if loaded: print('LOADED', name, loaded)"
    ).replace("HEAVY", repr(heavy))
    assert [line for line in run(code).splitlines() if line.startswith("LOADED")] == []


def test_scheduler_does_not_load_scipy_optimize_stats_or_sparse():
    code = (
        "import sys, workers.scheduler\n"
        "print([m for m in ('scipy.optimize', 'scipy.stats', 'scipy.sparse') if m in sys.modules])"
    )
    assert run(code).strip() == "[]"
