"""Workers that make no progress are replaced; those that are only slow are not."""

import os
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

import monitor
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.queue.snapshot import read_stalls
from workers.waker import STALLED

SLOW = """
import time

def slow(interaction):
    time.sleep(12)
    return 1.0
"""


@pytest.fixture
def environment(tmp_path, sqlite_url):
    (tmp_path / "slow_metric.py").write_text(SLOW)
    (tmp_path / "metrics.toml").write_text(
        '[slow]\nfunction = "slow_metric:slow"\nrequires = ["output"]\n'
    )
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    return keep | {
        "PYTHONPATH": str(tmp_path),
        "GROUNDWATCH_HOME": str(tmp_path / "home"),
        "GROUNDWATCH_DATABASE_URL": sqlite_url,
        "GROUNDWATCH_METRICS": "slow",
        "GROUNDWATCH_METRICS_FILE": str(tmp_path / "metrics.toml"),
        "GROUNDWATCH_ENABLED": "false",
        "GROUNDWATCH_STALL_AFTER_S": "10",
    }


@contextmanager
def running(environment, redis_url, *command):
    process = subprocess.Popen(
        [sys.executable, "-m", *command], env=environment | {"GROUNDWATCH_REDIS_URL": redis_url},
        stdout=subprocess.DEVNULL, stderr=sys.stderr,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=200)


def give_one(redis_url):
    hook = monitor.Hook(app="shop", sample_rate=1.0, redis_url=redis_url)
    hook.sample(query="How are refunds paid?", contexts=["By card."], output="By card.")
    assert hook.flush(60)
    hook.close(1)


def test_deaf_worker_exits_and_a_slow_one_continues(environment, redis_url, redis_urls):
    elsewhere = next(redis_urls)
    deaf = ("celery", "-A", "workers", "worker", "-Q", "nobody-writes-here", "--concurrency", "1")
    slow = ("monitor", "worker", "--processes", "1")
    with (
        running(environment, redis_url, *deaf) as deaf_one,
        running(environment, elsewhere, *slow) as slow_one,
        closing(connect(redis_url)) as client,
        closing(connect(elsewhere)) as other,
    ):
        give_one(redis_url)
        give_one(elsewhere)
        assert deaf_one.wait(timeout=200) == STALLED
        assert client.xlen(names.SAMPLES) == 1, "nothing is lost with it"
        found = read_stalls(client)
        assert found.count == 1
        assert "no wake-up was answered" in found.why
        while other.xlen(names.SAMPLES):
            assert slow_one.poll() is None
            time.sleep(0.05)
        assert read_stalls(other).count == 0
    doctor = subprocess.run(
        [sys.executable, "-m", "monitor", "doctor"],
        env=environment | {"GROUNDWATCH_REDIS_URL": redis_url},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 ended itself" in doctor.stdout
