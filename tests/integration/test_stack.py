"""The processes of one machine: ready is only what was started, whoever else has its port."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from monitor.errors import ServerStartError
from monitor.settings import Settings
from monitor.store.engine import Store, acquire, process_name
from monitor.store.schema import migrate
from support.redis_server import RedisServer
from workers.stack import plan_stack, wait_for_page, wait_for_scheduler
from workers.supervise import wait_until_ready


class Stranger(BaseHTTPRequestHandler):
    """The page of another groundwatch, which is ready."""

    pid = "1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Groundwatch-Process", self.pid)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def page(pid):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Page", (Stranger,), {"pid": str(pid)}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def short():
    """A process that ends soon, as one whose port is taken."""
    code = "import time; print('port taken'); time.sleep(1); raise SystemExit(3)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as process:
        yield process


@pytest.fixture
def lasting():
    """A process that runs as long as the test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "web.log"
    file.write_text("starting\naddress already in use\n")
    return file


def test_page_of_another_program_is_not_taken_for_ours(short, log):
    with page(1) as port, pytest.raises(ServerStartError, match=r"web ended .*already in use"):
        wait_for_page("127.0.0.1", port, log, short)


def test_our_page_is_ready_once_it_answers(short, log):
    with page(short.pid) as port:
        wait_for_page("127.0.0.1", port, log, short)
    assert short.poll() is None


def test_port_that_does_not_speak_http_is_not_taken_for_a_page(short, log, redis_url):
    port = int(redis_url.rsplit(":", 1)[1].split("/")[0])
    with pytest.raises(ServerStartError, match="web ended"):
        wait_for_page("127.0.0.1", port, log, short)


def test_redis_of_another_program_is_not_taken_for_ours(short, tmp_path):
    with RedisServer(tmp_path) as stranger:
        with pytest.raises(ServerStartError, match="ended with code 3"):
            wait_until_ready(stranger.url, short)
        wait_until_ready(stranger.url, stranger.process)


@pytest.mark.parametrize("is_ours", [True, False])
def test_scheduler_waiting_for_another_schedulers_lease_says_so(lasting, log, tmp_path, is_ours):
    settings = Settings(home=tmp_path)
    store = Store(settings.sql_url)
    migrate(store)
    owner = f"{process_name(lasting.pid if is_ours else 1)}abc"
    acquire(store, "scheduler", owner, ttl_s=60)
    store.close()
    remark = f"another scheduler holds the lease ({owner}); this one waits for it"
    assert wait_for_scheduler(settings, log, lasting) == (None if is_ours else remark)


def test_up_links_alerts_to_its_own_page_unless_another_address_is_set(tmp_path, redis_url):
    addresses = []
    for more in ({}, {"report_url": "https://monitor.example.org"}):
        settings = Settings(home=tmp_path, redis_url=redis_url, web_port=0, **more)
        stack = plan_stack(settings, {}, with_page=True)
        scheduler = next(each for each in stack.services if each.name == "scheduler")
        addresses.append((stack.page_url, scheduler.environment.get("GROUNDWATCH_REPORT_URL")))
    (page, linked), (_, own) = addresses
    assert linked == page
    assert own is None  # the setting of the environment stays as it is
