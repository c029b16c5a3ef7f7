"""
What one evaluation costs: 1,000 apps, 10 metrics, 24 hours of minutes, every stream with news.

    python benchmarks/evaluate.py

In state, on one core: summing four windows from the minutes, their bounds at all looks, the
evidence and verdict of every stream. Without the database, without finding what is new in its
sums, and without making and storing verdicts as records.
"""

import json
import time

import numpy as np
from common import script

from monitor.models import Status, Tally
from monitor.rolling.anytime import advance_all
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, to_json
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, stream_budget
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import evidence_finding

STREAMS, MINUTES = 10_000, 1440
WINDOWS = (5, 60, 360, 1440)


@script
def main() -> None:
    """Measure the CPU of one evaluation, and the size of a stream's state."""
    rng = np.random.default_rng(1)
    n = rng.poisson(1.0, (STREAMS, MINUTES)).astype(np.int32)
    passed = rng.binomial(n, 0.92).astype(np.int32)
    baseline = Baseline((0.90,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)
    state = EvidenceState.fresh(0.0).but(status=Status.HEALTHY, n_day=1440.0, baseline=baseline)
    rules = Rules(false_alarms_per_month=stream_budget(1.0, roots=STREAMS))
    began_s = time.process_time()
    sums = [[x[:, -width:].sum(axis=1, dtype=np.float64) for x in (n, passed)] for width in WINDOWS]
    print(f"sums of four windows: {time.process_time() - began_s:.2f} s of CPU")
    hour = [
        window_stats(Tally(n=int(size), passed=int(good), sum_w=size, sum_w2=size, sum_wy=good))
        for size, good in zip(*sums[1], strict=True)
    ]
    news = [
        Looks(np.array([5.0]), *np.array([[size], [size], [good]], dtype=float))
        for size, good in zip(n[:, -1], passed[:, -1], strict=True)
    ]
    began_s = time.process_time()
    found = [state for state, _ in advance_all([state] * STREAMS, news, rules)]
    for state, window in zip(found, hour, strict=True):
        evidence_finding(state, window, rules)
    took_s = time.process_time() - began_s
    print(f"evidence and verdicts, 10,000 with news: {took_s:.2f} s of CPU")
    print(f"state of a stream: {len(json.dumps(to_json(found[0]))):,} bytes of JSON")
