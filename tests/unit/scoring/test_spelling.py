"""A claim is compared as the passages write it: times in one form, words joined or apart."""

import pytest

from monitor.scoring.language import ENGLISH, language_of
from monitor.scoring.local.passages import Aligned, Passages, as_written
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.local.times import plain_times
from monitor.testing import make_interaction

RECORD = '{"name": "Blue Door", "hours": {"Monday": "10:0-21:0"}, "WiFi": "free", "TakeOut": true}'
TEXT = "The shop closes at 5 p.m. on half-time days. The website is about healthcare in the U.S."


STATION = "Docked at the International Space Station on 2014-06-20 14:45:52."


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
        ("from 5:30-9 p.m.", RECORD, "from 17:30 21:00"),
        ("11 to 2 pm", RECORD, "11:00 to 14:00"),
        ("on June 20, 2014", STATION, "on June 20 2014"),
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


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("The visit was on June 20, 2014.", '{"visit": "2014-06-20 14:45:52"}'),
        (
            "Le guichet ouvre à 10:00.",
            "Le guichet est ouvert de 10 h à 18 h et il est fermé le lundi.",
        ),
        ("Es ist bis 18:00 offen.", "Das Amt ist am Montag von 8 bis 18 Uhr offen."),
    ],
)
def test_date_and_time_are_known_in_another_notation(claim, passage):
    language = language_of(f"{passage} {claim}") or ENGLISH
    assert not [
        w for w in Aligned(claim, Passages([passage], language)).missing() if w[0].isdigit()
    ]


def test_range_of_hours_with_one_half_of_the_day_is_read_as_two_times():
    assert plain_times("5:30-9 p.m., 9-12 pm, 3 h") == "17:30-21:00, 9:00-12:00, 3 h"


def test_opening_hours_match_in_12_and_24_hour_form(judge):
    right = groundedness(judge, "Blue Door is open on Monday from 10 AM to 9 PM, with free WiFi.")
    wrong = groundedness(judge, "Blue Door is open on Monday from 10 AM to 8 PM, with free WiFi.")
    assert right > 0.7 > wrong
