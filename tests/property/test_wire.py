"""The wire format: whatever is encoded is read back; whatever is not is refused in one line."""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import monitor.queue
from monitor.errors import RecordError, UnknownSchemaError
from monitor.models import Sample
from monitor.queue import wire
from monitor.testing import make_interaction, make_sample

SCHEMA = Path(monitor.queue.__file__).with_name("sample.v1.json")
ANY_TEXT = st.text(st.characters(), max_size=50)  # lone surrogates as well
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(TEXT, st.lists(TEXT, max_size=3), TEXT, st.dictionaries(TEXT, JSON, max_size=3))
def test_sample_survives_encoding(query, contexts, output, metadata):
    interaction = make_interaction(query=query, contexts=contexts, output=output, metadata=metadata)
    sample = make_sample(interaction)
    assert wire.decode(wire.encode(sample)) == sample


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_can_be_sent(query, output, key):
    sample = make_sample(make_interaction(query=query, output=output, metadata={key: output}))
    came = wire.decode(wire.encode(sample)).interaction
    # Halves of a pair become a mark each, and all else stays.
    assert came.output == output.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(st.dictionaries(st.sampled_from([b"v", b"app", b"body", b"x"]), st.binary(max_size=30)))
def test_foreign_entry_is_refused_in_one_line(fields):
    with pytest.raises(RecordError) as caught:
        wire.decode(fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"interaction": {}}, {"sample_rate": 0}, {"sampled_at": "2026-01-01T00:00:00"}, {"extra": 1}],
)
def test_wrong_field_is_named_without_any_text_of_the_record(change):
    body = make_sample(make_interaction(output="SECRET")).model_dump(mode="json") | change
    fields = {b"v": b"1", b"app": b"bot", b"body": json.dumps(body).encode()}
    with pytest.raises(RecordError, match=next(iter(change))) as caught:
        wire.decode(fields)
    assert "SECRET" not in str(caught.value)
    assert not isinstance(caught.value, UnknownSchemaError)


def test_newer_version_is_reported_as_such():
    with pytest.raises(UnknownSchemaError, match="upgrade the workers"):
        wire.decode({b"v": b"2", b"app": b"bot", b"body": b"{}"})


def test_schema_file_matches_the_models():
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == wire.schema()


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_sample_id_is_a_version_7_uuid_with_its_time(at_ms, randomness):
    made = uuid.UUID(wire.sample_id(at_ms, randomness))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == at_ms
    assert (made.int >> 64) % 2**12 << 62 | made.int % 2**62 == randomness


@given(st.lists(st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1)), max_size=20))
def test_sample_ids_sort_by_time(made):
    by_id = sorted(made, key=lambda one: wire.sample_id(*one))
    assert [at_ms for at_ms, _ in by_id] == sorted(at_ms for at_ms, _ in made)


def test_mapping_and_sample_encode_to_the_same_entry():
    sample = make_sample(sampled_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert isinstance(sample, Sample)
    assert wire.encode(sample.model_dump()) == wire.encode(sample)
