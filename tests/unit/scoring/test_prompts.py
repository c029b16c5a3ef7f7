"""A prompt that changes must be a new version, because scores change with it."""

import hashlib
import json

import pytest

from monitor.scoring.judges.openai_judge import CRITERIA_PROMPT, PROMPT
from monitor.scoring.judges.reply import CRITERIA_SCHEMA, VERDICT_SCHEMA, JudgeReply
from monitor.scoring.prompts import load_prompt

HASHES = {
    "judge.v4": "dbe2ba0531e053723c9027b1f1f0344645b7afdc3fb8ce68d1710bac1ea27766",
    "criteria.v3": "f866c295844762079dd48dfb4df4f845b8aa6a6973cc86aeeb5559baf7f0d728",
    "criteria.v2": "63bcf349c76f19a495bc26fe27efdce75297f35f1d5e1b7c7c735b93c991c363",
    "judge.v3": "55cd5ce66e103ed88d13a683a1277cd2f7e4d7e892e60c1c301eb568d73a3f13",
}


@pytest.mark.parametrize("name", HASHES)
def test_published_prompt_text_is_unchanged(name):
    assert hashlib.sha256(load_prompt(name).encode()).hexdigest() == HASHES[name]


def test_prompt_in_use_is_a_known_version():
    assert {PROMPT, CRITERIA_PROMPT} <= HASHES.keys()


def test_example_in_prompt_is_valid_when_read_as_a_reply():
    lines = load_prompt(PROMPT).splitlines()
    example = next(line for line in lines if line.startswith("{"))
    assert JudgeReply.model_validate(json.loads(example)).answered == "yes"


@pytest.mark.parametrize("name", [PROMPT, CRITERIA_PROMPT])
def test_prompt_names_both_secret_words_when_filled_in(name):
    assert load_prompt(name).count("CANARY") == 1
    assert load_prompt(name).count("DELIMITER") == 2


def test_criteria_example_matches_the_schema():
    example = json.loads(load_prompt(CRITERIA_PROMPT).splitlines()[-1])
    assert list(example) == CRITERIA_SCHEMA["required"]
    row = CRITERIA_SCHEMA["properties"]["answers"]["items"]
    assert list(example["answers"][0]) == row["required"]


def test_strict_schema_requires_exactly_the_fields_that_are_read():
    assert set(VERDICT_SCHEMA["required"]) == set(JudgeReply.model_fields)
