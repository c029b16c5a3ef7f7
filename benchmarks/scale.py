"""
What a deployment costs, from 10 to 1,000,000 interactions a second: python benchmarks/scale.py.

A model, not a measurement. Its constants are what the benchmarks here measured last
(figures.json) and the assumptions printed beside the table; change both with options.
"""

import math
from dataclasses import dataclass

from common import read_figures, script

RATES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
_DAY_S, _OUTAGE_S = 86_400, 3_600


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
    deleted_per_s: float = 1_700  #: samples that retention deletes in half of all time
    redis_bytes_per_s: float = 100e6  #: what one Redis is trusted with, both ways


def row(rate: int, a: Assumed) -> dict[str, str]:
    """Work out what *rate* interactions a second cost, by the names of the columns."""
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
    stores = samples / min(constants["postgres_2_samples_per_s"], a.deleted_per_s)
    local, judging = (
        max(1.0, work / pipeline[figure] / a.worker_utilisation)
        for work, figure in (
            (samples, "local_1_samples_per_s"), (calls, "judge_1s_50_samples_per_s"),
        )
    )  # fmt: skip
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
    return {
        "interactions/s": f"{rate:,}", "samples/s": f"{samples:,.3g}",
        "Redis MB/s": f"{wire / 1e6:,.3g}",
        "Redis GB after an hour without workers": f"{waiting / 1e9:,.3g}",
        "local processes": f"{local:,.0f}", "judge calls/s": f"{calls:,.3g}",
        "judge processes": f"{judging:,.0f}", "judge $/month": f"{usd:,.0f}",
        "store rows/day": f"{rows:,.0f}", "store TB in 30 days": f"{kept / 1e12:,.2g}",
        "what breaks first": limit,
    }  # fmt: skip


@script
def main(
    *, sample_rate: float = Assumed.sample_rate, judge_share: float = Assumed.judge_share,
    sample_bytes: float = Assumed.sample_bytes,
) -> None:  # fmt: skip
    """Print the table."""
    assumed = Assumed(sample_rate=sample_rate, judge_share=judge_share, sample_bytes=sample_bytes)
    rows = [row(rate, assumed) for rate in RATES]
    print(f"| {' | '.join(rows[0])} |", f"|{'--:|' * (len(rows[0]) - 1)}---|", sep="\n")
    for each in rows:
        print(f"| {' | '.join(each.values())} |")
