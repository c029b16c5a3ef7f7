"""
Measure samples a second from the queue to the stored evaluation: python benchmarks/pipeline.py.

``local`` scores without a key, beside Celery's own ceiling with the same samples (a task that
does nothing); ``judge`` asks one that takes a second; ``latency`` sends a few samples a second
and looks when a status counts them. Real processes, Redis and SQLite on this machine.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import keep_figures, make_parser, wait_until
from sqlalchemy import func, select

import monitor
from monitor.queue import names
from monitor.queue.consumer import connect, live_workers
from monitor.queue.wire import encode
from monitor.store.engine import Store, migrate
from monitor.store.packing import record_of
from monitor.store.tables import evaluations, samples
from monitor.store.verdicts import read_verdicts
from monitor.testing import make_interaction, make_sample
from support.redis_server import RedisServer
from support.slow_judge import SlowJudge

_STAGED = "staged"
_WINDOW_S = 300
_RATE = 4.0  #: samples a second where it is not as many as can be


class Bench:
    """A Redis, a store and what runs on them."""

    def __init__(self, folder: Path, server: RedisServer) -> None:
        self.server, self.store_url = server, f"sqlite:///{folder}/store.db"
        self.client: Any = connect(server.url)
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "OPENBLAS_NUM_THREADS": "1",
            "GROUNDWATCH_HOME": str(folder),
            "GROUNDWATCH_REDIS_URL": server.url,
            "GROUNDWATCH_DATABASE_URL": self.store_url,
            "GROUNDWATCH_LOG_LEVEL": "error",
            "CEILING_REDIS_URL": server.url,
        }
        store = Store(self.store_url)
        migrate(store)
        store.close()

    @contextmanager
    def running(self, *command: str, **settings: str) -> Iterator[None]:
        """Run ``python -m COMMAND`` meanwhile."""
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", *command],
            env=self.environment | settings,
            cwd=Path(__file__).parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def worker(self, processes: int, **settings: str) -> Iterator[None]:
        """Run a worker, from the moment on at which it takes work."""
        with self.running("monitor", "worker", "--processes", str(processes), **settings):
            wait_until(lambda: bool(live_workers(self.client, now_s=time.time())))
            yield

    def stage(self, n: int) -> list[str]:
        """Put samples where no worker looks yet."""
        bodies = []
        with self.client.pipeline(transaction=False) as pipe:
            for number in range(n):
                query = f"How long does refund {number} of {time.time_ns()} take?"
                fields = encode(make_sample(make_interaction(query=query)))
                bodies.append(fields[b"body"].decode())
                pipe.xadd(_STAGED, fields)
            pipe.execute()
        return bodies

    def drained_s(self) -> float:
        """Hand over what is staged, and time how long workers take for all of it."""
        self.client.rename(_STAGED, names.SAMPLES)
        started_s = time.monotonic()
        wait_until(lambda: not self.client.xlen(names.SAMPLES), every_s=0.005)
        return time.monotonic() - started_s


def local(bench: Bench, n: int) -> dict[str, float]:
    """Score locally with one process and with two, and let Celery do nothing with the same."""
    found = {}
    for processes in (1, 2):
        with bench.worker(processes):
            bench.stage(processes * 64)  # every process has loaded what it needs
            bench.drained_s()
            bodies = bench.stage(n)
            found[f"local_{processes}_samples_per_s"] = n / bench.drained_s()
        found[f"celery_{processes}_tasks_per_s"] = ceiling(bench, processes, bodies)
    found["local_2_over_1_ratio"] = found["local_2_samples_per_s"] / found["local_1_samples_per_s"]
    return found


def ceiling(bench: Bench, processes: int, bodies: list[str]) -> float:
    """Time Celery's prefork pool over tasks that do nothing, each with a sample as its message."""
    from celery import Celery  # noqa: PLC0415

    sender = Celery(broker=bench.server.url)
    sender.conf.update(task_default_queue="ceiling", task_ignore_result=True)
    with sender.connection_for_write() as connection:
        for body in bodies:
            sender.send_task("nothing", args=(body,), connection=connection)
    whole = len(bodies)
    arguments = ("-A", "pipeline_celery", "worker", "-c", str(processes), "-l", "ERROR")
    with bench.running("celery", *arguments, "--without-gossip", "--without-mingle"):
        wait_until(lambda: bench.client.llen("ceiling") < whole, every_s=0.002)
        started_s = time.monotonic()
        wait_until(
            lambda: not bench.client.llen("ceiling") and not bench.client.hlen("unacked"),
            every_s=0.005,
        )
        return whole / (time.monotonic() - started_s)


def judge(bench: Bench, n: int) -> dict[str, float]:
    """Ask a judge that takes a second, 50 at once in one process."""
    with SlowJudge(1.0) as server:
        settings = {
            "GROUNDWATCH_SCORER": "judge",
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
            "GROUNDWATCH_VERDICT_CACHE_S": "0",
        }
        with bench.worker(1, **settings):
            bench.stage(n)
            took_s = bench.drained_s()
    return {
        "judge_1s_50_samples_per_s": n / took_s,
        "judge_most_calls_at_once": server.most_in_flight,
    }


def slow_judge(bench: Bench, n: int) -> dict[str, float]:
    """Let a cascade ask a judge that takes 20 s; see how long samples wait that need none."""
    found = {}
    with SlowJudge(20.0) as server:
        settings = {
            "GROUNDWATCH_SCORER": "cascade",
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
        }
        hook = monitor.Hook(app="bench", sample_rate=1.0, redis_url=bench.server.url)
        with bench.worker(1, **settings):
            began_s = time.monotonic()
            for number in range(n):
                time.sleep(max(0.0, began_s + number / _RATE - time.monotonic()))
                hook.sample(query=f"q{number}", contexts=["It is so."], output=f"It is {number}.")
            wait_until(lambda: not bench.client.xlen(names.SAMPLES))
        hook.close(1)
    store = Store(bench.store_url)
    with store.read() as connection:
        columns = (
            (samples.c.received_at_ms - samples.c.occurred_at_ms).label("ms"),
            samples.c.payload, evaluations.c.evaluation_id, evaluations.c.record,
        )  # fmt: skip
        rows = connection.execute(
            select(*columns).join(evaluations, evaluations.c.sample_id == samples.c.sample_id)
        ).all()
    store.close()
    alone = sorted(
        row.ms / 1000 for row in rows if _is_not_asked(record_of(row).get("metadata") or {})
    )
    found["cascade_20s_not_asked_ratio"] = len(alone) / len(rows)
    for share in (50, 75, 90):
        found[f"cascade_20s_not_asked_p{share}_s"] = alone[len(alone) * share // 100]
    found["cascade_20s_not_asked_longest_s"] = alone[-1]
    return found


def _is_not_asked(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("judged") is False and "judge_skipped" not in metadata


def latency(bench: Bench, n: int) -> dict[str, float]:
    """
    Send four samples a second; look when the store has each, and when a status counts it.

    The first one only wakes the processes, which load much of what they need with it.
    """
    hook = monitor.Hook(app="bench", sample_rate=1.0, redis_url=bench.server.url)
    store = Store(bench.store_url)

    def send(number: int) -> None:
        hook.sample(query=f"q{number}", contexts=["It is so."], output="It is so.")

    sent_s: list[float] = []
    stored_s: list[float] = []
    counted_s: list[float] = []
    with bench.worker(1), bench.running("monitor", "scheduler"):
        send(0)
        wait_until(lambda: _counted(store) > 0)
        next_s = time.monotonic()
        while len(counted_s) < n:
            if len(sent_s) < n and time.monotonic() >= next_s:
                sent_s.append(time.monotonic())
                send(len(sent_s))
                next_s += 0.25
            _note(stored_s, _stored(store) - 1)
            _note(counted_s, _counted(store) - 1)
            time.sleep(0.02)
    hook.close(1)
    store.close()
    return _quantiles("stored", sent_s, stored_s) | _quantiles("status", sent_s, counted_s)


def _note(times_s: list[float], number: int) -> None:
    """Note that so many have arrived by now."""
    times_s += [time.monotonic()] * (number - len(times_s))


def _quantiles(where: str, sent_s: list[float], there_s: list[float]) -> dict[str, float]:
    took = sorted(b - a for a, b in zip(sent_s, there_s, strict=True))
    return {
        f"sample_to_{where}_p50_s": took[len(took) // 2],
        f"sample_to_{where}_p99_s": took[int(len(took) * 0.99)],
    }


def _stored(store: Store) -> int:
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(samples)).scalar_one()


def _counted(store: Store) -> int:
    """Read how many samples a status counts."""
    with store.read() as connection:
        verdicts = read_verdicts(connection, "bench").values()
    return max((v.n for v in verdicts if v.window_s == _WINDOW_S), default=0)


_PARTS = {
    "slow-judge": (slow_judge, 200),
    "local": (local, 4_000),
    "judge": (judge, 800),
    "latency": (latency, 100),
}


def main() -> None:
    """Measure one part and print its figures; keep them if no option made the run shorter."""
    parser = make_parser(__doc__)
    parser.add_argument("part", choices=sorted(_PARTS))
    parser.add_argument("--samples", type=int, help="Unset: what takes under a minute.")
    asked = parser.parse_args()
    measure, n = _PARTS[asked.part]
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder) / "redis", durable=False) as server,
    ):
        bench = Bench(Path(folder), server)
        found = measure(bench, asked.samples or n)
        bench.client.close()
    keep_figures("pipeline", found, full=(asked.samples or n) >= n)


if __name__ == "__main__":
    main()
