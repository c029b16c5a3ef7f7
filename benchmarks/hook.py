"""
Measure the hook beside other SDKs: python benchmarks/hook.py [--quick] [--only PART ...].

Every SDK runs in a process of its own, one measured at a time, in interleaved rounds;
figures are medians. Ours delivers to a real Redis, the others to an HTTP server on
loopback. Needs the extra ``benchmark``; an SDK that is not installed is left out.
"""

import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import redis
from common import Sink, make_parser, print_head, print_row
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


class Effort(NamedTuple):
    """How much to measure."""

    rounds: int = 15
    calls: int = 20_000
    sampled_calls: int = 500
    tail_rounds: int = 3
    tail_s: float = 4.0
    drained: int = 20_000


QUICK = Effort(rounds=5, tail_rounds=1, tail_s=2.0, drained=5_000)


def above_floor(row: str) -> str:
    """Name the row of differences from the floor."""
    return f"{row.removesuffix(', µs')}, floor subtracted, µs"


class Probe:
    """One measured process."""

    def __init__(self, name: str, rate: float, url: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("hook_probe.py"))]
        self._process = subprocess.Popen(
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


class Run:
    """The figures of one run, by measurement and SDK, and how they are measured."""

    def __init__(self, names: Sequence[str], urls: dict[str, str], effort: Effort) -> None:
        self._names, self._urls, self._effort = names, urls, effort
        self._found: dict[str, dict[str, list[float]]] = {}

    def _add(self, row: str, name: str, value: float | None) -> None:
        if value is not None:
            self._found.setdefault(row, {}).setdefault(name, []).append(value)

    def _subtract_floor(self, row: str) -> None:
        """Add a row with what is left of *row* without what the machine itself takes."""
        medians = {name: statistics.median(found) for name, found in self._found[row].items()}
        for name in self._names:
            self._add(above_floor(row), name, medians[name] - medians[FLOOR])

    @contextmanager
    def _probes(self, names: Sequence[str], rate: float) -> Iterator[dict[str, Probe]]:
        with ExitStack() as stack:
            urls = {name: self._urls.get(name, self._urls["others"]) for name in names}
            yield {name: stack.enter_context(Probe(name, rate, urls[name])) for name in names}

    def cost(self) -> None:
        """Measure what a call costs its caller."""
        for row, rate, calls in (
            ("call, not sampled, ns", 0.0, self._effort.calls),
            ("call, sampled, ns", 1.0, self._effort.sampled_calls),
        ):
            with self._probes(self._names, rate) as running:
                for _, (name, probe) in product(range(self._effort.rounds), running.items()):
                    share = 1 if rate or name == OURS else 10  # theirs take longer, and vary less
                    self._add(row, name, probe.do("cost", calls // share))
                    if not rate:
                        taken = probe.do("decorator", calls // share)
                        self._add("decorator, not sampled, ns", name, taken)

    def tail(self) -> None:
        """Measure the slow calls of an app while its SDK delivers."""
        with self._probes([FLOOR, *self._names], 1.0) as running:
            for probe in running.values():
                probe.do("tail", 0.5, 1_000)
            for _, (name, probe) in product(range(self._effort.tail_rounds), running.items()):
                figures = probe.do("tail", self._effort.tail_s, 1_000)
                for share in ("p50", "p99.9"):
                    self._add(DELIVERING.replace("p99.9", share), name, figures[share])
                probe.do("flush")
        self._subtract_floor(DELIVERING)

    def drain(self) -> None:
        """Measure how fast a backlog reaches Redis and what that costs."""
        for _ in range(self._effort.tail_rounds):
            with redis.Redis.from_url(self._urls[OURS]) as client:
                client.flushall()
            with Probe(OURS, 1.0, self._urls[OURS]) as probe:
                figures = probe.do("drain", self._effort.drained)
            self._add("draining, samples/s", OURS, figures["per_s"])
            self._add("draining, CPU µs a sample", OURS, figures["cpu_us"])
            self._add("start of the sender, CPU ms", OURS, figures["start_ms"])

    def hang(self) -> None:
        """Measure the tail, and memory and exit, while the server accepts and never answers."""
        with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
            port = server.getsockname()[1]
            for name in [FLOOR, *self._names]:
                scheme = "redis" if name == OURS else "http"
                with Probe(name, 1.0, f"{scheme}://127.0.0.1:{port}") as probe:
                    start = probe.do("tail", 0.5, 1_000)  # the slow first calls, as above
                    usual = probe.do("tail", self._effort.tail_s, 1_000)
                    long = probe.do("tail", self._effort.tail_s, LONG_PASSAGE)
                    memory_mb = sum(part["memory_mb"] for part in (start, usual, long))
                    self._add(HANGING, name, usual["p99.9"])
                    self._add("the same, texts of 100,000, µs", name, long["p99.9"])
                    self._add("memory, server hangs, MB", name, memory_mb)
                    self._add("exit, server hangs, s", name, probe.leave_s())
        self._subtract_floor(HANGING)

    def imports(self) -> None:
        """Measure the CPU that the import takes above a bare interpreter's."""
        statements = {name: IMPORTS[name] for name in self._names} | {"redis": "import redis"}
        for _ in range(self._effort.rounds):
            nothing = _cpu_ms("pass")
            for name, statement in statements.items():
                self._add("import, CPU ms", name, _cpu_ms(statement) - nothing)

    def show(self) -> None:
        """Print a row a measurement."""
        columns = [OURS, FLOOR, "redis", *self._names[1:]]
        print_head("", *columns, "best peer / ours")
        for row, found in self._found.items():
            figures = {name: statistics.median(values) for name, values in found.items()}
            ours = figures[OURS]
            peers = {name: value for name, value in figures.items() if name in self._names[1:]}
            shown = [
                "–" if (value := figures.get(name)) is None
                else format(value, ",.0f" if abs(value) >= 1_000 else ".3g")
                for name in columns
            ]  # fmt: skip
            ratio = f"{min(peers.values()) / ours:,.1f}×" if peers and ours > 0 else ""
            print_row(row, *shown, ratio)


def _cpu_ms(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, env=_environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def _environment() -> dict[str, str]:
    here = {name: value for name, value in os.environ.items() if "GROUNDWATCH" not in name}
    return here | {"PYTHONPATH": str(Path(__file__).parents[1])}


MEASURES = {
    "cost": Run.cost, "tail": Run.tail, "drain": Run.drain, "hang": Run.hang,
    "import": Run.imports,
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, quick=False)
    parser.add_argument("--only", choices=MEASURES, nargs="+", default=MEASURES)
    asked = parser.parse_args()
    names = [OURS]
    for name, modules in NEEDS.items():
        if all(find_spec(module) for module in modules):
            names.append(name)
        else:
            print(f"{name}: not installed, left out (pip install 'groundwatch[benchmark]')")
    with (
        tempfile.TemporaryDirectory() as folder,
        Sink() as http,
        RedisServer(Path(folder), durable=False) as server,
    ):
        run = Run(names, {OURS: server.url, "others": http.url}, QUICK if asked.quick else Effort())
        for part in asked.only:
            MEASURES[part](run)
    run.show()


if __name__ == "__main__":
    main()
