"""
Evaluate before production: test sets, runs of an app over them, and the gate that compares runs.

    from monitor.testsets import EvaluationRunner, TestSet

    runner = EvaluationRunner(TestSet.read("golden.jsonl"), ["groundedness"], "my.app:answer")
    runner.run_all()["pass_rate"]

The same metrics, judge and budget as in production; no server. Names are loaded at first use.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.testsets.cases import TestCase, TestSet
    from monitor.testsets.gate import GatePolicy
    from monitor.testsets.grading import assert_grounded
    from monitor.testsets.runner import EvaluationRunner
    from monitor.testsets.runs import EvaluationRun, read_run

STDIN = Path("-")  #: of commands that read a file


class Source(StrEnum):
    """Which tool has written a file."""

    RAGAS = "ragas"
    DEEPEVAL = "deepeval"
    HF = "hf"
    LANGFUSE = "langfuse"
    LANGSMITH = "langsmith"
    PHOENIX = "phoenix"
    OPENAI = "openai"


_HOMES = {
    "assert_grounded": "grading",
    "GatePolicy": "gate",
    "EvaluationRun": "runs",
    "EvaluationRunner": "runner",
    "TestCase": "cases",
    "TestSet": "cases",
    "read_run": "runs",
}
__all__ = [
    "EvaluationRun",
    "EvaluationRunner",
    "GatePolicy",
    "Source",
    "TestCase",
    "TestSet",
    "assert_grounded",
    "read_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
