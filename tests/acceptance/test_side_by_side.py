"""Two workers and two schedulers side by side, one of each told to stop midway."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing

from sqlalchemy import func, select

from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from monitor.queue.wire import encode
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.tables import evaluations, samples
from monitor.testing import make_interaction, make_sample
from support.waiting import wait_until

SAMPLES = 800


def stop(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=200)


def test_sums_stay_exact_when_half_of_the_workers_leave(redis_url, postgres_url, tmp_path):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("GROUNDWATCH_")}
    environment = keep | {
        "GROUNDWATCH_HOME": str(tmp_path),
        "GROUNDWATCH_REDIS_URL": redis_url,
        "GROUNDWATCH_DATABASE_URL": postgres_url,
        "GROUNDWATCH_ENABLED": "false",
    }
    commands = 2 * [["worker", "--processes", "1"], ["scheduler"]]
    with ExitStack() as stack, closing(connect(redis_url)) as client:
        running = []
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", "monitor", *command],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running.append(process)
        wait_until(lambda: len(live_workers(client, now_s=time.time())) == 2)
        with client.pipeline(transaction=False) as pipe:
            for number in range(SAMPLES):
                query = f"How long does refund {number} take?"
                pipe.xadd(names.SAMPLES, encode(make_sample(make_interaction(query=query))))
            pipe.execute()
        wait_until(lambda: client.xlen(names.SAMPLES) < SAMPLES - 100)
        # It hands back what it has not begun, at once: nobody waits for it to be given up.
        assert [stop(process) for process in running[:2]] == [0, 0]
        wait_until(lambda: client.xlen(names.SAMPLES) == 0)
        assert client.xpending(names.SAMPLES, names.GROUP)["pending"] == 0
        assert [process.poll() for process in running[2:]] == [None, None]
    with closing(Store(postgres_url)) as store, store.read() as connection:
        stored = connection.execute(select(func.count()).select_from(samples)).scalar_one()
        judged = connection.execute(select(func.count()).select_from(evaluations)).scalar_one()
        totals = read_totals(connection)["support-bot"]
    assert (stored, judged) == (SAMPLES, 2 * SAMPLES)
    assert totals[Booking(Kind.SCORED, "")] == SAMPLES
