"""What is said of a record that cannot be read, and what is read of one that can in part."""

import json

import pytest

from monitor.errors import RecordError, RecordTooLargeError, UnknownSchemaError
from monitor.queue import wire
from monitor.testing import make_interaction, make_sample


def fields(body, version=b"1"):
    return {b"v": version, b"app": b"shop", b"body": body}


def outside(**record):
    return fields(json.dumps(record).encode())


@pytest.mark.parametrize(
    ("wrong", "more"), [(1, ""), (3, ""), (4, "; and 1 more"), (6, "; and 3 more")]
)
def test_three_mistakes_are_named_and_the_others_counted(wrong, more):
    names = ["query", "contexts", "output", "release", "user_id", "session_id"]
    record = {"query": "q", "output": "a"} | dict.fromkeys(names[:wrong], 7)
    with pytest.raises(RecordError) as caught:
        wire.decode(outside(**record), "1700000000000-0")
    said = str(caught.value)
    assert said.startswith("unreadable record: ")
    assert said.count("; ") == min(wrong, 3) - 1 + bool(more)
    assert said.endswith(more)


@pytest.mark.parametrize("version", [b"2", b"999999999"])
def test_newer_version_is_named(version):
    with pytest.raises(UnknownSchemaError, match=f"version {int(version)}, this program knows 1"):
        wire.decode(fields(b"{}", version))


@pytest.mark.parametrize("version", [b"0", b"9999999999", b"1.0", b"", b"x" * 99])
def test_invalid_version_is_quoted_in_part(version):
    with pytest.raises(RecordError, match="not a number") as caught:
        wire.decode(fields(b"{}", version))
    assert not isinstance(caught.value, UnknownSchemaError)
    assert len(str(caught.value)) < 100


def test_sample_is_read_up_to_the_size_limit():
    body = make_sample().model_dump_json().encode().ljust(wire.MOST_BYTES)
    assert wire.decode(fields(body))
    with pytest.raises(RecordTooLargeError, match="5,000,001 bytes; at most 5,000,000"):
        wire.decode(fields(body + b" "))


def test_record_of_another_program_is_completed_from_its_entry():
    sample = wire.decode(outside(query="q", output="a"), "1700000000123-4")
    assert sample.sample_id == sample.interaction.id == wire.sample_id(1_700_000_000_123, 4)
    assert sample.sampled_at.timestamp() == 1_700_000_000.123
    assert (sample.sample_rate, sample.hook_id, sample.sequence) == (1.0, wire.OUTSIDE, 0)
    assert sample.interaction.app == "shop"
    assert wire.decode(outside(output="a", id="mine", app="bot"), "1-0").interaction.id == "mine"


@pytest.mark.parametrize("body", [b"[]", b'{"hook_id": "h"}', b'{"interaction": {}}', b"{", b"7"])
def test_entry_that_is_no_sample_or_record_is_unreadable(body):
    with pytest.raises(RecordError, match="unreadable sample"):
        wire.decode(fields(body), "1700000000000-0")


@pytest.mark.parametrize(
    ("output", "metadata", "why"),
    [
        ("", {"capture": "metadata"}, "not_captured"),
        ("a", {"capture": "metadata"}, None),
        ("", {}, None),
        ("a", {"incomplete": True}, "incomplete"),
        ("a", {"incomplete": 1}, None),
    ],
)
def test_incomplete_texts_are_not_scored(output, metadata, why):
    assert wire.unscorable(make_interaction(output=output, metadata=metadata)) == why


@pytest.mark.parametrize(
    ("body", "user"),
    [
        (b'{"interaction": {"user_id": "u", "output": 7}}', "u"),
        (b'{"interaction": {"user_id": 7}}', None),
        (b'{"interaction": {}}', None),
        (b"[]", None),
        (b"{", None),
        (b"[" * 100_000, None),
    ],
)
def test_user_of_a_sample_is_found_even_if_the_rest_is_invalid(body, user):
    assert wire.user_of(body) == user


def test_lone_surrogates_are_replaced_and_pairs_decoded_at_any_depth():
    value = {"\ud83d": ["\ud83d\ude00", ("a\udc00", 1, None)], "plain": float("inf")}
    found = json.loads(wire.as_json(value))
    assert found == {"\ufffd": ["😀", ["a\ufffd", 1, None]], "plain": "Infinity"}
