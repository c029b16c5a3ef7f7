"""The id of a sample is found in whatever else stands in its entry, and can always be stored."""

import json

import pytest

from monitor.queue.snapshot import sample_id_of


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"sample_id": "a1", "interaction": 3}, "a1"),
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
def test_id_is_a_short_text_that_databases_hold(body, found):
    assert sample_id_of({b"body": json.dumps(body).encode()}) == found


@pytest.mark.parametrize("fields", [{}, {b"body": b"{"}, {b"body": b"[" * 100_000}])
def test_entry_that_cannot_be_read_has_no_id(fields):
    assert sample_id_of(fields) is None
