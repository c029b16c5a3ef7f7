"""When a worker is to be replaced: only when nothing begins, and always then."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.waker import StallWatch, WorkerActivity

AFTER_S = 60.0
DEAF = WorkerActivity(waits=True, busy=False, taken=7, runs=False, answered=100.0, left=True)


def seen(looks, every_s=0.5):
    """Give what the watch says at each of the looks."""
    watch = StallWatch(AFTER_S)
    return [watch.look(look, n * every_s) for n, look in enumerate(looks)]


def looks(every_s=0.5, for_s=3 * AFTER_S):
    return int(for_s / every_s)


def test_deaf_worker_is_reported_in_time():
    said = seen([DEAF] * looks())
    first = next(n for n, why in enumerate(said) if why)
    assert first * 0.5 == pytest.approx(AFTER_S, abs=1)
    assert "no wake-up was answered for 60 s" in said[first]


def test_deaf_worker_beside_working_ones_is_reported():
    said = seen(replace(DEAF, answered=float(n)) for n in range(looks()))
    assert "no idle process took one" in next(filter(None, said))


@pytest.mark.parametrize(
    "progress",
    [
        {"waits": False},  # nothing to do
        {"busy": True},  # a slow judge
    ],
)
@given(st.integers(1, 119))
def test_idle_or_busy_worker_is_not_reported(progress, every):
    """A look of this kind at least every minute is enough, whatever the others are like."""
    said = seen(replace(DEAF, **progress) if n % every == 0 else DEAF for n in range(looks()))
    assert not any(said)


@given(st.integers(1, 118), st.booleans())
def test_worker_whose_drains_start_is_not_reported(every, run_on):
    """Neither where they run long elsewhere, nor where they end at once, as with no judge."""
    course = [
        replace(DEAF, answered=float(n // every), taken=n // every, runs=run_on and n % every == 0)
        for n in range(looks())
    ]
    assert not any(seen(course))


def test_long_drain_elsewhere_counts_as_progress():
    assert not any(seen([replace(DEAF, runs=True, left=False)] * looks()))


def test_redis_outage_restarts_the_stall_timer():
    watch = StallWatch(AFTER_S)
    for n in range(119):
        assert watch.look(DEAF, n * 0.5) is None
    watch.reset()
    assert not any(watch.look(DEAF, 60 + n * 0.5) for n in range(119))
