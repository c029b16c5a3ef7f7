"""
Measure samples of 2.5 kB from the queue to the stored evaluation: python benchmarks/pipeline.py.

``local`` scores without a key, beside Celery's own ceiling with the same samples (a task that does
nothing) and a floor (reading each); ``kept`` has judged each of 64 texts before, on SQLite and on
PostgreSQL; ``judge`` asks one that takes a second; ``latency`` sends a few samples a second and
looks when a status counts them. Real processes and servers; CPU of a worker's processes together.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from celery import Celery
from common import count_rows, keep_figures, new_store, process_cpu_s, script
from made import realistic
from sqlalchemy import select

import monitor
from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from monitor.queue.wire import decode, encode
from monitor.store.engine import Store
from monitor.store.tables import evaluations, samples
from monitor.store.verdicts import read_verdicts
from monitor.testing import make_interaction, make_sample
from support.judge_server import JudgeServer
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from support.slow_judge import SlowJudge
from support.waiting import wait_until

_STAGED = "staged"
_WINDOW_S = 300
_RATE = 4.0  #: samples a second where it is not as many as can be

#: Celery's own ceiling, in processes of its own.
app = Celery("ceiling", broker=os.environ.get("GROUNDWATCH_REDIS_URL"))
app.conf.update(
    task_default_queue="ceiling", task_ignore_result=True, task_serializer="json",
    accept_content=["json"], worker_prefetch_multiplier=50,
    broker_transport_options={"socket_timeout": 15},
)  # fmt: skip


@app.task(name="nothing")
def nothing(body: str) -> None:
    """Take a sample, and do nothing with it."""


class Bench:
    """A Redis, a store and what runs on them."""

    def __init__(self, folder: Path, server: RedisServer, store: Store) -> None:
        self.server, self.store = server, store
        self.client: Any = connect(server.url)
        self.environment = {
            "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "OPENAI_API_KEY": "none",
            "GROUNDWATCH_HOME": str(folder), "GROUNDWATCH_REDIS_URL": server.url,
            "GROUNDWATCH_DATABASE_URL": store.engine.url.render_as_string(hide_password=False),
            "GROUNDWATCH_LOG_LEVEL": "error",
        }  # fmt: skip

    @contextmanager
    def running(self, *command: str, **settings: str) -> Iterator[int]:
        """Run ``python -m COMMAND`` meanwhile, in a session of that number."""
        with subprocess.Popen(
            [sys.executable, "-m", *command],
            env=self.environment | settings, cwd=Path(__file__).parent,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process.pid
            finally:
                process.terminate()

    @contextmanager
    def worker(self, processes: int = 1, **settings: str) -> Iterator[int]:
        """Run a worker, from the moment on at which it takes work."""
        with self.running("monitor", "worker", "--processes", str(processes), **settings) as pid:
            wait_until(lambda: bool(live_workers(self.client, now_s=time.time())))
            yield pid

    def hook(self) -> closing[monitor.Hook]:
        """Run a hook that samples everything."""
        return closing(monitor.Hook(app="bench", sample_rate=1.0, redis_url=self.server.url))

    def stage(self, n: int, texts: int = 10**9) -> list[dict[bytes, bytes]]:
        """Put samples where no worker looks yet, of so many different texts."""
        made = (make_interaction(**realistic(number % texts)) for number in range(n))
        entries = [encode(make_sample(each)) for each in made]
        with self.client.pipeline(transaction=False) as pipe:
            for entry in entries:
                pipe.xadd(_STAGED, entry)
            pipe.execute()
        return entries

    def drained_s(self, session: int) -> tuple[float, float]:
        """Hand over what is staged; return how long it takes, and the CPU time of that session."""
        self.client.rename(_STAGED, names.SAMPLES)
        started_s, used_s = time.monotonic(), process_cpu_s(session)
        wait_until(lambda: not self.client.xlen(names.SAMPLES), every_s=0.005)
        return time.monotonic() - started_s, process_cpu_s(session) - used_s


def _figures(name: str, n: int, taken: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_samples_per_s": n / taken[0], f"{name}_cpu_ms": taken[1] / n * 1000}


def local(bench: Bench, n: int) -> dict[str, float]:
    """Score locally with one process and with two, and let Celery do nothing with the same."""
    found = {}
    for processes in (1, 2):
        with bench.worker(processes) as session:
            bench.stage(processes * 64)  # every process has loaded what it needs
            bench.drained_s(session)
            entries = bench.stage(n)
            found |= _figures(f"local_{processes}", n, bench.drained_s(session))
        found |= _figures(f"celery_{processes}", n, ceiling(bench, processes, entries))
    began_s = time.process_time()
    for entry in entries:
        decode(entry)
    return found | {"floor_cpu_ms": (time.process_time() - began_s) / n * 1000}


def kept(bench: Bench, n: int) -> dict[str, float]:
    """Score what a judge has judged before, on SQLite and on a durable PostgreSQL."""
    found, folder = {}, Path(bench.environment["GROUNDWATCH_HOME"])
    folder.chmod(0o755)
    (folder / "postgres").mkdir()
    with JudgeServer() as server, PostgresServer(folder / "postgres") as postgres:
        for name, url in (("sqlite", ""), ("postgres", postgres.url)):
            with new_store(url) as store:
                there = Bench(folder, bench.server, store)
                with there.worker(
                    GROUNDWATCH_SCORER="judge", OPENAI_BASE_URL=server.url
                ) as session:
                    there.stage(64)
                    there.drained_s(session)
                    there.stage(n, 64)
                    found |= _figures(f"kept_{name}", n, there.drained_s(session))
    return found


def ceiling(bench: Bench, processes: int, entries: list[dict[bytes, bytes]]) -> tuple[float, float]:
    """Time Celery's prefork pool over tasks that do nothing, each with a sample as its message."""
    client, whole = bench.client, len(entries)
    with app.connection_for_write(bench.server.url) as connection:
        for entry in entries:
            app.send_task("nothing", args=(entry[b"body"].decode(),), connection=connection)
    arguments = ("-A", "pipeline", "worker", "-c", str(processes), "-l", "ERROR")
    with bench.running("celery", *arguments, "--without-gossip", "--without-mingle") as session:
        wait_until(lambda: client.llen("ceiling") < whole, every_s=0.002)
        started_s, used_s = time.monotonic(), process_cpu_s(session)
        wait_until(lambda: not client.llen("ceiling") and not client.hlen("unacked"), every_s=0.005)
        return time.monotonic() - started_s, process_cpu_s(session) - used_s


def judge(bench: Bench, n: int) -> dict[str, float]:
    """Ask a judge that takes a second, 50 at once in one process."""
    with (
        SlowJudge(1.0) as server,
        bench.worker(
            GROUNDWATCH_SCORER="judge", OPENAI_BASE_URL=server.url, GROUNDWATCH_VERDICT_CACHE_S="0"
        ) as session,
    ):
        bench.stage(n)
        found = _figures("judge_1s_50", n, bench.drained_s(session))
    return found | {"judge_most_calls_at_once": server.most_in_flight}


def slow_judge(bench: Bench, n: int) -> dict[str, float]:
    """Let a cascade ask a judge that takes 20 s; see how long samples wait that need none."""
    with (
        SlowJudge(20.0) as server,
        bench.hook() as hook,
        bench.worker(GROUNDWATCH_SCORER="cascade", OPENAI_BASE_URL=server.url),
    ):
        began_s = time.monotonic()
        for number in range(n):
            time.sleep(max(0.0, began_s + number / _RATE - time.monotonic()))
            hook.sample(**realistic(number))
        wait_until(lambda: not bench.client.xlen(names.SAMPLES))
    waited_s = (samples.c.received_at_ms - samples.c.occurred_at_ms) / 1000.0
    query = select(waited_s, evaluations.c.judged).select_from(
        samples.join(evaluations, samples.c.position == evaluations.c.position)
    )
    with bench.store.read() as connection:
        rows = connection.execute(query).all()
    alone = [float(waited) for waited, judged in rows if judged == 0]
    return {
        "cascade_20s_not_asked_ratio": len(alone) / len(rows),
        **_percentiles("cascade_20s_not_asked", alone, 50, 75, 90),
        "cascade_20s_not_asked_longest_s": max(alone),
    }


def latency(bench: Bench, n: int) -> dict[str, float]:
    """
    Send four samples a second; look when the store has each, and when a status counts it.

    The first one only wakes the processes, which load much of what they need with it.
    """
    sent_s: list[float] = []
    there_s: dict[str, list[float]] = {"stored": [], "status": []}

    def counted() -> int:
        with bench.store.read() as connection:
            verdicts = read_verdicts(connection, "bench").values()
        return max((v.n for v in verdicts if v.window_s == _WINDOW_S), default=0)

    with bench.hook() as hook, bench.worker(), bench.running("monitor", "scheduler"):
        hook.sample(**realistic(0))
        wait_until(lambda: counted() > 0)
        next_s = time.monotonic()
        while len(there_s["status"]) < n:
            if len(sent_s) < n and time.monotonic() >= next_s:
                sent_s.append(time.monotonic())
                hook.sample(**realistic(len(sent_s)))
                next_s += 1 / _RATE
            arrived = {"stored": count_rows(bench.store, (samples,))[0], "status": counted()}
            for where, times_s in there_s.items():
                times_s.extend([time.monotonic()] * (arrived[where] - 1 - len(times_s)))
            time.sleep(0.02)
    found = {}
    for where, times_s in there_s.items():
        took_s = [b - a for a, b in zip(sent_s, times_s, strict=True)]
        found |= _percentiles(f"sample_to_{where}", took_s, 50, 99)
    return found


def _percentiles(name: str, took_s: list[float], *shares: int) -> dict[str, float]:
    found = np.percentile(took_s, shares, method="higher")
    return {f"{name}_p{share}_s": each for share, each in zip(shares, found.tolist(), strict=True)}


_PARTS = {
    "slow-judge": (slow_judge, 200),
    "local": (local, 2_000),
    "kept": (kept, 4_000),
    "judge": (judge, 800),
    "latency": (latency, 100),
}


@script
def main(
    part: Literal["slow-judge", "local", "kept", "judge", "latency"],
    *,
    samples: int = 0,  # unset: what takes under a minute
) -> None:
    """Measure one part and print its figures; keep them if no option made the run shorter."""
    measure, n = _PARTS[part]
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder) / "redis", durable=False) as server,
        new_store(f"sqlite:///{folder}/store.db") as store,
    ):
        bench = Bench(Path(folder), server, store)
        found = measure(bench, samples or n)
        bench.client.close()
    keep_figures("pipeline", found, full=(samples or n) >= n)
