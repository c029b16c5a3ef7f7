"""A prompt that changes must be a new version, because scores change with it."""

import hashlib
import json

from monitor.scoring.judges.reply import SCHEMA, JudgeReply
from monitor.scoring.prompts import load_prompt

V1 = "40da22e99cdb06a687ac81e6f2d7f4e84495e600b988c6d71763dc3d45a9e76a"


def test_prompt_has_a_new_name_when_its_words_change():
    assert hashlib.sha256(load_prompt("judge.v1").encode()).hexdigest() == V1


def test_example_in_prompt_is_valid_when_read_as_a_reply():
    example = load_prompt("judge.v1").strip().splitlines()[-1]
    assert JudgeReply.model_validate(json.loads(example)).answered == "yes"


def test_schema_asks_for_what_is_read_when_strict():
    assert set(SCHEMA["required"]) == set(JudgeReply.model_fields)
