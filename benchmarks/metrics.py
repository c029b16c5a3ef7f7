"""
What metrics cost: samples a second on one core, and calls and tokens of the judged ones.

    OPENBLAS_NUM_THREADS=1 python benchmarks/metrics.py [--samples 300]

Throughput is that of all metrics that ask nobody, together, on made-up interactions whose
inputs are all there. Calls and tokens are counted by a server on loopback, which counts a
quarter of the characters as tokens; they tell proportions, not a vendor's bill. The last table has
those of groundedness and relevance with more passages, the relevant pieces of them, and all.
"""

import random
import time
from contextlib import closing

from common import print_head, print_row, script

from monitor.models import Interaction
from monitor.scoring.declaration import Computed, JudgementMetric, RubricMetric
from monitor.scoring.entailment import clear_cache
from monitor.scoring.metrics import METRICS
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from support.judge_server import JudgeServer

WORDS = """
refund card order parcel delivery invoice return address account password week month receipt
customer service warranty battery screen colour size price discount voucher
"""


def interaction(number: int, n_passages: int = 5) -> Interaction:
    """Make an interaction with passages of six sentences, and an answer of five."""
    draw, vocabulary = random.Random(number), WORDS.split()

    def sentence() -> str:
        words = [draw.choice(vocabulary) for _ in range(draw.randint(8, 15))]
        words.insert(draw.randint(0, len(words)), str(draw.randint(2, 99)))
        return " ".join(words).capitalize() + "."

    passages = [" ".join(sentence() for _ in range(6)) for _ in range(n_passages)]
    said = [draw.choice(draw.choice(passages).split(". ")).rstrip(".") for _ in range(4)]
    cited = [f"{text} [{draw.randint(1, 5)}]." for text in said]
    return Interaction.model_validate({
        "id": f"i{number}",
        "query": sentence(),
        "contexts": passages,
        "output": " ".join([*cited, sentence()]),
        "tool_calls": [{"name": "search"}, {"name": "fetch"}],
        "expected": {
            "relevant": ["1", "3"], "answer": f"{sentence()} {sentence()}", "tools": ["search"],
            "name": "refund", "citations": ["1", "2", "3", "4"],
            "trajectory": ["plan", "search", "answer"], "unanswerable": True,
            "false_passages": [2], "contradictions": ["1 and 2"],
        },
        "metadata": {
            "parsed": {"name": "refund", "type": "a", "confidence": 0.9},
            "plan": ["fetch data", "analyse", "write"],
            "trajectory": ["plan", "answer", "search"], "answer": {"level": "low"},
            "runs": [{"level": "low", "score": n} for n in (60, 70)],
            "models": [{"level": "low", "score": n, "confidence": 0.5} for n in (60, 70)],
            "answers": [sentence() for _ in range(3)], "verification_chain": [0.5, 0.6],
            "latency_ms": 40,
        },
    })  # fmt: skip


def rate(metrics: tuple[str, ...], samples: list[Interaction]) -> float:
    """Score the samples one after the other; return samples a second of CPU."""
    clear_cache()
    with closing(make_scorer(Settings(metrics=metrics))) as scorer:
        scorer.score(interaction(-1))
        started = time.process_time()
        for sample in samples:
            scorer.score(sample)
        return len(samples) / (time.process_time() - started)


def spent(names: tuple[str, ...], sample: Interaction, **chosen: int) -> list[int]:
    """Return the calls, tokens in and tokens out of one sample, with *chosen* settings."""
    with JudgeServer() as server:
        settings = Settings(metrics=names, scorer="judge", openai_base_url=server.url, **chosen)
        with closing(make_scorer(settings)) as scorer:
            found = scorer.score(sample)
        wrong = [each.evaluator_name for each in found if each.error]
        assert not wrong, wrong
        calls = {  # metrics that share a call bear the same tokens
            type(METRICS[each.evaluator_name]): (paid["input_tokens"], paid["output_tokens"])
            for each in found
            if "input_tokens" in (paid := each.metadata or {})
        }
        return [len(server.requests), *map(sum, zip(*calls.values(), strict=True))]


@script
def main(*, samples: int = 300) -> None:
    """Print samples a second without a judge, then calls and tokens with one."""
    computed, shared, own = (
        tuple(name for name, metric in METRICS.items() if isinstance(metric, kind))
        for kind in (Computed, JudgementMetric, RubricMetric)
    )
    made = [interaction(number) for number in range(samples)]
    print_head("metrics", "number", f"samples a second of CPU, {samples} samples")
    for arm, names in {
        "all computed metrics": computed,
        "groundedness and relevance": ("groundedness", "relevance"),
        "all of the shared judgement, scored locally": shared,
        **{name: (name,) for name in shared},
    }.items():
        print_row(arm, len(names), f"{rate(names, made):,.0f}")
    print()
    print_head("metric", "calls", "input tokens", "output tokens")
    alone = [spent((name,), made[0]) for name in shared + own]
    for arm, figures in {
        "all of the shared judgement": spent(shared, made[0]),
        "all with questions of their own": spent(own, made[0]),
        "*each alone, summed*": [sum(column) for column in zip(*alone, strict=True)],
        "all judged metrics": spent(shared + own, made[0]),
    }.items():
        print_row(arm, *(f"{n:,}" for n in figures))
    print()
    print_head("passages", "calls", "input tokens", "output tokens", "input tokens, all sent")
    for n_passages in (1, 5, 20, 50):
        sample, names = interaction(0, n_passages), ("groundedness", "relevance")
        counts = [*spent(names, sample), spent(names, sample, judge_pieces=0)[1]]
        print_row(n_passages, *(f"{n:,}" for n in counts))
