"""The hook under uWSGI, whose forks tell Python only if asked to."""

import contextlib
import http.client
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.waiting import wait_until
from workers.supervise import free_port

UWSGI = shutil.which("uwsgi", path=str(Path(sys.executable).parent))

pytestmark = pytest.mark.skipif(UWSGI is None, reason="there is no wheel of uWSGI for this Python")

APP = """
import monitor
monitor.init(app="served", sample_rate=1.0, redis_url={redis_url!r})
{at_import}

def app(environ, start_response):
    monitor.sample(query="q", contexts=["c" * 1_000] * 4, output="served")
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
AT_IMPORT = "monitor.sample(output='imported')"
#: Without an option of the first two, an app that samples while it is imported must not be forked.
WAYS = {"hooks": ["--py-call-uwsgi-fork-hooks"], "lazy": ["--lazy-apps"], "plain": []}


@pytest.fixture(params=WAYS)
def ask(request, redis_url, tmp_path):
    """Start a server of two processes; give a function that asks it *n* times and ends it."""
    at_import = "" if request.param == "plain" else AT_IMPORT
    (tmp_path / "served.py").write_text(APP.format(redis_url=redis_url, at_import=at_import))
    port = free_port()
    command = [
        UWSGI, "--http-socket", f"127.0.0.1:{port}", "--module", "served:app", "--master",
        "--processes", "2", "--enable-threads", "--die-on-term", "--need-app",
        "--worker-reload-mercy", "200", *WAYS[request.param],
    ]  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)

    def once():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().read() == b"ok"

    def ask_(n):
        deadline, answered = time.monotonic() + 100, 0
        while answered < n and time.monotonic() < deadline:
            try:
                answered += once()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        return answered

    yield ask_
    # uWSGI loses a signal that comes while its master still forks: one process may answer all.
    wait_until(lambda: "spawned uWSGI worker 2" in (tmp_path / "log").read_text())
    started = time.monotonic()
    try:
        for _ in range(4):
            server.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(timeout=60)
                break
    finally:
        server.kill()
    # After 200 s it would have killed who does not end.
    assert time.monotonic() - started < 150


def test_every_request_is_delivered_once_and_the_server_ends_in_time(ask, told):
    assert ask(40) == 40
    # Before the end: uWSGI gives its processes no time to import what a first delivery needs.
    # The counters of a process follow its samples.
    wait_until(lambda: told().outputs["served"] >= 40 and told().balanced)
    assert told().outputs["served"] == 40
    assert not told().dropped
