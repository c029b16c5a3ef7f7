"""
Count what one sample costs: python benchmarks/judge.py [--peers PYTHON].

Our judge, RAGAS and DeepEval score groundedness and relevance of the same made-up samples
against the same server in one run. The peers run in the environment of PYTHON, for
instance one made with ``pip install 'groundwatch[benchmark-judges]'``; one that is missing
is left out, and said so. The server gives every library what it needs to finish, and
counts; it measures cost, not quality.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import print_head, print_row, script
from judge_counter import CountingServer
from judge_samples import make_samples

from monitor.models import EvaluationStatus, Interaction
from monitor.scoring.judges.openai_judge import OpenAIJudge
from monitor.scoring.pipeline import JudgementScorer
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings

MODEL = "gpt-4.1-mini"
NAMES = {
    "ours": "groundwatch", "ragas": "RAGAS", "deepeval": "DeepEval",
    "deepeval_bare": "DeepEval without reasons",
}  # fmt: skip
COLUMNS = ("calls", "embeddings", "input tokens", "output tokens")
QUIET = {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}


def score_ours(url: str, samples: list[dict[str, Any]]) -> None:
    """Score all samples, and stop if one is not scored."""
    metrics = resolve_metrics(Settings(metrics=("groundedness", "relevance")))
    scorer = JudgementScorer(OpenAIJudge(MODEL, base_url=url), metrics)
    for sample in samples:
        for evaluation in scorer.score(Interaction.model_validate({"app": "shop", **sample})):
            if evaluation.status is not EvaluationStatus.COMPLETED:
                raise SystemExit(f"ours: {evaluation.error or evaluation.metadata}")
    scorer.close()


def score_peer(python: str, peer: str, url: str, samples: list[dict[str, Any]]) -> str | None:
    """Score all samples with *peer*; say why not if it cannot."""
    asked = json.dumps({"peer": peer, "url": url, "model": MODEL, "samples": samples})
    done = subprocess.run(
        [python, str(Path(__file__).with_name("judge_peers.py"))],
        input=asked, capture_output=True, text=True, check=False, env={**os.environ, **QUIET},
    )  # fmt: skip
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    scores = json.loads(done.stdout.strip().splitlines()[-1])
    whole = len(scores) == len(samples) and all(0 <= s <= 1.0001 for row in scores for s in row)
    return None if whole else f"not every sample has its scores: {scores}"


@script
def main(*, peers: str = sys.executable, samples: int = 24) -> None:
    """Print what each spends a sample, and our share of it."""
    for title, more in (("short passages", 0), ("twelve passages more", 12)):
        made = make_samples(samples, more)
        with CountingServer(made) as server:
            score_ours(f"{server.url}/ours/v1", made)
            for peer, name in NAMES.items():
                if peer != "ours":
                    failure = score_peer(peers, peer, f"{server.url}/{peer}/v1", made)
                    if failure:
                        server.counts.pop(peer, None)
                        print(f"{name} is left out: {failure}")
        print_head(f"one of {samples} samples, {title}", *COLUMNS, "calls, ours", "tokens, ours")
        ours = server.counts["ours"]
        for client, found in server.counts.items():
            spent = (f"{found[key] / samples:,.1f}" for key in COLUMNS)
            shares = [
                f"× {sum(ours[key] for key in keys) / sum(found[key] for key in keys):.2f}"
                for keys in (COLUMNS[:1], COLUMNS[2:])
                if client != "ours"
            ]
            print_row(NAMES[client], *spent, *(shares or ("", "")))
        print()
