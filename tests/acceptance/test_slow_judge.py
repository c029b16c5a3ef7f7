"""A worker that is told to stop while a slow judge has its samples."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from sqlalchemy import func, select

from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.queue.wire import encode
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.tables import samples
from monitor.testing import make_interaction, make_sample
from support.judge_server import JudgeServer
from support.waiting import wait_until

SAMPLES, AT_ONCE = 40, 4
ENDS_WITHIN_S = 200  #: on however busy a machine


class HeldJudge(JudgeServer):
    """Keeps every request waiting until it is let go."""

    def __init__(self, **options):
        super().__init__(**options)
        self.go = threading.Event()

    def take(self, request):
        behaviour = super().take(request)
        self.go.wait(ENDS_WITHIN_S)
        return behaviour


def pending_of(client):
    return client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", SAMPLES)


def taken(entry):
    return entry["times_delivered"] > 0


@pytest.mark.parametrize(("answers", "judge_timeout_s"), [(True, "30"), (False, "8")])
def test_stopped_worker_finishes_or_returns_its_samples(
    answers, judge_timeout_s, redis_url, sqlite_url, tmp_path
):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    with HeldJudge() as judge, closing(connect(redis_url)) as client:
        environment = keep | {
            "GROUNDWATCH_HOME": str(tmp_path),
            "GROUNDWATCH_REDIS_URL": redis_url,
            "GROUNDWATCH_DATABASE_URL": sqlite_url,
            "GROUNDWATCH_SCORER": "judge",
            "GROUNDWATCH_JUDGE_CONCURRENCY": str(AT_ONCE),
            "GROUNDWATCH_JUDGE_TIMEOUT_S": judge_timeout_s,
            "OPENAI_BASE_URL": judge.url,
            "OPENAI_API_KEY": "none",
        }
        for number in range(SAMPLES):
            query = f"How long does refund {number} take?"
            client.xadd(names.SAMPLES, encode(make_sample(make_interaction(query=query))))
        worker = subprocess.Popen(
            [sys.executable, "-m", "monitor", "worker", "--processes", "1"],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: len(judge.requests) >= AT_ONCE)
            worker.send_signal(signal.SIGTERM)
            if answers:
                # It has noticed, and handed back what it had not begun.
                wait_until(lambda: sum(map(taken, pending_of(client))) == AT_ONCE)
                judge.go.set()
            assert worker.wait(timeout=ENDS_WITHIN_S) == 0
        finally:
            worker.kill()
            worker.wait()
            judge.go.set()
        left = client.xlen(names.SAMPLES)
        pending = pending_of(client)
    # Handed back: whoever comes next has them at once, and nobody is blamed.
    assert not any(map(taken, pending))
    with closing(Store(sqlite_url)) as store, store.read() as connection:
        stored = connection.execute(select(func.count()).select_from(samples)).scalar_one()
        totals = read_totals(connection)["support-bot"]
    assert (stored, stored + left) == (AT_ONCE, SAMPLES)
    scored = totals[Booking(Kind.SCORED, "")]
    failed = sum(count for booking, count in totals.items() if booking.kind is Kind.FAILED)
    assert (scored, failed) == ((AT_ONCE, 0) if answers else (0, AT_ONCE))
