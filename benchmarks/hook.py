"""
Measure the hook beside OpenTelemetry's SDK: python benchmarks/hook.py [--quick] [--only PART].

Every process has one SDK; they are measured one at a time, in interleaved rounds, and figures are
medians. Ours delivers to a real Redis, OpenTelemetry's to an HTTP server on loopback; it is left
out where it is not installed. The floor is a call that does nothing, and is subtracted from both.
"""

import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

CALLS_PER_S = 500
OURS, FLOOR, OTEL = "groundwatch", "floor", "opentelemetry"
GIVEN = {"query": "q" * 200, "contexts": ["c" * 1_000] * 4, "output": "o" * 800}
_BLOCKS = 5
Part = Literal["cost", "tail", "hang"]


class Sdk(NamedTuple):
    """What is measured of an SDK."""

    call: Callable[..., object]
    flush: Callable[[], object]
    decorated: Callable[[str], str]


def bare(query: str) -> str:
    """Stand for the function that is watched."""
    return query


def empty(  # noqa: PLR0913
    *, output: object, query: object = None, contexts: object = None,
    tool_calls: object = None, expected: object = None, trace_id: object = None,
    session_id: object = None, user_id: object = None, release: object = None,
    environment: object = None, tags: object = None, metadata: object = None,
    mask: object = None, id: object = None, label: object = None,  # noqa: A002
) -> None:  # fmt: skip
    """Do nothing, with the signature of ours: the floor."""


def groundwatch(rate: float, url: str) -> Sdk:
    """Deliver to a real Redis."""
    import monitor

    hook = monitor.Hook(app="benchmark", sample_rate=rate, redis_url=url, queue_limit=1_000_000)
    return Sdk(hook.sample, lambda: hook.flush(timeout=10.0), hook.watch(bare))


def opentelemetry(rate: float, url: str) -> Sdk:
    """Make a span with three attributes, exported over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    provider = TracerProvider(sampler=TraceIdRatioBased(rate))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
    tracer = provider.get_tracer("benchmark")

    def call(**given: str | list[str]) -> None:
        with tracer.start_as_current_span("answer") as span:
            if span.is_recording():
                span.set_attributes(given)

    decorated = tracer.start_as_current_span("answer")(bare)
    return Sdk(call, lambda: provider.force_flush(10_000), decorated)


SDKS: dict[str, Callable[[float, str], Sdk]] = {
    FLOOR: lambda *_: Sdk(empty, lambda: None, bare), OURS: groundwatch, OTEL: opentelemetry,
}  # fmt: skip


def cost(make: Callable[[float], Sdk], _: float) -> dict[str, float]:
    """Measure nanoseconds that a call, and the decorator, take of their caller."""
    call, decorated = "call(query=query, contexts=contexts, output=output)", "call(query)"
    found = {}
    for row, rate, statement, floor, calls in (
        ("call, not sampled, ns", 0.0, call, empty, 20_000),
        ("decorator, not sampled, ns", 0.0, decorated, bare, 20_000),
        ("call, sampled, ns", 1.0, call, empty, 500),
    ):
        arm = make(rate)
        blocks = []
        for _ in range(_BLOCKS):
            taken = _timed(statement, arm.call if statement == call else arm.decorated, calls)
            blocks.append((taken - _timed(statement, floor, calls)) / calls * 1e9)
            arm.flush()
        found[row] = statistics.median(blocks)
    return found


def _timed(statement: str, function: Callable[..., object], calls: int) -> float:
    # A call site of its own each, as in an app: the interpreter adapts them to what they call.
    timer = timeit.Timer(statement, "import gc; gc.enable()", globals={"call": function, **GIVEN})
    return timer.timeit(calls)


def tail(make: Callable[[float], Sdk], seconds: float) -> dict[str, float]:
    """Measure the slow calls of an app while its SDK delivers."""
    arm = make(1.0)
    _pace(arm, 0.5)
    return {f"p99.9 at {CALLS_PER_S} calls/s, delivering, µs": _pace(arm, seconds)}


def hang(make: Callable[[float], Sdk], seconds: float) -> dict[str, float]:
    """Measure them and the memory while the server accepts and never answers."""
    arm, before_kb = make(1.0), _memory_kb()
    _pace(arm, 0.5)
    usual_us = _pace(arm, seconds)
    _pace(arm, seconds, passage_chars=25_000)
    memory_mb = (_memory_kb() - before_kb) / 1e3
    return {"p99.9, server hangs, µs": usual_us, "memory, server hangs, MB": memory_mb}


def _pace(arm: Sdk, seconds: float, passage_chars: int = 1_000) -> float:
    """Call at an even pace with fresh texts; return the 99.9th percentile in microseconds."""
    taken, due = [], time.perf_counter()
    for number in range(int(seconds * CALLS_PER_S)):
        contexts = [f"{number}.{i} ".ljust(passage_chars, "c") for i in range(4)]
        query, output = f"{number} ".ljust(200, "q"), f"{number} ".ljust(800, "o")
        due += 1 / CALLS_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter_ns()
        arm.call(query=query, contexts=contexts, output=output)
        taken.append(time.perf_counter_ns() - started)
    return sorted(taken)[int(0.999 * (len(taken) - 1))] / 1e3


def _memory_kb() -> int:
    # Not of getrusage: what it says a child inherits from its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


MEASURES = {"cost": cost, "tail": tail, "hang": hang}


def probe(name: str, part: str, url: str, seconds: str) -> dict[str, float]:
    """Measure in this process."""
    with contextlib.suppress(OSError, AttributeError):  # so that no neighbour is measured
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return MEASURES[part](lambda rate: SDKS[name](rate, url), float(seconds))


def measure(*asked: str) -> tuple[dict[str, float], float]:
    """Run `probe` in a process; return its figures, and how long its end takes, in seconds."""
    kept = {key: value for key, value in os.environ.items() if "GROUNDWATCH" not in key}
    with subprocess.Popen(
        [sys.executable, sys.argv[0], "--probe", *asked], text=True,
        env=kept | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout
        line = process.stdout.readline()
        began_s = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()
        return json.loads(line or "{}"), time.monotonic() - began_s


def main(*, quick: bool = False, only: Part | None = None) -> None:
    """Measure, and print medians: that of the floor, and by how much the others are above."""
    from common import Sink, print_head, print_row

    from support.redis_server import RedisServer

    names = [OURS, *([OTEL] if find_spec("opentelemetry.exporter") else [])]
    rounds = {"cost": 3, "tail": 1, "hang": 1} if quick else {"cost": 9, "tail": 3, "hang": 1}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), durable=False) as redis,
        Sink() as http,
        socket.create_server(("127.0.0.1", 0), backlog=100) as silent,
    ):
        for part in [only] if only else MEASURES:
            for _, name in product(range(rounds[part]), [*names, FLOOR]):
                url = redis.url if name == OURS else http.url
                if part == "hang":
                    url = f"{url.partition(':')[0]}://127.0.0.1:{silent.getsockname()[1]}"
                figures, exit_s = measure(name, part, url, "2" if quick else "4")
                if part == "hang":
                    figures["exit, server hangs, s"] = exit_s
                for row, figure in figures.items():
                    found[row][name].append(figure)
    print_head("", FLOOR, *names)
    for row, by_name in found.items():
        low, *others = (statistics.median(by_name[name]) for name in (FLOOR, *names))
        print_row(row, f"{low:,.3g}", *(f"{each - low:+,.3g}" for each in others))


if sys.argv[1:2] == ["--probe"]:  # leave as an app would
    with contextlib.redirect_stdout(sys.stderr):  # of a library that prints
        measured = probe(*sys.argv[2:])
    print(json.dumps(measured), flush=True)
elif __name__ == "__main__":
    from common import script

    script(main)
