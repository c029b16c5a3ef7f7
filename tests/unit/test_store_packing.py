"""Samples are read back as they were packed, by this program and by those before it."""

import json
from base64 import b64decode

import pytest

from monitor.store.columns import pack, unpack

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


def test_common_words_cost_little():
    words = "there should have been another question about these important results "
    assert len(pack(json.dumps({"output": words}))) < len(words)
