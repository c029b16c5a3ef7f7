"""What tracing libraries write about one question, recorded from them, becomes the same record."""

import json
import os
from pathlib import Path

import pytest

from monitor.ingest import JSON, decode
from monitor.integrations.traces import Traces

FOLDER = Path(os.environ.get("TRACES_FOLDER") or Path(__file__).parents[2] / "fixtures" / "traces")
QUESTION, ANSWER = "How long does a refund take?", "Five days."
PASSAGE = "Refunds are paid back within five days."
FOUND = [{"name": "find", "arguments": {"k": 1}, "result": PASSAGE}]
COST = {"model": "m-1", "input_tokens": 12, "output_tokens": 3}
TWICE = {"model": "m-1", "input_tokens": 24, "output_tokens": 6}
SESSION = {"session_id": "s", "user_id": "u"}

#: What a library says beside question, answer, release, trace id and latency.
SAID = {
    "langfuse": {"contexts": [PASSAGE], "cost": COST, **SESSION},
    "langsmith": {"contexts": [PASSAGE], "cost": COST, "session_id": "s"},
    "mlflow": {"contexts": [PASSAGE], "cost": COST},  # its session stays in its own store
    "openinference-anthropic": {"cost": COST},
    # DSPy's counts no tokens
    "openinference-dspy": {"contexts": [PASSAGE], "cost": {"model": "m"}, **SESSION},
    "openinference-dspy-own-search": {"contexts": [PASSAGE], "cost": {"model": "m"}, **SESSION},
    "openinference-haystack": {"contexts": [PASSAGE], "cost": COST, **SESSION},
    "openinference-haystack-embedding": {"contexts": [PASSAGE], "cost": COST, **SESSION},
    "openinference-langchain": {"contexts": [PASSAGE], "cost": COST, "session_id": "s"},
    "openinference-litellm": {"cost": {"input_tokens": 12, "output_tokens": 3}},  # names no model
    "openinference-llama-index": {"contexts": [PASSAGE], "cost": COST | {"model": "m"}},
    "openinference-llama-index-stream": {"contexts": [PASSAGE], "cost": {"model": "m"}},
    "openinference-openai-agents": {"tool_calls": FOUND, "cost": TWICE, **SESSION},
    "openinference-openai-responses": {"cost": COST},
    "openinference-openai-stream": {"cost": {"model": "m-1"}},
    "openinference-openai-tool": {"tool_calls": FOUND, "cost": TWICE, **SESSION},
    "opentelemetry-openai": {"cost": COST},
    "pydantic-ai": {"tool_calls": FOUND, "cost": TWICE, "session_id": "its own"},
    "traceloop-langchain": {"contexts": [PASSAGE], "cost": COST},
    "traceloop-openai": {"tool_calls": FOUND, "cost": TWICE},
    "traceloop-sdk": {"tool_calls": FOUND, "cost": COST, **SESSION},
    # From version 7 on it writes no session; the whole names the model that was asked for.
    "vercel": {"tool_calls": FOUND, "cost": TWICE | {"model": "m"}},
    "vercel-6": {"tool_calls": FOUND, "cost": TWICE | {"model": "m"}, **SESSION},
}
#: Traces without an answer: one that failed, and one whose library writes no texts.
SILENT = {"openinference-openai-error", "litellm"}


class Noting:
    def __init__(self, rate=1.0):
        self.rate = rate
        self.asked, self.taken, self.failed = [], [], []

    def chance(self, trace_id=None):
        self.asked.append(trace_id)
        return self.rate

    def take(self, given, rate=None):
        self.taken.append({key: value for key, value in given.items() if value})

    def ignore(self, reason):
        raise AssertionError(reason)

    def fail(self, error, *, counted=False):
        self.failed.append((error, counted))


def received(name, hook):
    """Send a recorded trace through the receiver's reader; return why spans were left out."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    traces, ignored = Traces(wait_s=1.0), set()
    for signal in ("traces", "logs"):
        decoded = decode(json.dumps(recorded[signal]).encode(), JSON, signal)
        assert not decoded.rejected
        ignored |= {traces.see(span, lambda: hook, now_s=0.0) for span in decoded.spans}
    traces.sweep(9.0, everything=True)
    return ignored - {None}


def test_every_recorded_trace_has_an_expectation():
    assert {path.stem for path in FOLDER.glob("*.json")} == SAID.keys() | SILENT


@pytest.mark.parametrize("name", SAID)
def test_recorded_trace_gives_its_expected_record(name):
    hook = Noting()
    assert received(name, hook) <= {"span_other", "span_no_answer"}
    (record,) = hook.taken
    metadata = record.pop("metadata")
    assert 0 < metadata.pop("latency_ms") < 60_000
    contexts = [passage["text"] for passage in record.pop("contexts", [])]
    expected = {"contexts": [], **SAID[name]}
    if name == "pydantic-ai":  # which makes one for each conversation
        expected["session_id"] = record["session_id"]
    assert (contexts, metadata) == (expected.pop("contexts"), expected.pop("cost"))
    assert len(record.pop("trace_id")) == 32
    assert record == {"query": QUESTION, "output": ANSWER, "release": "v1", **expected}
    assert not hook.failed


@pytest.mark.parametrize("rate", [1.0, 0.0])
def test_failed_trace_counts_as_a_failure_and_is_not_recorded(rate):
    hook = Noting(rate)
    received("openinference-openai-error", hook)
    assert hook.failed == [("BadRequestError", True)]
    assert not hook.taken


def test_trace_without_texts_is_counted_as_one_without_an_output():
    hook = Noting()
    received("litellm", hook)
    assert [record.keys() & {"query", "output"} for record in hook.taken] == [set()]
