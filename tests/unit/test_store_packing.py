"""Samples are read back as they were packed, by this program and by those before it."""

import json
from base64 import b64decode
from types import SimpleNamespace
from uuid import uuid4

import pytest
from sqlalchemy.dialects import sqlite

from monitor.store.columns import SegmentsColumn, pack, record_of, segments_of, unpack
from monitor.store.engine import compact_json

SAMPLE = {"sample_id": "s1", "interaction": {"output": "It costs 4 euros."}}
RECORD = {"evaluation_id": "e1", "score": 0.5}
SEGMENTS = ["language=en", 'route=,"segments":["x"]}', "id=\0"]
WHOLE = SAMPLE | {"evaluations": [RECORD]}
#: What the first dictionary made of it, the second, and the third, which has its segments as well.
OF_BEFORE = "ASi1L/0gcp0BALh7czEiSXQgcyA0IGV1cm9zLiJ9NX1dfQgAWmZBhQPINy2Aopq4yXb+AAugDjiPUA54BQ=="
OF_SECOND = (
    "Aii1L/0geQ0CAPh7ICJzMSIsICB7ICJJNCBldXJvcy4gImUgMC41fV19CgBfS5CFdvrND4G0wPKMLUu1sFvHDkHA"
    "ArMDyiYUDl4B"
)
OF_THIRD = (
    "Ayi1L/0gjc0BANh7czEiSXQ0IGV1cm9zLiIxNXNlZ1s9ZW4iXX0J/LgjQbcPDTCak+Bi5ltHsgj5A3ipIxiEMmWkWA=="
)


@pytest.mark.parametrize(
    "stored",
    [
        b64decode(OF_SECOND),
        b64decode(OF_BEFORE),
        json.dumps(WHOLE),
        json.dumps(WHOLE).encode(),
    ],
    ids=["second dictionary", "first dictionary", "text", "bytes of text"],
)
def test_every_past_sample_format_is_read(stored):
    assert unpack(stored) == WHOLE
    listed = ["language=en"]
    assert segments_of({"segments": listed, "payload": unpack(stored)}) == listed
    assert SegmentsColumn().process_result_value(stored, sqlite.dialect()) == []


def test_half_of_a_surrogate_pair_in_an_older_row_does_not_hide_its_sample():
    assert unpack('{"output":"\\ud83d"}') == {"output": "\ud83d"}


def test_samples_packed_with_the_third_dictionary_are_read():
    stored = b64decode(OF_THIRD)
    assert unpack(stored) == WHOLE | {"segments": SEGMENTS[:1]}
    assert SegmentsColumn().process_result_value(stored, sqlite.dialect()) == SEGMENTS[:1]


@pytest.mark.parametrize("segments", [(), SEGMENTS[:1], SEGMENTS])
def test_segments_are_read_with_and_without_their_sample(segments):
    sample = SAMPLE | {"metadata": {"segments": ["of the app"]}}
    stored = pack(json.dumps(sample), [json.dumps(RECORD)], segments)
    kept = [name.replace("\0", "\ufffd") for name in segments]
    assert unpack(stored) == sample | {"evaluations": [RECORD], "segments": kept}
    assert segments_of({"segments": [], "payload": unpack(stored)}) == kept
    assert SegmentsColumn().process_result_value(stored, sqlite.dialect()) == kept


@pytest.mark.parametrize(
    ("metric", "version", "score"),
    [
        ("relevance", "local-5 pass 0.2", 0.1),
        ("groundedness", "local-5 pass 0.2", 0.2),
        ("groundedness", "local-5-b pass 0.7", 0.3),
        ("groundedness", "unversioned pass own", 0.4),
    ],
)
def test_record_of_an_evaluation_is_found_in_any_column(metric, version, score):
    records = [
        {"evaluator_name": "relevance", "evaluator_version": "local-5", "score": 0.1},
        {"evaluator_name": "groundedness", "evaluator_version": "local-5", "score": 0.2},
        {"evaluator_name": "groundedness", "evaluator_version": "local-5-b", "score": 0.3},
        {"evaluator_name": "groundedness", "score": 0.4},
    ]
    row = SimpleNamespace(
        metric=metric, evaluator_version=version, payload={"evaluations": records}
    )
    assert record_of(row)["score"] == score


def test_an_id_takes_sixteen_bytes_and_comes_back_as_it_was_wherever_it_stands():
    ids = {"sample_id": str(uuid4()), "trace_id": uuid4().hex, "evaluation_id": f"eval_{uuid4()}"}
    bare = compact_json(dict.fromkeys(ids, ""))
    # Not an id: in capitals, in a text that looks like JSON, and the characters that stand for one.
    ids |= {"span_id": uuid4().hex.upper(), "output": f'"id":"{uuid4()}"', "note": "\x010\x020"}
    assert unpack(pack(compact_json(ids))) == ids | {"evaluations": [], "segments": []}
    three = {name: ids[name] for name in ("sample_id", "trace_id", "evaluation_id")}
    assert len(pack(compact_json(three))) - len(pack(bare)) < 3 * 16 + 12


def test_more_ids_than_have_a_number_come_back():
    many = {"spans": [{"id": str(uuid4()), "trace_id": uuid4().hex} for _ in range(50)]}
    assert unpack(pack(compact_json(many)))["spans"] == many["spans"]


def test_common_words_compress_well():
    words = "there should have been another question about these important results "
    assert len(pack(json.dumps({"output": words}))) < len(words)


def test_field_and_segment_names_compress_to_almost_nothing():
    record = {
        "evaluator_name": "groundedness", "metadata": {"claims": [
            {"text": "", "verdict": "supported", "evidence": "", "context_index": 0}
        ]}, "status": "completed",
    }  # fmt: skip
    plain = json.dumps(record, separators=(",", ":"))
    both = len(pack("{}", [plain], ["language=en"])) - len(pack("{}"))
    assert both < len(plain) / 3
