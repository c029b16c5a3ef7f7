"""
Measure what segments and insights cost: python benchmarks/insights.py [--samples 2000].

Told are: writing a sample with no segments, with six known ones, and with a tag that never
repeats; the rows that are there afterwards; and one run of everything that explains.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from sqlalchemy import func, select

from monitor.models import Evaluation, Interaction, Sample
from monitor.settings import Settings
from monitor.store.engine import Store, migrate
from monitor.store.lease import acquire
from monitor.store.tables import bucket_bins, buckets, input_bins, streams
from monitor.store.write import Result, record
from workers.insights import Explainer
from workers.scoring_run import Rules, result_of

BATCH = 50
DIMENSIONS = ("release", "environment", "model", "prompt_version", "route", "language")
METRICS = ("groundedness", "relevance")


def make(k: int, at: datetime, rng: np.random.Generator, rules: Rules, kind: str) -> Result:
    """Make one scored sample; ``endless`` gives each its own tag, ``known`` one of a few."""
    tags = {"model": f"m{k % 3}", "prompt_version": f"p{k % 2}", "route": f"r{k % 12}"}
    if kind == "endless":
        tags["route"] = f"r{k}"
    interaction = Interaction(
        id=f"i{k}",
        app=f"app{k % 5}",
        query="How long does a refund take when I paid by card?",
        contexts=("Refunds take five working days.",),
        output="A refund takes five working days.",
        release="v1",
        environment="prod",
        tags=tags | {"language": "en"},
    )
    sample = Sample(
        sample_id=f"{kind}-{k}",
        sampled_at=at,
        sample_rate=1.0,
        hook_id="bench",
        sequence=k,
        interaction=interaction,
    )
    evaluations = [
        Evaluation(
            target_event_id=interaction.id,
            evaluator_name=metric,
            evaluator_version="1",
            score=float(rng.beta(8, 2)),
        )
        for metric in METRICS
    ]
    return result_of(sample, evaluations, rules, now=at)


def measure(store: Store, n: int, kind: str, now: datetime) -> float:
    """Write n samples of the last hour in batches; give the milliseconds of one sample."""
    rng = np.random.default_rng(1)
    rules = Rules(pass_score=0.7, bucket_s=60, dimensions=() if kind == "none" else DIMENSIONS)
    results = [
        make(k, now - timedelta(seconds=3600 * (1 - k / n)), rng, rules, kind) for k in range(n)
    ]
    started_s = time.perf_counter()
    for first in range(0, n, BATCH):
        with store.write() as connection:
            record(connection, results[first : first + BATCH], now=now, bucket_s=60)
    return 1000 * (time.perf_counter() - started_s) / n


def main() -> None:
    """Run all of it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args()
    now = datetime(2026, 1, 8, 12, 0, tzinfo=UTC)
    print("| segments | ms a sample | streams | buckets | bins | input bins | insights, s |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for kind in ("none", "known", "endless"):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(f"sqlite:///{Path(folder) / 'bench.db'}")
            migrate(store)
            cost_ms = measure(store, options.samples, kind, now)
            with store.read() as connection:
                rows = [
                    connection.execute(select(func.count()).select_from(table)).scalar_one()
                    for table in (streams, buckets, bucket_bins, input_bins)
                ]
            lease = acquire(store, "scheduler", "bench", ttl_s=600)
            assert lease is not None
            explainer = Explainer(store=store, settings=Settings(segments=DIMENSIONS))
            explainer.run(lease, now=now)
            started_s = time.perf_counter()
            explainer.run(lease, now=now + timedelta(seconds=60))
            took_s = time.perf_counter() - started_s
            store.close()
        print(f"| {kind} | {cost_ms:.2f} | {' | '.join(f'{n:,}' for n in rows)} | {took_s:.2f} |")


if __name__ == "__main__":
    main()
