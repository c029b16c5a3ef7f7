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
def test_last_digest_period_is_the_newest_complete_one(schedule, now):
    period = last_period(schedule, now)
    longest = timedelta(days=7 if schedule.cadence is Cadence.WEEKLY else 2, hours=25)
    assert period.start < period.end <= now < period.end + longest


@given(SCHEDULES, MOMENTS)
def test_digest_periods_have_no_gap_or_overlap(schedule, now):
    period = last_period(schedule, now)
    before = last_period(schedule, period.end - timedelta(microseconds=1))
    assert before.end == period.start
    assert before.name != period.name


@given(SCHEDULES, MOMENTS, st.lists(st.integers(0, 7200), min_size=1, max_size=400))
def test_ticking_clock_sees_each_digest_period_once_in_order(schedule, now, steps_s):
    seen = []
    for step_s in steps_s:
        now += timedelta(seconds=step_s)
        period = last_period(schedule, now)
        if not seen or seen[-1] != period:
            seen.append(period)
    assert len({period.name for period in seen}) == len(seen)
    assert [period.end for period in seen] == sorted({period.end for period in seen})


@given(SCHEDULES, MOMENTS)
def test_digest_period_ends_at_the_local_hour_unless_clocks_skip_it(schedule, now):
    end = last_period(schedule, now).end
    wall = end.astimezone(schedule.zone)
    just_before = (end - timedelta(seconds=1)).astimezone(schedule.zone)
    leapt = wall.utcoffset() != just_before.utcoffset()
    assert leapt or (wall.hour, wall.minute) == (schedule.hour, 0)
    assert schedule.cadence is Cadence.DAILY or leapt or wall.weekday() == 0


@pytest.mark.parametrize(
    ("end", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_daily_period_follows_clock_changes(end, hours):
    schedule = Schedule(Cadence.DAILY, 8, ZoneInfo("Europe/Stockholm"))
    now = datetime.fromisoformat(f"{end}T12:00:00+00:00")
    period = last_period(schedule, now)
    assert period.name == f"daily-{end}"
    assert period.end - period.start == timedelta(hours=hours)


def test_repeated_hour_at_the_end_of_summer_time_counts_once():
    schedule = Schedule(Cadence.DAILY, 2, ZoneInfo("Europe/Stockholm"))
    day = datetime(2026, 10, 25, tzinfo=UTC)
    names = [last_period(schedule, day + timedelta(minutes=m)).name for m in range(-60, 180)]
    assert sorted(set(names)) == ["daily-2026-10-24", "daily-2026-10-25"]
    assert names.index("daily-2026-10-25") == 60  # 02:00 of summer time
