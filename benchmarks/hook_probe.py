"""
One measured process of benchmarks/hook.py: an SDK as its users would call it, and its costs.

Takes orders on stdin, one JSON list a line, and answers each with figures.
"""

import contextlib
import json
import os
import re
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

QUERY, PASSAGE, OUTPUT = "q" * 200, "c" * 1_000, "o" * 800
CALLS_PER_S = 500
#: What to import to use each one; what is not installed is left out.
IMPORTS = {
    "groundwatch": "import monitor",
    "opentelemetry": "import opentelemetry.sdk.trace.export,"
    " opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "langfuse": "import langfuse",
    "sentry": "import sentry_sdk",
}


def bare(query: str) -> str:
    """Stand for the function that is watched."""
    return query


class Sdk(NamedTuple):
    """What is measured of an SDK."""

    call: Callable[..., object]
    flush: Callable[[], object]
    decorated: Callable[[str], str] | None
    hook: Any = None


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
    return Sdk(hook.sample, lambda: hook.flush(timeout=10.0), hook.watch(bare), hook)


def opentelemetry(rate: float, url: str) -> Sdk:
    """Make a span with three attributes, exported over HTTP."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    provider = TracerProvider(sampler=TraceIdRatioBased(rate))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
    tracer = provider.get_tracer("benchmark")

    def call(*, query: str, contexts: list[str], output: str) -> None:
        with tracer.start_as_current_span("answer") as span:
            if span.is_recording():
                span.set_attribute("query", query)
                span.set_attribute("contexts", contexts)
                span.set_attribute("output", output)

    decorated = tracer.start_as_current_span("answer")(bare)
    return Sdk(call, lambda: provider.force_flush(10_000), decorated)


def langfuse(rate: float, url: str) -> Sdk:
    """Make a span with input and output."""
    import langfuse as sdk

    # Some versions take a rate of 0 for "not given" and sample everything.
    client = sdk.Langfuse(
        public_key="pk",
        secret_key="sk",  # noqa: S106  # nobody checks it
        host=url,
        sample_rate=rate or 1e-9,
    )

    def call(*, query: str, contexts: list[str], output: str) -> None:
        given = {"query": query, "contexts": contexts}
        with client.start_as_current_observation(name="answer", input=given) as span:
            span.update(output=output)

    return Sdk(call, client.flush, sdk.observe()(bare))


def sentry(rate: float, url: str) -> Sdk:
    """Make a transaction with three data items; its decorator makes a part of one only."""
    import sentry_sdk as sdk

    sdk.init(dsn=url.replace("://", "://key@") + "/1", traces_sample_rate=rate)

    def call(*, query: str, contexts: list[str], output: str) -> None:
        with sdk.start_transaction(op="answer", name="answer") as transaction:
            transaction.set_data("query", query)
            transaction.set_data("contexts", contexts)
            transaction.set_data("output", output)

    return Sdk(call, lambda: sdk.flush(2.0), None)


SDKS: dict[str, Callable[[float, str], Sdk]] = {
    "floor": lambda *_: Sdk(empty, lambda: None, bare),
    "groundwatch": groundwatch,
    "opentelemetry": opentelemetry,
    "langfuse": langfuse,
    "sentry": sentry,
}


def cost(arm: Sdk, calls: int) -> float:
    """Measure nanoseconds a call above an empty one."""
    spent = _burst(arm.call, calls) - _burst(empty, calls)
    arm.flush()
    return spent / calls


def decorator(arm: Sdk, calls: int) -> float | None:
    """Measure nanoseconds that the decorator adds to a call."""
    if arm.decorated is None:
        return None
    return (_loop(arm.decorated, calls) - _loop(bare, calls)) / calls


def tail(arm: Sdk, seconds: float, passage_chars: int) -> dict[str, float]:
    """Call at an even pace with fresh texts; give percentiles in microseconds."""
    before_kb = _memory_kb()
    call, taken = arm.call, []
    due = time.perf_counter()
    for number in range(int(seconds * CALLS_PER_S)):
        contexts = [f"{number}.{i} ".ljust(passage_chars, "c") for i in range(4)]
        query, output = f"{number} ".ljust(200, "q"), f"{number} ".ljust(800, "o")
        due += 1 / CALLS_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter_ns()
        call(query=query, contexts=contexts, output=output)
        taken.append(time.perf_counter_ns() - started)
    taken.sort()
    shares = {"p50": 0.5, "p99.9": 0.999}
    figures = {name: taken[int(share * (len(taken) - 1))] / 1e3 for name, share in shares.items()}
    return figures | {"memory_mb": (_memory_kb() - before_kb) / 1e3}


def drain(arm: Sdk, samples: int) -> dict[str, float]:
    """Record faster than can be sent, then wait; give the pace and the CPU of the sender."""
    arm.hook.init(
        app="benchmark", sample_rate=1.0, redis_url=arm.hook._given["redis_url"],  # noqa: SLF001
        queue_limit=1_000_000, buffer_samples=samples, buffer_chars=samples * 6_000,
    )  # fmt: skip
    # What the first sample of a process has done on the sender's thread, imports above all, is
    # no part of a sample's price; it is a figure of its own.
    _, start_s = _sent(arm, 1)
    taken_s, cpu_s = _sent(arm, samples)
    sent = arm.hook.stats()["sent"] - 1
    return {"per_s": sent / taken_s, "cpu_us": cpu_s / sent * 1e6, "start_ms": start_s * 1e3}


def _sent(arm: Sdk, samples: int) -> tuple[float, float]:
    """Record and deliver; give the seconds that it took, and of CPU on the sender's thread."""
    started_s, cpu_s = time.perf_counter(), time.process_time() - time.thread_time()
    for _ in range(samples):
        arm.call(query=QUERY, contexts=[PASSAGE] * 4, output=OUTPUT)
    arm.hook.flush(timeout=60.0)
    taken_s = time.perf_counter() - started_s
    return taken_s, time.process_time() - time.thread_time() - cpu_s


def _burst(call: Callable[..., object], calls: int) -> float:
    given = {"call": call, "query": QUERY, "contexts": [PASSAGE] * 4, "output": OUTPUT}
    return _timed("call(query=query, contexts=contexts, output=output)", given, calls)


def _loop(function: Callable[[str], object], calls: int) -> float:
    return _timed("function(query)", {"function": function, "query": QUERY}, calls)


def _timed(statement: str, given: dict[str, object], calls: int) -> float:
    # A call site of its own each, as in an app: the interpreter adapts them to what they call.
    return timeit.Timer(statement, "import gc; gc.enable()", globals=given).timeit(calls) * 1e9


def _memory_kb() -> int:
    # Not of getrusage: what it says a child inherits from its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def main() -> None:
    """Serve orders until stdin ends; then leave as an app would."""
    name, rate, url = sys.argv[1:]
    with contextlib.suppress(OSError, AttributeError):  # so that no neighbour is measured
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    arm = SDKS[name](float(rate), url)
    orders = {function.__name__: function for function in (cost, decorator, tail, drain)}
    orders["flush"] = lambda sdk: sdk.flush()  # outside of any measurement
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        print(json.dumps(orders[order](arm, *arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
