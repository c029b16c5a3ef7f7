"""
What a deployment costs, from 10 to 1,000,000 interactions a second: python benchmarks/scale.py.

A model, not a measurement. Its constants are what the benchmarks here measured last
(figures.json) and the assumptions printed beside the table; change both with options.
"""

import math
from dataclasses import dataclass

from common import make_parser, read_figures

RATES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_DAY_S, _OUTAGE_S = 86_400, 3_600
_COLUMNS = (
    *("interactions/s", "samples/s", "Redis MB/s", "Redis GB after an hour without workers"),
    *("local processes", "judge calls/s", "judge processes", "judge $/month", "store rows/day"),
    *("store TB in 30 days", "what breaks first"),
)


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
    kept_days: float = 30
    worker_utilisation: float = 0.6  #: so that a backlog can be worked off
    redis_bytes_per_s: float = 100e6  #: what one Redis is trusted with, both ways


def row(rate: int, a: Assumed) -> tuple[str, ...]:
    """Work out what *rate* interactions a second cost, as the columns have it."""
    figures = read_figures()
    pipeline, constants = figures["pipeline"], figures["constants"]
    samples = rate * a.sample_rate
    calls = samples * a.judge_share
    usd = calls * 30 * _DAY_S / 1e6 * (
        a.judge_input_tokens * a.usd_per_million_input
        + a.judge_output_tokens * a.usd_per_million_output
    )  # fmt: skip
    sent = samples * a.sample_bytes
    wire = 2 * sent  # in and out again
    stores = samples / constants["postgres_2_samples_per_s"]
    processes = [
        max(1.0, work / figure / a.worker_utilisation)
        for work, figure in (
            (samples, pipeline["local_1_samples_per_s"]),
            (calls, pipeline["judge_1s_50_samples_per_s"]),
        )
    ]
    if stores > 1:
        limit = f"the store: {math.ceil(stores)} shards by app"
    elif wire > a.redis_bytes_per_s:
        limit = "Redis"
    else:
        limit = "the judge's money" if usd > 10_000 else "none of them"
    # A sample and two metrics; buckets, their own and those of segments, do not grow with it.
    rows = constants["rows_per_sample"] * samples * _DAY_S
    kept = sent * constants["stored_over_sent_ratio"] * a.kept_days * _DAY_S
    waiting = sent * constants["redis_over_sent_ratio"] * _OUTAGE_S
    return (
        f"{rate:,}", f"{samples:,.3g}", f"{wire / 1e6:,.3g}", f"{waiting / 1e9:,.3g}",
        f"{processes[0]:,.0f}", f"{calls:,.3g}", f"{processes[1]:,.0f}", f"{usd:,.0f}",
        f"{rows:,.0f}", f"{kept / 1e12:,.2g}", limit,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = make_parser(
        __doc__,
        sample_rate=Assumed.sample_rate,
        judge_share=Assumed.judge_share,
        sample_bytes=Assumed.sample_bytes,
    )
    assumed = Assumed(**vars(parser.parse_args()))
    head = f"| {' | '.join(_COLUMNS)} |", f"|{'--:|' * (len(_COLUMNS) - 1)}---|"
    print("\n".join([*head, *(f"| {' | '.join(row(rate, assumed))} |" for rate in RATES)]))


if __name__ == "__main__":
    main()
