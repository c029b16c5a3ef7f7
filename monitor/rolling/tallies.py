"""Evaluations to tallies; one by one, where sums do not tell what they pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.models import Evaluation, EvaluationStatus, StreamKey, Tally
from monitor.models.passing import PassRule
from monitor.models.status import BINS
from monitor.rolling.baseline import Baseline, History
from monitor.rolling.evidence_state import Looks
from monitor.stats.evidence import Samples, Worth
from monitor.stats.prediction_powered import answered_probability

_MICRO = 1_000_000


class _Estimate(NamedTuple):
    """What is summed of one completed evaluation, and what the local score said of it."""

    passed: float
    score: float
    local_score: float
    judged: int = 0
    agreed: int = 0


def numeric_score(evaluation: Evaluation) -> float | None:
    """
    Read a completed evaluation's score as a number in [0, 1].

    A bool counts as 0 or 1. A category or a number on another scale has no place
    in a rate and gives None.
    """
    score = evaluation.score
    if evaluation.status is not EvaluationStatus.COMPLETED or isinstance(score, str | None):
        return None
    return float(score) if 0.0 <= float(score) <= 1.0 else None


def tally_of(evaluation: Evaluation, *, sample_rate: float, pass_score: float) -> Tally:
    """
    Turn one evaluation into what it adds to its bucket.

    Parameters
    ----------
    evaluation
        Completed, failed or skipped. Only a completed one with a score in [0, 1]
        counts in ``n``; a completed one without is counted as failed, so that it
        is seen.
    sample_rate
        Probability, in (0, 1], with which the interaction was sampled.
    pass_score
        In [0, 1]; a score at or above it passes, unless the evaluation's criteria name a
        line and a direction of their own.

    Where a cascade made the evaluation, its metadata holds unbiased estimates of what
    the judge would have said, and these are what the weighted sums take; ``passed``
    and ``sum_x`` stay what was said, and the histogram holds local scores throughout,
    so that a changed share of judged samples is no drift.

    Returns
    -------
    Tally
        Sums over this one evaluation.
    """
    cost = round((evaluation.cost_usd or 0.0) * _MICRO)
    if evaluation.status is EvaluationStatus.SKIPPED:
        return Tally(skipped=1, cost_microusd=cost)
    score = numeric_score(evaluation)
    if score is None:
        return Tally(failed=1, cost_microusd=cost)
    weight = 1.0 / sample_rate
    rule = PassRule.of(evaluation, pass_score)
    found = _estimate(evaluation, score, rule)
    return Tally(
        n=1,
        passed=int(rule.passes(score)),
        judged=found.judged,
        agreed=found.agreed,
        sum_w=weight,
        sum_w2=weight * weight,
        sum_wy=weight * found.passed,
        sum_w2y=weight * weight * found.passed,
        sum_w2yy=weight * weight * found.passed * found.passed,
        sum_x=score,
        sum_x2=score * score,
        sum_wx=weight * found.score,
        sum_wxx=weight * found.score * found.score,
        cost_microusd=cost,
        histogram=Counter({score_bin(found.local_score): 1}),
    )


def _estimate(evaluation: Evaluation, score: float, rule: PassRule) -> _Estimate:
    """Read what a cascade noted; any other evaluation speaks for itself."""
    noted = evaluation.metadata or {}
    if "pass_estimate" not in noted:
        return _Estimate(float(rule.passes(score)), score, score)
    local = min(1.0, max(0.0, float(noted["local_score"])))
    judged = bool(noted["judged"])
    agreed = judged and rule.passes(local) == rule.passes(score)
    return _Estimate(
        float(noted["pass_estimate"]),
        float(noted["score_estimate"]),
        local,
        int(judged),
        int(agreed),
    )


def score_bin(score: float) -> int:
    """Give the bin of a score in [0, 1], centred on hundredths: 0 to 100."""
    return min(BINS - 1, int(score * (BINS - 1) + 0.5))


def stream_key(
    app: str, evaluation: Evaluation, *, pass_score: float, segment: str = "*"
) -> StreamKey:
    """
    Tell to which stream an evaluation belongs.

    What passes is a part of the version: a new pass score must not look like a new
    quality either.
    """
    rule = PassRule.of(evaluation, pass_score)
    version = f"{evaluation.evaluator_version or 'unversioned'} {rule}"
    return StreamKey(app, evaluation.evaluator_name, segment, version)


def bucket_start(epoch_s: float, width_s: int) -> int:
    """Give the start, in epoch seconds, of the bucket that holds *epoch_s*."""
    return int(epoch_s // width_s) * width_s


def total(tallies: Iterable[Tally]) -> Tally:
    """Merge any number of tallies."""
    return sum(tallies, start=Tally())


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
    y = np.array([_stream_samples_estimate(sample) for sample in samples])
    columns = (np.ones_like(w), w, w * w, w * y, w * w * y, w * w * y * y)
    return History(moment.astype(np.int64), *columns)


def _stream_samples_estimate(sample: StreamSample) -> float:
    error = sample.passed - sample.prediction if sample.asked else 0.0
    return sample.prediction + error / sample.probability
