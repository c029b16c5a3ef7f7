"""
What a deployment costs, from 10 to 1,000,000 interactions a second: python benchmarks/scale.py.

A model, not a measurement. Its constants are what the benchmarks here measured last
(figures.json) and the assumptions printed beside the table; change both with options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from common import make_parser, read_figures

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
    worker_utilisation: float = 0.6  #: so that a backlog can be worked off
    redis_bytes_per_s: float = 100e6  #: what one Redis is trusted with, both ways


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the benchmarks here found last."""

    local_samples_per_s: float  #: of one process
    judge_samples_per_s: float  #: of one process, whose judge takes a second
    store_samples_per_s: float  #: of one PostgreSQL on the small machine of the benchmarks
    rows_per_sample: float
    stored_over_sent: float  #: a sample's rows and indexes beside its bytes on the wire
    redis_over_sent: float  #: an entry's memory beside the same

    @classmethod
    def last(cls) -> Self:
        """Read them."""
        figures = read_figures()
        pipeline, constants = figures["pipeline"], figures["constants"]
        return cls(
            local_samples_per_s=pipeline["local_1_samples_per_s"],
            judge_samples_per_s=pipeline["judge_1s_50_samples_per_s"],
            store_samples_per_s=constants["postgres_2_samples_per_s"],
            rows_per_sample=constants["rows_per_sample"],
            stored_over_sent=constants["stored_over_sent_ratio"],
            redis_over_sent=constants["redis_over_sent_ratio"],
        )


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


def cost(rate: int, m: Measured, a: Assumed) -> Cost:
    """Work out what *rate* interactions a second cost."""
    samples = rate * a.sample_rate
    calls = samples * a.judge_share
    usd = (
        a.judge_input_tokens * a.usd_per_million_input
        + a.judge_output_tokens * a.usd_per_million_output
    ) / 1e6
    wire = 2 * samples * a.sample_bytes  # in and out again
    # A sample and two metrics; buckets, their own and those of segments, do not grow with it.
    rows = m.rows_per_sample * samples * _DAY_S
    stored = samples * a.sample_bytes * m.stored_over_sent * a.kept_days * _DAY_S
    return Cost(
        interactions_per_s=rate,
        samples_per_s=samples,
        redis_megabytes_per_s=wire / 1e6,
        redis_hour_gigabytes=samples * a.sample_bytes * m.redis_over_sent * _OUTAGE_S / 1e9,
        local_processes=max(1.0, samples / m.local_samples_per_s / a.worker_utilisation),
        judge_calls_per_s=calls,
        judge_processes=max(1.0, calls / m.judge_samples_per_s / a.worker_utilisation),
        usd_per_month=calls * usd * _MONTH_S,
        store_rows_per_day=rows,
        store_terabytes=stored / 1e12,
        first_limit=_first_limit(samples / m.store_samples_per_s, calls * usd * _MONTH_S, wire, a),
    )


def _first_limit(stores: float, usd: float, wire: float, a: Assumed) -> str:
    if stores > 1:
        return f"the store: {math.ceil(stores)} shards by app"
    if wire > a.redis_bytes_per_s:
        return "Redis"
    if usd > 10_000:  # noqa: PLR2004
        return "the judge's money"
    return "none of them"


def table(assumed: Assumed) -> str:
    """Write the costs of all rates as a Markdown table."""
    measured = Measured.last()
    lines = [
        (
            "| interactions/s | samples/s | Redis MB/s | Redis GB after an hour without workers "
            "| local processes | judge calls/s | judge processes | judge $/month | store rows/day "
            "| store TB in 30 days | what breaks first |"
        ),
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for rate in RATES:
        c = cost(rate, measured, assumed)
        lines.append(
            f"| {c.interactions_per_s:,} | {c.samples_per_s:,.3g} | {c.redis_megabytes_per_s:,.3g} "
            f"| {c.redis_hour_gigabytes:,.3g} | {c.local_processes:,.0f} "
            f"| {c.judge_calls_per_s:,.3g} | {c.judge_processes:,.0f} | {c.usd_per_month:,.0f} "
            f"| {c.store_rows_per_day:,.0f} | {c.store_terabytes:,.2g} | {c.first_limit} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--sample-rate", type=float, default=Assumed.sample_rate)
    parser.add_argument("--judge-share", type=float, default=Assumed.judge_share)
    parser.add_argument("--sample-bytes", type=float, default=Assumed.sample_bytes)
    asked = parser.parse_args()
    print(table(Assumed(**vars(asked))))


if __name__ == "__main__":
    main()
