"""The ledger adds up by app, kind, reason and time; dead letters wait until somebody decides."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from monitor.errors import SettingsError
from monitor.queue.wire import OUTSIDE
from monitor.store.ledger import (
    DEAD,
    DROPPED,
    RETRYING,
    Booking,
    DeadLetter,
    Entry,
    HookCounters,
    Kind,
    absorb,
    begin_retry,
    book,
    book_outside,
    drop_dead_letter,
    end_retry,
    find_dead_letter,
    last_heartbeat,
    last_heartbeats,
    newest_dead_letters,
    read_between,
    read_totals,
    read_volume,
    set_aside,
)
from monitor.store.tables import counts, dead_letters, hooks

NOW = datetime(2026, 1, 1, 12, 0, 59, 500_000, tzinfo=UTC)
START_S = int(NOW.timestamp()) // 60 * 60
SCORED, SEEN = Booking(Kind.SCORED, ""), Booking(Kind.SEEN, "")


def scored(start_s, n=1, app="shop", reason=""):
    return Entry(app, start_s, Kind.SCORED, reason, n)


def test_ledger_entries_with_one_key_add_up(connection):
    book(connection, [scored(0, 2), scored(0, 3), scored(60, 5), scored(0, 7, reason="late")])
    book(connection, [scored(0, 11), scored(0, 13, app="bot")])
    assert read_totals(connection) == {
        "shop": {SCORED: 21, Booking(Kind.SCORED, "late"): 7},
        "bot": {SCORED: 13},
    }
    assert read_totals(connection, "bot").keys() == {"bot"}


def test_zero_sum_writes_no_ledger_row(connection):
    book(connection, [scored(0, 2), scored(0, -2)])
    assert read_totals(connection) == {}


def test_ledger_span_is_read_half_open(connection):
    book(connection, [scored(at, 10**k) for k, at in enumerate((0, 60, 120, 180))])
    assert read_between(connection, 60)["shop"][SCORED] == 1110
    assert read_between(connection, 60, 180)["shop"][SCORED] == 110
    assert read_between(connection, 0, app="bot") == {}


def test_volume_is_read_by_kind_and_step_of_one_app(connection):
    book(connection, [scored(at) for at in (0, 60, 299, 300, 660)])
    book(connection, [scored(300, app="bot"), Entry("shop", 360, Kind.SEEN, "", 4)])
    found = read_volume(connection, "shop", since_s=60, step_s=300)
    assert found == {Kind.SCORED: {0: 2, 300: 1, 600: 1}, Kind.SEEN: {300: 4}}


def news(at=NOW, *, hook_id="h", app="shop", heard_at=None, **counters):
    return HookCounters(
        hook_id=hook_id, app=app, host="web", pid=7, heartbeat_at=at, heard_at=heard_at,
        counters={name.replace("_of_", ":"): n for name, n in counters.items()},
    )  # fmt: skip


def test_counters_are_booked_in_the_bucket_of_the_heartbeat(connection):
    absorb(connection, [news(seen=3)], bucket_s=60)
    assert connection.execute(select(counts.c.start_s)).scalar_one() == START_S


def test_counters_unknown_to_the_ledger_are_ignored(connection):
    known = {"seen": 1, "unseen": 2, "dropped_of_full": 3, "errored_of_E": 4, "feedback_of_good": 5}
    odd = {"seen_of_x": 6, "dropped": 7, "scored": 8, "scored_of_x": 9, "other": 10}
    absorb(connection, [news(**known, **odd)], bucket_s=60)
    assert read_totals(connection)["shop"] == {
        SEEN: 1, Booking(Kind.UNSEEN, ""): 2, Booking(Kind.DROPPED, "full"): 3,
        Booking(Kind.ERRORED, "E"): 4, Booking(Kind.FEEDBACK, "good"): 5,
    }  # fmt: skip


def test_counter_missing_from_a_later_report_is_kept(connection):
    for counters in ({"seen": 5, "sent": 2}, {"sent": 3}, {"seen": 6}):
        absorb(connection, [news(**counters)], bucket_s=60)
    assert read_totals(connection)["shop"] == {SEEN: 6, Booking(Kind.SENT, ""): 3}


@pytest.mark.parametrize("heard_at", [None, NOW + timedelta(seconds=30)])
def test_hook_heartbeat_uses_our_clock_when_known(connection, heard_at):
    absorb(connection, [news(heard_at=heard_at)], bucket_s=60)
    assert last_heartbeat(connection) == (heard_at or NOW)


def test_each_app_has_the_heartbeat_of_its_newest_hook(connection):
    later = NOW + timedelta(minutes=1)
    mine = [news(NOW), news(later, hook_id="i"), news(NOW, hook_id="j", app="bot")]
    absorb(connection, mine, bucket_s=60)
    assert last_heartbeats(connection) == {"shop": later, "bot": NOW}
    assert last_heartbeat(connection, "bot") == NOW


def test_samples_of_other_programs_are_booked_to_an_outside_hook(connection):
    for n in (2, 3):
        book_outside(connection, {"shop": n, "bot": 1}, now=NOW, bucket_s=60)
    of_hook = Counter({Booking(kind, ""): 5 for kind in (Kind.SEEN, Kind.SAMPLED, Kind.SENT)})
    assert read_totals(connection)["shop"] == of_hook
    assert last_heartbeat(connection, "shop") == NOW - timedelta(days=1)
    ids = list(connection.execute(select(hooks.c.hook_id)).scalars())
    assert len(ids) == 2
    assert all(name.startswith(f"{OUTSIDE}-") and len(name) <= 64 for name in ids)


def letter(entry_id="1700-0", **given):
    fields = {
        "entry_id": entry_id, "sample_id": None, "app": "shop", "at": NOW, "reason": "not_json",
        "detail": "", "body": b"{",
    }  # fmt: skip
    return DeadLetter(**fields | given)


def states(connection):
    return dict(
        map(tuple, connection.execute(select(dead_letters.c.entry_id, dead_letters.c.state)))
    )


def test_dead_letters_are_returned_once_in_the_order_of_their_ids(connection):
    items = [letter("2-0"), letter("1-0"), letter("1-0")]
    assert [item.entry_id for item in set_aside(connection, items)] == ["1-0", "2-0"]
    assert set_aside(connection, items) == []


def test_version_is_kept_up_to_the_column_limit(connection):
    set_aside(connection, [letter(version="9" * 30)])
    assert find_dead_letter(connection, "1700-0").version == "9" * 20


def test_newest_dead_letters_come_first_without_those_that_were_dropped(connection):
    ages_s = {"0-0": 9, "1-0": 0, "2-0": 0, "3-0": 4}
    set_aside(connection, [letter(n, at=NOW - timedelta(seconds=s)) for n, s in ages_s.items()])
    drop_dead_letter(connection, "2-0", why="bad")
    found = newest_dead_letters(connection, limit=2)
    assert [item.entry_id for item in found] == ["1-0", "3-0"]
    assert found[0] == letter("1-0", at=NOW)


def test_dropped_dead_letter_is_not_found(connection):
    set_aside(connection, [letter()])
    drop_dead_letter(connection, "1700-0", why="bad")
    with pytest.raises(SettingsError, match="no entry is named"):
        find_dead_letter(connection, "1700-0")


def test_ambiguous_dead_letter_name_is_refused(connection):
    set_aside(connection, [letter("1700-0"), letter("1700-1")])
    with pytest.raises(SettingsError, match="several entries are named '1700'"):
        find_dead_letter(connection, "1700")


def test_retried_dead_letter_no_longer_counts_as_failed(connection):
    failed = Entry("shop", START_S, Kind.FAILED, "not_json", 1)
    set_aside(connection, [letter(sample_id="s")])
    book(connection, [failed, failed])
    for _ in range(2):  # the second time it counts no more
        begin_retry(connection, find_dead_letter(connection, "1700-0"), bucket_s=60)
    assert read_between(connection, START_S, START_S + 60)["shop"] == {
        Booking(Kind.FAILED, "not_json"): 1
    }
    again = find_dead_letter(connection, "1700-0")
    assert (again.state, again.sample_id) == (RETRYING, None)


def test_only_retried_dead_letters_finish_and_only_dead_ones_are_dropped(connection):
    set_aside(connection, [letter("1-0"), letter("2-0"), letter("3-0")])
    for name in ("2-0", "3-0"):
        begin_retry(connection, letter(name, state=RETRYING), bucket_s=60)
    for name in ("1-0", "2-0"):
        end_retry(connection, letter(name))
    drop_dead_letter(connection, "3-0", why="bad")
    assert states(connection) == {"1-0": DEAD, "3-0": RETRYING}
    drop_dead_letter(connection, "1-0", why="bad")
    assert states(connection) == {"1-0": DROPPED, "3-0": RETRYING}
    kept = select(dead_letters.c.body, dead_letters.c.detail).where(
        dead_letters.c.entry_id == "1-0"
    )
    assert tuple(connection.execute(kept).one()) == (b"", "bad")
