"""uvicorn ends by the signal it got and runs no exit handler: all arrives nevertheless."""

import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from support.waiting import PATIENT_EXIT
from workers.supervise import free_port

SETUP = """
import os
import monitor
from monitor.integrations.asgi import InteractionMiddleware, current
monitor.init(app="bot", sample_rate=1.0, redis_url=os.environ["REDIS_URL"])
"""
FASTAPI = """
from contextlib import asynccontextmanager
from fastapi import FastAPI

@asynccontextmanager
async def lifespan(app):
    yield
    monitor.sample(output="a last word")

app = FastAPI(lifespan=lifespan)
app.add_middleware(InteractionMiddleware)

@app.post("/")
def answer():
    current().output = "a"
"""
WITHOUT_LIFESPAN = """
async def django(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError(f"only HTTP, not {scope['type']}")
    current().output = "a"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a"})

app = InteractionMiddleware(django)
"""
BY_HAND = """
import asyncio
from contextlib import asynccontextmanager
from fastapi import FastAPI

@asynccontextmanager
async def lifespan(app):
    yield
    await asyncio.to_thread(monitor.flush, 60)

app = FastAPI(lifespan=lifespan)

@app.post("/")
def answer():
    monitor.sample(output="a")
"""
AS_IT_IS = """
from fastapi import FastAPI

app = FastAPI()

@app.post("/")
def answer():
    monitor.sample(output="a")
"""


@pytest.fixture
def server(tmp_path, redis_url):
    """Start a module of the given source under uvicorn; it is up when this returns."""
    processes = []

    def started(source, *options):
        (tmp_path / "bot.py").write_text(PATIENT_EXIT + SETUP + source)
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "bot:app", "--port", str(port), *options],
            env={**os.environ, "REDIS_URL": redis_url}, cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        url, deadline = f"http://127.0.0.1:{port}/", time.monotonic() + 100
        while not reached(url):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process, url

    yield started
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


def reached(url):
    try:
        httpx.get(url.rstrip("/") + "/nowhere")
    except httpx.TransportError:
        return False
    return True


@pytest.mark.parametrize(
    ("source", "more"),
    [(FASTAPI, {"a last word": 1}), (BY_HAND, {}), (AS_IT_IS, {})],
    ids=["middleware", "flush", "neither"],
)
def test_every_sample_arrives_when_uvicorn_is_terminated_at_once(server, told, source, more):
    process, url = server(source)
    for _ in range(10):
        httpx.post(url)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=100)
    assert process.returncode in {0, -signal.SIGTERM}, errors
    assert told().outputs == {"a": 10, **more}
    assert told().balanced


def test_every_sample_arrives_without_lifespan_support(server, told):
    process, url = server(WITHOUT_LIFESPAN, "--lifespan", "on")
    for _ in range(10):
        httpx.post(url)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=100)
    assert process.returncode in {0, -signal.SIGTERM}, errors
    assert told().outputs == {"a": 11}  # the first one asked whether it was there
    assert told().balanced


def test_failing_application_startup_is_unchanged(server):
    failing = """
async def fails(scope, receive, send):
    await receive()
    raise KeyError("mine")

app = InteractionMiddleware(fails)
"""
    with pytest.raises(AssertionError, match="mine"):
        server(failing, "--lifespan", "on")


def test_script_that_exits_on_a_signal_delivers(run, told):
    run(f"""{PATIENT_EXIT}
import os, signal, sys
import monitor
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
monitor.init(app="bot", sample_rate=1.0, redis_url=REDIS_URL)
monitor.sample(output="a")
os.kill(os.getpid(), signal.SIGTERM)
""")
    assert told().outputs == {"a": 1}
