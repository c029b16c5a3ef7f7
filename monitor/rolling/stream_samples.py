"""Evaluations one by one, where sums do not tell what they pay: cascades, unequal weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from monitor.rolling.evidence_state import Looks
from monitor.stats.evidence import Samples, Worth
from monitor.stats.prediction_powered import answered_probability


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


def looks_of(samples: Sequence[StreamSample], time_s: Sequence[float], worth: Worth) -> Looks:
    """Return looks at samples, one look for each different time; *time_s* never falls."""
    times, look = np.unique(np.asarray(time_s, dtype=np.float64), return_inverse=True)
    _, _, prediction, probability, asked, passed, weight = zip(*samples, strict=True)
    return Looks.of_samples(
        times,
        Samples(
            look,
            np.array(prediction),
            np.array(probability),
            np.array(asked, dtype=bool),
            np.array(passed, dtype=bool),
            np.array(weight),
        ),
        worth,
    )
