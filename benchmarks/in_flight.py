"""
Measure how many judge calls one worker process keeps in flight: python benchmarks/in_flight.py.

A Redis, a store and a judge on loopback that takes a second for each answer; one drain,
as a Celery worker runs it, empties a queue of samples.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from servers import JudgeServer

from monitor.queue import names
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.store.engine import Store, migrate
from monitor.testing import make_interaction, make_sample
from workers.context import Context
from workers.supervise import RedisServer


class SlowJudge(JudgeServer):
    """Answers after a while, and counts how many requests are with it."""

    def __init__(self, takes_s: float, **options: Any) -> None:
        super().__init__(**options)
        self._takes_s = takes_s
        self._at_once = 0
        self._gate = threading.Lock()
        self.most_at_once = 0
        self.busy_s = 0.0

    def take(self, request: dict[str, Any]) -> str:
        """Wait, as a model would think."""
        with self._gate:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        started_s = time.monotonic()
        time.sleep(self._takes_s)
        with self._gate:
            self._at_once -= 1
            self.busy_s += time.monotonic() - started_s
        return super().take(request)


def main() -> None:
    """Empty a queue and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0].strip())
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--takes-s", type=float, default=1.0)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), durable=False) as redis_server,
        SlowJudge(asked.takes_s) as judge,
    ):
        url = f"sqlite:///{folder}/store.db"
        store = Store(url)
        migrate(store)
        store.close()
        context = Context(
            Settings(
                redis_url=redis_server.url,
                database_url=url,
                scorer="judge",
                openai_base_url=judge.url,
                judge_concurrency=asked.concurrency,
            )
        )
        for number in range(asked.samples):
            sample = make_sample(make_interaction(query=f"How long does refund {number} take?"))
            context.redis.xadd(names.SAMPLES, encode(sample))  # type: ignore[arg-type]
        started_s, cpu_s = time.monotonic(), time.process_time()
        drain = context.scoring_run(lambda: True)
        drain.idle_after_s = 0.1
        scored = drain.run(budget_s=600)
        took_s, cpu_s = time.monotonic() - started_s, time.process_time() - cpu_s
        context.close()
    ideal_s = asked.samples * asked.takes_s / asked.concurrency
    Console(highlight=False).print(
        f"{scored:,} samples in {took_s:.1f} s: {scored / took_s:.1f} a second;"
        f" most calls in flight {judge.most_at_once}, {judge.busy_s / took_s:.1f} on average"
        f" (all slots always full: {ideal_s:.1f} s);"
        f" {1000 * cpu_s / scored:.1f} ms CPU a sample, the judge's own included"
    )


if __name__ == "__main__":
    main()
