"""
Count what one sample costs: python benchmarks/judge.py [--peers PYTHON].

Our judge, RAGAS and DeepEval score groundedness and relevance of the same made-up samples
against the same server in one run. The peers run in the environment of PYTHON, for
instance one made with ``pip install 'groundwatch[benchmark-judges]'``; one that is missing
is left out, and said so. The server gives every library what it needs to finish, and
counts; it measures cost, not quality.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from judge_counter import CountingServer
from judge_samples import make_samples
from rich.console import Console
from rich.table import Table

from monitor.models import EvaluationStatus, Interaction
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.metric_config import resolve_metrics
from monitor.scoring.pipeline import JudgementScorer
from monitor.settings import Settings

MODEL = "gpt-4.1-mini"
GOAL = 1 / 3
PEERS = {
    "ragas": "RAGAS",
    "deepeval": "DeepEval",
    "deepeval_bare": "no reasons",
}
AS_THEY_COME = frozenset({"ragas", "deepeval"})
COLUMNS = ("calls", "embeddings", "input tokens", "output tokens")
QUIET = {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}


def score_ours(url: str, samples: list[dict[str, Any]]) -> None:
    """Score all samples, and stop if one is not scored."""
    judge = OpenAIJudge(MODEL, base_url=url)
    scorer = JudgementScorer(
        judge, resolve_metrics(Settings(metrics=("groundedness", "relevance")))
    )
    for sample in samples:
        for evaluation in scorer.score(Interaction.model_validate({"app": "shop", **sample})):
            if evaluation.status is not EvaluationStatus.COMPLETED:
                raise SystemExit(f"ours: {evaluation.error or evaluation.metadata}")
    scorer.close()


def score_peer(python: str, peer: str, url: str, samples: list[dict[str, Any]]) -> str | None:
    """Score all samples with *peer*; say why not if it cannot."""
    asked = json.dumps({"peer": peer, "url": url, "model": MODEL, "samples": samples})
    done = subprocess.run(  # noqa: S603 - our own script
        [python, str(Path(__file__).with_name("judge_peers.py"))],
        input=asked, capture_output=True, text=True, check=False, env={**os.environ, **QUIET},  # noqa: TID251 - the whole of it
    )  # fmt: skip
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    scores = json.loads(done.stdout.strip().splitlines()[-1])
    whole = len(scores) == len(samples) and all(0 <= s <= 1.0001 for row in scores for s in row)  # noqa: PLR2004
    return None if whole else f"not every sample has its scores: {scores}"


def measure(
    samples: list[dict[str, Any]], python: str, console: Console
) -> dict[str, dict[str, int]]:
    """Let everybody score *samples*; return what each spent."""
    left_out = set()
    with CountingServer(samples) as server:
        score_ours(server.url("ours"), samples)
        for peer, name in PEERS.items():
            failure = score_peer(python, peer, server.url(peer), samples)
            if failure is not None:
                left_out.add(peer)
                console.print(f"{name} is left out: {failure}", highlight=False)
        counts = server.counts
    return {
        client: {key: counts[client][key] for key in COLUMNS}
        for client in ("ours", *PEERS)
        if client not in left_out
    }


def table(counts: dict[str, dict[str, int]], title: str, samples: int) -> Table:
    """Show what each spends a sample, and our share of it."""
    shown = Table(title=title)
    for head in ("", *COLUMNS, "calls, ours", "tokens, ours"):
        shown.add_column(head.replace(" ", "\n", 1), justify="right" if head else "left")
    for client, found in counts.items():
        calls, tokens = shares(counts["ours"], found)
        shown.add_row(
            PEERS.get(client, "groundwatch"),
            *(f"{found[key] / samples:,.1f}" for key in COLUMNS),
            *(("", "") if client == "ours" else (f"× {calls:.2f}", f"× {tokens:.2f}")),
        )
    return shown


def shares(ours: dict[str, int], theirs: dict[str, int]) -> tuple[float, float]:
    """Divide our calls, and our tokens of both ways, by theirs."""
    tokens = [found["input tokens"] + found["output tokens"] for found in (ours, theirs)]
    return ours["calls"] / theirs["calls"], tokens[0] / tokens[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable, help="Python that has the peers")
    parser.add_argument("--samples", type=int, default=24)
    options = parser.parse_args()
    console = Console()
    for title, more in (("Short passages", 0), ("Twelve passages more", 12)):
        samples = make_samples(options.samples, more)
        counts = measure(samples, options.peers, console)
        console.print(table(counts, f"{title}: one of {len(samples)} samples", len(samples)))
        for peer in [peer for peer in counts if peer in AS_THEY_COME]:
            for what, share in zip(
                ("calls", "tokens"), shares(counts["ours"], counts[peer]), strict=True
            ):
                met = "yes" if share <= GOAL else "no"
                console.print(f"at most a third of the {what} of {PEERS[peer]}: {met}")


if __name__ == "__main__":
    main()
