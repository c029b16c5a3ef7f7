"""A program without the hook writes records into the queue, as the page of the wire format says."""

import json
import re
import shlex
import time
from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import RecordError
from monitor.queue.wire import OUTSIDE, decode
from monitor.settings import Settings
from monitor.store.ledger import read_totals
from workers.context import Components
from workers.operations import reconcile

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
ENTRY = "1790000000123-4"


def written(record, app=b"shop"):
    return decode({b"v": b"1", b"app": app, b"body": json.dumps(record).encode()}, ENTRY)


def test_bare_record_takes_its_id_and_time_from_the_entry():
    sample = written({"query": "How long?", "contexts": ["Five days."], "output": "Five days."})
    again = written({"output": "the same entry, delivered again"})
    assert (sample.interaction.app, sample.sample_rate, sample.hook_id) == ("shop", 1.0, OUTSIDE)
    assert round(sample.sampled_at.timestamp() * 1000) == 1790000000123
    assert sample.sample_id == again.sample_id == sample.interaction.id


@pytest.mark.parametrize("record", [[], "text", {}, {"output": 5}, {"output": "x", "hook_id": "a"}])
def test_invalid_record_is_refused_with_the_reason(record):
    with pytest.raises(RecordError, match=r"^unreadable (record|sample): \w+"):
        written(record)


def test_record_added_by_redis_cli_is_scored_and_sums_agree(redis_url, store):
    [command] = re.findall(r"```sh\nredis-cli (.*?)```", PAGE.read_text(), re.DOTALL)
    url = store.engine.url.render_as_string(hide_password=False)
    with closing(Components(Settings(redis_url=redis_url, database_url=url))) as context:
        for _ in range(3):
            context.redis.execute_command(*shlex.split(command.replace("\\\n", " ")))
        made = context.scoring_run(lambda: True)
        made.idle_after_s = 0.05
        assert made.run(budget_s=20) == 3
        with context.store.read() as connection:
            counted = read_totals(connection)["support-bot"]
        assert {str(kind): n for (kind, _), n in counted.items()} == {
            "seen": 3, "sampled": 3, "sent": 3, "scored": 3,
        }  # fmt: skip
        found = reconcile(
            context.redis, context.store, now_s=time.time(), window_s=3600, bucket_s=60
        )
        assert [item for item in found.sums if not item.holds] == []
