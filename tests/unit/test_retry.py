"""Waits that servers ask for, backoff and token bucket."""

import pytest

from monitor.retry import backoff_s, retry_after_s, wait_s

NOW_S = 1_795_334_400.0


@pytest.mark.parametrize(
    ("text", "found"),
    [("6m0s", 360), ("1.5s", 1.5), ("12ms", 0.012), ("2", 2), ("1h", 3_600), ("2m59.56s", 179.56),
     (" 7 ", 7), ("-3", 0), ("1795334460", 60), ("1795334460000", 60), ("1795334340", 0),
     ("2026-11-22T08:01:00Z", 60), ("2026-11-22T08:01:00", 60),
     ("Sun, 22 Nov 2026 08:01:00 GMT", 60), ("Sun, 22 Nov 2026 08:01:00", 60),
     ("Mon, 01 Jan 0001 00:00:00 GMT", 0),
     ("", None), ("soon", None), ("1s?", None), ("nan", None), ("inf", None), ("1e400", None)],
)  # fmt: skip
def test_retry_after_is_read_in_every_notation(text, found):
    assert wait_s(text, now_s=NOW_S) == (found if found is None else pytest.approx(found))


def test_milliseconds_precede_seconds_and_dates_use_the_senders_clock():
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    headers = {
        "date": "Sun, 22 Nov 2026 08:00:00 GMT",
        "retry-after": "Sun, 22 Nov 2026 08:01:00 GMT",
    }
    assert retry_after_s(headers) == 60
    assert retry_after_s({}) is None


def test_backoff_doubles_with_jitter_up_to_its_limit():
    def most(_, high):
        return high

    waits = [backoff_s(n, first_s=0.5, longest_s=5.0, uniform=most) for n in (1, 2, 3, 4, 5, 10**6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert all(0.25 <= backoff_s(1, first_s=0.5, longest_s=5.0) <= 0.5 for _ in range(100))
