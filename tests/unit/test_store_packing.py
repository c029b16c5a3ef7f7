"""Samples are read back as they were packed, by this program and by those before it."""

import json
from base64 import b64decode
from types import SimpleNamespace

import pytest

from monitor.store.columns import pack, record_of, unpack

SAMPLE = {"sample_id": "s1", "interaction": {"output": "It costs 4 euros."}}
RECORD = {"evaluation_id": "e1", "score": 0.5}
WHOLE = SAMPLE | {"evaluations": [RECORD]}
#: What the first dictionary made of it.
OF_BEFORE = "ASi1L/0gcp0BALh7czEiSXQgcyA0IGV1cm9zLiJ9NX1dfQgAWmZBhQPINy2Aopq4yXb+AAugDjiPUA54BQ=="


@pytest.mark.parametrize(
    "stored",
    [
        pack(json.dumps(SAMPLE), [json.dumps(RECORD)]),
        b64decode(OF_BEFORE),
        json.dumps(WHOLE),
        json.dumps(WHOLE).encode(),
    ],
    ids=["now", "first dictionary", "text", "bytes of text"],
)
def test_every_form_in_which_samples_were_ever_kept_is_read(stored):
    assert unpack(stored) == WHOLE


@pytest.mark.parametrize(
    ("metric", "version", "score"),
    [
        ("relevance", "local-5 pass 0.2", 0.1),
        ("groundedness", "local-5 pass 0.2", 0.2),
        ("groundedness", "local-5-b pass 0.7", 0.3),
        ("groundedness", "unversioned pass own", 0.4),
    ],
)
def test_the_record_of_an_evaluation_is_found_whatever_passes_in_it(metric, version, score):
    records = [
        {"evaluator_name": "relevance", "evaluator_version": "local-5", "score": 0.1},
        {"evaluator_name": "groundedness", "evaluator_version": "local-5", "score": 0.2},
        {"evaluator_name": "groundedness", "evaluator_version": "local-5-b", "score": 0.3},
        {"evaluator_name": "groundedness", "score": 0.4},
    ]
    row = SimpleNamespace(
        metric=metric, evaluator_version=version, record=None, payload={"evaluations": records}
    )
    assert record_of(row)["score"] == score


def test_common_words_cost_little():
    words = "there should have been another question about these important results "
    assert len(pack(json.dumps({"output": words}))) < len(words)
