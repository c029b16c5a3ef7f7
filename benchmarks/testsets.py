"""
Test sets: how long a run takes, what a killed one pays twice, and how often a gate blocks wrongly.

Run: nice python benchmarks/testsets.py [--cases 1000] [--pairs 100]
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from monitor.models import Evaluation, EvaluationStatus
from monitor.models.evaluation import PassRule
from monitor.testsets import EvaluationRunner, TestSet
from monitor.testsets.gate import decide
from monitor.testsets.runs import CaseNote, CaseResult, EvaluationRun

RULE = PassRule(0.7)
PASSAGE = "Refunds take five days."
APP = """
import os, signal
from pathlib import Path

def answer(question):
    done = Path("calls.txt").read_text().count("\\n") if Path("calls.txt").exists() else 0
    if done == int(Path("kill_at").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)
    with open("calls.txt", "a") as file:
        file.write(question + "\\n")
    return "A refund takes five days."
"""


def slow(_question: str) -> str:
    """Answer after a second."""
    time.sleep(1)
    return "A refund takes five days."


def cases(n: int) -> TestSet:
    """Return *n* questions with a passage."""
    return TestSet(
        "refunds",
        [{"query": f"How long does refund {i} take?", "contexts": [PASSAGE]} for i in range(n)],
    )


def duration(n: int, folder: Path) -> None:
    """Time *n* cases of an app that takes a second, 50 in flight."""
    runner = EvaluationRunner(cases(n), agent=slow, concurrency=50, output=folder / "run.json")
    begin_s = time.perf_counter()
    found = runner.run_all()
    took_s = time.perf_counter() - begin_s
    print(f"{n:,} cases of 1 s, 50 in flight: {took_s:.1f} s, {found['passed']:,} passed")


def killed(n: int, folder: Path) -> None:
    """Kill a run half-way, run it again, and count the calls."""
    (folder / "bot.py").write_text(APP)
    cases(n).write(folder / "golden.jsonl")
    command = [sys.executable, "-m", "groundwatch", "eval", "golden.jsonl", "--app", "bot:answer"]
    for kill_at in (n // 2, -1):
        (folder / "kill_at").write_text(str(kill_at))
        done = subprocess.run(  # noqa: S603 - ourselves
            [*command, "-o", "killed.json", "--concurrency", "1"],
            cwd=folder, capture_output=True, check=False,
        )  # fmt: skip
        print(f"killed at {kill_at:,}" if done.returncode == -signal.SIGKILL else "ran to its end")
    calls = Counter((folder / "calls.txt").read_text().splitlines())
    print(f"{len(calls):,} cases, {calls.total():,} calls in all")


def run_of(scores: np.ndarray) -> EvaluationRun:
    """Return a run with these scores of one metric."""
    results = tuple(
        CaseResult.model_construct(
            case=f"c{n}", case_version="1", model=None, repeat=1, output="same", error=None,
            passed=RULE.passes(float(score)),
            evaluations=(
                Evaluation.model_construct(
                    evaluator_name="groundedness", score=float(score), criteria=RULE.criteria(),
                    status=EvaluationStatus.COMPLETED,
                ),
            ),
        )
        for n, score in enumerate(scores)
    )  # fmt: skip
    return EvaluationRun.model_construct(
        dataset="x", dataset_version="1", app="a", app_version="", models=(), consistency={},
        evaluators={"groundedness": "1"}, results=results,
        cases={each.case: CaseNote(version="1") for each in results},
    )  # fmt: skip


def noise(kind: str, size: float, n: int, random: np.random.Generator) -> list[np.ndarray]:
    """Return the scores of the same answers by a noisy judge, twice."""
    if kind == "continuous":
        quality = random.beta(5, 1, n)
        return [np.clip(quality + random.normal(0, size, n), 0, 1) for _ in range(2)]
    if kind == "one claim of four":
        quality = random.binomial(4, 0.85, n)
        return [np.clip(quality - random.binomial(1, size, n), 0, 4) / 4 for _ in range(2)]
    quality = random.binomial(1, 0.9, n)
    return [np.abs(quality - random.binomial(1, size, n)) for _ in range(2)]


def false_blocks(pairs: int) -> None:
    """Gate a run against itself under a noisy judge."""
    random = np.random.default_rng(1)
    print(
        f"\nthe same app twice, {pairs} pairs each\n\n| noise | size | cases | outcomes |"
        "\n|---|--:|--:|---|"
    )
    kinds = [("continuous", (0.03, 0.1)), ("one claim of four", (0.02, 0.1)),
             ("yes or no", (0.003, 0.01, 0.03, 0.1))]  # fmt: skip
    for kind, sizes in kinds:
        for size in sizes:
            for n in (60, 200):
                found = Counter(
                    decide(*map(run_of, noise(kind, size, n, random))).outcome.value
                    for _ in range(pairs)
                )
                said = ", ".join(f"{name} {k}" for name, k in found.most_common())
                print(f"| {kind} | {size:g} | {n} | {said} |")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        duration(asked.cases, Path(name))
        killed(asked.cases, Path(name))
    false_blocks(asked.pairs)


if __name__ == "__main__":
    main()
