"""The hook under gunicorn, with every kind of worker: exact counts, also when it is stopped."""

import contextlib
import http.client
import signal
import subprocess
import sys
import threading
import time

import pytest

from support.waiting import wait_until
from workers.supervise import free_port

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="gunicorn needs fork")

APP = """
import monitor
monitor.init(app="served", sample_rate=1.0, redis_url={redis_url!r})
monitor.sample(output="imported")

def app(environ, start_response):
    monitor.sample(query="q", contexts=["c" * 1_000] * 4, output="served")
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
PRELOADED = [("sync", "--preload"), ("gthread", "--preload"), ("gevent", "--preload")]
KINDS = [*PRELOADED, ("sync", ""), ("gevent", "")]


#: A worker that is asked to end before it listens to signals is killed after a while, and what
#: it had sampled goes with it. How long the client takes to load on a busy machine, and what an
#: exit before then does, is the matter of other tests. So a server is ready when both workers are.
READY = """
import pathlib
import monitor
def post_worker_init(worker):
    monitor.sample(output="started")
    assert monitor.flush(60)
    pathlib.Path(f"ready-{worker.pid}").touch()
"""
WORKERS = 2
ENDS_WITHIN_S = 60  #: less than the 90 after which gunicorn kills what does not end


class Server:
    """A running server, and how many of the requests to it were answered."""

    def __init__(self, command, port, folder):
        self._port = port
        self._folder = folder
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=self._log)
        self.answered = 0
        self.preloaded = "--preload" in command

    def get(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            answered = connection.getresponse().read() == b"ok"
        self.answered += answered
        return answered

    def wait(self):
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if len([*self._folder.glob("ready-*")]) == WORKERS and self.get():
                    return
            assert self.process.poll() is None, self.log()
            time.sleep(0.05)
        raise AssertionError(self.log())

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def terminate(self):
        """Ask it to end, and say how long that took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=150)
        return time.monotonic() - started

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture(params=KINDS, ids=[f"{kind}{preload}" for kind, preload in KINDS])
def server(request, redis_url, tmp_path):
    kind, preload = request.param
    (tmp_path / "served.py").write_text(APP.format(redis_url=redis_url))
    (tmp_path / "gunicorn.conf.py").write_text(READY)
    port = free_port()
    command = [
        sys.executable, "-m", "gunicorn", *filter(None, [preload]), "-w", str(WORKERS), "-k", kind,
        *(["--threads", "4"] if kind == "gthread" else []), "--timeout", "90",
        "--graceful-timeout", "90", "-b", f"127.0.0.1:{port}", "served:app",
    ]  # fmt: skip
    server = Server(command, port, tmp_path)
    try:
        server.wait()
        yield server
    finally:
        server.close()


def test_every_request_is_delivered_once_when_the_server_ends(server, told):
    for _ in range(40):
        assert server.get()
    assert server.terminate() < ENDS_WITHIN_S
    assert told().balanced
    assert told().outputs["served"] == server.answered == 41
    assert told().outputs["started"] == WORKERS
    assert told().outputs["imported"] == (1 if server.preloaded else 2)
    assert not told().dropped


def test_counts_are_exact_when_the_server_is_stopped_amid_requests(server, told):
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                server.get()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: server.answered > 3)
    took_s = server.terminate()
    stop.set()
    for thread in threads:
        thread.join()
    assert took_s < ENDS_WITHIN_S
    assert told().balanced
    # An answer may have been lost on its way to the client, but no sample on its way to Redis.
    assert told().outputs["served"] + told().dropped.total() >= server.answered > 0
