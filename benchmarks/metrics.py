"""
What metrics cost: samples a second on one core, and calls and tokens of the judged ones.

    OPENBLAS_NUM_THREADS=1 python benchmarks/metrics.py [--samples 300]

Throughput is that of all metrics that ask nobody, together, on made-up interactions whose
inputs are all there. Calls and tokens are counted by a server on loopback, which counts a
quarter of the characters as tokens; they tell proportions, not a vendor's bill.
"""

import random
import time
from contextlib import closing

from common import make_parser, print_head, print_row

from monitor.models import Interaction
from monitor.scoring.declaration import Combined, Computed, JudgementMetric, RubricMetric
from monitor.scoring.entailment import clear_cache
from monitor.scoring.metrics import METRICS
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from support.judge_server import JudgeServer

WORDS = [
    *("refund", "card", "order", "parcel", "delivery", "invoice", "return", "address", "account"),
    *("password", "week", "month", "receipt", "customer", "service", "warranty", "battery"),
    *("screen", "colour", "size", "price", "discount", "voucher"),
]


def sentence(draw: random.Random) -> str:
    """Make a sentence of eight to sixteen words, some of them numbers."""
    words = [draw.choice(WORDS) for _ in range(draw.randint(8, 15))]
    words.insert(draw.randint(0, len(words)), str(draw.randint(2, 99)))
    return " ".join(words).capitalize() + "."


def interaction(number: int) -> Interaction:
    """Make an interaction with five passages of six sentences, and an answer of five."""
    draw = random.Random(number)
    passages = [" ".join(sentence(draw) for _ in range(6)) for _ in range(5)]
    said = [draw.choice(draw.choice(passages).split(". ")).rstrip(".") for _ in range(4)]
    cited = [f"{text} [{draw.randint(1, 5)}]." for text in said]
    return Interaction.model_validate(
        {
            "id": f"i{number}",
            "query": sentence(draw),
            "contexts": passages,
            "output": " ".join([*cited, sentence(draw)]),
            "tool_calls": [{"name": "search"}, {"name": "fetch"}],
            "expected": {
                "relevant": ["1", "3"],
                "answer": sentence(draw) + " " + sentence(draw),
                "tools": ["search"],
                "name": "refund",
                "citations": ["1", "2", "3", "4"],
                "trajectory": ["plan", "search", "answer"],
                "unanswerable": True,
                "false_passages": [2],
                "contradictions": ["1 and 2"],
            },
            "metadata": {
                "parsed": {"name": "refund", "type": "a", "confidence": 0.9},
                "plan": ["fetch data", "analyse", "write"],
                "trajectory": ["plan", "answer", "search"],
                "answer": {"level": "low"},
                "runs": [{"level": "low", "score": n} for n in (60, 70)],
                "models": [{"level": "low", "score": n, "confidence": 0.5} for n in (60, 70)],
                "answers": [sentence(draw) for _ in range(3)],
                "verification_chain": [0.5, 0.6],
                "latency_ms": 40,
            },
        }
    )


def rate(metrics: tuple[str, ...], samples: list[Interaction]) -> float:
    """Score the samples one after the other; return samples a second of CPU."""
    clear_cache()
    with closing(make_scorer(Settings(metrics=metrics))) as scorer:
        scorer.score(interaction(-1))
        started = time.process_time()
        for sample in samples:
            scorer.score(sample)
        return len(samples) / (time.process_time() - started)


def throughput(samples: list[Interaction]) -> None:
    """Print samples a second: all computed metrics, and those of the shared judgement."""
    shared = [n for n, m in METRICS.items() if isinstance(m, JudgementMetric)]
    arms = {
        "all computed metrics": tuple(n for n, m in METRICS.items() if isinstance(m, Computed)),
        "groundedness and relevance": ("groundedness", "relevance"),
        "all of the shared judgement, scored locally": tuple(shared),
    }
    print_head("metrics", "number", f"samples a second of CPU, {len(samples)} samples")
    for arm, names in (arms | {name: (name,) for name in shared}).items():
        print_row(arm, len(names), f"{rate(names, samples):,.0f}")


def judged(sample: Interaction) -> None:
    """Print calls and tokens of each judged metric alone, and of all together."""
    shared = tuple(n for n, m in METRICS.items() if isinstance(m, JudgementMetric))
    own = tuple(n for n, m in METRICS.items() if isinstance(m, RubricMetric))
    alone = {name: spent((name,), sample) for name in METRICS if name in shared + own}
    total = [sum(column) for column in zip(*alone.values(), strict=True)]
    every = tuple(n for n, m in METRICS.items() if not isinstance(m, Combined))
    print()
    print_head("metric", "calls", "input tokens", "output tokens")
    for arm, figures in (alone | {
        "all of the shared judgement": spent(shared, sample),
        "all with questions of their own": spent(own, sample),
        "*each alone, summed*": total,
        "all judged metrics": spent(tuple(alone), sample),
        "all metrics": spent(every, sample),
    }).items():  # fmt: skip
        print_row(arm, *(f"{n:,}" for n in figures))


def spent(names: tuple[str, ...], sample: Interaction) -> list[int]:
    """Return the calls, tokens in and tokens out of one sample."""
    with JudgeServer() as server:
        settings = Settings(metrics=names, scorer="judge", openai_base_url=server.url)
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


if __name__ == "__main__":
    count = make_parser(__doc__, samples=300).parse_args().samples
    throughput([interaction(number) for number in range(count)])
    judged(interaction(0))
