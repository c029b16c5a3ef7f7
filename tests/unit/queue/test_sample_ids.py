"""The id of a sample is found in whatever else stands in its entry, and can always be stored."""

import json
from uuid import UUID

import pytest

from monitor.queue.snapshot import sample_id_of
from monitor.queue.wire import sample_id


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"sample_id": "a1", "interaction": 3}, "a1"),
        ({"sample_id": "x"}, "x"),
        ({"sample_id": "x" * 64}, "x" * 64),
        ({"sample_id": "x" * 65}, None),
        ({"sample_id": ""}, None),
        ({"sample_id": 7}, None),
        ({"sample_id": "a\0b"}, "a\ufffdb"),
        ({"sample_id": "a\ud800b"}, "a?b"),
        ({}, None),
        ([], None),
    ],
)
def test_sample_id_is_a_short_storable_text(body, found):
    assert sample_id_of({b"body": json.dumps(body).encode()}) == found


@pytest.mark.parametrize("fields", [{}, {b"body": b"{"}, {b"body": b"[" * 100_000}])
def test_entry_that_cannot_be_read_has_no_id(fields):
    assert sample_id_of(fields) is None


@pytest.mark.parametrize("at_ms", [0, 1_700_000_000_000, 2**48 - 1, 2**48, 2**64])
@pytest.mark.parametrize("randomness", [0, 2**74 - 1, 2**74 // 3])
def test_sample_id_is_uuid_version_7_at_any_clock_time(at_ms, randomness):
    made = UUID(sample_id(at_ms, randomness))
    assert (made.version, str(made)) == (7, sample_id(at_ms, randomness))
    assert made.int >> 80 == at_ms % 2**48
    assert (made.int >> 64) % 2**12 << 62 | made.int % 2**62 == randomness
