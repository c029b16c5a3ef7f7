"""
What a deployment costs, from 10 to 1,000,000 interactions a second: python benchmarks/scale.py.

A model, not a measurement. Its constants are what the benchmarks here measured last
(figures.json) and the assumptions printed beside the table; change both with options.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from figures import read_figures

RATES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_DAY_S, _MONTH_S = 86_400, 30 * 86_400
_OUTAGE_S = 3_600


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """What no benchmark here can know."""

    sample_rate: float = 0.01
    sample_bytes: float = 4_000  #: one entry: query, a few passages, output
    judge_share: float = 0.1  #: the share of samples about which a cascade asks
    judge_input_tokens: float = 1_800
    judge_output_tokens: float = 250
    usd_per_million_input: float = 0.40
    usd_per_million_output: float = 1.60
    calls_in_flight: float = 50
    kept_days: float = 30
    stored_over_sent: float = 1.6  #: a sample's rows and indexes beside its bytes on the wire
    worker_utilisation: float = 0.6  #: so that a backlog can be worked off
    store_samples_per_s: float = 1_500  #: what one small PostgreSQL is trusted with
    redis_bytes_per_s: float = 100e6  #: what one Redis is trusted with, both ways


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one rate costs."""

    interactions_per_s: int
    samples_per_s: float
    redis_megabytes_per_s: float
    redis_hour_gigabytes: float  #: what an hour without workers leaves behind
    local_processes: float
    judge_calls_per_s: float
    judge_processes: float
    usd_per_month: float
    store_rows_per_day: float
    store_terabytes: float
    first_limit: str


def cost(rate: int, local_per_s: float, judge_per_s: float, a: Assumed) -> Cost:
    """
    Work out what *rate* interactions a second cost.

    *local_per_s* and *judge_per_s* are samples a second of one worker process, scored
    locally and by a judge that takes a second.
    """
    samples = rate * a.sample_rate
    calls = samples * a.judge_share
    usd = (
        a.judge_input_tokens * a.usd_per_million_input
        + a.judge_output_tokens * a.usd_per_million_output
    ) / 1e6
    wire = 2 * samples * a.sample_bytes  # in and out again
    # A sample and two metrics, each also in about five segments' buckets, which do not grow.
    rows = 3 * samples * _DAY_S
    stored = samples * a.sample_bytes * a.stored_over_sent * a.kept_days * _DAY_S
    return Cost(
        interactions_per_s=rate,
        samples_per_s=samples,
        redis_megabytes_per_s=wire / 1e6,
        redis_hour_gigabytes=samples * a.sample_bytes * _OUTAGE_S / 1e9,
        local_processes=max(1.0, samples / local_per_s / a.worker_utilisation),
        judge_calls_per_s=calls,
        judge_processes=max(1.0, calls / judge_per_s / a.worker_utilisation),
        usd_per_month=calls * usd * _MONTH_S,
        store_rows_per_day=rows,
        store_terabytes=stored / 1e12,
        first_limit=_first_limit(samples, calls * usd * _MONTH_S, wire, a),
    )


def _first_limit(samples: float, usd: float, wire: float, a: Assumed) -> str:
    stores = samples / a.store_samples_per_s
    if stores > 1:
        return f"the store: {stores:.0f} shards by app" if stores >= 2 else "the store"  # noqa: PLR2004
    if wire > a.redis_bytes_per_s:
        return "Redis"
    if usd > 10_000:  # noqa: PLR2004
        return "the judge's money"
    return "none of them"


def table(assumed: Assumed) -> str:
    """Write the costs of all rates as a Markdown table."""
    figures = read_figures()["pipeline"]
    local, judge = figures["local_1_samples_per_s"], figures["judge_1s_50_samples_per_s"]
    lines = [
        (
            "| interactions/s | samples/s | Redis MB/s | Redis GB after an hour without workers "
            "| local processes | judge calls/s | judge processes | judge $/month | store rows/day "
            "| store TB in 30 days | what breaks first |"
        ),
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for rate in RATES:
        c = cost(rate, local, judge, assumed)
        lines.append(
            f"| {c.interactions_per_s:,} | {c.samples_per_s:,.3g} | {c.redis_megabytes_per_s:,.3g} "
            f"| {c.redis_hour_gigabytes:,.3g} | {c.local_processes:,.0f} "
            f"| {c.judge_calls_per_s:,.3g} | {c.judge_processes:,.0f} | {c.usd_per_month:,.0f} "
            f"| {c.store_rows_per_day:,.0f} | {c.store_terabytes:,.2g} | {c.first_limit} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n\n")[0])
    parser.add_argument("--sample-rate", type=float, default=Assumed.sample_rate)
    parser.add_argument("--judge-share", type=float, default=Assumed.judge_share)
    parser.add_argument("--sample-bytes", type=float, default=Assumed.sample_bytes)
    asked = parser.parse_args()
    print(table(Assumed(**vars(asked))))


if __name__ == "__main__":
    main()
