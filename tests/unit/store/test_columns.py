"""What columns hold comes back as it was given: samples, records, times."""

import json
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from sqlalchemy import column
from sqlalchemy.dialects import postgresql, sqlite

from monitor.store.columns import (
    EpochTime,
    PackedColumn,
    UtcTime,
    epoch_ms,
    matches,
    pack,
    record_of,
    sample_of,
    time_of,
    unpack,
)
from monitor.testing import make_sample

DIALECTS = pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_only_nul_characters_are_replaced():
    sample = {"a\0": ["b\0", {"c": "\0", "n": 1, "t": True, "none": None, "f": 0.5}], "d": "ü"}
    assert unpack(pack(json.dumps(sample), ['{"e":"\\u0000"}'])) == {
        "a\ufffd": ["b\ufffd", {"c": "\ufffd", "n": 1, "t": True, "none": None, "f": 0.5}],
        "d": "ü",
        "evaluations": [{"e": "\ufffd"}],
        "segments": [],
    }


def test_escaped_nul_text_is_unchanged():
    assert unpack(pack(json.dumps({"a": "\\u0000"})))["a"] == "\\u0000"


@pytest.mark.parametrize("nothing", ["", b""])
def test_empty_column_is_read_as_none(nothing):
    assert unpack(nothing) is None


def test_sample_is_read_from_a_payload_with_evaluation_records():
    sample = make_sample()
    payload = unpack(pack(sample.model_dump_json(), ['{"score":1}', '{"score":2}']))
    assert [record["score"] for record in payload["evaluations"]] == [1, 2]
    assert sample_of(payload) == sample


def test_record_is_that_of_its_sample_and_a_missing_one_is_empty():
    row = SimpleNamespace(metric="m", evaluator_version="v", payload={})
    assert record_of(row) == {}
    mine = {"evaluator_name": "m", "evaluator_version": "v", "score": 2}
    assert record_of(row, {"evaluations": [mine]}) == mine


def test_record_of_an_early_release_is_found_though_neither_names_a_version():
    row = SimpleNamespace(metric="m", evaluator_version="", payload={})
    mine = {"evaluator_name": "m", "score": 2}
    assert record_of(row, {"evaluations": [mine]}) == mine


def test_times_are_kept_to_the_millisecond():
    assert epoch_ms(AT) == 1_767_323_045_678
    assert epoch_ms(AT + timedelta(microseconds=600)) == 1_767_323_045_679
    assert time_of(1_767_323_045_678) == AT


@DIALECTS
def test_epoch_times_come_back_in_utc(dialect):
    kind = EpochTime()
    kept = kind.process_bind_param(AT.astimezone(timezone(timedelta(hours=2))), dialect)
    assert (kept, kind.process_result_value(kept, dialect)) == (epoch_ms(AT), AT)
    assert (
        kind.process_bind_param(None, dialect) is kind.process_result_value(None, dialect) is None
    )


@DIALECTS
def test_times_with_a_zone_come_back_in_utc_and_others_are_refused(dialect):
    kind = UtcTime()
    for zone in (UTC, timezone(timedelta(hours=2))):
        kept = kind.process_bind_param(AT.astimezone(zone), dialect)
        assert kept.replace(tzinfo=UTC) == AT
        assert (kept.tzinfo is None) == (dialect.name == "sqlite")
        assert kind.process_result_value(kept, dialect) == AT
        assert kind.process_result_value(kept, dialect).tzinfo is UTC
    assert (
        kind.process_bind_param(None, dialect) is kind.process_result_value(None, dialect) is None
    )
    with pytest.raises(ValueError, match="without a zone"):
        kind.process_bind_param(AT.replace(tzinfo=None), dialect)


@DIALECTS
def test_time_of_another_zone_is_read_in_utc(dialect):
    found = UtcTime().process_result_value(AT.astimezone(timezone(timedelta(hours=2))), dialect)
    assert (found, found.utcoffset()) == (AT, timedelta(0))


def test_packed_column_keeps_its_original_database_type():
    kinds = [PackedColumn().load_dialect_impl(d) for d in (sqlite.dialect(), postgresql.dialect())]
    assert [kind.__visit_name__ for kind in kinds] == ["JSON", "large_binary"]
    assert PackedColumn().process_result_value(None, sqlite.dialect()) is None


def test_filter_none_matches_every_value():
    app = column("app")
    assert str(matches(app, None)) == "true"
    assert str(matches(app, "shop")) == "app = :app_1"
    assert str(matches(app, "")) == "app = :app_1"
