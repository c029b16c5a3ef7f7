"""Evaluations one by one, where sums do not tell what they pay: cascades, unequal weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.rolling.baseline import Baseline, History
from monitor.rolling.evidence_state import Looks
from monitor.stats.evidence import Samples, Worth
from monitor.stats.prediction_powered import answered_probability

#: Evaluators whose judge is asked about a part of the samples only.
CASCADE: Final = "cascade-"
#: Beyond rounding, weights differ.
_UNEQUAL: Final = 1.0 + 1e-6


def goes_by_samples(version: str, *, n: float, sum_w: float, sum_w2: float) -> bool:
    """Return whether sums do not tell what samples pay: a judge is sampled, or weights differ."""
    return version.startswith(CASCADE) or n * sum_w2 > sum_w * sum_w * _UNEQUAL


class StreamSample(NamedTuple):
    """
    What one stored evaluation tells of a stream, beyond sums.

    ``at_s`` is when it arrived, ``occurred_s`` when it happened, in epoch seconds; the others as
    in `monitor.stats.evidence.Samples`.
    """

    at_s: float
    occurred_s: float
    prediction: float
    probability: float
    asked: bool
    passed: bool
    weight: float


def stream_sample(
    at_s: float, occurred_s: float, *, passed: bool, weight: float, noted: Mapping[str, Any] | None
) -> StreamSample:
    """Read a completed evaluation; *noted* is its metadata, in which a cascade keeps its odds."""
    if not noted or "pass_estimate" not in noted:
        return StreamSample(at_s, occurred_s, float(passed), 1.0, True, passed, weight)
    asked = bool(noted["judged"])
    probability = answered_probability(noted["judge_probability"], noted.get("answered_share", 1.0))
    prediction = noted.get("expected_pass", noted["pass_estimate"])
    if asked and "expected_pass" not in noted and probability < 1.0:
        # The estimate is f + (y - f) / pi.
        prediction = passed + (noted["pass_estimate"] - passed) / (1.0 - 1.0 / probability)
    prediction = min(max(float(prediction), 0.0), 1.0)
    return StreamSample(at_s, occurred_s, prediction, probability, asked, passed, weight)


#: What a sample is taken to be worth before that is measured, and at least.
_FIRST_WORTH: Final = 0.2
_LEAST_WORTH: Final = 0.01


def looks_of(samples: Sequence[StreamSample], time_s: Sequence[float], baseline: Baseline) -> Looks:
    """
    Return looks at samples, one look for each different time; *time_s* never falls.

    What they are worth, and the largest weight, are those of the baseline: fixed before they
    came. Before there is one, all weigh the same.
    """
    times, look = np.unique(np.asarray(time_s, dtype=np.float64), return_inverse=True)
    worth = Worth(_FIRST_WORTH)
    if baseline.worth is not None:
        size = min(max(baseline.worth * baseline.mean_weight, _LEAST_WORTH), 1.0)
        worth = Worth(size, baseline.mean_weight, max(baseline.most_weight, baseline.mean_weight))
    _, _, prediction, probability, asked, passed, weight = zip(*samples, strict=True)
    return Looks.of_samples(
        times,
        Samples(
            look,
            np.array(prediction),
            np.array(probability),
            np.array(asked, dtype=bool),
            np.array(passed, dtype=bool),
            np.array(weight) if baseline.worth is not None else np.ones(len(samples)),
        ),
        worth,
    )


def history_columns(samples: Sequence[StreamSample], bucket_s: int) -> History:
    """Return what each sample adds to the bucket in which it happened."""
    moment = np.array([sample.occurred_s for sample in samples]) // bucket_s
    w = np.array([sample.weight for sample in samples])
    y = np.array([_estimate(sample) for sample in samples])
    columns = (np.ones_like(w), w, w * w, w * y, w * w * y, w * w * y * y)
    return History(moment.astype(np.int64), *columns)


def _estimate(sample: StreamSample) -> float:
    error = sample.passed - sample.prediction if sample.asked else 0.0
    return sample.prediction + error / sample.probability
