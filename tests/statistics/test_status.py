"""What the policy ``anytime`` promises, on streams whose truth is known: seeds are fixed."""

import numpy as np
import pytest

from monitor.models import Status
from monitor.rolling import backtest
from support import status_streams as streams
from support.status_streams import Cell, Job

BAD = {Status.WARNING, Status.CRITICAL}
LEAD_DAYS = 4.0


def alarms(changes):
    """Count how often a stream turned from well or unknown to bad."""
    count, bad = 0, False
    for _, status in changes:
        count += status in BAD and not bad
        bad = status in BAD
    return count


def first_alarm_s(changes, after_s):
    return next((t for t, s in changes if s in BAD and t >= after_s), np.inf)


def healthy(kind, seed, days=12.0, per_minute=2.0):
    rng = np.random.default_rng(seed)
    times = streams.steady_arrivals(per_minute, days, rng)
    match kind:
        case "0.90":
            return streams.sampled(times, streams.steady(0.90), rng)
        case "0.86":
            return streams.sampled(times, streams.steady(0.86), rng)
        case "day and night":
            return streams.sampled(times, streams.day_and_night(0.90, 0.03), rng)
        case "sessions":
            return streams.sampled(times, streams.steady(0.90), rng, session=3, shared=0.6)
        case "bursts":
            bursts = streams.bursty_arrivals(per_minute, days, rng)
            return streams.sampled(bursts, streams.steady(0.90), rng)
        case _:
            return streams.delayed(streams.sampled(times, streams.steady(0.90), rng), rng)


@pytest.mark.parametrize(
    "kind", ["0.90", "0.86", "day and night", "sessions", "bursts", "5 % late"]
)
def test_healthy_stream_stays_within_its_false_alarm_budget(kind):
    """Two months of each sort: a tenth of an alarm a month is one now and then, never two."""
    found = [alarms(backtest(*healthy(kind, [11, seed]))) for seed in range(5)]
    assert sum(found) <= 1


def test_first_day_of_a_daily_cycle_raises_no_alarm():
    """The rate of its morning is not a reference for its night."""
    found = []
    for run in (1, 2):  # of a benchmark; both were an alarm once
        stream, *_ = streams.draw(Job(Cell("day and night", 10, 4), 90418, run))
        first = stream.times_s < streams.BEGIN_S + 2 * streams.DAY_S
        found.append(alarms(backtest(*(column[first] for column in stream))))
    assert sum(found) == 0


def test_plain_rule_raises_hundreds_of_false_alarms():
    assert alarms(backtest(*healthy("0.90", [11, 0], per_minute=1.0), policy="point")) > 100


def delays(after, seeds, per_minute=1.0):
    found = []
    for seed in seeds:
        rng = np.random.default_rng([12, seed])
        fall_s = streams.BEGIN_S + LEAD_DAYS * streams.DAY_S
        times = streams.steady_arrivals(per_minute, LEAD_DAYS + 2, rng)
        stream = streams.sampled(times, streams.falling(0.92, after, fall_s), rng)
        alarm_s = first_alarm_s(backtest(*stream), fall_s)
        found.append(int(((times >= fall_s) & (times <= alarm_s)).sum()))
    return found


@pytest.mark.parametrize(("after", "most"), [(0.80, 330), (0.65, 75), (0.20, 15)])
def test_fall_is_found_within_few_samples(after, most):
    assert np.median(delays(after, range(12))) <= most


def test_small_fall_within_the_healthy_range_raises_no_alarm():
    counts = []
    for seed in range(8):
        rng = np.random.default_rng([13, seed])
        fall_s = streams.BEGIN_S + LEAD_DAYS * streams.DAY_S
        times = streams.steady_arrivals(2.0, LEAD_DAYS + 3, rng)
        stream = streams.sampled(times, streams.falling(0.92, 0.88, fall_s), rng)
        counts.append(alarms(backtest(*stream)))
    assert sum(counts) <= 2
