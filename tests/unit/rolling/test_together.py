"""Streams that are computed together come out as each does alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.models import Status
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import Baseline
from monitor.rolling.budget import Rules
from monitor.rolling.evidence_walk import CALM, Looks, _table
from monitor.rolling.memory import Memory
from monitor.rolling.together import advance_all

HOURLY = tuple(0.86 + 0.003 * hour for hour in range(24))
BASELINES = [
    Baseline(),
    Baseline((0.9,), 0.92, 9000.0, 1.0, 1.3, effect_known=True),
    Baseline(HOURLY, 0.92, 9000.0, 1.0, 1.0, effect_known=True),
]
ONE_LOOK = st.tuples(
    st.floats(0, 30_000), st.sampled_from([0.0, 1.0, 7.5, 40.0]), st.floats(0, 1), st.booleans()
)
STREAM = st.tuples(st.sampled_from(BASELINES), st.lists(ONE_LOOK, min_size=1, max_size=12))


def looks(at_s, look):
    gap_s, n, rate, twice = look
    times = np.array([at_s + gap_s] * (1 + twice))
    return Looks(times, np.full(times.size, n), np.full(times.size, n * rate))


def assert_alike(one, other):
    assert (one.status, one.certainty) == (other.status, other.certainty)
    for name in ("at_s", "owed", "n", "n_day", "status_s", "spell_n", "spell_passed"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9)
    for mine, theirs in zip((one.log_r, *one.since), (other.log_r, *other.since), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@given(
    streams=st.lists(STREAM, min_size=1, max_size=5),
    rules=st.sampled_from([Rules(), Rules(use_reference=False, min_n=5)]),
)
@settings(max_examples=40, deadline=None)
def test_together_is_one_by_one(streams, rules):
    alone = [Memory.fresh(1e6).but(baseline=baseline) for baseline, _ in streams]
    together = list(alone)
    for turn in range(max(len(told) for _, told in streams)):
        news = [
            looks(memory.at_s, told[turn % len(told)])
            for memory, (_, told) in zip(alone, streams, strict=True)
        ]
        found = [advance(memory, new, rules) for memory, new in zip(alone, news, strict=True)]
        all_found = advance_all(together, news, rules)
        assert [changes for _, changes in found] == [changes for _, changes in all_found]
        alone = [memory for memory, _ in found]
        together = [memory for memory, _ in all_found]
        for one, other in zip(alone, together, strict=True):
            assert_alike(one, other)


def test_each_kind_of_stream_is_among_them():
    """Fall, silence and recovery: what turns goes the long way, and arrives."""
    calm = Memory.fresh(0.0).but(status=Status.HEALTHY, n_day=90.0, baseline=BASELINES[1])
    alarmed, _ = advance(calm, Looks(np.array([60.0]), np.array([40.0]), np.zeros(1)), Rules())
    memories = [calm, calm, calm, alarmed]
    told = [(60.0, 40.0, 1.0), (60.0, 40.0, 0.0), (90_000.0, 40.0, 1.0), (120.0, 1.0, 1.0)]
    news = [
        Looks(np.array([time_s]), np.array([n]), np.array([n * rate])) for time_s, n, rate in told
    ]
    found = advance_all(memories, news, Rules())
    assert [bool(changes) for _, changes in found] == [False, True, True, False]
    assert found[1][0].alarmed


def test_bets_that_are_kept_take_little_memory():
    bets = _table(CALM, Rules(), HOURLY)
    assert sum(side.nbytes for side in bets) * _table.cache_info().maxsize < 25_000_000
