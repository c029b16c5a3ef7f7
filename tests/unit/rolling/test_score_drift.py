"""The detectors of a stream: replayable, restartable, quiet after a finding."""

from dataclasses import replace

import numpy as np
import pytest

from monitor.models import Tally
from monitor.rolling.drift import (
    DOWN,
    QUIET_BUCKETS,
    UP,
    ScoreDriftState,
    ScoreReference,
    moments,
    take_in,
)

START = ScoreDriftState(
    at_s=0,
    began_s=0,
    baseline=ScoreReference(0.85, 0.1, 3000),
    baseline_at_s=0,
    chunk_from_s=0,
)


def course(seed, means, n=10):
    rng = np.random.default_rng(seed)
    found = {}
    for k, mean in enumerate(means):
        scores = np.clip(rng.normal(mean, 0.1, n), 0, 1)
        bins, counts = np.unique(np.floor(scores * 100 + 0.5).astype(int), return_counts=True)
        found[60 * k] = dict(zip(bins.tolist(), counts.tolist(), strict=True))
    return found


def run(buckets, to_s, state=START, line=4e6):
    return take_in(state, buckets, to_s=to_s, bucket_s=60, line=line)


def test_fall_is_found_once_with_its_evidence_level():
    buckets = course(1, [0.85] * 60 + [0.7] * 60)
    _, (alarm,) = run(buckets, 7200)
    assert (alarm.test, alarm.level >= 4e6) == (DOWN, True)
    assert 3600 < alarm.at_s <= 4200


def test_rise_is_found_too():
    _, (alarm,) = run(course(2, [0.85] * 30 + [0.97] * 60), 5400)
    assert alarm.test == UP


def test_processing_at_once_or_in_pieces_gives_the_same_result():
    buckets = course(3, [0.85] * 50 + [0.7] * 50)
    whole, alarms = run(buckets, 6000)
    state, found = START, []
    for to_s in (60, 300, 2940, 4500, 6000):
        state, more = run(buckets, to_s, ScoreDriftState.read(state.stored()))
        found += more
    assert [alarm[:3] for alarm in found] == [alarm[:3] for alarm in alarms]
    assert state.down.log_r == pytest.approx(whole.down.log_r, rel=1e-9)
    assert state.up.log_r == pytest.approx(whole.up.log_r, rel=1e-9)
    assert replace(state, down=whole.down, up=whole.up) == whole


def test_small_reference_reports_no_change():
    young = START.__class__.read(START.stored() | {"baseline": [0.85, 0.1, 50]})
    assert run(course(4, [0.2] * 60), 3600, young)[1] == []


def test_processed_buckets_are_not_counted_again():
    buckets = course(5, [0.85] * 60)
    state, _ = run(buckets, 3600)
    assert run(buckets, 3600, state) == (state, [])


def test_mean_and_variance_count_each_score_by_its_weight():
    scores, weights = np.array([0.2, 0.6, 0.9]), np.array([1.0, 1.0, 2.0])
    tally = Tally(
        n=3,
        sum_w=weights.sum(),
        sum_w2=(weights**2).sum(),
        sum_wx=(weights * scores).sum(),
        sum_wxx=(weights * scores**2).sum(),
    )
    size = 4**2 / 6  # as many equal ones (Kish)
    spread = np.average((scores - 0.65) ** 2, weights=weights)
    assert moments(tally) == pytest.approx((size, 0.65, spread * size / (size - 1)))


@pytest.mark.parametrize(
    ("n", "by_hour", "minutes"), [(199, False, 30), (200, False, 360), (3000, True, 60)]
)
def test_small_or_same_hour_reference_is_renewed_sooner(n, by_hour, minutes):
    state = replace(START, baseline=ScoreReference(0.85, 0.1, n), by_hour=by_hour)
    assert state.refresh_buckets == minutes


def test_second_fall_is_found_after_the_quiet_period_of_the_first():
    means = [0.85] * 30 + [0.7] * 60 + [0.85] * (2 * QUIET_BUCKETS) + [0.7] * 60
    _, alarms = run(course(6, means), 60 * len(means))
    assert [alarm.test for alarm in alarms] == [DOWN, DOWN]
