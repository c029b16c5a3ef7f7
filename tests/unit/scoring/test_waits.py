"""Waits of vendors' headers."""

import pytest

from monitor.scoring.spending.pace import wait_s

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
def test_wait_is_read_however_it_is_written(text, found):
    assert wait_s(text, now_s=NOW_S) == (found if found is None else pytest.approx(found))
