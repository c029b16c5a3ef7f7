"""`import groundwatch` works in an app with a `monitor`, `workers` and `alerts` of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

import groundwatch
import monitor
from monitor.queue import names

ROOT = Path(__file__).parents[2]
SAMPLE = """
import groundwatch
groundwatch.init(app="host", sample_rate=1.0)
groundwatch.sample(query="q", contexts=["c"], output="a")
assert groundwatch.flush(60)
"""
PROGRAMS = {
    "script": SAMPLE,
    "own monitor loaded first": "import monitor; assert monitor.OWN\n" + SAMPLE,
    "own monitor loaded later": SAMPLE + "import monitor; assert monitor.OWN\n",
    "decorator": """
import groundwatch
groundwatch.init(app="host", sample_rate=1.0)
@groundwatch.watch
def answer(query, contexts):
    return "a"
assert answer("q", ["c"]) == "a"
assert groundwatch.flush(60)
""",
    "spawned process": """
import multiprocessing
from groundwatch.models import Interaction
def work(interaction):
    import groundwatch
    groundwatch.init(app="host", sample_rate=1.0)
    groundwatch.sample(query=interaction.query, contexts=["c"], output=interaction.output)
    assert groundwatch.flush(60)
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(work, [Interaction(id="1", query="q", output="a")])
""",
    "asgi middleware": """
import asyncio
import groundwatch
from groundwatch.integrations.asgi import InteractionMiddleware
groundwatch.init(app="host", sample_rate=1.0)
async def app(scope, receive, send):
    with groundwatch.interaction(query="q") as it:
        it.contexts, it.output = ["c"], "a"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a"})
async def nothing(*_): return {"type": "http.request", "body": b""}
scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
asyncio.run(InteractionMiddleware(app)(scope, nothing, nothing))
assert groundwatch.flush(60)
""",
}


@pytest.fixture
def host(tmp_path):
    for name in ("monitor", "workers", "alerts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWN = True\n")
    return tmp_path


@pytest.mark.parametrize(
    ("program", "behind"),
    [(name, False) for name in PROGRAMS]
    # with ours in front, the host's own modules are hidden, as by any installed package
    + [(name, True) for name in PROGRAMS if "import monitor" not in PROGRAMS[name]],
)
def test_hook_delivers_in_a_host_with_packages_of_our_names(host, redis_url, program, behind):
    (host / "app.py").write_text(PROGRAMS[program])
    path = [str(ROOT), str(host)] if behind else [str(host), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-P", "app.py"],
        cwd=host,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "GROUNDWATCH_REDIS_URL": redis_url},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen(names.SAMPLES) == 1


def test_groundwatch_package_exports_the_names_of_monitor():
    assert groundwatch.__all__ == monitor.__all__
    assert groundwatch.__version__ == monitor.__version__
