"""Periods of digests: one after the other without gap or overlap, whatever clocks do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.report.digest import Cadence, Schedule, last_period

ZONES = [
    "UTC", "Europe/Stockholm", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
    "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca",
]  # fmt: skip
SCHEDULES = st.builds(
    Schedule, st.sampled_from(Cadence), st.integers(0, 23), st.sampled_from(ZONES).map(ZoneInfo)
)
MOMENTS = st.datetimes(datetime(2009, 1, 1), datetime(2031, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(SCHEDULES, MOMENTS)
def test_the_period_is_over_and_the_next_one_is_not(schedule, now):
    period = last_period(schedule, now)
    longest = timedelta(days=7 if schedule.cadence is Cadence.WEEKLY else 2, hours=25)
    assert period.start < period.end <= now < period.end + longest


@given(SCHEDULES, MOMENTS)
def test_periods_follow_each_other_without_gap_or_overlap(schedule, now):
    period = last_period(schedule, now)
    before = last_period(schedule, period.end - timedelta(microseconds=1))
    assert before.end == period.start
    assert before.name != period.name


@given(SCHEDULES, MOMENTS, st.lists(st.integers(0, 7200), min_size=1, max_size=400))
def test_a_clock_that_ticks_sees_each_period_once_and_in_order(schedule, now, steps_s):
    seen = []
    for step_s in steps_s:
        now += timedelta(seconds=step_s)
        period = last_period(schedule, now)
        if not seen or seen[-1] != period:
            seen.append(period)
    assert len({period.name for period in seen}) == len(seen)
    assert [period.end for period in seen] == sorted({period.end for period in seen})


@given(SCHEDULES, MOMENTS)
def test_it_ends_at_the_hour_that_the_wall_shows_unless_that_is_left_out(schedule, now):
    end = last_period(schedule, now).end
    wall = end.astimezone(schedule.zone)
    just_before = (end - timedelta(seconds=1)).astimezone(schedule.zone)
    leapt = wall.utcoffset() != just_before.utcoffset()
    assert leapt or (wall.hour, wall.minute) == (schedule.hour, 0)
    assert schedule.cadence is Cadence.DAILY or leapt or wall.weekday() == 0


@pytest.mark.parametrize(
    ("end", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_a_day_on_which_clocks_change_is_as_long_as_it_is(end, hours):
    schedule = Schedule(Cadence.DAILY, 8, ZoneInfo("Europe/Stockholm"))
    now = datetime.fromisoformat(f"{end}T12:00:00+00:00")
    period = last_period(schedule, now)
    assert period.name == f"daily-{end}"
    assert period.end - period.start == timedelta(hours=hours)


def test_an_hour_that_comes_twice_counts_once():
    schedule = Schedule(Cadence.DAILY, 2, ZoneInfo("Europe/Stockholm"))
    day = datetime(2026, 10, 25, tzinfo=UTC)
    names = [last_period(schedule, day + timedelta(minutes=m)).name for m in range(-60, 180)]
    assert sorted(set(names)) == ["daily-2026-10-24", "daily-2026-10-25"]
    assert names.index("daily-2026-10-25") == 60  # 02:00 of summer time
