"""Three dispatchers race, and one of them is paused for longer than its lease lasts."""

import pytest

from support.alert_races import race


@pytest.mark.parametrize(("point", "most_twice"), [("after_claim", 0), ("after_bytes", 1)])
def test_racing_dispatchers_lose_reorder_and_reidentify_nothing(sqlite_url, point, most_twice):
    found = race(sqlite_url, point, incidents=10, dispatchers=3, lease_s=8.0)
    assert (found["lost"], found["other_id"], found["out_of_order"]) == (0, 0, 0)
    # What had left before the pause may be sent again, under its id.
    assert found["twice"] <= most_twice
