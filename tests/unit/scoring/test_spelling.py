"""A claim is compared as the passages write it: times in one form, words joined or apart."""

import pytest

from monitor.scoring.local.passages import Passages, as_written
from monitor.scoring.local.scorer import LocalJudge
from monitor.testing import make_interaction

RECORD = '{"name": "Blue Door", "hours": {"Monday": "10:0-21:0"}, "WiFi": "free", "TakeOut": true}'
TEXT = "The shop closes at 5 p.m. on half-time days. The website is about healthcare in the U.S."


def told(claim, passage):
    return " ".join(word.surface for word in as_written(claim, Passages([passage])))


@pytest.mark.parametrize(
    ("claim", "passage", "expected"),
    [
        ("from 10 AM to 9:00 p.m. daily", RECORD, "from 10:00 to 21:00 daily"),
        ("free WiFi and takeout", RECORD, "free Wi Fi and take out"),
        ("closes at 5 p.m.", TEXT, "closes at 17:00"),
        ("at halftime", TEXT, "at half time"),
        ("a web site for health care", TEXT, "a website for healthcare"),
    ],
)
def test_claim_is_rewritten_to_the_passages_spelling(claim, passage, expected):
    assert told(claim, passage) == expected


@pytest.mark.parametrize(
    "claim",
    [
        "at 20:00 or 25:70",
        "on a day off",
        "shop close by",
        "unheard of",
        "5 1 days",
        "at half time",
    ],
)
def test_claim_without_a_matching_spelling_is_unchanged(claim):
    expected = claim.replace(":", " ") if ":70" in claim else claim
    assert told(claim, TEXT).replace(":", " ") == expected


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def groundedness(judge, output):
    fields = {"query": "Describe the place.", "contexts": [RECORD], "output": output}
    return judge.judge(make_interaction(**fields)).groundedness


def test_opening_hours_match_in_12_and_24_hour_form(judge):
    right = groundedness(judge, "Blue Door is open on Monday from 10 AM to 9 PM, with free WiFi.")
    wrong = groundedness(judge, "Blue Door is open on Monday from 10 AM to 8 PM, with free WiFi.")
    assert right > 0.7 > wrong
