"""What waits in the app is bounded by number and by characters, to the last one."""

import pytest

from monitor.hook.options import resolve
from monitor.hook.recorder import Recorder

LONG = {"query": "abcde", "contexts": ["d"], "output": "ghij"}  # ten characters


def recorder(**options):
    return Recorder(resolve({"app": "bot", "redis_url": "redis://127.0.0.1:1/0", **options}, {}))


def by_fields(made):
    made.record(LONG, 1.0)


def by_texts(made):
    made.record_texts(*LONG.values(), 1.0)


@pytest.mark.parametrize("record", [by_fields, by_texts])
def test_buffered_characters_are_counted_exactly(record):
    made = recorder(buffer_chars=30)
    for _ in range(4):
        record(made)
    assert (len(made.buffer), made.dropped) == (3, {"buffer_full": 1})


@pytest.mark.parametrize("record", [by_fields, by_texts])
def test_sent_characters_free_the_buffer(record):
    made = recorder(buffer_chars=10)
    record(made)
    made.chars_out += 10
    record(made)
    assert (len(made.buffer), made.dropped) == (2, {})


@pytest.mark.parametrize("record", [by_fields, by_texts])
def test_number_of_buffered_samples_is_bounded(record):
    made = recorder(buffer_samples=2)
    for _ in range(3):
        record(made)
    assert (len(made.buffer), made.dropped) == (2, {"buffer_full": 1})


@pytest.mark.parametrize("record", [by_fields, by_texts])
def test_full_queue_drops_new_samples_and_counts_them(record):
    made = recorder()
    made.full = True
    record(made)
    assert (len(made.buffer), made.dropped) == (0, {"queue_full": 1})
