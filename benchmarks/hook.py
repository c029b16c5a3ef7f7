"""
Measure the hook beside other SDKs: python benchmarks/hook.py [--quick].

Every SDK runs in a process of its own, one measured at a time, in interleaved rounds;
figures are medians. Ours delivers to a real Redis, the others to an HTTP server on
loopback. Needs the extra ``benchmark``; an SDK that is not installed is left out.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import redis
from common import make_parser, print_head, print_row
from hook_probe import CALLS_PER_S, IMPORTS

from support.redis_server import RedisServer

OURS, FLOOR, OTEL = "groundwatch", "floor", "opentelemetry"
#: What has to be installed, the package whose part it is first.
NEEDS = {
    OTEL: ("opentelemetry", "opentelemetry.exporter"),
    "langfuse": ("langfuse",),
    "sentry": ("sentry_sdk",),
}
LONG_PASSAGE = 25_000
DELIVERING = f"p99.9 at {CALLS_PER_S} calls/s, delivering, µs"
HANGING = "p99.9, server hangs, µs"

Figures = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    rounds: int = 15
    calls: int = 20_000
    sampled_calls: int = 500
    tail_rounds: int = 3
    tail_s: float = 4.0
    drained: int = 20_000


QUICK = Effort(rounds=5, tail_rounds=1, tail_s=2.0, drained=5_000)


@dataclass(frozen=True)
class Goal:
    """What a figure of ours has to reach."""

    most: float = float("inf")
    least: float = float("-inf")
    times: float = 0.0  #: cheaper than OpenTelemetry, at least
    below_peers: bool = False

    def met(self, ours: float, peers: Figures) -> bool:
        """Return whether our figure reaches it."""
        return (
            self.least <= ours <= self.most
            and peers.get(OTEL, float("inf")) >= self.times * ours
            and (not self.below_peers or all(ours < theirs for theirs in peers.values()))
        )

    def __str__(self) -> str:
        parts = [
            f"≤ {self.most:,g}" if self.most < float("inf") else "",
            f"≥ {self.least:,g}" if self.least > 0 else "",
            f"≥ {self.times:g}× OpenTelemetry" if self.times else "",
            "below all" if self.below_peers else "",
        ]
        return ", ".join(part for part in parts if part)


def above_floor(row: str) -> str:
    """Name the row of differences from the floor."""
    return f"{row.removesuffix(', µs')}, floor subtracted, µs"


GOALS = {
    "call, not sampled, ns": Goal(most=250, times=30),
    "call, sampled, ns": Goal(most=3_000, times=8),
    "decorator, not sampled, ns": Goal(most=300),
    above_floor(DELIVERING): Goal(most=60, below_peers=True),
    above_floor(HANGING): Goal(most=200),
    "memory, server hangs, MB": Goal(most=120),
    "exit, server hangs, s": Goal(most=2.0),
    "draining, samples/s": Goal(least=20_000),
    "draining, CPU µs a sample": Goal(most=30),
    "import, CPU ms": Goal(most=50, below_peers=True),
}


class Results(dict[str, Figures]):
    """The figures of one run, by measurement and SDK."""

    def add(self, row: str, name: str, values: Sequence[float | None]) -> None:
        """Note the median of several rounds."""
        known = [value for value in values if value is not None]
        if known:
            self.setdefault(row, {})[name] = statistics.median(known)

    def subtract_floor(self, row: str) -> None:
        """Add a row with what is left of *row* without what the machine itself takes."""
        self[above_floor(row)] = {
            name: value - self[row][FLOOR] for name, value in self[row].items() if name != FLOOR
        }

    def show(self, names: Sequence[str]) -> None:
        """Print a row a measurement."""
        columns = [OURS, FLOOR, "redis", *names[1:]]
        print_head("", "goal", "met", *columns, "best peer / ours")
        for row, figures in self.items():
            goal, ours = GOALS.get(row), figures[OURS]
            peers = {name: value for name, value in figures.items() if name in names[1:]}
            met = "" if goal is None else "yes" if goal.met(ours, peers) else "no"
            shown = [_written(figures.get(name)) for name in columns]
            ratio = f"{min(peers.values()) / ours:,.1f}×" if peers and ours > 0 else ""
            print_row(row, goal or "", met, *shown, ratio)


def _written(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"  # noqa: PLR2004 - digits


class Probe:
    """One measured process."""

    def __init__(self, name: str, rate: float, url: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("hook_probe.py"))]
        self._process = subprocess.Popen(  # noqa: S603  # our own file
            [*command, name, str(rate), url], text=True, env=_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave_s()

    def do(self, order: str, *arguments: float) -> Any:
        """Have something measured."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([order, *arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def leave_s(self) -> float:
        """Let the process end by itself; return how long it takes."""
        assert self._process.stdin
        started = time.monotonic()
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return time.monotonic() - started


class Sink(BaseHTTPRequestHandler):
    """Accepts whatever is posted."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the body and thank for it."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while int(self.rfile.readline(), 16):
                self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def sink() -> Iterator[str]:
    """Run an HTTP server; give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def probes(names: Sequence[str], rate: float, urls: Figures) -> Iterator[dict[str, Probe]]:
    """Start a process for each SDK."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Probe(name, rate, urls.get(name, urls["others"])))
            for name in names
        }


def measure_cost(names: Sequence[str], urls: Figures, effort: Effort, results: Results) -> None:
    """Measure what a call costs its caller."""
    for row, rate, calls in (
        ("call, not sampled, ns", 0.0, effort.calls),
        ("call, sampled, ns", 1.0, effort.sampled_calls),
    ):
        with probes(names, rate, urls) as running:
            taken: dict[str, list[Any]] = {name: [] for name in names}
            wrapped: dict[str, list[Any]] = {name: [] for name in names}
            for _ in range(effort.rounds):
                for name, probe in running.items():
                    share = 1 if rate or name == OURS else 10  # theirs take longer, and vary less
                    taken[name].append(probe.do("cost", calls // share))
                    if not rate:
                        wrapped[name].append(probe.do("decorator", calls // share))
        for name in names:
            results.add(row, name, taken[name])
            results.add("decorator, not sampled, ns", name, wrapped[name])


def measure_tail(names: Sequence[str], urls: Figures, effort: Effort, results: Results) -> None:
    """Measure the slow calls of an app while its SDK delivers."""
    names = [FLOOR, *names]
    with probes(names, 1.0, urls) as running:
        found: dict[str, list[Figures]] = {name: [] for name in names}
        for probe in running.values():
            probe.do("tail", 0.5, 1_000)
        for _ in range(effort.tail_rounds):
            for name, probe in running.items():
                found[name].append(probe.do("tail", effort.tail_s, 1_000))
                probe.do("flush")
    for name, rounds in found.items():
        for share in ("p50", "p99.9"):
            values = [figures[share] for figures in rounds]
            results.add(DELIVERING.replace("p99.9", share), name, values)
    results.subtract_floor(DELIVERING)


def measure_hang(names: Sequence[str], _: Figures, effort: Effort, results: Results) -> None:
    """Measure the same, and memory and exit, while the server accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        port = server.getsockname()[1]
        urls = {OURS: f"redis://127.0.0.1:{port}/0", "others": f"http://127.0.0.1:{port}"}
        for name in [FLOOR, *names]:
            with probes([name], 1.0, urls) as running:
                start = running[name].do("tail", 0.5, 1_000)  # the slow first calls, as above
                usual = running[name].do("tail", effort.tail_s, 1_000)
                long = running[name].do("tail", effort.tail_s, LONG_PASSAGE)
                memory_mb = sum(part["memory_mb"] for part in (start, usual, long))
                results.add(HANGING, name, [usual["p99.9"]])
                results.add("the same, texts of 100,000, µs", name, [long["p99.9"]])
                results.add("memory, server hangs, MB", name, [memory_mb])
                results.add("exit, server hangs, s", name, [running[name].leave_s()])
    results.subtract_floor(HANGING)


def measure_drain(_: Sequence[str], urls: Figures, effort: Effort, results: Results) -> None:
    """Measure how fast a backlog reaches Redis and what that costs."""
    found = []
    for _ in range(effort.tail_rounds):
        with redis.Redis.from_url(urls[OURS]) as client:
            client.flushall()
        with Probe(OURS, 1.0, urls[OURS]) as probe:
            found.append(probe.do("drain", effort.drained))
    results.add("draining, samples/s", OURS, [figures["per_s"] for figures in found])
    results.add("draining, CPU µs a sample", OURS, [figures["cpu_us"] for figures in found])
    results.add("start of the sender, CPU ms", OURS, [figures["start_ms"] for figures in found])


def measure_import(names: Sequence[str], _: Figures, effort: Effort, results: Results) -> None:
    """Measure the CPU that the import takes above a bare interpreter's."""
    statements = {name: IMPORTS[name] for name in names} | {"redis": "import redis"}
    taken: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(effort.rounds):
        nothing = _cpu_ms("pass")
        for name, statement in statements.items():
            taken[name].append(_cpu_ms(statement) - nothing)
    for name, values in taken.items():
        results.add("import, CPU ms", name, values)


def _cpu_ms(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", statement]
    subprocess.run(command, check=True, env=_environment())  # noqa: S603  # our own statements
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def _environment() -> dict[str, str]:
    here = {name: value for name, value in os.environ.items() if "GROUNDWATCH" not in name}  # noqa: TID251
    return here | {"PYTHONPATH": str(Path(__file__).parents[1])}


MEASURES = {
    "cost": measure_cost,
    "tail": measure_tail,
    "drain": measure_drain,
    "hang": measure_hang,
    "import": measure_import,
}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of the time, less certain")
    parser.add_argument("--only", choices=MEASURES, nargs="+", default=MEASURES, help="these parts")
    asked = parser.parse_args()
    names = [OURS]
    for name, modules in NEEDS.items():
        if all(find_spec(module) for module in modules):
            names.append(name)
        else:
            print(f"{name}: not installed, left out (pip install 'groundwatch[benchmark]')")
    results = Results()
    with (
        tempfile.TemporaryDirectory() as folder,
        sink() as http,
        RedisServer(Path(folder), durable=False) as server,
    ):
        urls = {OURS: server.url, "others": http}
        for part in asked.only:
            MEASURES[part](names, urls, QUICK if asked.quick else Effort(), results)
    results.show(names)


if __name__ == "__main__":
    main()
