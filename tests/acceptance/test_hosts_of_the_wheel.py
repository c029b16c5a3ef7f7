"""The built wheel in apps with a `monitor`, `workers` and `alerts` of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import redis

from monitor.queue import names
from workers.supervise import free_port

ROOT = Path(__file__).parents[2]
OURS = "import groundwatch\nassert 'site' in groundwatch.__file__, groundwatch.__file__\n"
OWN = "import monitor, workers, alerts\nassert monitor.OWN and workers.OWN and alerts.OWN\n"
UVICORN = """
from fastapi import FastAPI
from groundwatch.integrations.asgi import InteractionMiddleware, current

app = FastAPI()
app.add_middleware(InteractionMiddleware)

@app.get("/")
def answer():
    it = current()
    it.query, it.contexts, it.output = "q", ["c"], "a"
"""
DJANGO = """
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
from groundwatch.integrations.wsgi import InteractionMiddleware, current

settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="s", ALLOWED_HOSTS=["*"],
                   INSTALLED_APPS=["alerts", "monitor"])
import django
django.setup()

def answer(request):
    it = current()
    it.query, it.contexts, it.output = "q", ["c"], "a"
    return HttpResponse("a")

urlpatterns = [path("", answer)]
from django.core.wsgi import get_wsgi_application
app = InteractionMiddleware(get_wsgi_application())
"""
CELERY = """
import os
from celery import Celery

app = Celery("host", broker=os.environ["BROKER"], backend=os.environ["BROKER"])

@app.task
@groundwatch.watch
def answer(query, contexts):
    return "a"
"""
POOL = """
import multiprocessing

@groundwatch.watch
def answer(query, contexts):
    return "a"

def work(function):
    assert function("q", ["c"]) == "a"
    assert groundwatch.flush(60)

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            pool.map(work, [answer])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The wheel, built and installed where nothing else is."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run((*install, "--target", folder / "site", wheel), check=True, capture_output=True)
    return folder / "site"


@pytest.fixture
def host(tmp_path, site, redis_url):
    return Host(tmp_path, site, redis_url)


class Host:
    """An app's folder, and how its programs run."""

    def __init__(self, folder, site, redis_url):
        self.folder, self.redis_url = folder, redis_url
        for name in ("monitor", "workers", "alerts"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text("OWN = True\n")
        self.environment = os.environ | {
            "PYTHONPATH": str(site), "BROKER": redis_url, "GROUNDWATCH_REDIS_URL": redis_url,
            "GROUNDWATCH_SAMPLE_RATE": "1", "GROUNDWATCH_APP": "host",
            "GROUNDWATCH_HOME": str(folder / "home"),
        }  # fmt: skip

    def write(self, name, program):
        (self.folder / name).write_text(OURS + OWN + program)

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments):
        process = self.start(*arguments)
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors

    def serve(self, *arguments):
        """Start a server, ask until it has answered three times, and end it as orchestrators do."""
        port = free_port()
        process = self.start("-m", *(each.format(port=port) for each in arguments))
        try:
            wait_for(lambda: process.poll() is not None or answers(port), process)
            for _ in range(2):
                assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=200)

    def arrived(self):
        with redis.Redis.from_url(self.redis_url) as client:
            return client.xlen(names.SAMPLES)


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    except httpx.TransportError:
        return False


def wait_for(condition, process):
    deadline_s = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]


def test_hook_delivers_under_uvicorn(host):
    host.write("app.py", UVICORN)
    host.serve("uvicorn", "app:app", "--port", "{port}")
    assert host.arrived() == 3


def test_hook_delivers_from_django_under_gunicorn(host):
    host.write("app.py", DJANGO)
    host.serve("gunicorn", "app:app", "--workers", "1", "--bind", "127.0.0.1:{port}")
    assert host.arrived() == 3


def test_hook_delivers_from_celery_tasks_in_a_package_called_workers(host):
    host.write("workers/tasks.py", CELERY)
    worker = host.start("-m", "celery", "-A", "workers.tasks", "worker", "-c", "1", "-l", "error")
    try:
        ask = "from workers.tasks import answer; assert answer.delay('q', ['c']).get(60) == 'a'"
        host.run("-c", ask)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=200)
    assert host.arrived() == 1


def test_watched_functions_can_be_sent_to_other_processes(host):
    host.write("app.py", POOL)
    host.run("app.py")
    assert host.arrived() == 2


def test_doctor_checks_from_the_callers_folder(host):
    process = subprocess.run(
        [sys.executable, "-m", "groundwatch", "doctor"],
        cwd=host.folder, env=host.environment, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert process.returncode == 1
    assert f"✗ package monitor: {host.folder / 'monitor/__init__.py'}" in process.stdout
    assert "Traceback" not in process.stderr
