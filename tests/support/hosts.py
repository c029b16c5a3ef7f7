"""
Run one groundwatch on many hosts and look whether the sums agree.

In the folder ``tests``: ``python -m support.hosts [--samples 4000] [--cap-usd 0.5]``.

Every host is a network namespace of Linux with an address of its own, so what they share goes
over a network: Redis and PostgreSQL on one, an app with the hook on another, two hosts of
workers, a scheduler on each of two, the page on one; the judge answers on the bridge. All of
them share this machine's processors: this is a check of sums, no measurement of speed. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

import monitor
from monitor.queue import names
from monitor.queue.consumer import connect
from monitor.scoring.limits.budget import Budget, caps_from
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.ledger import Kind, read_totals
from monitor.store.schema import migrate
from monitor.store.tables import evaluations, samples
from monitor.web.auth import Role, new_token
from support.postgres_server import PostgresServer
from support.slow_judge import SlowJudge
from workers.supervise import command, free_port, wait_until_ready

_APP, _BRIDGE, _GATEWAY = "shop", "gwbench", "10.77.0.1"
_HOSTS = {"data": 2, "app": 3, "workers1": 4, "workers2": 5, "scheduler1": 6, "scheduler2": 7,
          "page": 8}  # fmt: skip
_TEXT = "Refunds are paid back to the original card within five working days."
_AT_ONCE = 500  #: samples the app makes before it waits for its buffer


def ip(*arguments: str, check: bool = True) -> None:
    """Change the network."""
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


def address(host: str) -> str:
    """Say where a host is."""
    return f"10.77.0.{_HOSTS[host]}"


def inside(host: str) -> tuple[str, ...]:
    """Say what goes before a command so that it runs on *host*."""
    return ("ip", "netns", "exec", f"{_BRIDGE}-{host}")


def remove_network() -> None:
    """Remove all hosts, also those that a killed run has left."""
    for host in _HOSTS:
        ip("netns", "del", f"{_BRIDGE}-{host}", check=False)
    ip("link", "del", _BRIDGE, check=False)


@contextmanager
def network() -> Iterator[None]:
    """Make a bridge and hosts on it; they are gone afterwards, whatever happens."""
    remove_network()
    try:
        ip("link", "add", _BRIDGE, "type", "bridge")
        ip("addr", "add", f"{_GATEWAY}/24", "dev", _BRIDGE)
        ip("link", "set", _BRIDGE, "up")
        for host, number in _HOSTS.items():
            space, end = f"{_BRIDGE}-{host}", f"gwb{number}"
            ip("netns", "add", space)
            ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", end, "master", _BRIDGE, "up")
            ip("-n", space, "addr", "add", f"{address(host)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield
    finally:
        remove_network()


class Fleet:
    """The hosts' processes; all of them end with the stack, or with this process."""

    def __init__(self, stack: ExitStack, folder: Path, processes: int, **more: str) -> None:
        self._stack, self._folder = stack, folder
        self.token, entry = new_token(Role.READER, "bench")
        self.redis_url = self._redis()
        (folder / "postgres").mkdir()
        postgres = PostgresServer(
            folder / "postgres", durable=False, host=address("data"), before=inside("data")
        )
        self.store_url = stack.enter_context(postgres).url
        self.store = stack.enter_context(closing(Store(self.store_url)))
        migrate(self.store)
        self.environment = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "OPENBLAS_NUM_THREADS": "1",
            "GROUNDWATCH_REDIS_URL": self.redis_url,
            "GROUNDWATCH_DATABASE_URL": self.store_url,
            "GROUNDWATCH_WEB_TOKENS": entry,
            "GROUNDWATCH_LOG_LEVEL": "error",
        } | more
        for host in ("workers1", "workers2"):
            self.start(host, "-m", "monitor", "worker", "--processes", str(processes))
        for host in ("scheduler1", "scheduler2"):
            self.start(host, "-m", "monitor", "scheduler")
        self.start("page", "-m", "monitor", "web", "--host", address("page"))

    def start(self, host: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start Python on a host."""
        home = self._folder / host
        environment = self.environment | {"GROUNDWATCH_HOME": str(home)}
        return self._run(host, sys.executable, *arguments, env=environment, **options)

    def _redis(self) -> str:
        port, host = free_port(), address("data")
        ours = command(self._folder, port, durable=False)
        options = ("--bind", host, "--protected-mode", "no")
        process = self._run("data", *ours, *options)
        wait_until_ready(url := f"redis://{host}:{port}/0", process)
        return url

    def _run(self, host: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        watched = (sys.executable, "-m", "workers.launch", str(os.getpid()))
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        process = subprocess.Popen([*watched, *inside(host), *arguments], **options)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process

    def on_page(self) -> int:
        """Ask the page, as its reader, how many samples the windows of the app count."""
        url = f"http://{address('page')}:8642/api/v1/metrics"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        return max((item["pass_rate"]["n"] for item in found["items"]), default=0)


def send(n: int) -> None:
    """Be the app: make samples with the hook, and print its counters."""
    hook = monitor.Hook(app=_APP, sample_rate=1.0)
    for number in range(n):
        hook.sample(query=f"How is refund {number} paid?", contexts=[_TEXT], output=_TEXT)
        if number % _AT_ONCE == _AT_ONCE - 1:
            hook.flush(30)
    hook.flush(30)
    print(json.dumps(hook.stats()))
    hook.close(5)


def counted(store: Store, n: int) -> dict[str, int]:
    """Read the ledger and the rows; ``twice`` is by how much either exceeds what was sent."""
    with store.read() as connection:
        totals = read_totals(connection, _APP).get(_APP, {})
        rows = connection.execute(select(func.count()).select_from(samples)).scalar_one()
        one = (
            select(func.count())
            .select_from(evaluations)
            .group_by(evaluations.c.sample_id, evaluations.c.metric)
        )
        again = sum(count - 1 for count in connection.execute(one).scalars())
    of = {kind.value: sum(v for k, v in totals.items() if k.kind is kind) for kind in Kind}
    done = of["scored"] + of["failed"] + of["skipped"]
    return of | {"done": done, "rows": rows, "twice": max(0, done - n, rows - n) + again}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens on another host; exit when it does not in two minutes."""
    deadline_s = time.monotonic() + 120.0
    while not condition():
        if time.monotonic() > deadline_s:
            sys.exit("waited two minutes in vain")
        time.sleep(0.05)


def run(n: int, processes: int, cap_usd: float | None) -> list[str]:
    """Send *n* samples through a fleet and give a row of the table."""
    with ExitStack() as stack:
        stack.enter_context(network())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        more, judge = {}, None
        if cap_usd:
            judge = stack.enter_context(SlowJudge(0.2, host=_GATEWAY))
            more = {
                "GROUNDWATCH_SCORER": "judge",
                "GROUNDWATCH_JUDGE_MODEL": "gpt-4.1-mini",
                "GROUNDWATCH_BUDGET_USD_PER_MONTH": str(cap_usd),
                "OPENAI_BASE_URL": judge.url,
                "OPENAI_API_KEY": "none",
            }
        fleet = Fleet(stack, folder, processes, **more)
        app = fleet.start(
            "app", "-m", "support.hosts", "--send", str(n), stdout=subprocess.PIPE, stderr=None
        )
        sent = json.loads(app.communicate()[0])["sent"]
        wait_until(lambda: counted(fleet.store, n)["done"] >= n)
        found = counted(fleet.store, n)
        client = stack.enter_context(closing(connect(fleet.redis_url)))
        wait_until(lambda: not client.xlen(names.SAMPLES))
        wait_until(lambda: fleet.on_page() >= found["scored"])
        money = "–"
        if judge and cap_usd:
            caps = caps_from(Settings(budget_usd_per_month=cap_usd))
            (charge,) = Budget(client, caps).charges()
            money = f"{charge.charged_microusd / 1e6:.4f} / {cap_usd:.2f}"
        asked = len(judge.requests) if judge else 0
    counts = (found[name] for name in ("scored", "failed", "skipped", "twice"))
    return [f"2 × {processes}", *(f"{n:,}" for n in (sent, *counts, asked)), money]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=4_000)
    parser.add_argument("--cap-usd", type=float, default=0.5)
    parser.add_argument("--send", type=int, help="be the app on one of the hosts")
    asked = parser.parse_args()
    if asked.send:
        send(asked.send)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    print(
        "| worker processes | sent | scored | failed | skipped | twice | calls | charged / cap, $ |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for processes, cap_usd in ((1, None), (2, None), (2, asked.cap_usd)):
        print(f"| {' | '.join(run(asked.samples, processes, cap_usd))} |", flush=True)


if __name__ == "__main__":
    main()
